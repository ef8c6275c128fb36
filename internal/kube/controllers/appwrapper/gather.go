package appwrapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
)

// source says where facts are read.
type source int

const (
	// cached facts may lag behind by a moment.
	cached source = iota
	// fresh facts are asked of the API server.
	fresh
)

// gather reads the facts of the AppWrapper.
func (a *attempt) gather(ctx context.Context, from source) error {
	w := a.w
	policy, warnings := appwrapper.ParsePolicy(a.policy, w.Annotations)
	a.warnings = warnings
	a.facts = lifecycle.Facts{
		Phase:      lifecycle.Phase(w.Status.Phase),
		Retries:    w.Status.Retries,
		Conditions: conditionsOf(w),
		Kind:       awv1beta2.AppWrapperKind,
		Suspend:    w.Spec.Suspend,
		Deleting:   w.DeletionTimestamp != nil,
		Finalizer:  controllerutil.ContainsFinalizer(w, awv1beta2.AppWrapperFinalizer),
		Policy:     policy,
		Fresh:      from == fresh,
	}
	a.understand()
	a.uids = make([]types.UID, len(a.components))
	for i := range a.components {
		observed, err := a.observe(ctx, i, from)
		if err != nil {
			return err
		}
		a.facts.Components = append(a.facts.Components, observed)
	}
	pods, err := a.readPods(ctx, from)
	a.facts.Pods = pods
	if err != nil {
		return err
	}
	return a.retries(ctx)
}

// understand reads the spec while nothing is created from it, and the record of
// it afterwards.
func (a *attempt) understand() {
	recorded, was := appwrapper.Recorded(a.w)
	switch a.facts.Phase {
	case lifecycle.New, lifecycle.Suspended, lifecycle.Resuming:
	case lifecycle.Running, lifecycle.Resetting, lifecycle.Suspending,
		lifecycle.Succeeded, lifecycle.Failed, lifecycle.Terminating:
		a.components = recorded
		return
	}
	components, err := appwrapper.Components(a.w)
	if errors.Is(err, jobs.ErrIncomplete) {
		a.components, a.incomplete = recorded, true
		return
	}
	if sameObjects(components, recorded) {
		for i := range components {
			components[i].UID = recorded[i].UID
		}
	}
	switch {
	case err != nil:
		a.facts.Invalid, a.components = err.Error(), recorded
	case a.facts.Phase == lifecycle.Resuming && was && !sameObjects(components, recorded):
		a.facts.Invalid, a.components = "they were exchanged after their creation began", recorded
	default:
		a.components = components
	}
}

func sameObjects(a, b []appwrapper.Component) bool {
	return slices.EqualFunc(
		a,
		b,
		func(x, y appwrapper.Component) bool { return x.GVK == y.GVK && x.Name == y.Name },
	)
}

// observe reads one component, unless nothing depends on it.
func (a *attempt) observe(ctx context.Context, i int, from source) (lifecycle.Component, error) {
	c := a.components[i]
	var object *unstructured.Unstructured
	unreadable := ""
	if a.mayExist() {
		found, err := a.find(ctx, c, from)
		switch {
		case hopeless(err):
			unreadable = err.Error()
			a.uids[i] = c.UID
		case err != nil:
			return lifecycle.Component{}, err
		case found != nil && a.ours(c, found):
			object = found
			a.uids[i] = found.GetUID()
		}
	}
	out := c.Observe(object)
	out.Watched = watched(c.GVK) != nil
	if !out.Exists && unreadable == "" {
		lost, err := a.wentWith(ctx, c)
		if err != nil {
			return out, err
		}
		out.NodeGone = lost
	}
	if out.Unreadable = unreadable; unreadable != "" {
		out.Exists = c.UID != ""
	}
	return out, nil
}

// ours reports whether an object of a component's name is the one that was
// created: an owner reference can be written, and taken away, by any user, so that what was
// recorded counts. What an earlier version created has not been recorded, and is believed once
// it is said to exist.
func (a *attempt) ours(c appwrapper.Component, found *unstructured.Unstructured) bool {
	if c.UID != "" {
		return c.UID == found.GetUID()
	}
	creating := a.facts.Phase == lifecycle.Resuming && !a.facts.Suspend && !a.facts.Deleting
	return metav1.IsControlledBy(found, a.w) && !creating
}

// hopeless reports whether reading again would find the same: it is not allowed,
// or not possible.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInvalid(err)
}

// mayExist reports whether components can be there at all. It saves the reads
// for AppWrappers that wait, which are the most, and for finished ones.
func (a *attempt) mayExist() bool {
	if a.facts.Deleting {
		return a.facts.Finalizer
	}
	switch a.facts.Phase {
	case lifecycle.New, lifecycle.Suspended:
		return false
	case lifecycle.Succeeded, lifecycle.Failed:
		return meta.IsStatusConditionTrue(a.w.Status.Conditions, awv1beta2.ResourcesDeployed)
	case lifecycle.Resuming, lifecycle.Running, lifecycle.Resetting, lifecycle.Suspending, lifecycle.Terminating:
		return true
	}
	return true
}

// watched is the kind of a component whose changes are noticed without asking; nil
// for all others.
func watched(gvk schema.GroupVersionKind) *jobs.Kind {
	return native.All().Find(gvk)
}

// find reads the object of a component; nil if there is none. A kind that does
// not exist has no objects: its definition may have been deleted while the
// AppWrapper still wants to be cleaned up.
func (a *attempt) find(
	ctx context.Context,
	c appwrapper.Component,
	from source,
) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	if k := watched(c.GVK); k != nil && from == cached {
		return a.findCached(ctx, k, key)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(c.GVK)
	err := a.live.Get(ctx, key, u)
	switch {
	case err == nil:
		return u, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	}
	return nil, fmt.Errorf("read %s: %w", c.Title(), err)
}

func (a *attempt) findCached(
	ctx context.Context,
	k *jobs.Kind,
	key types.NamespacedName,
) (*unstructured.Unstructured, error) {
	o := k.New()
	if err := a.client.Get(ctx, key, o); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s %s: %w", k.GVK().Kind, key.Name, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", k.GVK().Kind, key.Name, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// readPods reads every pod that carries the AppWrapper's label.
func (a *attempt) readPods(ctx context.Context, from source) ([]lifecycle.Pod, error) {
	var list corev1.PodList
	var err error
	if from == fresh {
		err = a.live.List(
			ctx,
			&list,
			client.InNamespace(a.w.Namespace),
			client.MatchingLabels{awv1beta2.AppWrapperLabel: a.w.Name},
		)
	} else {
		err = a.client.List(
			ctx,
			&list,
			client.InNamespace(a.w.Namespace),
			client.MatchingFields{byAppWrapper: a.w.Name},
			client.UnsafeDisableDeepCopy,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	a.pods = list.Items
	out := make([]lifecycle.Pod, 0, len(list.Items))
	for i := range list.Items {
		p, err := a.readPod(ctx, &list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(x, y lifecycle.Pod) int { return cmp.Compare(x.Name, y.Name) })
	return out, nil
}

func (a *attempt) readPod(ctx context.Context, p *corev1.Pod) (lifecycle.Pod, error) {
	out := lifecycle.Pod{
		Name:     p.Name,
		UID:      string(p.UID),
		PodSet:   p.Labels[kueue.PodSetLabel],
		Node:     p.Spec.NodeName,
		Phase:    lifecycle.PodPhase(p.Status.Phase),
		Deleting: p.DeletionTimestamp != nil,

		Finalizers: p.Finalizers,
	}
	a.noteRemaker(p)
	if out.Deleting {
		out.Until = p.DeletionTimestamp.Time // the API keeps the end of the grace
	}
	if p.Status.Phase == "" {
		out.Phase = lifecycle.PodPending // just created
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if t := statuses[i].State.Terminated; t != nil && t.ExitCode != 0 {
				out.ExitCodes = append(out.ExitCodes, t.ExitCode)
			}
		}
	}
	var err error
	if a.facts.Phase == lifecycle.Running {
		if out.OnBadNode, err = a.lostNode(ctx, p); err != nil || out.OnBadNode != "" {
			out.NodeGone = out.OnBadNode != ""
			return out, err
		}
		out.OnBadNode, err = a.onBadNode(ctx, p)
	}
	return out, err
}

// noteRemaker notes what made a pod after the deletion of all pods began. It is a component, or what that
// has made, and goes with it, unless a user has taken its owner off it: then it would go on for ever.
func (a *attempt) noteRemaker(p *corev1.Pod) {
	began := meta.FindStatusCondition(a.w.Status.Conditions, string(awv1beta2.DeletingResources))
	if began == nil || began.Status != metav1.ConditionTrue ||
		!p.CreationTimestamp.After(began.LastTransitionTime.Time) {
		return
	}
	maker := metav1.GetControllerOf(p)
	if maker == nil ||
		!slices.Contains(
			[]string{"apps/v1 StatefulSet", "apps/v1 ReplicaSet", "batch/v1 Job"},
			maker.APIVersion+" "+maker.Kind,
		) {
		return
	}
	if a.remakers == nil {
		a.remakers = map[types.UID]metav1.OwnerReference{}
	}
	a.remakers[maker.UID] = *maker
}

// lostNode says how a pod lost its node; "" if it has not. Its node was deleted,
// or it was evicted and is the component itself, so that it is not replaced.
func (a *attempt) lostNode(ctx context.Context, p *corev1.Pod) (string, error) {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded {
		return "", nil
	}
	if metav1.IsControlledBy(p, a.w) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				return fmt.Sprintf("it was evicted from node %s: %s", p.Spec.NodeName, c.Message), nil
			}
		}
	}
	_, err := a.node(ctx, p.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return "node " + p.Spec.NodeName + " does not exist any more", nil
	case err != nil:
		return "", fmt.Errorf("read node %s: %w", p.Spec.NodeName, err)
	}
	return "", nil
}

// onBadNode says why a pod has to leave its node; "" if it may stay.
func (a *attempt) onBadNode(ctx context.Context, p *corev1.Pod) (string, error) {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded {
		return "", nil
	}
	var node corev1.Node
	if err := a.client.Get(
		ctx,
		types.NamespacedName{Name: p.Spec.NodeName},
		&node,
		client.UnsafeDisableDeepCopy,
	); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read node %s: %w", p.Spec.NodeName, err)
	}
	return jobs.MustLeave(p, &node, a.inject.Avoid), nil
}
