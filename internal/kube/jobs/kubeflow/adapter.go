package kubeflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// adapter translates the jobs of one kind.
type adapter struct{ *Variant }

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (a adapter) GVK() schema.GroupVersionKind { return a.gvk() }

// New implements jobs.Adapter.
func (a adapter) New() jobs.Object { return a.Variant.New() }

// Ours implements jobs.Adapter.
func (a adapter) Ours(o jobs.Object) bool {
	j, ok := o.(api.Job)
	if !ok {
		return false
	}
	m := ptr.Deref(j.Policy().ManagedBy, "")
	return m == "" || slices.Contains(a.managers(), m)
}

func cast(o jobs.Object) (api.Job, error) {
	j, ok := o.(api.Job)
	if !ok {
		return nil, fmt.Errorf("read training job: %T is none", o)
	}
	return j, nil
}

// of makes a function of jobs one of objects.
func of[R any](f func(api.Job) (R, error)) func(jobs.Object) (R, error) {
	return func(o jobs.Object) (out R, err error) {
		j, err := cast(o)
		if err != nil {
			return out, err
		}
		return f(j)
	}
}

// Read implements jobs.Adapter.
func (a adapter) Read(o jobs.Object) (jobs.Facts, error) {
	j, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	r := a.read(j)
	if errs := a.check(r); len(errs) > 0 {
		return jobs.Facts{}, fmt.Errorf(
			"read %s %s/%s: %w",
			a.Kind,
			j.GetNamespace(),
			j.GetName(),
			errs.ToAggregate(),
		)
	}
	state := j.State()
	facts := jobs.Facts{
		Indexes:   map[kueue.PodSetReference]string{},
		Suspended: suspended(j),
		Finished:  finished(state),
		EndsOnce:  true,
		Active:    active(state),
		Ready:     a.ready(r, state),
	}
	for i := range r.Roles {
		x := &r.Roles[i]
		set := kueue.PodSet{Name: kueue.PodSetReference(podSet(x.Name)), Count: x.Count, Template: x.Spec.Template}
		facts.PodSets, facts.Indexes[set.Name] = append(facts.PodSets, set), api.ReplicaIndexLabel
		if s := state.ReplicaStatuses[x.Name]; s != nil && s.Succeeded > 0 && !facts.Suspended {
			facts.Reclaimable = append(
				facts.Reclaimable,
				kueue.ReclaimablePod{Name: set.Name, Count: min(s.Succeeded, x.Count)},
			)
		}
	}
	if len(facts.PodSets) > 0 {
		facts.PodSets[0].Template.Spec.PriorityClassName = priorityClass(r)
	}
	jobs.Near(facts.PodSets, api.ReplicaIndexLabel)
	return facts, nil
}

// podSet is the name of a role's pod set, and of the role in plans.
func podSet(role api.ReplicaType) string { return strings.ToLower(string(role)) }

// priorityClass of a job is what its policy says, or else that of the first role with
// one. It is looked for in the first pod set.
func priorityClass(r *Reading) string {
	class := ""
	if p := r.Job.Policy().SchedulingPolicy; p != nil {
		class = p.PriorityClass
	}
	for i := range r.Roles {
		class = cmp.Or(class, r.Roles[i].Spec.Template.Spec.PriorityClassName)
	}
	return class
}

// condition finds one of a job, nil if there is none.
func condition(s *api.JobStatus, t api.JobConditionType) *api.JobCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func holds(s *api.JobStatus, t api.JobConditionType) bool {
	c := condition(s, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

func finished(s *api.JobStatus) *jobs.Outcome {
	for _, end := range []api.JobConditionType{api.JobSucceeded, api.JobFailed} {
		if holds(s, end) {
			c := condition(s, end)
			return &jobs.Outcome{Success: end == api.JobSucceeded, Message: cmp.Or(c.Message, c.Reason, string(end))}
		}
	}
	return nil
}

// active reports whether a job may have pods that have not ended: from its start until it is said to be
// suspended, or to have ended.
func active(s *api.JobStatus) bool {
	if finished(s) != nil {
		return false
	}
	if s.StartTime != nil && !holds(s, api.JobSuspended) {
		return true
	}
	for _, r := range s.ReplicaStatuses { // any one of them
		if r != nil && r.Active > 0 {
			return true
		}
	}
	return false
}

// ready reports whether all pods of all roles are, or are done. That a job is Running says less: one of its
// pods is. But a job that another controller runs may have fewer pods than it asks for, and says no more.
func (v *Variant) ready(r *Reading, s *api.JobStatus) bool {
	if !v.wrote(r.Job) {
		return holds(s, api.JobRunning)
	}
	for i := range r.Roles {
		is := s.ReplicaStatuses[r.Roles[i].Name]
		if is == nil || is.Active+is.Succeeded < r.Roles[i].Count {
			return false
		}
	}
	return active(s)
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	j, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	state := j.State()
	return core.MakerState{
		Stopped:  suspended(j) && !active(state),
		Ended:    finished(state) != nil,
		Deleting: j.GetDeletionTimestamp() != nil,
	}
}

// Start returns the job allowed to run. What its admission adds goes into its pods when
// they are made; what cannot go there is an error now.
func (a adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil {
		return nil, err
	}
	if !suspended(j) {
		return j, nil
	}
	r := a.read(j)
	if len(infos) != len(r.Roles) {
		return nil, fmt.Errorf(
			"start %s %s/%s: its admission has %d pod sets, and it has %d",
			a.Kind,
			j.GetNamespace(),
			j.GetName(),
			len(infos),
			len(r.Roles),
		)
	}
	for i := range r.Roles {
		t := &r.Roles[i].Spec.Template
		for _, m := range []struct {
			what      string
			have, add map[string]string
		}{
			{"label", t.Labels, infos[i].Labels},
			{"annotation", t.Annotations, infos[i].Annotations},
			{"nodeSelector", t.Spec.NodeSelector, infos[i].NodeSelector},
		} {
			if err := jobs.Merge(m.what, &m.have, m.add); err != nil {
				return nil, fmt.Errorf(
					"start %s %s/%s: role %s: %w",
					a.Kind,
					j.GetNamespace(),
					j.GetName(),
					r.Roles[i].key,
					err,
				)
			}
		}
	}
	return suspend(j, false), nil
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil || suspended(j) {
		return o, err
	}
	return suspend(j, true), nil
}

func suspend(j api.Job, is bool) jobs.Object {
	out, ok := j.DeepCopyObject().(api.Job)
	if !ok {
		return j
	}
	out.Policy().Suspend = &is
	return out
}
