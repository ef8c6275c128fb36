package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

const (
	// createRetry is how soon a component that could not be created is tried again.
	createRetry = time.Second
	// rightsGrace is how long after its start a job waits for the right to read
	// its components: the controller gets its rights in a namespace with the first
	// queue there, and the first job may be faster.
	rightsGrace = 10 * time.Second
	// unwatchedRecheck is how often components that are not watched are looked
	// at while something of theirs is awaited.
	unwatchedRecheck = time.Second
	// runningRecheck is how often components that are not watched are looked
	// at while they run.
	runningRecheck = 5 * time.Second
	// forceRecheck is how often forced deletion is repeated.
	forceRecheck = 5 * time.Second
	// longestRecheck is how seldom, once it has gone on for long.
	longestRecheck = 10 * time.Minute
)

// invalidComponentMessage begins what is said of components that cannot run.
const invalidComponentMessage = "The components cannot be run: "

// machine is one decision in the making.
type machine struct {
	f    Facts
	now  time.Time
	step Transition
}

// Decide returns the next step of a job.
func Decide(f Facts, now time.Time) Transition {
	m := &machine{f: f, now: now, step: Transition{
		Phase:      f.Phase,
		Retries:    f.Retries,
		Conditions: slices.Clone(f.Conditions),
		Action:     Nothing,
	}}
	m.decide()
	m.hold()
	slices.SortFunc(m.step.Conditions, func(a, b Condition) int { return order(a.Type) - order(b.Type) })
	return m.step
}

func (m *machine) decide() {
	if m.f.Deleting {
		m.terminating()
		return
	}
	switch m.f.Phase {
	case New:
		m.begin()
	case Suspended:
		m.suspended()
	case Resuming:
		m.resuming()
	case Running:
		m.running()
	case Resetting:
		m.resetting()
	case Suspending:
		m.suspending()
	case Succeeded:
		m.succeeded()
	case Failed:
		m.failed()
	default:
		// Terminating without a deletion mark, or a phase that is not ours: status
		// was edited by hand. Clean up and start over, so that nothing is stuck.
		m.enterSuspending(fmt.Sprintf("The phase %q was not expected", m.f.Phase))
	}
}

// hold keeps the quota while a pod may use its resources (P10), whatever state
// led here, and gives it back once none does and none may come, whatever is
// left of objects.
func (m *machine) hold() {
	switch {
	case !m.is(QuotaReserved):
		if m.unfinishedPods() {
			m.setTrue(QuotaReserved, UnfinishedPods, "Pods of the "+m.f.Kind+" still run")
		}
	case m.step.Phase == Failed,
		m.f.Deleting,
		m.is(DeletingResources) && (m.step.Phase == Suspending || m.step.Phase == Succeeded):
		mayCome := m.holds()
		if m.step.Phase == Succeeded || m.f.Deleting && !m.f.Finalizer {
			mayCome = m.unfinishedPods() // components completed, or are no longer looked after
		}
		if !mayCome && m.confirmed() {
			m.setFalse(QuotaReserved, string(m.step.Phase), "No pod is left, and none can come")
		}
	}
}

// begin is the first look at a job.
func (m *machine) begin() {
	if m.f.Invalid != "" {
		m.fail(CreateFailed, invalidComponentMessage+m.f.Invalid)
		return
	}
	m.step.Phase = Suspended
}

func (m *machine) suspended() {
	switch {
	case len(m.f.Pods) > 0:
		// A pod that its controller created just after it was deleted, or that a
		// person labelled: nothing of ours may run without quota.
		m.enterSuspending("Pods were found while suspended")
	case m.f.Suspend:
	case m.f.Invalid != "":
		m.fail(CreateFailed, invalidComponentMessage+m.f.Invalid)
	default:
		m.resume("Suspend is false")
	}
}

// resume begins an attempt. Conditions start over with it, so that the graces
// of a later failure are measured from that failure and not from an earlier
// one.
func (m *machine) resume(why string) {
	m.step.Phase = Resuming
	if !m.f.Finalizer {
		m.step.Finalizer = AddFinalizer
	}
	m.setTrue(QuotaReserved, string(Resuming), why)
	m.setTrue(ResourcesDeployed, string(Resuming), why)
	m.setFalse(PodsReady, string(Resuming), why)
	m.setFalse(Unhealthy, string(Resuming), why)
	m.drop(DeletingResources)
}

func (m *machine) resuming() {
	switch e := m.f.CreateError; {
	case m.f.Suspend:
		m.enterSuspending("Suspend is true")
	case m.f.Invalid != "":
		m.fail(CreateFailed, invalidComponentMessage+m.f.Invalid)
	case m.unreadable() != "":
		left := m.until(ResourcesDeployed, rightsGrace)
		if left <= 0 {
			m.fail(CreateFailed, m.unreadable())
			return
		}
		m.step.RecheckAfter = min(createRetry, left)
	case e != nil && e.Fatal:
		m.fail(CreateFailed, fmt.Sprintf("Create %s: %s", e.Component, e.Message))
	case e != nil:
		left := m.until(ResourcesDeployed, m.f.Policy.AdmissionGrace)
		if left <= 0 {
			m.resetOrFail(
				trouble{
					reason:  CreateFailed,
					message: fmt.Sprintf("Create %s: %s", e.Component, e.Message),
					of:      m.notStarted(),
				},
			)
			return
		}
		m.step.RecheckAfter = min(createRetry, left)
	case !m.f.Finalizer:
		m.step.Finalizer, m.step.Action = AddFinalizer, Create
	case m.missingComponents():
		m.step.Action = Create
	default:
		m.step.Phase = Running
		m.setReady(assess(m.f)) // in this write, so that waiting for pods costs none
		m.recheckUnwatched(runningRecheck)
	}
}

// enterSuspending gives the quota back as soon as everything is deleted.
func (m *machine) enterSuspending(why string) {
	m.step.Phase = Suspending
	m.event(Suspending, why)
	m.startDeletion(why)
}

func (m *machine) suspending() {
	if !m.deleted() {
		if why := m.leftover(); why != "" && !m.f.Suspend {
			m.fail(ComponentNotGone, why) // it has quota again, and could never use it
		}
		return
	}
	const why = "Suspend is true"
	m.step.Phase = Suspended
	m.released(string(Suspended), why)
	m.setFalse(PodsReady, string(Suspended), why)
	m.setFalse(Unhealthy, string(Suspended), why)
	m.event(Suspended, "Waiting for quota; all pods are gone")
}

// resetting deletes everything and pauses. The quota is kept.
func (m *machine) resetting() {
	if m.f.Suspend {
		m.enterSuspending("Suspend is true")
		return
	}
	if !m.deleted() {
		if why := m.leftover(); why != "" {
			m.fail(ComponentNotGone, why)
		}
		return
	}
	m.setFalse(ResourcesDeployed, string(Resetting), "All components and pods are deleted")
	// The pause runs from the beginning of this reset, which is when deletion
	// began, not from a failure that may lie a grace or an attempt back.
	pause := m.f.Policy.RetryPause
	if !m.f.Policy.PauseSaid {
		pause = max(pause, m.f.Earlier.Pause())
	}
	if left := m.until(DeletingResources, pause); left > 0 {
		m.step.RecheckAfter = left
		return
	}
	m.resume("The components are created again")
}

// succeed ends the job well. Quota is released at once if no pod is
// left, and otherwise by succeeded().
func (m *machine) succeed() {
	const why = "All components completed"
	m.step.Phase = Succeeded
	m.setFalse(PodsReady, string(Succeeded), why)
	if m.is(Unhealthy) {
		m.setFalse(Unhealthy, string(Succeeded), why)
	}
	m.succeeded()
}

// succeeded releases the quota and later cleans up. Upstream releases it
// together with the phase; here pods that outlive their component, such as a
// Ray cluster kept after its job, hold it until they are gone.
func (m *machine) succeeded() {
	if m.is(DeletingResources) {
		m.cleanUp("The time to keep completed components is over")
		return
	}
	if m.unfinishedPods() {
		left := m.until(PodsReady, m.f.Policy.DeletionGrace)
		if left <= 0 || m.f.Suspend { // others wait for what they hold
			m.startDeletion("Pods outlived the completion of their components")
			return
		}
		m.step.RecheckAfter = left
		return
	}
	if m.is(QuotaReserved) {
		m.setFalse(QuotaReserved, string(Succeeded), "All components completed")
	}
	if !m.is(ResourcesDeployed) {
		return
	}
	// Kept from completion on. Upstream counts from creation, which deletes the
	// components of a long job the moment it ends.
	if left := m.until(QuotaReserved, m.f.Policy.SuccessTTL); left > 0 {
		m.step.RecheckAfter = left
		return
	}
	m.startDeletion("The time to keep completed components is over")
}

func (m *machine) cleanUp(why string) {
	if m.deleted() {
		m.released(string(m.step.Phase), why)
	}
}

// fail ends the job badly.
func (m *machine) fail(reason, message string) {
	m.step.Phase = Failed
	m.unhealthy(reason, message)
	m.step.Events = append(m.step.Events, Event{Warning: true, Reason: string(Failed), Message: message})
	m.failed()
}

// failed keeps the pods for debugging if asked to, then deletes them and
// releases the quota. Being suspended, which is how others get the quota,
// cuts the debugging short.
func (m *machine) failed() {
	if !m.is(QuotaReserved) && !m.is(ResourcesDeployed) && !m.unfinishedPods() {
		return
	}
	if !m.is(DeletingResources) {
		if m.f.Policy.FailedGrace > 0 && !m.f.Suspend {
			m.setFalse(DeletingResources, DeletionPaused, "Components are kept for debugging")
			if left := m.until(DeletingResources, m.f.Policy.FailedGrace); left > 0 {
				m.step.RecheckAfter = left
				return
			}
		}
		m.startDeletion("The " + m.f.Kind + " failed")
		return
	}
	m.cleanUp("The " + m.f.Kind + " failed")
}

// terminating deletes everything because the job is being deleted.
func (m *machine) terminating() {
	why := "The " + m.f.Kind + " is being deleted"
	if m.f.Phase != Terminating && m.f.Finalizer {
		m.step.Phase = Terminating
		m.event(Terminating, why)
	}
	switch {
	case !m.f.Finalizer && !m.unfinishedPods() && !m.unmarkedPods():
		return // nothing was ever created, or our part is over
	case m.deleted():
	case m.is(DeletingResources) && !m.unmarked() && !m.holds() && m.confirmed():
		// What finalizers of others keep goes when they let it; we need not wait.
		m.step.Action, m.step.RecheckAfter = Nothing, 0
	default:
		return
	}
	m.released(string(Terminating), why)
	if m.f.Finalizer {
		m.step.Finalizer = RemoveFinalizer
	}
}
