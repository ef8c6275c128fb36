package jobset

import (
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// project returns a JobSet with the status that follows from what there is.
func project(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
	js, err := cast(o)
	if err != nil {
		return o
	}
	out := js.DeepCopy()
	w := words{js: out, now: metav1.NewTime(s.Now), s: s}
	w.tell()
	w.restarting(js.Status.Restarts)
	w.startup(p)
	state := &out.Status
	if p != nil {
		state.ReplicatedJobsStatus = counts(js, s)
		restartedAlone(js, state, p, s)
	}
	state.Restarts = s.Attempt
	if r := &s.Rounds; r.Begun {
		state.CurrentInPlaceRestartAttempt = new(r.Current)
		if r.Over > 0 {
			state.PreviousInPlaceRestartAttempt = new(r.Over - 1)
		}
	}
	if s.Outcome == podplan.Open { // nothing followed the failure that ended it
		state.RestartsCountTowardsMax = s.Failures - alone(state)
	}
	return out
}

// counts are how many Jobs each role has, in the words of JobSets.
func counts(js *api.JobSet, s *jobs.Progress) []api.ReplicatedJobStatus {
	var out []api.ReplicatedJobStatus
	for i := range js.Spec.ReplicatedJobs {
		name := js.Spec.ReplicatedJobs[i].Name
		t := s.Counts[podSet(name)]
		out = append(out, api.ReplicatedJobStatus{
			Name: name, Ready: t.Ready, Succeeded: t.Succeeded, Failed: t.Failed, Suspended: t.Held,
			Active: t.Active - t.Pending, // Jobs without pods are not
		})
	}
	return out
}

// restartedAlone counts the Jobs that are made anew while the others run on. Which these are
// follows from how many failures are counted by now and are not in the status: they are counted in the
// order in which they are remembered.
func restartedAlone(js *api.JobSet, state *api.JobSetStatus, p *jobs.Plan, s *jobs.Progress) {
	for i := range state.ReplicatedJobsStatus {
		is := &state.ReplicatedJobsStatus[i]
		at := slices.IndexFunc(
			js.Status.ReplicatedJobsStatus,
			func(was api.ReplicatedJobStatus) bool { return was.Name == is.Name },
		)
		if at >= 0 {
			was := &js.Status.ReplicatedJobsStatus[at]
			is.JobRestarts, is.JobRestartsCountTowardsMax = slices.Clone(
				was.JobRestarts,
			), slices.Clone(
				was.JobRestartsCountTowardsMax,
			)
		}
	}
	if s.Outcome != podplan.Open ||
		s.Attempt > js.Status.Restarts { // what failed last ended it, or restarted all
		return
	}
	untold := s.Failures - js.Status.RestartsCountTowardsMax - alone(&js.Status)
	untoldFree := s.Free - toldFree(&js.Status)
	kind := elastic()
	for _, id := range slices.Backward(s.Counted) { // the last ones, which are those
		at := slices.IndexFunc(s.Children, func(o jobs.Object) bool { return string(o.GetUID()) == id })
		if at < 0 {
			continue
		}
		x := p.SeeChild(&kind, s.Children[at])
		free, left := p.Free(&x), &untold
		if free {
			left = &untoldFree
		}
		i := slices.IndexFunc(p.Roles, func(r podplan.Role) bool { return r.Name == x.Role })
		if i < 0 || *left <= 0 {
			continue
		}
		*left--
		if p.Roles[i].Count > api.MostJobsTold {
			continue
		}
		is, of := &state.ReplicatedJobsStatus[i], int(p.Roles[i].Count)
		is.JobRestarts = oneMore(is.JobRestarts, of, x.Index)
		if !free {
			is.JobRestartsCountTowardsMax = oneMore(is.JobRestartsCountTowardsMax, of, x.Index)
		}
	}
}

// oneMore is a list of so many numbers in which one has grown.
func oneMore(in []int32, of int, at int32) []int32 {
	out := append(in, make([]int32, max(0, of-len(in)))...)
	out[at]++
	return out
}

// alone is how often single Jobs were made anew by what counts.
func alone(state *api.JobSetStatus) (n int32) {
	for i := range state.ReplicatedJobsStatus {
		for _, times := range state.ReplicatedJobsStatus[i].JobRestartsCountTowardsMax {
			n += times
		}
	}
	return n
}

// toldFree is how often Jobs were made anew, alone or together, by what does not count, as the status has it.
func toldFree(state *api.JobSetStatus) int32 {
	n := state.Restarts - state.RestartsCountTowardsMax
	for i := range state.ReplicatedJobsStatus {
		for _, times := range state.ReplicatedJobsStatus[i].JobRestarts {
			n += times
		}
	}
	return n - alone(state)
}

// told is what a status says of what is remembered.
func told(js *api.JobSet) podplan.RetryState {
	s := &js.Status
	m := podplan.RetryState{Started: jobs.Begun(js, nil, active(s))}
	for _, end := range []string{api.JobSetCompleted, api.JobSetFailed} {
		if c := apimeta.FindStatusCondition(s.Conditions, end); c != nil && c.Status == metav1.ConditionTrue {
			m = jobs.EndedAs(&jobs.Outcome{Success: end == api.JobSetCompleted}, &c.LastTransitionTime)
			break
		}
	}
	m.Attempt, m.Failures, m.Free = s.Restarts, s.RestartsCountTowardsMax+alone(s), max(toldFree(s), 0)
	m.Rounds = toldRounds(s)
	return m
}

// toldRounds is what a status says of restarts in place. How many of them counted it does not say: what nobody is to blame
// for, suspensions among it, has pods leave a round as failures do. So none is known to count.
func toldRounds(s *api.JobSetStatus) podplan.Rounds {
	is := s.CurrentInPlaceRestartAttempt
	if is == nil || *is < 0 {
		return podplan.Rounds{}
	}
	r := podplan.Rounds{Begun: true, Current: *is, Next: *is}
	if last := s.PreviousInPlaceRestartAttempt; last != nil && *last >= 0 {
		r.Over = min(*last, *is) + 1
	}
	if r.Over > r.Current {
		r.Next = r.Current + 1
	}
	return r
}

// lastPodsEnd is said of a JobSet whose Jobs are all suspended, or done, and that still has pods.
const lastPodsEnd = "It is suspended, and its last pods end."

// words are the conditions of a JobSet.
type words struct {
	js  *api.JobSet
	now metav1.Time
	s   *jobs.Progress
}

func (w *words) set(condition string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&w.js.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, LastTransitionTime: w.now,
	})
}

// ends makes a condition that holds one that does not.
func (w *words) ends(condition, reason, message string) {
	if holds(&w.js.Status, condition) {
		w.set(condition, metav1.ConditionFalse, reason, message)
	}
}

// tell brings the conditions up to date that say how the JobSet is. What one that has ended
// says stays.
func (w *words) tell() {
	held := suspended(w.js)
	switch {
	case finished(&w.js.Status) != nil:
	case w.s.Outcome == podplan.JobSucceeded:
		w.js.Status.TerminalState = api.JobSetCompleted
		w.set(
			api.JobSetCompleted,
			metav1.ConditionTrue,
			api.AllJobsCompletedReason,
			"All Jobs that its success policy names are complete.",
		)
	case w.s.Outcome == podplan.JobFailed:
		w.js.Status.TerminalState = api.JobSetFailed
		w.set(api.JobSetFailed, metav1.ConditionTrue, w.why(), "It failed: "+w.s.Message+".")
	case held && w.s.Suspended:
		w.set(api.JobSetSuspended, metav1.ConditionTrue, api.SuspendedReason, "It is suspended.")
	case held && !w.runs():
		w.set(api.JobSetSuspended, metav1.ConditionTrue, api.SuspendedReason, lastPodsEnd)
	case held: // its Jobs are about to be
	default:
		w.ends(api.JobSetSuspended, api.ResumedReason, "It may run.")
	}
}

// runs reports whether a Job is neither suspended nor done.
func (w *words) runs() bool {
	for _, t := range w.s.Counts {
		if t.Active > 0 {
			return true
		}
	}
	return false
}

// why is the word for a failure.
func (w *words) why() string {
	switch {
	case w.s.Reason == podplan.RetriesExceeded:
		return api.ReachedMaxRestartsReason
	case w.s.Rule != "":
		return api.FailJobSetActionReason
	default:
		return api.FailedJobsReason
	}
}

// restarting tells that all Jobs are made anew, from the restart on until all are ready.
func (w *words) restarting(told int32) {
	switch {
	case w.s.Attempt > told && w.s.Outcome == podplan.Open:
		reason, message := api.DefaultFailurePolicyReason, "A Job failed, and all are made anew."
		if w.s.Rule != "" {
			reason, message = api.FailurePolicyReasonPrefix+w.s.Rule, "A Job failed, and by the rule "+w.s.Rule+" all are made anew."
		}
		w.set(api.JobSetRestarting, metav1.ConditionTrue, reason, message)
	case w.s.Outcome == podplan.JobSucceeded:
		w.ends(api.JobSetRestarting, api.JobSetCompletedReason, "It is complete.")
	case w.s.Outcome == podplan.JobFailed:
		w.ends(api.JobSetRestarting, api.JobSetFailedReason, "It failed.")
	case w.s.Suspended:
		w.ends(api.JobSetRestarting, api.JobSetSuspendedReason, "It is suspended.")
	case w.s.Ready:
		w.ends(api.JobSetRestarting, api.JobsReadyReason, "All Jobs are ready.")
	}
}

// startup tells how far Jobs are that start one after the other.
func (w *words) startup(p *jobs.Plan) {
	order := w.js.Spec.StartupPolicy
	if p == nil || order == nil || order.StartupPolicyOrder != api.InOrder || suspended(w.js) ||
		w.s.Started.IsZero() ||
		w.s.Outcome != podplan.Open {
		return
	}
	var waiting []string
	for i := range p.Roles {
		if t := w.s.Counts[p.Roles[i].Name]; t.Ready+t.Succeeded < p.Roles[i].Count {
			waiting = append(waiting, p.Roles[i].Name)
		}
	}
	switch {
	case len(waiting) == 0:
		w.ends(api.StartupPolicyInProgress, api.InOrderStartupReason, "All roles have started.")
		w.set(
			api.StartupPolicyCompleted,
			metav1.ConditionTrue,
			api.InOrderStartupCompletedReason,
			"All roles have started, in their order.",
		)
	case !holds(&w.js.Status, api.StartupPolicyCompleted) || w.s.Attempt > w.js.Status.Restarts:
		w.ends(api.StartupPolicyCompleted, api.InOrderStartupCompletedReason, "All roles start anew.")
		w.set(
			api.StartupPolicyInProgress,
			metav1.ConditionTrue,
			api.InOrderStartupReason,
			"Roles that are not ready yet: "+strings.Join(waiting, ", ")+".",
		)
	}
}
