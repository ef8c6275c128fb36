package kubeflow

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// project returns a job with the status that follows from what there is.
func (v *Variant) project(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
	j, err := cast(o)
	if err != nil {
		return o
	}
	out, ok := j.DeepCopyObject().(api.Job)
	if !ok {
		return o
	}
	state := out.State()
	w := words{variant: v, job: out, state: state, now: metav1.NewTime(s.Now)}
	w.tell(p, s)
	v.count(out, p, s)
	if !s.Started.IsZero() {
		state.StartTime = new(metav1.NewTime(s.Started))
	}
	if !s.Ended.IsZero() {
		state.CompletionTime = new(metav1.NewTime(s.Ended))
	}
	if !equality.Semantic.DeepEqual(j.State(), state) {
		state.LastReconcileTime = &w.now
	}
	return out
}

// told is what a status says of what is remembered.
func told(j api.Job) podplan.RetryState {
	s := j.State()
	if how := finished(s); how != nil {
		m := jobs.EndedAs(how, s.CompletionTime)
		m.Started = jobs.Begun(j, s.StartTime, true)
		return m
	}
	return podplan.RetryState{Started: jobs.Begun(j, s.StartTime, active(s))}
}

// count fills in how many pods each role has. Active are the ready ones.
func (v *Variant) count(j api.Job, p *jobs.Plan, s *jobs.Progress) {
	if p == nil {
		return
	}
	all := make(map[api.ReplicaType]*api.ReplicaStatus, len(p.Roles))
	for i := range p.Roles {
		name := p.Roles[i].Name
		t := s.Counts[name]
		all[v.role(api.ReplicaType(name)).Name] = &api.ReplicaStatus{
			Active:    t.Ready,
			Succeeded: t.Succeeded,
			Failed:    t.Failed,
			Selector:  api.JobNameLabel + "=" + j.GetName() + "," + api.OperatorNameLabel + "=" + v.operator() + "," + api.ReplicaTypeLabel + "=" + name,
		}
	}
	j.State().ReplicaStatuses = all
}

// words are the conditions of a job.
type words struct {
	variant *Variant
	job     api.Job
	state   *api.JobStatus
	now     metav1.Time
}

// tell brings the conditions up to date. What a finished job says stays.
func (w *words) tell(p *jobs.Plan, s *jobs.Progress) {
	if condition(w.state, api.JobCreated) == nil {
		w.set(api.JobCreated, corev1.ConditionTrue, "Created", wasCreated)
	}
	held := suspended(w.job)
	switch {
	case finished(w.state) != nil:
	case s.Outcome == podplan.JobSucceeded:
		w.end(api.JobSucceeded, "succeeded")
	case s.Outcome == podplan.JobFailed:
		w.end(api.JobFailed, "failed: "+s.Message)
	case held && s.Suspended:
		if holds(w.state, api.JobRunning) {
			w.set(api.JobRunning, corev1.ConditionFalse, "Suspended", "is suspended")
		}
		w.drop(api.JobRestarting)
		w.set(api.JobSuspended, corev1.ConditionTrue, "Suspended", "is suspended")
	case held: // its pods are about to go
	default:
		if holds(w.state, api.JobSuspended) {
			w.set(api.JobSuspended, corev1.ConditionFalse, "Resumed", "was resumed")
		}
		switch {
		case s.Restarting:
			w.drop(api.JobRunning)
			reason := "Restarting"
			if s.Disrupted {
				reason = cmp.Or(w.variant.Evicted, reason)
			}
			w.set(api.JobRestarting, corev1.ConditionTrue, reason, "makes pods that failed anew")
		case w.variant.runs(p, s):
			w.drop(api.JobRestarting)
			w.set(api.JobRunning, corev1.ConditionTrue, "Running", "is running")
		}
	}
}

// runs reports whether a job runs: a pod does that its end depends on, if the kind does not
// say otherwise.
func (v *Variant) runs(p *jobs.Plan, s *jobs.Progress) bool {
	if p != nil && v.Runs != nil {
		return v.Runs(p, s)
	}
	return p != nil && slices.ContainsFunc(p.Success, func(t podplan.Term) bool {
		return slices.ContainsFunc(t.Roles, func(role string) bool { return s.Counts[role].Ready > 0 })
	})
}

// end tells that the job ended.
func (w *words) end(how api.JobConditionType, message string) {
	if c := condition(w.state, api.JobRunning); c != nil && c.Status == corev1.ConditionTrue {
		c.Status, c.LastTransitionTime, c.LastUpdateTime = corev1.ConditionFalse, w.now, w.now
	}
	w.drop(api.JobRestarting)
	w.set(how, corev1.ConditionTrue, string(how), message)
}

func (w *words) drop(t api.JobConditionType) {
	w.state.Conditions = slices.DeleteFunc(
		w.state.Conditions,
		func(c api.JobCondition) bool { return c.Type == t },
	)
}

// message is what a condition says to people. The namespace in it tells it from those of other controllers.
func (v *Variant) message(j api.Job, text string) string {
	return fmt.Sprintf("%s %s/%s %s.", v.Kind, j.GetNamespace(), j.GetName(), text)
}

// wasCreated is said of every job whose status is written here.
const wasCreated = "was created"

// wrote reports whether the status of a job is written here.
func (v *Variant) wrote(j api.Job) bool {
	c := condition(j.State(), api.JobCreated)
	return c != nil && c.Message == v.message(j, wasCreated)
}

// set puts a condition at the end, where people are shown the last one, unless it is
// there already.
func (w *words) set(t api.JobConditionType, status corev1.ConditionStatus, reason, message string) {
	c := api.JobCondition{
		Type: t, Status: status, Reason: w.variant.Kind + reason,
		Message:        w.variant.message(w.job, message),
		LastUpdateTime: w.now, LastTransitionTime: w.now,
	}
	if was := condition(w.state, t); was != nil {
		if was.Status == status && was.Reason == c.Reason {
			return
		}
		if was.Status == status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	w.drop(t)
	w.state.Conditions = append(w.state.Conditions, c)
}
