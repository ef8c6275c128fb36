package jobset

import (
	"cmp"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// adapter translates JobSets.
type adapter struct{}

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (adapter) GVK() schema.GroupVersionKind { return gvk() }

func gvk() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.JobSetKind) }

// New implements jobs.Adapter.
func (adapter) New() jobs.Object { return &api.JobSet{} }

// Ours implements jobs.Adapter.
func (adapter) Ours(o jobs.Object) bool {
	js, ok := o.(*api.JobSet)
	return ok && managed(js)
}

// Read implements jobs.Adapter.
func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	js, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	r := read(js)
	if errs := check(r); len(errs) > 0 {
		return jobs.Facts{}, fmt.Errorf("read JobSet %s/%s: %w", js.Namespace, js.Name, errs.ToAggregate())
	}
	facts := jobs.Facts{
		Suspended: suspended(
			js,
		),
		Finished: finished(&js.Status),
		EndsOnce: r.endsOnce(),
		Active:   active(&js.Status),
		Ready:    ready(r),
	}
	for i := range r.roles {
		x := &r.roles[i]
		set := kueue.PodSet{
			Name:     kueue.PodSetReference(podSet(x.Name)),
			Count:    x.count * x.pods,
			Template: x.Template.Spec.Template,
		}
		set.TopologyRequest = r.topology(x)
		facts.PodSets = append(facts.PodSets, set)
		if len(r.after(i)) > 0 {
			facts.Later = append(facts.Later, string(set.Name))
		}
	}
	if !r.restarts() {
		facts.Reclaimable = r.done(&js.Status)
	}
	return facts, nil
}

// podSet is the name of a role's pod set, and of the role in plans.
func podSet(name string) string { return jobs.PodSetName(name) }

// topology is how near to each other the pods of a role want to be. Where each Job wants
// nodes of its own these are near to each other.
func (r *reading) topology(x *role) *kueue.PodSetTopologyRequest {
	t := kueue.TopologyRequestOf(x.Template.Spec.Template.Annotations)
	if key := r.exclusive(x); t == nil && key != "" && x.pods > 0 {
		t = &kueue.PodSetTopologyRequest{PodSetSliceRequiredTopology: &key, PodSetSliceSize: &x.pods}
	}
	if t == nil {
		return nil
	}
	if t.PodSetSliceRequiredTopology != nil && t.PodSetSliceSize == nil && x.pods > 0 {
		t.PodSetSliceSize = &x.pods
	}
	if indexed(&x.Template.Spec) {
		t.PodIndexLabel = new(job.IndexLabel)
	}
	t.SubGroupIndexLabel, t.SubGroupCount = new(api.JobIndexKey), &x.count
	return t
}

// exclusive is the label of nodes that each Job of a role has to itself, "" if it wants
// none.
func (r *reading) exclusive(x *role) string {
	return cmp.Or(r.js.Annotations[api.ExclusiveKey], x.Template.Annotations[api.ExclusiveKey])
}

// restarts reports whether Jobs that are complete may be made anew.
func (r *reading) restarts() bool {
	f := r.js.Spec.FailurePolicy
	if f == nil {
		return false
	}
	for i := range f.Rules {
		switch f.Rules[i].Action {
		case api.RestartJobSetAndIgnoreMaxRestarts:
			return true
		case api.FailJobSet,
			api.RestartJobSet,
			api.RestartJob,
			api.RestartJobAndIgnoreMaxRestarts: // these count, or are about Jobs that failed
		}
	}
	return f.MaxRestarts > 0
}

// endsOnce reports whether no pod follows one that succeeded.
func (r *reading) endsOnce() bool {
	for i := range r.roles {
		if s := &r.roles[i].Template.Spec; ptr.Deref(s.Completions, 0) > ptr.Deref(s.Parallelism, 1) {
			return false
		}
	}
	return r.js.Spec.FailurePolicy == nil ||
		r.js.Spec.FailurePolicy.MaxRestarts == 0 && len(r.js.Spec.FailurePolicy.Rules) == 0
}

// done are the pods of Jobs that are complete.
func (r *reading) done(s *api.JobSetStatus) []kueue.ReclaimablePod {
	var out []kueue.ReclaimablePod
	for i := range r.roles {
		x := &r.roles[i]
		for j := range s.ReplicatedJobsStatus {
			if is := &s.ReplicatedJobsStatus[j]; is.Name == x.Name && is.Succeeded > 0 {
				out = append(
					out,
					kueue.ReclaimablePod{
						Name:  kueue.PodSetReference(podSet(x.Name)),
						Count: min(is.Succeeded, x.count) * x.pods,
					},
				)
			}
		}
	}
	return out
}

func holds(s *api.JobSetStatus, condition string) bool {
	return apimeta.IsStatusConditionTrue(s.Conditions, condition)
}

func finished(s *api.JobSetStatus) *jobs.Outcome {
	for _, end := range []string{api.JobSetCompleted, api.JobSetFailed} {
		if c := apimeta.FindStatusCondition(s.Conditions, end); c != nil && c.Status == metav1.ConditionTrue {
			return &jobs.Outcome{Success: end == api.JobSetCompleted, Message: cmp.Or(c.Message, c.Reason, end)}
		}
	}
	return nil
}

// active reports whether a JobSet may have pods that have not ended: from its start until it is said that
// it is suspended and that none is left, or that it has ended.
func active(s *api.JobSetStatus) bool {
	if finished(s) != nil {
		return false
	}
	for i := range s.ReplicatedJobsStatus {
		if s.ReplicatedJobsStatus[i].Active > 0 {
			return true
		}
	}
	if c := apimeta.FindStatusCondition(
		s.Conditions,
		api.JobSetSuspended,
	); c != nil &&
		c.Status == metav1.ConditionTrue {
		return c.Message == lastPodsEnd
	}
	return len(s.ReplicatedJobsStatus) > 0
}

// ready reports whether all pods are, or are done.
func ready(r *reading) bool {
	s := &r.js.Status
	if !active(s) {
		return false
	}
	var p podplan.Plan
	counts := map[string]podplan.Tally{}
	for i := range r.roles {
		name := podSet(r.roles[i].Name)
		p.Roles = append(p.Roles, podplan.Role{Name: name, Count: r.roles[i].count, After: r.after(i)})
		at := slices.IndexFunc(
			s.ReplicatedJobsStatus,
			func(is api.ReplicatedJobStatus) bool { return is.Name == r.roles[i].Name },
		)
		if at < 0 {
			return false
		}
		counts[name] = podplan.Tally{
			Ready:     s.ReplicatedJobsStatus[at].Ready,
			Succeeded: s.ReplicatedJobsStatus[at].Succeeded,
		}
	}
	return p.AllReady(counts)
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	js, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{
		Stopped:  suspended(js) && !active(&js.Status),
		Ended:    finished(&js.Status) != nil,
		Deleting: js.DeletionTimestamp != nil,
	}
}

// Start returns the JobSet allowed to run. What its admission adds goes into its Jobs when
// they are made; what cannot go there is an error now.
func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	js, err := cast(o)
	if err != nil {
		return nil, err
	}
	if !suspended(js) {
		return js, nil
	}
	r := read(js)
	if len(infos) != len(r.roles) {
		return nil, fmt.Errorf(
			"start JobSet %s/%s: its admission has %d pod sets, and it has %d",
			js.Namespace,
			js.Name,
			len(infos),
			len(r.roles),
		)
	}
	for i := range r.roles {
		if err := infos[i].Inject(&r.roles[i].Template.Spec.Template); err != nil { // of a copy
			return nil, fmt.Errorf("start JobSet %s/%s: role %s: %w", js.Namespace, js.Name, r.roles[i].Name, err)
		}
	}
	return suspend(js, false), nil
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	js, err := cast(o)
	if err != nil || suspended(js) {
		return o, err
	}
	return suspend(js, true), nil
}

func suspend(js *api.JobSet, is bool) *api.JobSet {
	out := js.DeepCopy()
	out.Spec.Suspend = &is
	return out
}
