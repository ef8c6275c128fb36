package lifecycle

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// running looks at a deployed job; the first that applies decides.
func (m *machine) running() {
	a := assess(m.f)
	switch {
	// 1. Everything is done. That comes first: work that is done when its quota is
	// wanted back, which may have been decided before this was seen, would be thrown
	// away and done again, and its quota is free all the same.
	case a.done:
		m.succeed()
	// 2. The quota is wanted back.
	case m.f.Suspend:
		m.enterSuspending("Suspend is true")
	// 3. Its node is gone, and takes the pod along: see 6.
	case a.nodeGone && a.terminal == "":
		m.resetOrFail(trouble{reason: NodeGone, message: a.leave, of: m.disrupted()})
	// 4. A component was deleted by hand: no attempt of ours would be what was meant.
	case a.missing != "":
		if m.confirmed() {
			m.fail(MissingComponent, a.missing+" does not exist any more")
		}
	// 5. An exit code forbids another attempt: the same program would fail the same way
	// anywhere. Other failures may be the node's, which is why they come later.
	case a.broken != "" && (a.hopeless || a.terminal != ""):
		m.resetOrFail(trouble{reason: FailedComponent, message: join(a.broken, a.terminal), terminal: true})
	// 6. A node has to be left. The job did nothing wrong, so moving needs no retries.
	case a.leave != "" && a.terminal == "":
		m.resetOrFail(trouble{reason: AutopilotNoExecute, message: a.leave, of: m.disrupted()})
	// 7. A component gave up.
	case a.broken != "":
		m.resetOrFail(trouble{reason: FailedComponent, message: a.broken, of: m.f.Failure})
	// 8. Pods failed and stay failed.
	case a.terminal != "" || a.failed != "":
		m.failedPods(a)
	// 9. Pods are fine, or late.
	default:
		m.countPods(a)
	}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// failedPods leaves failed pods for the grace that users asked for, so that
// others may end or be looked at.
func (m *machine) failedPods(a assessment) {
	message := a.failed
	if a.terminal != "" {
		message = a.terminal
	}
	m.unhealthy(FoundFailedPods, message)
	m.setReady(a)
	left := m.until(Unhealthy, m.f.Policy.FailureGrace)
	if left <= 0 {
		m.resetOrFail(
			trouble{reason: FoundFailedPods, message: message, of: m.f.Failure, terminal: a.terminal != ""},
		)
		return
	}
	m.step.RecheckAfter = left
	m.recheckUnwatched(runningRecheck)
}

// countPods resets a job whose pods stay away for too long. The time
// runs from the beginning of the attempt, or from when pods were last complete:
// a pod that is drained after hours gets the same patience as a new one.
func (m *machine) countPods(a assessment) {
	if m.is(Unhealthy) {
		m.setFalse(Unhealthy, FoundNoFailedPods, "No failed pods")
	}
	m.setReady(a)
	m.recheckUnwatched(runningRecheck)
	if a.allReady {
		return
	}
	if wait := a.leaving.Sub(m.now); wait > 0 {
		// Pods are not late: the next ones take the places of these.
		m.setFalse(PodsReady, PodsTerminating, "Deleted pods keep their places until they have ended")
		m.recheck(wait)
		return
	}
	grace := m.f.Policy.AdmissionGrace
	if a.allExist {
		grace = m.f.Policy.WarmupGrace
	}
	left := max(m.until(ResourcesDeployed, grace), m.until(PodsReady, grace))
	if left <= 0 {
		m.resetOrFail(trouble{reason: InsufficientPodsReady, message: shortMessage(a), of: m.notStarted()})
		return
	}
	m.recheck(left)
}

// setReady keeps changing numbers out of the message: each pod that starts would
// cost a write of the status.
func (m *machine) setReady(a assessment) {
	if a.allReady {
		m.setTrue(PodsReady, SufficientPodsReady, fmt.Sprintf("All %d pods run or have succeeded", a.expected))
		return
	}
	m.setFalse(
		PodsReady,
		InsufficientPodsReady,
		fmt.Sprintf("Not all of %d pods run yet or have succeeded", a.expected),
	)
}

func shortMessage(a assessment) string {
	return fmt.Sprintf("%d of %d pods run or have succeeded, %d are pending",
		a.ready, a.expected, max(0, a.existing-a.ready))
}

// trouble is why an attempt ends.
type trouble struct {
	reason, message string
	// of is what the policy of retries has to go by.
	of core.Failure
	// terminal rules out another attempt, whatever that policy says.
	terminal bool
}

// disrupted is a failure of a node that has to be left.
func (m *machine) disrupted() core.Failure {
	return core.Failure{Category: core.CategoryNodeFailure, Progress: m.f.Failure.Progress}
}

// notStarted is that pods did not come up in time, those of the beginning or those in place of others.
func (m *machine) notStarted() core.Failure {
	return core.Failure{Category: core.CategoryStartFailure, Progress: m.f.Failure.Progress}
}

// resetOrFail ends the attempt, as the policy of retries says. A reset that is not charged is allowed even if no
// retries are left: its pace is bounded by the pause between attempts.
func (m *machine) resetOrFail(t trouble) {
	message := t.message
	if t.terminal {
		m.fail(t.reason, message)
		return
	}
	earlier := m.f.Earlier
	earlier.Retries = m.f.Retries
	next := m.f.Policy.retries().Decide(earlier, t.of)
	switch {
	case !next.Retry:
		m.fail(t.reason, message+"; "+next.Why)
		return
	case next.Charged:
		m.step.Retries++
		message = fmt.Sprintf("Retry %d of %d: %s", m.step.Retries, m.f.Policy.RetryLimit, t.message)
	}
	m.step.Phase = Resetting
	m.step.ResetReason = t.reason
	m.unhealthy(t.reason, t.message)
	m.event(Resetting, message)
	m.setFalse(PodsReady, string(Resetting), t.message)
	m.startDeletion(t.message)
}

// unhealthy sets the condition and says so once per reason.
func (m *machine) unhealthy(reason, message string) {
	old := m.get(Unhealthy)
	if old == nil || !old.True || old.Reason != reason {
		m.step.Events = append(
			m.step.Events,
			Event{Warning: true, Reason: string(Unhealthy), Message: reason + ": " + message},
		)
	}
	m.setTrue(Unhealthy, reason, message)
}

// recheckUnwatched asks again soon if a component could change unnoticed.
func (m *machine) recheckUnwatched(after time.Duration) {
	for _, c := range m.f.Components {
		if !c.Watched && (c.Reports || c.Exists && m.is(DeletingResources)) {
			m.recheck(after)
			return
		}
	}
}

func (m *machine) recheck(after time.Duration) {
	if m.step.RecheckAfter == 0 || after < m.step.RecheckAfter {
		m.step.RecheckAfter = after
	}
}
