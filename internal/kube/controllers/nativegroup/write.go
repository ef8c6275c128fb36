package nativegroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// refusedPause is after how long it is tried again to write a PodGroup that the API server refused.
const refusedPause = time.Minute

// written are what the PodGroup that is written for a Workload depends on.
type written struct {
	workload *kueue.Workload
	// group is the one of its name; nil if there is none.
	group *schedulingv1beta1.PodGroup
	// other: the Job controller made one for the job.
	other bool
	// used: pods that have not ended name it.
	used bool
	// unnamed: pods that run do not, since they were made before it was written.
	unnamed bool
}

// write is what has to be done about it. At most one is set.
type write struct {
	create *schedulingv1beta1.PodGroup
	// least is the minCount that it is to have, 0 if that stays.
	least  int32
	remove bool
}

// next decides what has to be done about the PodGroup of a Workload.
func next(s written, own jobs.Schedulers) write {
	w, g := s.workload, s.group
	// Pods of groups name one only where mlbatch's scheduler binds them: see the webhook of pods.
	wanted := admission.IsGang(w) && !s.other && !s.unnamed && (!convert.OfGroup(w) || bindsAll(w, own))
	switch {
	case w.DeletionTimestamp != nil || convert.Finished(w):
		return write{} // it goes with the Workload
	case g == nil && wanted:
		return write{create: groupOf(w, own)}
	case g == nil || admission.OfWorkload(g) == "" || g.DeletionTimestamp != nil || !metav1.IsControlledBy(g, w):
		return write{} // it is another one's, or goes
	case !wanted:
		return write{remove: !s.used}
	}
	want := groupOf(w, own)
	if w.Status.Admission == nil && !s.used && outdated(g, want) {
		return write{remove: true} // it is made anew when it is gone
	}
	if is := g.Spec.SchedulingPolicy.Gang; is != nil && want.Spec.SchedulingPolicy.Gang != nil &&
		is.MinCount != want.Spec.SchedulingPolicy.Gang.MinCount {
		return write{least: want.Spec.SchedulingPolicy.Gang.MinCount}
	}
	return write{}
}

// outdated reports whether the PodGroup of a Workload that waits says something else than it should of what cannot be
// changed: it was scheduled once, and waits anew, or its job was changed. The API server fills in what is left out,
// and drops topologies where their feature gate is off.
func outdated(is, want *schedulingv1beta1.PodGroup) bool {
	class := want.Spec.PriorityClassName
	return apimeta.IsStatusConditionTrue(is.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) ||
		(is.Spec.SchedulingPolicy.Gang == nil) != (want.Spec.SchedulingPolicy.Gang == nil) ||
		class != "" && class != is.Spec.PriorityClassName ||
		levelOf(is) != "" && levelOf(is) != levelOf(want)
}

// levelOf is the label of nodes of which those of all pods of a PodGroup have one value, "" if any will do.
func levelOf(g *schedulingv1beta1.PodGroup) string {
	if c := g.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
		return c.Topology[0].Key
	}
	return ""
}

// groupOf is the PodGroup of a Workload, all of whose pods are in it. Where another scheduler binds them it is no gang:
// they are told their nodes once there is room for all, and that scheduler would wait for pods that come later.
func groupOf(w *kueue.Workload, own jobs.Schedulers) *schedulingv1beta1.PodGroup {
	out := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace,
			Name:      w.Name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(w, kueue.GroupVersion.WithKind("Workload")),
			},
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			PriorityClassName: common(w, func(ps *kueue.PodSet) string { return ps.Template.Spec.PriorityClassName }),
			DisruptionMode:    &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
		},
	}
	if !bindsAll(w, own) {
		out.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		return out
	}
	out.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: together(w)}
	if level := required(w); level != "" {
		out.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: level}},
		}
	}
	return out
}

// bindsAll reports whether mlbatch's scheduler binds all pods of a Workload.
func bindsAll(w *kueue.Workload, own jobs.Schedulers) bool {
	return !slices.ContainsFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool {
		return !own.Own(own.Of(ps.Template.Spec.SchedulerName))
	})
}

// common is what something is for all pod sets of a Workload, "" if it is not the same for all.
func common(w *kueue.Workload, of func(*kueue.PodSet) string) string {
	first := of(&w.Spec.PodSets[0])
	for i := range w.Spec.PodSets {
		if of(&w.Spec.PodSets[i]) != first {
			return ""
		}
	}
	return first
}

// required is the level of which all pods of a Workload have to be in one domain; "" if there is none. A PodGroup has
// one for all of its pods, so that a domain for each pod set, or for slices of it, cannot be said.
func required(w *kueue.Workload) string {
	if outer := common(w, func(ps *kueue.PodSet) string {
		if all := kueue.TopologyGroupsOf(ps.Template.Annotations); len(all) > 0 {
			return all[0].Level + "=" + all[0].Name
		}
		return ""
	}); outer != "" {
		return kueue.TopologyGroupsOf(w.Spec.PodSets[0].Template.Annotations)[0].Level
	}
	one := len(w.Spec.PodSets) == 1 || common(w, func(ps *kueue.PodSet) string {
		if ps.TopologyRequest == nil {
			return ""
		}
		return ptr.Deref(ps.TopologyRequest.PodSetGroupName, "")
	}) != ""
	if !one {
		return ""
	}
	return common(w, func(ps *kueue.PodSet) string {
		if ps.TopologyRequest == nil {
			return ""
		}
		return ptr.Deref(ps.TopologyRequest.Required, "")
	})
}

// together is how many pods of a Workload start together: those that it was admitted with, or asks for, without those
// that come after others.
func together(w *kueue.Workload) int32 {
	n := 0
	if w.Status.Admission == nil {
		later := convert.Later(w)
		for i := range w.Spec.PodSets {
			if ps := &w.Spec.PodSets[i]; !slices.Contains(later, string(ps.Name)) {
				n += int(ps.Count)
			}
		}
	}
	for _, s := range gang.FromWorkload(w).Sets {
		if !s.Later {
			n += s.Count - s.Unasked
		}
	}
	return int32(max(n, 1))
}

// write brings the PodGroup of a Workload up to date; g is the one of its name, nil if there is none. True if it was
// changed, which leads back here, or could not be: then again says when to try anew.
func (r *reconciler) write(
	ctx context.Context,
	key types.NamespacedName,
	g *schedulingv1beta1.PodGroup,
) (changed bool, again time.Duration, err error) {
	s := written{workload: &kueue.Workload{}, group: g}
	if err := r.Client.Get(ctx, key, s.workload, client.UnsafeDisableDeepCopy); err != nil {
		return false, 0, client.IgnoreNotFound(err)
	}
	if s.other, err = admission.HasOtherPodGroup(ctx, r.Client, s.workload); err != nil {
		return false, 0, err
	}
	pods, err := r.naming(ctx, key)
	if err != nil {
		return false, 0, err
	}
	s.used = slices.ContainsFunc(pods, unfinished)
	counted, err := admission.ListPods(ctx, r.Client, key.Namespace, key.Name)
	if err != nil {
		return false, 0, err
	}
	s.unnamed = slices.ContainsFunc(counted, func(p corev1.Pod) bool {
		return unfinished(&p) && p.DeletionTimestamp == nil && podmeta.NativeName(&p.Spec) == ""
	})
	todo := next(s, r.Schedulers)
	switch {
	case todo.create != nil:
		err = r.Client.Create(ctx, todo.create)
	case todo.remove:
		uid := g.UID
		err = client.IgnoreNotFound(r.Client.Delete(ctx, g, client.Preconditions{UID: &uid}))
	case todo.least > 0:
		now := g.DeepCopy()
		now.Spec.SchedulingPolicy.Gang.MinCount = todo.least
		err = client.IgnoreNotFound(
			r.Client.Patch(ctx, now, client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{})),
		)
	default:
		return false, 0, nil
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return true, conflictPause, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		// Its job starts without: others do not know it as a gang.
		r.Recorder.Eventf(s.workload, nil, corev1.EventTypeWarning, "PodGroupRefused", "PodGroupRefused",
			"PodGroup %s of Kubernetes could not be written: %v", key.Name, err)
		return true, refusedPause, nil
	case err != nil:
		return true, 0, fmt.Errorf("write PodGroup %s: %w", key, err)
	}
	return true, 0, nil
}

func unfinished(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
