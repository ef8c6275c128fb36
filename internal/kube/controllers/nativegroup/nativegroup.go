// Package nativegroup tells PodGroups of Kubernetes (scheduling.k8s.io/v1beta1) whether the pods that name them have
// found their nodes, and else what they wait for: the condition PodGroupInitiallyScheduled. The scheduler of
// Kubernetes does so for pods that it binds, and looks at no others. These are pods that are queued by
// themselves, and those of queued Jobs, for which the Job controller makes PodGroups. CompositePodGroups (v1alpha3), of
// which PodGroups may be parts, are told the same.
//
// Where that is asked for it writes PodGroups for all other gangs, one for each Workload, by which other programs know
// which pods are one. They are no input: what a Workload asks for is never read from them.
//
// Which pods of a group start together is decided in package podgroup, by what the PodGroup says.
package nativegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Served reports whether a cluster has PodGroups of Kubernetes.
func Served(cfg *rest.Config) (bool, error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return false, fmt.Errorf("look for PodGroups of Kubernetes: %w", err)
	}
	list, err := d.ServerResourcesForGroupVersion(schedulingv1beta1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for PodGroups of Kubernetes: %w", err)
	}
	return slices.ContainsFunc(
		list.APIResources,
		func(r metav1.APIResource) bool { return r.Name == "podgroups" },
	), nil
}

// Index is the name of the cache index from a PodGroup of Kubernetes to the pods that name it.
const Index = "mlbatch.dev/native-group"

// IndexPod returns the PodGroup of Kubernetes that a pod names, for Index.
func IndexPod(o client.Object) []string {
	if p, is := o.(*corev1.Pod); is && podmeta.NativeName(&p.Spec) != "" {
		return []string{podmeta.NativeName(&p.Spec)}
	}
	return nil
}

// conflictPause is how long to wait for the cache to show what was written.
const conflictPause = 50 * time.Millisecond

// Options are what the controller works with.
type Options struct {
	Client client.Client
	Clock  clock.PassiveClock
	// Recorder tells of PodGroups that could not be written.
	Recorder events.EventRecorder
	// Labels say whether PodGroups are written.
	Labels admission.Labels
	// Schedulers say who binds the pods of jobs.
	Schedulers jobs.Schedulers
	// Composites: CompositePodGroups are served, and told how they stand, too. The cache has composite.ParentIndex.
	Composites bool
	// Unqueued says why pods have no Workload that wait by the one of this name; "" if they should have one soon, or each
	// by itself.
	Unqueued func(ctx context.Context, workload types.NamespacedName) (string, error)
}

type reconciler struct{ Options }

// SetupWithManager starts the controller. The cache must have Index and admission.PodIndex, and admission.JobIndex of
// Workloads and PodGroups.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	named := predicate.NewPredicateFuncs(func(o client.Object) bool { return len(IndexPod(o)) > 0 })
	b := ctrl.NewControllerManagedBy(mgr).
		Named("nativegroup").
		For(&schedulingv1beta1.PodGroup{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod), builder.WithPredicates(named)).
		Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(r.ofWorkload)).
		WithOptions(fairqueue.Options())
	if !opts.Composites {
		return b.Complete(r)
	}
	if err := b.
		Watches(&schedulingv1alpha3.CompositePodGroup{}, handler.EnqueueRequestsFromMapFunc(r.within)).
		Complete(r); err != nil {
		return err
	}
	return r.composites(mgr, named)
}

// ofPod leads from a pod to the PodGroup that it names.
func ofPod(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range IndexPod(o) {
		out = append(out, request(o.GetNamespace(), name))
	}
	return out
}

// ofWorkload leads from a Workload to the PodGroups of its pods: that of its name, of its Job, or of its pod.
func (r *reconciler) ofWorkload(ctx context.Context, o client.Object) []reconcile.Request {
	w, is := o.(*kueue.Workload)
	if !is {
		return nil
	}
	if names := groupsIn(w); len(names) > 0 {
		out := make([]reconcile.Request, len(names))
		for i, name := range names {
			out[i] = request(w.Namespace, name)
		}
		return out
	}
	if convert.OfGroup(w) {
		return []reconcile.Request{request(w.Namespace, w.Name)}
	}
	if r.Labels.PodGroups && admission.IsGang(w) {
		return append(r.ofOwner(ctx, w), request(w.Namespace, w.Name))
	}
	return r.ofOwner(ctx, w)
}

// ofOwner leads from a Workload to the PodGroups of its Job, or of its pod.
func (r *reconciler) ofOwner(ctx context.Context, w *kueue.Workload) []reconcile.Request {
	owner := metav1.GetControllerOf(w)
	switch {
	case owner == nil:
	case owner.Kind == podmeta.GVK().Kind && owner.APIVersion == podmeta.GVK().GroupVersion().String():
		var p corev1.Pod
		key := types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}
		if err := r.Client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy); err == nil {
			return ofPod(ctx, &p)
		}
	case ofJob(owner):
		var groups schedulingv1beta1.PodGroupList
		if err := r.Client.List(
			ctx,
			&groups,
			client.InNamespace(w.Namespace),
			client.MatchingFields{admission.JobIndex: string(owner.UID)},
			client.UnsafeDisableDeepCopy,
		); err != nil {
			return nil // the cache was filled before anything is watched
		}
		var out []reconcile.Request
		for i := range groups.Items {
			out = append(out, request(w.Namespace, groups.Items[i].Name))
		}
		return out
	}
	return nil
}

// ofJob reports whether an owner is a Job.
func ofJob(owner *metav1.OwnerReference) bool {
	return owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/")
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// Reconcile writes one PodGroup, if it is one that is written here, or its condition, if that has changed.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.Labels.PodGroups && (g == nil || admission.OfWorkload(g) != "") {
		if changed, again, err := r.write(ctx, req.NamespacedName, g); changed || err != nil {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	if g == nil {
		return reconcile.Result{}, nil
	}
	if apimeta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
		return reconcile.Result{}, nil // for good
	}
	s, err := r.gather(ctx, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	c := condition(s)
	if c == nil {
		return reconcile.Result{}, nil
	}
	next := g.DeepCopy()
	return r.tell(ctx, g, next, &next.Status.Conditions, c)
}

// tell writes a condition of a PodGroup or CompositePodGroup, if it has changed. next is a copy of what was read, with
// these conditions.
func (r *reconciler) tell(
	ctx context.Context,
	was, next client.Object,
	all *[]metav1.Condition,
	c *metav1.Condition,
) (reconcile.Result, error) {
	c.ObservedGeneration, c.LastTransitionTime = was.GetGeneration(), metav1.NewTime(r.Clock.Now())
	if !apimeta.SetStatusCondition(all, *c) {
		return reconcile.Result{}, nil
	}
	err := r.Client.Status().
		Patch(ctx, next, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("write condition %s: %w", c.Type, err)
	}
	return reconcile.Result{}, nil
}

// gather reads what the condition of a PodGroup depends on.
func (r *reconciler) gather(ctx context.Context, g *schedulingv1beta1.PodGroup) (facts, error) {
	s := facts{group: g}
	var err error
	if s.pods, err = r.naming(ctx, client.ObjectKeyFromObject(g)); err != nil {
		return s, err
	}
	if name := admission.OfWorkload(g); name != "" {
		s.pods = slices.DeleteFunc(s.pods, func(p *corev1.Pod) bool { return workloadOf(p) != name })
		s.workload = &kueue.Workload{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(g), s.workload, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			s.workload = nil
		}
		return s, client.IgnoreNotFound(err)
	}
	if owner := metav1.GetControllerOf(g); owner != nil && ofJob(owner) {
		all, err := admission.WorkloadsOf(ctx, r.Client, g.Namespace, owner.UID)
		if err != nil || len(all) == 0 {
			return s, err
		}
		s.workload = &all[0]
		return s, nil
	}
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	first := slices.IndexFunc(s.pods, ours)
	if first < 0 {
		return s, nil
	}
	name := workloadOf(s.pods[first])
	var w kueue.Workload
	err = r.Client.Get(
		ctx,
		types.NamespacedName{Namespace: g.Namespace, Name: name},
		&w,
		client.UnsafeDisableDeepCopy,
	)
	switch {
	case err == nil && ofComposite(s.pods[first].Annotations) && len(groupsIn(&w)) == 0:
		s.unqueued = taken(&w)
	case err == nil && late(&w, g.Name):
		s.unqueued = composite.Late(g.Name, w.Name)
	case err == nil:
		s.workload = &w
	case apierrors.IsNotFound(err):
		s.unqueued, err = r.Unqueued(ctx, types.NamespacedName{Namespace: g.Namespace, Name: name})
		return s, err
	default:
		return s, fmt.Errorf("read workload %s/%s: %w", g.Namespace, name, err)
	}
	return s, nil
}

// read is a PodGroup, nil if there is none.
func (r *reconciler) read(
	ctx context.Context,
	key types.NamespacedName,
) (*schedulingv1beta1.PodGroup, error) {
	var g schedulingv1beta1.PodGroup
	err := r.Client.Get(ctx, key, &g)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read PodGroup %s: %w", key, err)
	}
	return &g, nil
}

// naming are the pods that name a PodGroup.
func (r *reconciler) naming(ctx context.Context, g types.NamespacedName) ([]*corev1.Pod, error) {
	var all corev1.PodList
	if err := r.Client.List(
		ctx,
		&all,
		client.InNamespace(g.Namespace),
		client.MatchingFields{Index: g.Name},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list pods of PodGroup %s: %w", g, err)
	}
	out := make([]*corev1.Pod, len(all.Items))
	for i := range all.Items {
		out[i] = &all.Items[i]
	}
	return out, nil
}

// workloadOf is the Workload that a pod counts with or waits by; "" if there is none.
func workloadOf(p *corev1.Pod) string {
	switch {
	case p.Annotations[kueue.WorkloadAnnotation] != "":
		return p.Annotations[kueue.WorkloadAnnotation]
	case podmeta.Managed(p):
		return admission.PodWorkloadName(p)
	}
	return ""
}
