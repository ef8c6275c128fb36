package trainjob

import (
	"cmp"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

type adapter struct{}

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (adapter) GVK() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.TrainJobKind) }

// New implements jobs.Adapter.
func (adapter) New() jobs.Object { return &api.TrainJob{} }

// Ours implements jobs.Adapter.
func (adapter) Ours(o jobs.Object) bool {
	t, ok := o.(*api.TrainJob)
	return ok && cmp.Or(ptr.Deref(t.Spec.ManagedBy, ""), api.ManagedByController) == api.ManagedByController
}

func cast(o jobs.Object) (*api.TrainJob, error) {
	t, ok := o.(*api.TrainJob)
	if !ok {
		return nil, fmt.Errorf("read TrainJob: %T is none", o)
	}
	return t, nil
}

// rendered is the JobSet of a TrainJob; the error is for its author.
func rendered(t *api.TrainJob) (*rendering, error) {
	if errs := validateAlone(t); len(errs) > 0 {
		return nil, fmt.Errorf("read TrainJob %s/%s: %w", t.Namespace, t.Name, errs.ToAggregate())
	}
	r, errs := render(t)
	if len(errs) > 0 {
		return nil, fmt.Errorf("read TrainJob %s/%s: %w", t.Namespace, t.Name, errs.ToAggregate())
	}
	if r == nil {
		return nil, fmt.Errorf(
			"read TrainJob %s/%s: %s %s: %w",
			t.Namespace,
			t.Name,
			refKind(&t.Spec.RuntimeRef),
			t.Spec.RuntimeRef.Name,
			jobs.ErrIncomplete,
		)
	}
	return r, nil
}

// Read implements jobs.Adapter.
func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	t, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	r, err := rendered(t)
	if err != nil {
		return jobs.Facts{}, err
	}
	// What the JobSet consists of, and which of its pods are done, it says itself.
	set := r.set.DeepCopy()
	for _, j := range t.Status.JobsStatus {
		set.Status.ReplicatedJobsStatus = append(set.Status.ReplicatedJobsStatus, counted(j))
	}
	facts, err := jobsetkind.Kind().Read(set)
	if err != nil {
		return jobs.Facts{}, fmt.Errorf("read TrainJob %s/%s: %w", t.Namespace, t.Name, err)
	}
	facts.Rigid = true
	facts.Suspended, facts.Active, facts.Ready, facts.Finished = suspended(
		t,
	), active(
		t,
	), facts.Ready &&
		active(t), finished(
		t,
	)
	return facts, nil
}

func suspended(t *api.TrainJob) bool { return ptr.Deref(t.Spec.Suspend, false) }

func finished(t *api.TrainJob) *jobs.Outcome {
	for _, end := range []string{api.TrainJobComplete, api.TrainJobFailed} {
		if c := apimeta.FindStatusCondition(
			t.Status.Conditions,
			end,
		); c != nil &&
			c.Status == metav1.ConditionTrue {
			return &jobs.Outcome{Success: end == api.TrainJobComplete, Message: cmp.Or(c.Message, c.Reason, end)}
		}
	}
	return nil
}

// active reports whether a job may have pods that have not ended: from its start until it is said that it
// is suspended, or has ended. Of one that never was suspended nothing is said until its JobSet is seen.
func active(t *api.TrainJob) bool {
	if finished(t) != nil {
		return false
	}
	for _, s := range t.Status.JobsStatus {
		if s.Active > 0 {
			return true
		}
	}
	if c := apimeta.FindStatusCondition(t.Status.Conditions, api.TrainJobSuspended); c != nil {
		return c.Status != metav1.ConditionTrue
	}
	return len(t.Status.JobsStatus) > 0
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	t, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{
		Stopped: suspended(t) && !active(t), Ended: finished(t) != nil, Deleting: t.DeletionTimestamp != nil,
	}
}

// counted is how many Jobs a role has, in the words of the JobSet.
func counted(j api.JobStatus) jobset.ReplicatedJobStatus {
	return jobset.ReplicatedJobStatus{
		Name:      j.Name,
		Ready:     j.Ready,
		Succeeded: j.Succeeded,
		Failed:    j.Failed,
		Active:    j.Active,
		Suspended: j.Suspended,
	}
}

// Start returns the job allowed to run. What its admission adds goes into its JobSet when
// that is made; what cannot go there is an error now.
func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	t, err := cast(o)
	if err != nil {
		return nil, err
	}
	if !suspended(t) {
		return t, nil
	}
	r, err := rendered(t)
	if err != nil {
		return nil, err
	}
	all := r.set.Spec.ReplicatedJobs
	if len(infos) != len(all) {
		return nil, fmt.Errorf(
			"start TrainJob %s/%s: its admission has %d pod sets, and it has %d",
			t.Namespace,
			t.Name,
			len(infos),
			len(all),
		)
	}
	for i := range all {
		if err := infos[i].Inject(&all[i].Template.Spec.Template); err != nil {
			return nil, fmt.Errorf(
				"start TrainJob %s/%s: replicated job %s: %w",
				t.Namespace,
				t.Name,
				all[i].Name,
				err,
			)
		}
	}
	return suspend(t, false), nil
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	t, err := cast(o)
	if err != nil || suspended(t) {
		return o, err
	}
	return suspend(t, true), nil
}

func suspend(t *api.TrainJob, is bool) jobs.Object {
	out := t.DeepCopy()
	out.Spec.Suspend = &is
	return out
}
