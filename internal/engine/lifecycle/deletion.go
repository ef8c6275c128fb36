package lifecycle

import (
	"fmt"
	"time"
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
	if !m.remains() {
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
		m.step.RecheckAfter = forceRecheck
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

func (m *machine) components() int {
	n := 0
	for _, c := range m.f.Components {
		if c.Exists {
			n++
		}
	}
	return n
}

func (m *machine) missingComponents() bool { return m.components() < len(m.f.Components) }

// unmarked reports whether something is left that nobody asked to go.
func (m *machine) unmarked() bool {
	for _, c := range m.f.Components {
		if c.Exists && !c.Deleting {
			return true
		}
	}
	for _, p := range m.f.Pods {
		if !p.Deleting {
			return true
		}
	}
	return false
}

func (m *machine) unfinishedPods() bool {
	for _, p := range m.f.Pods {
		if !p.Finished() {
			return true
		}
	}
	return false
}

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
	if old.True == next.True {
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
