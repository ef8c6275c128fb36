package raycluster

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

type adapter struct{}

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (adapter) GVK() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.RayClusterKind) }

// New implements jobs.Adapter.
func (adapter) New() jobs.Object { return &api.RayCluster{} }

// Ours implements jobs.Adapter.
func (adapter) Ours(o jobs.Object) bool {
	c, ok := o.(*api.RayCluster)
	return ok && cmp.Or(ptr.Deref(c.Spec.ManagedBy, ""), api.ManagedByOperator) == api.ManagedByOperator
}

func cast(o jobs.Object) (*api.RayCluster, error) {
	c, ok := o.(*api.RayCluster)
	if !ok {
		return nil, fmt.Errorf("read RayCluster: %T is none", o)
	}
	return c, nil
}

// Read implements jobs.Adapter. A cluster does not finish.
func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	c, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	if errs := validate(c); len(errs) > 0 {
		return jobs.Facts{}, fmt.Errorf("read RayCluster %s/%s: %w", c.Namespace, c.Name, errs.ToAggregate())
	}
	return jobs.Facts{
		Suspended: suspended(c),
		Active:    active(c),
		Ready:     ready(c),
		PodSets:   PodSets(&c.Spec),
		Later:     Later(&c.Spec),
	}, nil
}

// Later are the pod sets that others do not wait for: of a cluster that grows by itself there
// are fewer workers at first than were admitted, and they come once the head is there.
func Later(s *api.RayClusterSpec) []string {
	var out []string
	for i := range s.WorkerGroupSpecs {
		if g := groupOf(s, &s.WorkerGroupSpecs[i]); autoscales(s) {
			out = append(out, g.role())
		}
	}
	return out
}

// PodSets are the pods that a cluster needs quota for: those of its author, with what is
// put beside the head.
func PodSets(s *api.RayClusterSpec) []kueue.PodSet {
	out := []kueue.PodSet{{Name: Head, Count: 1, Template: *s.HeadGroupSpec.Template.DeepCopy()}}
	if autoscales(s) {
		pod := &out[0].Template.Spec
		pod.Containers = append(pod.Containers, scaler(s, pod.Containers[0].Image))
	}
	for i := range s.WorkerGroupSpecs {
		g := groupOf(s, &s.WorkerGroupSpecs[i])
		out = append(
			out,
			kueue.PodSet{Name: kueue.PodSetReference(g.role()), Count: g.Admitted, Template: *g.Template.DeepCopy()},
		)
	}
	return out
}

// active reports whether a cluster may have pods that have not ended: from its start, when it is said how
// far they are, until it is said that it is suspended.
func active(c *api.RayCluster) bool {
	s := &c.Status
	if s.AvailableWorkerReplicas > 0 {
		return true
	}
	if s.State == api.ClusterSuspended || apimeta.IsStatusConditionTrue(s.Conditions, api.ClusterIsSuspended) {
		return false
	}
	return s.Head.PodName != "" || apimeta.FindStatusCondition(s.Conditions, api.ClusterProvisioned) != nil
}

// ready reports whether all pods are, now: the state says whether all were at some time, which is what
// another controller tells.
func ready(c *api.RayCluster) bool {
	s := &c.Status
	if s.State != api.ClusterReady || !active(c) {
		return false
	}
	if c := apimeta.FindStatusCondition(
		s.Conditions,
		api.ClusterProvisioned,
	); c == nil ||
		c.Message != wereReady {
		return true
	}
	return apimeta.IsStatusConditionTrue(s.Conditions, api.HeadPodReady) &&
		s.ReadyWorkerReplicas >= s.DesiredWorkerReplicas
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	c, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{Stopped: suspended(c) && !active(c), Deleting: c.DeletionTimestamp != nil}
}

// Start returns the cluster allowed to run. What its admission adds goes into its pods when
// they are made; what cannot go there is an error now.
func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	c, err := cast(o)
	if err != nil || !suspended(c) {
		return o, err
	}
	if err := CheckAdmission(&c.Spec, infos); err != nil {
		return nil, fmt.Errorf("start RayCluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	return suspend(c, false), nil
}

// CheckAdmission finds out whether the pods of a cluster can have what an admission gives
// them, which has as many entries as there are pod sets, or more behind them.
func CheckAdmission(s *api.RayClusterSpec, infos []jobs.PodSetInfo) error {
	templates := append([]*corev1.PodTemplateSpec{&s.HeadGroupSpec.Template}, workerTemplates(s)...)
	if len(infos) < len(templates) {
		return fmt.Errorf("its admission has %d pod sets, and it has %d", len(infos), len(templates))
	}
	for i, t := range templates {
		if err := infos[i].Inject(t.DeepCopy()); err != nil {
			return fmt.Errorf("pods %s: %w", infos[i].Name, err)
		}
	}
	return nil
}

// Inject adds what an admission gives the pods of a cluster to its templates, which it changes.
func Inject(s *api.RayClusterSpec, admitted jobs.Admitted) error {
	names := []string{Head}
	for i := range s.WorkerGroupSpecs {
		g := groupOf(s, &s.WorkerGroupSpecs[i])
		names = append(names, g.role())
	}
	for i, t := range append([]*corev1.PodTemplateSpec{&s.HeadGroupSpec.Template}, workerTemplates(s)...) {
		if info, is := admitted[names[i]]; is {
			if err := info.Inject(t); err != nil {
				return fmt.Errorf("pods %s: %w", names[i], err)
			}
		}
	}
	return nil
}

// Places are the templates of a cluster's pods, by their pod sets.
func Places(s *api.RayClusterSpec) []jobs.Place {
	out := []jobs.Place{{PodSet: Head, Template: &s.HeadGroupSpec.Template}}
	for i := range s.WorkerGroupSpecs {
		g := groupOf(s, &s.WorkerGroupSpecs[i])
		out = append(
			out,
			jobs.Place{PodSet: kueue.PodSetReference(g.role()), Template: &s.WorkerGroupSpecs[i].Template},
		)
	}
	return out
}

func workerTemplates(s *api.RayClusterSpec) []*corev1.PodTemplateSpec {
	var out []*corev1.PodTemplateSpec
	for i := range s.WorkerGroupSpecs {
		out = append(out, &s.WorkerGroupSpecs[i].Template)
	}
	return out
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	c, err := cast(o)
	if err != nil || suspended(c) {
		return o, err
	}
	return suspend(c, true), nil
}

func suspend(c *api.RayCluster, is bool) *api.RayCluster {
	out := c.DeepCopy()
	out.Spec.Suspend = &is
	return out
}

// Templates are those of a cluster's pods as their author wrote them; at is the path of its
// spec.
func Templates(s *api.RayClusterSpec, at string) []jobs.PodTemplate {
	out := []jobs.PodTemplate{{Path: at + ".headGroupSpec.template", Template: &s.HeadGroupSpec.Template}}
	for i := range s.WorkerGroupSpecs {
		out = append(
			out,
			jobs.PodTemplate{
				Path:     fmt.Sprintf("%s.workerGroupSpecs[%d].template", at, i),
				Template: &s.WorkerGroupSpecs[i].Template,
			},
		)
	}
	return out
}

// KeepPods gives the pods of a cluster that a user changes the scheduler that they had.
func KeepPods(was, is *api.RayClusterSpec) {
	is.HeadGroupSpec.Template.Spec.SchedulerName = was.HeadGroupSpec.Template.Spec.SchedulerName
	for i := range is.WorkerGroupSpecs {
		g := &is.WorkerGroupSpecs[i]
		before := slices.IndexFunc(
			was.WorkerGroupSpecs,
			func(old api.WorkerGroupSpec) bool { return old.GroupName == g.GroupName },
		)
		if before >= 0 {
			g.Template.Spec.SchedulerName = was.WorkerGroupSpecs[before].Template.Spec.SchedulerName
		}
	}
}

// keep returns a user's new state with what is not the user's as it was: whether the
// cluster is suspended, and the scheduler of its pods.
func keep(was, is *api.RayCluster, _ []kueue.PodSet) *api.RayCluster {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	KeepPods(&was.Spec, &out.Spec)
	return out
}
