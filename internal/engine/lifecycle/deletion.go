package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// startDeletion marks the beginning of deletion and orders it, in one step:
// the mark is written before anything is deleted.
func (m *machine) startDeletion(why string) {
	m.setTrue(DeletingResources, DeletionInitiated, why)
	m.orderDeletion()
}

// deleted reports whether no component and no pod is left, and otherwise works
// towards it: ask once, wait, force after the grace.
func (m *machine) deleted() bool {
	if !m.remains() && (m.is(DeletingResources) || !m.blind()) {
		// A cache that lags behind must not release quota that pods still use.
		return !m.is(ResourcesDeployed) && !m.is(QuotaReserved) || m.confirmed()
	}
	if !m.is(DeletingResources) {
		m.startDeletion("Components and pods are deleted")
		return false
	}
	m.orderDeletion()
	return false
}

func (m *machine) orderDeletion() {
	left := m.until(DeletingResources, m.f.Policy.DeletionGrace)
	if left <= 0 && m.remains() {
		if c := m.get(DeletingResources); c.Reason != DeletionForced {
			message := fmt.Sprintf("Deletion took longer than %s: %d components and %d pods are deleted without grace",
				m.f.Policy.DeletionGrace, m.components(), len(m.f.Pods))
			m.setTrue(DeletingResources, DeletionForced, message)
			m.step.Events = append(m.step.Events, Event{Warning: true, Reason: DeletionForced, Message: message})
		}
		m.step.Action = ForceDelete
		m.step.RecheckAfter = min(max(forceRecheck, -left/4), longestRecheck)
		return
	}
	if m.unmarked() {
		m.step.Action = Delete
	}
	m.step.RecheckAfter = max(left, unwatchedRecheck)
	if !m.remains() {
		m.step.RecheckAfter = unwatchedRecheck
	}
	m.recheckUnwatched(unwatchedRecheck)
}

// released says that nothing is left.
func (m *machine) released(reason, why string) {
	m.setFalse(QuotaReserved, reason, why)
	m.setFalse(ResourcesDeployed, reason, why)
	if m.is(PodsReady) {
		m.setFalse(PodsReady, reason, why)
	}
	if m.get(DeletingResources) != nil {
		m.setFalse(DeletingResources, DeletionCompleted, "All components and pods are deleted")
	}
}

func (m *machine) remains() bool { return m.components() > 0 || len(m.f.Pods) > 0 }

// components counts the components that are known to be left. What may not be read is not
// waited for: there is no way to learn that it is gone.
func (m *machine) components() int {
	n := 0
	for _, c := range m.f.Components {
		if c.Exists && c.Unreadable == "" {
			n++
		}
	}
	return n
}

func (m *machine) missingComponents() bool { return m.components() < len(m.f.Components) }

// blind reports whether a component was created that may not be read.
func (m *machine) blind() bool {
	return slices.ContainsFunc(m.f.Components, func(c Component) bool { return c.Exists && c.Unreadable != "" })
}

// unreadable says which component may not be read, and why; "" if all may.
func (m *machine) unreadable() string {
	for _, c := range m.f.Components {
		if c.Unreadable != "" {
			return fmt.Sprintf("Read %s: %s", c.Name, c.Unreadable)
		}
	}
	return ""
}

// holds reports whether the job keeps its quota: see core.Holds.
func (m *machine) holds() bool {
	d := m.get(DeletingResources)
	ordered := d != nil && d.True
	forced := ordered && d.Reason == DeletionForced
	makers := make([]core.MakerState, len(m.f.Components))
	for i, c := range m.f.Components {
		makers[i] = c.maker(ordered, forced)
	}
	return core.Holds(makers, m.podStates())
}

func (m *machine) podStates() []core.PodState {
	out := make([]core.PodState, len(m.f.Pods))
	for i, p := range m.f.Pods {
		out[i] = p.State()
	}
	return out
}

// leftover says what is left of an attempt although even forced deletion did
// not help, and holds nothing; "" while there is hope.
func (m *machine) leftover() string {
	if !m.remains() || m.holds() ||
		m.until(DeletingResources, m.f.Policy.DeletionGrace+m.f.Policy.AdmissionGrace) > 0 {
		return ""
	}
	for _, c := range m.f.Components {
		if c.Exists && c.Unreadable == "" {
			return c.Name + " of the previous attempt is deleted and does not go" + keptBy(c.Finalizers)
		}
	}
	p := m.f.Pods[0]
	return "pod " + p.Name + " of the previous attempt is deleted and does not go" + keptBy(p.Finalizers)
}

func keptBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return ": remove its finalizers " + strings.Join(finalizers, ", ")
}

// unmarked reports whether something is left that was not deleted.
func (m *machine) unmarked() bool {
	for _, c := range m.f.Components {
		if c.Exists && !c.Deleting {
			return true
		}
	}
	return m.unmarkedPods()
}

func (m *machine) unmarkedPods() bool {
	return slices.ContainsFunc(m.f.Pods, func(p Pod) bool { return !p.Deleting })
}

func (m *machine) unfinishedPods() bool { return core.Holds(nil, m.podStates()) }

// confirmed reports whether absence may be relied on, and asks for fresh facts
// if not.
func (m *machine) confirmed() bool {
	m.step.Confirm = !m.f.Fresh
	return m.f.Fresh
}

// until is how much of grace is left since the condition last changed; nothing
// if the condition is not set.
func (m *machine) until(t ConditionType, grace time.Duration) time.Duration {
	c := m.get(t)
	if c == nil {
		return 0
	}
	return c.Since.Add(grace).Sub(m.now)
}

// order is the order in which conditions are listed, which is the order in
// which they usually come to be.
func order(t ConditionType) int {
	switch t {
	case QuotaReserved:
		return 0
	case ResourcesDeployed:
		return 1
	case PodsReady:
		return 2
	case Unhealthy:
		return 3
	case DeletingResources:
		return 4
	}
	return 5
}

func (m *machine) get(t ConditionType) *Condition {
	for i := range m.step.Conditions {
		if m.step.Conditions[i].Type == t {
			return &m.step.Conditions[i]
		}
	}
	return nil
}

func (m *machine) is(t ConditionType) bool {
	c := m.get(t)
	return c != nil && c.True
}

func (m *machine) setTrue(t ConditionType, reason, message string) {
	m.put(Condition{Type: t, True: true, Reason: reason, Message: message})
}

func (m *machine) setFalse(t ConditionType, reason, message string) {
	m.put(Condition{Type: t, Reason: reason, Message: message})
}

// put changes a condition; its time changes only with its truth.
func (m *machine) put(next Condition) {
	next.Since = m.now
	old := m.get(next.Type)
	if old == nil {
		m.step.Conditions = append(m.step.Conditions, next)
		return
	}
	// What waits for pods that end is not late, and starts to count afterwards.
	if old.True == next.True && (old.Reason != PodsTerminating || next.Reason == PodsTerminating) {
		next.Since = old.Since
	}
	*old = next
}

func (m *machine) drop(t ConditionType) {
	for i, c := range m.step.Conditions {
		if c.Type == t {
			m.step.Conditions = append(m.step.Conditions[:i:i], m.step.Conditions[i+1:]...)
			return
		}
	}
}

func (m *machine) event(p Phase, message string) {
	m.step.Events = append(m.step.Events, Event{Reason: string(p), Message: message})
}
