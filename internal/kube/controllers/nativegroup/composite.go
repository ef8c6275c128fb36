package nativegroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// The condition of a CompositePodGroup, and its reasons, which Kubernetes' API has no names for.
const (
	compositeScheduled = "CompositePodGroupInitiallyScheduled"
	reasonInvalid      = "Invalid"
)

// composites starts the controller of CompositePodGroups; named lets through pods that name a PodGroup.
func (r *reconciler) composites(mgr ctrl.Manager, named predicate.Predicate) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("compositegroup").
		For(&schedulingv1alpha3.CompositePodGroup{}).
		Watches(&schedulingv1alpha3.CompositePodGroup{}, handler.EnqueueRequestsFromMapFunc(r.related)).
		Watches(&schedulingv1beta1.PodGroup{}, handler.EnqueueRequestsFromMapFunc(r.around)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.aroundPod), builder.WithPredicates(named)).
		Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(r.compositesOf)).
		WithOptions(fairqueue.Options()).
		Complete(reconcile.Func(r.tellComposite))
}

// groupsIn are the PodGroups of Kubernetes of the pods of a Workload that a CompositePodGroup makes one; none of others.
func groupsIn(w *kueue.Workload) []string {
	var out []string
	for i := range w.Spec.PodSets {
		t := &w.Spec.PodSets[i].Template
		if ofComposite(t.Annotations) {
			out = append(out, podmeta.NativeName(&t.Spec))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// late reports whether a PodGroup came into the CompositePodGroup of a Workload which had quota already.
func late(w *kueue.Workload, group string) bool {
	in := groupsIn(w)
	return len(in) > 0 && w.Status.Admission != nil && !slices.Contains(in, group)
}

// taken says that a Workload is another job's than the CompositePodGroup that is called so.
func taken(w *kueue.Workload) string {
	return fmt.Sprintf("There is a Workload %s of another job: give the CompositePodGroup another name", w.Name)
}

// ofComposite reports whether pods start together by a CompositePodGroup, by their annotations.
func ofComposite(annotations map[string]string) bool {
	return annotations[podmeta.PodGroupKindAnnotation] == podmeta.CompositeGroup
}

// within leads from a CompositePodGroup to all PodGroups in it: they say the same of what their pods wait for.
func (r *reconciler) within(ctx context.Context, o client.Object) []reconcile.Request {
	groups, _, err := composite.Below(ctx, r.Client, o.GetNamespace(), o.GetName())
	if err != nil {
		return nil // the cache was filled before anything is watched
	}
	out := make([]reconcile.Request, len(groups))
	for i, name := range groups {
		out[i] = request(o.GetNamespace(), name)
	}
	return out
}

// related leads from a CompositePodGroup to those that it is within, and to those in it.
func (r *reconciler) related(ctx context.Context, o client.Object) []reconcile.Request {
	out := r.around(ctx, o)
	_, inner, err := composite.Below(ctx, r.Client, o.GetNamespace(), o.GetName())
	if err != nil {
		return out
	}
	for _, name := range inner {
		out = append(out, request(o.GetNamespace(), name))
	}
	return out
}

// around leads from a PodGroup, or a CompositePodGroup, to the CompositePodGroups around it.
func (r *reconciler) around(ctx context.Context, o client.Object) []reconcile.Request {
	around, _ := composite.Around(ctx, r.Client, o) // what is wrong with them they are told then
	out := make([]reconcile.Request, len(around))
	for i, g := range around {
		out[i] = request(g.Namespace, g.Name)
	}
	return out
}

// aroundPod leads from a pod to the CompositePodGroups around its PodGroup.
func (r *reconciler) aroundPod(ctx context.Context, o client.Object) []reconcile.Request {
	p, is := o.(*corev1.Pod)
	if !is {
		return nil
	}
	return r.aroundNamed(ctx, p.Namespace, podmeta.NativeName(&p.Spec))
}

func (r *reconciler) aroundNamed(ctx context.Context, namespace, name string) []reconcile.Request {
	var g schedulingv1beta1.PodGroup
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if err := r.Client.Get(ctx, key, &g, client.UnsafeDisableDeepCopy); err != nil {
		return nil // when it comes it leads on
	}
	return r.around(ctx, &g)
}

// compositesOf leads from a Workload to the CompositePodGroups of its pods.
func (r *reconciler) compositesOf(ctx context.Context, o client.Object) []reconcile.Request {
	w, is := o.(*kueue.Workload)
	if !is {
		return nil
	}
	var out []reconcile.Request
	for _, name := range groupsIn(w) {
		out = append(out, r.aroundNamed(ctx, w.Namespace, name)...)
	}
	return out
}

// compositeFacts are what the condition of a CompositePodGroup depends on.
type compositeFacts struct {
	is    *schedulingv1alpha3.CompositePodGroup
	parts composite.Parts
	// fault is what is wrong with those around it, nil if nothing is.
	fault *composite.FaultError
	// ours: pods of it wait for admission here, or did.
	ours bool
	// workload is by which the pods wait of the gang that it is, or is in; nil if there is none, and unqueued then says why.
	workload *kueue.Workload
	unqueued string
}

// compositeCondition is what a CompositePodGroup that was not scheduled yet is to say; nil if that is none of our business,
// or not known.
func compositeCondition(s compositeFacts) *metav1.Condition {
	if !s.ours {
		return nil
	}
	out := &metav1.Condition{
		Type:   compositeScheduled,
		Status: metav1.ConditionFalse,
		Reason: schedulingv1beta1.PodGroupReasonUnschedulable,
	}
	if s.fault != nil {
		if out.Message = s.fault.Why; s.fault.Lasting {
			out.Reason = reasonInvalid
		}
		return out
	}
	least, done, why := int32(1), int32(0), ""
	if g := s.is.Spec.SchedulingPolicy.Gang; g != nil {
		least = g.MinGroupCount
	}
	note := func(kind, name, condition string, all []metav1.Condition) {
		switch c := apimeta.FindStatusCondition(all, condition); {
		case c == nil:
		case c.Status == metav1.ConditionTrue:
			done++
		case why == "":
			why = fmt.Sprintf("%s %s: %s", kind, name, c.Message)
		}
	}
	for i := range s.parts.Groups {
		g := &s.parts.Groups[i]
		note("PodGroup", g.Name, schedulingv1beta1.PodGroupInitiallyScheduled, g.Status.Conditions)
	}
	for i := range s.parts.Composites {
		g := &s.parts.Composites[i]
		note(composite.Kind, g.Name, compositeScheduled, g.Status.Conditions)
	}
	if done >= least {
		out.Status, out.Reason = metav1.ConditionTrue, reasonScheduled
		out.Message = fmt.Sprintf("As many of its groups were scheduled as start together: %d", least)
		return out
	}
	if said := waits(s.workload, s.unqueued); said != "" {
		why = said // it is said of all
	}
	if out.Message = why; why == "" {
		return nil
	}
	return out
}

// tellComposite writes the condition of one CompositePodGroup, if it has changed.
func (r *reconciler) tellComposite(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var g schedulingv1alpha3.CompositePodGroup
	if err := r.Client.Get(ctx, req.NamespacedName, &g); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if apimeta.IsStatusConditionTrue(g.Status.Conditions, compositeScheduled) {
		return reconcile.Result{}, nil // for good
	}
	s, err := r.gatherComposite(ctx, &g)
	if err != nil {
		return reconcile.Result{}, err
	}
	c := compositeCondition(s)
	if c == nil {
		return reconcile.Result{}, nil
	}
	next := g.DeepCopy()
	return r.tell(ctx, &g, next, &next.Status.Conditions, c)
}

// gatherComposite reads what the condition of a CompositePodGroup depends on.
func (r *reconciler) gatherComposite(
	ctx context.Context,
	g *schedulingv1alpha3.CompositePodGroup,
) (compositeFacts, error) {
	s := compositeFacts{is: g}
	var err error
	if s.parts, err = composite.PartsOf(ctx, r.Client, g.Namespace, g.Name); err != nil {
		return s, err
	}
	if s.ours, err = r.oursIn(ctx, g); err != nil || !s.ours {
		return s, err
	}
	around, err := composite.Around(ctx, r.Client, g)
	var gang *schedulingv1alpha3.CompositePodGroup
	if err == nil {
		gang, err = composite.Outermost(append([]*schedulingv1alpha3.CompositePodGroup{g}, around...))
	}
	s.fault = composite.AsFault(err)
	switch {
	case s.fault != nil:
		return s, nil //nolint:nilerr // it is told to those who wait
	case err != nil || gang == nil:
		return s, err
	}
	key := client.ObjectKeyFromObject(gang)
	var w kueue.Workload
	switch err := r.Client.Get(ctx, key, &w, client.UnsafeDisableDeepCopy); {
	case err == nil && len(groupsIn(&w)) == 0:
		s.unqueued = taken(&w)
	case err == nil:
		s.workload = &w
	case client.IgnoreNotFound(err) != nil:
		return s, fmt.Errorf("read workload %s: %w", key, err)
	default:
		if s.unqueued, err = r.Unqueued(ctx, key); err != nil {
			return s, err
		}
	}
	return s, nil
}

// mostAsked is of how many PodGroups pods are looked for: whoever makes thousands has others wait for it.
const mostAsked = 256

// oursIn reports whether pods of a CompositePodGroup wait for admission here, or did.
func (r *reconciler) oursIn(ctx context.Context, g *schedulingv1alpha3.CompositePodGroup) (bool, error) {
	groups, _, err := composite.Below(ctx, r.Client, g.Namespace, g.Name)
	if err != nil {
		return false, err
	}
	for _, name := range groups[:min(len(groups), mostAsked)] {
		pods, err := r.naming(ctx, types.NamespacedName{Namespace: g.Namespace, Name: name})
		if err != nil || slices.ContainsFunc(pods, ours) {
			return err == nil, err
		}
	}
	return false, nil
}
