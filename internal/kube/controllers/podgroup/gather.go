package podgroup

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// gather reads what decide needs to know.
func (r *reconciler) gather(ctx context.Context, unit types.NamespacedName) (facts, error) {
	s := facts{lifecycle: r.Lifecycle, now: r.Clock.Now(), keepsDone: r.NoReclaimablePods}
	s.readySince = s.now
	pods, err := r.podsOf(ctx, unit)
	if err != nil {
		return s, err
	}
	if s.maker, err = r.makerOf(ctx, unit, pods); err != nil {
		return s, err
	}
	var replicas *int32
	if s.maker != nil {
		replicas = new(s.maker.replicas)
		if s.detached, err = r.detached(ctx, unit.Namespace, s.maker.uid); err != nil {
			return s, err
		}
	}
	s.unit = pod.NewUnit(pods, replicas)
	if s.maker != nil {
		s.unit.Sets = s.maker.sets
	}
	var w kueue.Workload
	switch err := r.Client.Get(ctx, unit, &w); {
	case err == nil:
		s.workload = &w
		s.theirs = !r.own(&w, &s.unit)
	case client.IgnoreNotFound(err) != nil:
		return s, fmt.Errorf("read workload %s: %w", unit, err)
	}
	if err := r.open(ctx, &s); err != nil {
		return s, err
	}
	if s.theirs && len(pods) == 0 {
		s.workload, s.theirs = nil, false // nothing to do with us
	}
	if name := w.Annotations[kueue.JobOwnerNameAnnotation]; len(pods) == 0 && s.workload != nil && name != "" {
		if s.maker, err = r.makerOfWorkload(ctx, &w, name); err != nil {
			return s, err
		}
	}
	if s.covered, err = r.covers(ctx, unit.Namespace, &s.unit); err != nil {
		return s, err
	}
	s.covered = s.covered || s.workload != nil && !s.theirs // what was begun is brought to its end
	if len(pods) == 0 || !s.covered || s.theirs {
		return s, nil
	}
	if s.priority, err = admission.PriorityOf(
		ctx,
		r.Client,
		s.unit.First(),
		s.unit.PodSets(),
	); err != nil ||
		s.workload == nil {
		return s, err
	}
	if s.seen, err = admission.PodsOf(ctx, r.Client, w.Namespace, w.Name); err != nil {
		return s, err
	}
	if convert.Admitted(s.workload) {
		if s.unit.Open {
			if s.domains, err = r.domainsOf(ctx, s.workload); err != nil {
				return s, err
			}
		}
		if s.ready() {
			s.readySince = r.ready.Of(unit, s.now)
		} else {
			r.ready.Forget(unit)
		}
		if s.infos, err = admission.Infos(ctx, r.Client, s.workload, r.Labels); err == nil {
			s.infos, s.conflict = admission.Updated(s.infos, s.workload.Status.AdmissionChecks)
		}
	}
	return s, err
}

// podsOf lists the pods of a unit, which are only read: with each of a thousand all
// would be copied otherwise.
func (r *reconciler) podsOf(ctx context.Context, unit types.NamespacedName) ([]*corev1.Pod, error) {
	var all corev1.PodList
	if err := r.Client.List(
		ctx,
		&all,
		client.InNamespace(unit.Namespace),
		client.MatchingFields{UnitIndex: unit.Name},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list pods of workload %s: %w", unit, err)
	}
	out := make([]*corev1.Pod, len(all.Items))
	for i := range all.Items {
		out[i] = &all.Items[i]
	}
	return out, nil
}

// own reports whether a Workload is that of a unit, which is another one's if any
// user could have named a group like it. One without pods is told by its marks.
func (r *reconciler) own(w *kueue.Workload, u *pod.Unit) bool {
	if !ofPods(w) {
		return false
	}
	if len(u.Pods) == 0 || !u.Alone() {
		return convert.OfGroup(w) || len(u.Pods) == 0
	}
	return metav1.IsControlledBy(w, u.Pods[0])
}

// covers reports whether the pods of a unit wait for admission where they are.
func (r *reconciler) covers(ctx context.Context, namespace string, u *pod.Unit) (bool, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	first := u.First()
	return first == nil || r.Scope.Covers(&ns, podmeta.Queue(first)), nil
}

// maker is the controller of a group's pods.
type maker struct {
	gvk      schema.GroupVersionKind
	name     string
	uid      types.UID
	replicas int32
	// inTurn: it makes a pod once the one before is ready.
	inTurn bool
	// whole: all of the pods run, or none. sets are what they ask for, nil if they have to
	// say so themselves.
	whole bool
	sets  []kueue.PodSet
	// later are pod sets for which the others do not wait.
	later string
}

// makerOf finds what makes the pods of a group, a StatefulSet or an object of a kind of
// serving.Grouped; nil if nothing does. Who pretends to be a pod of one shares its places, and gets no more.
func (r *reconciler) makerOf(
	ctx context.Context,
	unit types.NamespacedName,
	pods []*corev1.Pod,
) (*maker, error) {
	for _, p := range pods {
		o := metav1.GetControllerOf(p)
		if o == nil || o.Kind != statefulSets.Kind || o.APIVersion != statefulSets.GroupVersion().String() {
			continue
		}
		if podmeta.StatefulSetGroup(o.Name) == unit.Name {
			return r.statefulSet(ctx, unit.Namespace, o.Name, o.UID)
		}
		for _, k := range serving.Grouped() {
			if name, index, ok := k.Queueing.Group(p.Labels); ok && k.Queueing.WorkloadName(name, index) == unit.Name {
				return r.group(ctx, &k, types.NamespacedName{Namespace: unit.Namespace, Name: name}, index, p)
			}
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// makerOfWorkload finds what made the pods of a Workload that has none left.
func (r *reconciler) makerOfWorkload(ctx context.Context, w *kueue.Workload, name string) (*maker, error) {
	uid := types.UID(w.Labels[kueue.JobUIDLabel])
	grouped := serving.Grouped()
	i := slices.IndexFunc(
		grouped,
		func(k jobs.GroupedKind) bool { return k.GVK.String() == w.Annotations[kueue.JobOwnerGVKAnnotation] },
	)
	if i < 0 {
		return r.statefulSet(ctx, w.Namespace, name, uid)
	}
	_, index, ok := grouped[i].Queueing.Group(w.Spec.PodSets[0].Template.Labels)
	if !ok {
		return nil, nil //nolint:nilnil // somebody changed it
	}
	m, err := r.group(ctx, &grouped[i], types.NamespacedName{Namespace: w.Namespace, Name: name}, index, nil)
	if err == nil && m.uid != uid {
		m.replicas = 0 // another object of this name
	}
	return m, err
}

// statefulSets is the kind of them.
var statefulSets = appsv1.SchemeGroupVersion.WithKind("StatefulSet") //nolint:gochecknoglobals // a name

// statefulSet reads how many pods a StatefulSet makes: none if it is gone, or about to.
func (r *reconciler) statefulSet(ctx context.Context, namespace, name string, uid types.UID) (*maker, error) {
	out := &maker{gvk: statefulSets, name: name, uid: uid}
	var set appsv1.StatefulSet
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &set)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read StatefulSet %s/%s: %w", namespace, name, err)
	case err == nil && set.UID == uid && set.DeletionTimestamp == nil:
		out.replicas = ptr.Deref(set.Spec.Replicas, 1)
		out.inTurn = set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	}
	return out, nil
}

// detached is how many pods of a StatefulSet are queued by themselves.
func (r *reconciler) detached(ctx context.Context, namespace string, set types.UID) (int32, error) {
	var all corev1.PodList
	if err := r.Client.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.MatchingLabels{kueue.ManagedLabel: "true"},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return 0, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	n := int32(0)
	for i := range all.Items {
		if p := &all.Items[i]; pod.Detached(p) && metav1.GetControllerOf(p).UID == set && pod.Active(p) {
			n++
		}
	}
	return n, nil
}
