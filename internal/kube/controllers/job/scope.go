package job

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// nesting is the longest chain of owners that is followed from a job.
const nesting = 10

// place is where a job stands among others.
type place int

const (
	alone  place = iota // not managed here
	top                 // managed, and nobody's part
	nested              // part of another managed job
)

// placeOf finds out whether a job is managed here. It is if it has a queue or is
// where only queued jobs run, and is no part of a managed job. For a part it also
// returns the Workload of the job that it is part of, nil if there is none.
func (r *reconciler) placeOf(ctx context.Context, o jobs.Object, queue string) (place, *kueue.Workload, error) {
	if o.GetDeletionTimestamp() != nil {
		return alone, nil, nil
	}
	var ns corev1.Namespace
	if err := r.opts.Client.Get(ctx, types.NamespacedName{Name: o.GetNamespace()}, &ns); err != nil {
		return alone, nil, client.IgnoreNotFound(err)
	}
	if metav1.GetControllerOf(o) != nil {
		whole, doomed, err := r.whole(ctx, o, &ns)
		switch {
		case err != nil || doomed:
			return alone, nil, err
		case whole != "":
			w, err := r.workloadsOf(ctx, o.GetNamespace(), whole)
			if err != nil || len(w) == 0 {
				return nested, nil, err
			}
			return nested, choose(w, ""), nil
		}
	}
	if r.opts.Scope.Covers(&ns, queue) {
		return top, nil, nil
	}
	return alone, nil, nil
}

// whole follows the owners of a job upwards and returns the UID of the highest
// that is a managed job, "" if none is. A job is doomed, and left alone, if one
// of its owners is gone: the garbage collector is about to remove it.
func (r *reconciler) whole(ctx context.Context, o jobs.Object, ns *corev1.Namespace) (uid types.UID, doomed bool, err error) {
	at := metav1.GetControllerOf(o)
	for range nesting {
		owner, known, err := r.owner(ctx, o.GetNamespace(), at)
		if err != nil || !known {
			return uid, false, err
		}
		if owner == nil || owner.GetUID() != at.UID {
			return "", true, nil
		}
		if r.opts.Managed(at.APIVersion, at.Kind) && r.opts.Scope.Covers(ns, owner.GetLabels()[kueue.QueueNameLabel]) {
			uid = owner.GetUID()
		}
		if at = metav1.GetControllerOf(owner); at == nil {
			return uid, false, nil
		}
	}
	r.event(o, tale{
		reason: "JobNestingTooDeep", warning: true,
		message: fmt.Sprintf("It is left alone: more than %d objects own one another above it", nesting),
	})
	return "", true, nil
}

// owner reads the object that a reference points at, nil if it is gone. Objects
// of kinds that are not watched are asked for at the API server; one that may
// not be read is not known, and the chain ends there.
func (r *reconciler) owner(ctx context.Context, namespace string, ref *metav1.OwnerReference) (owner metav1.Object, known bool, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var o client.Object
	reader := r.opts.Live
	made, err := r.opts.Client.Scheme().New(gvk)
	if typed, ok := made.(client.Object); ok && err == nil && r.opts.Managed(ref.APIVersion, ref.Kind) {
		o, reader = typed, r.opts.Client
	} else {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		o = m
	}
	err = reader.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case apierrors.IsForbidden(err), apimeta.IsNoMatchError(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read owner %s %s: %w", ref.Kind, key, err)
	}
	return o, true, nil
}

// contain is the next step of a part of another managed job: it may not run
// while the whole is not admitted. Who runs the whole starts it.
func contain(s situation, whole *kueue.Workload) (step, error) {
	if whole == nil || convert.Finished(whole) || convert.Admitted(whole) || s.facts.Suspended || s.facts.Finished != nil {
		return step{}, nil
	}
	return stop(s, "Suspended", "Suspended: Workload "+whole.Name+" of the job that it is part of is not admitted")
}
