package job

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// nesting is the longest chain of owners that is followed from a job.
const nesting = 10

// standing is where a job stands among others.
type standing int

const (
	alone  standing = iota // not managed here
	top                    // managed, and part of no other job
	nested                 // part of another managed job
	deeper                 // part of a part of one
)

// standingOf finds out whether a job is managed here. It is if it has a queue or is
// where only queued jobs run, and is no part of a managed job. For a part it also
// returns the Workload of the job that it is part of, nil if there is none.
func (r *reconciler) standingOf(
	ctx context.Context,
	o jobs.Object,
	queue string,
) (standing, *kueue.Workload, error) {
	if o.GetDeletionTimestamp() != nil {
		return alone, nil, nil
	}
	var ns corev1.Namespace
	if err := r.opts.Client.Get(ctx, types.NamespacedName{Name: o.GetNamespace()}, &ns); err != nil {
		return alone, nil, client.IgnoreNotFound(err)
	}
	if metav1.GetControllerOf(o) != nil {
		above, doomed, err := r.whole(ctx, o, &ns)
		switch {
		case err != nil || doomed:
			return alone, nil, err
		case above.uid != "":
			w, err := admission.WorkloadsOf(ctx, r.opts.Client, o.GetNamespace(), above.uid)
			if err != nil || len(w) == 0 {
				return above.stands, nil, err
			}
			return above.stands, choose(w, ""), nil
		}
	}
	if r.opts.Scope.Covers(&ns, queue) {
		return top, nil, nil
	}
	return alone, nil, nil
}

// errNotRecorded says that a job may be a part of another one that is just being
// made.
var errNotRecorded = errors.New("the job that it says it is a part of has not recorded its parts yet")

// above is the highest managed job above another, and how far above.
type above struct {
	uid    types.UID
	stands standing
}

// whole follows the owners of a job upwards and returns the highest that is a
// managed job, the zero value if none is. A job is doomed, and left alone, if one
// of its owners is gone: the garbage collector is about to remove it.
//
// An owner that keeps a record of its parts is believed, and not a Job that says it
// is one: any user who may write Jobs may write owner references.
func (r *reconciler) whole(
	ctx context.Context,
	o jobs.Object,
	ns *corev1.Namespace,
) (top above, doomed bool, err error) {
	var part metav1.Object = o
	gvk, stands := r.adapter.GVK(), nested
	at := metav1.GetControllerOf(o)
	for range nesting {
		owner, known, err := r.owner(ctx, o.GetNamespace(), at)
		if err != nil || !known {
			return top, false, err
		}
		if owner == nil || owner.GetUID() != at.UID {
			return above{}, true, nil
		}
		kind := schema.FromAPIVersionAndKind(at.APIVersion, at.Kind)
		if r.opts.Managed(at.APIVersion, at.Kind) &&
			r.opts.Scope.Covers(ns, owner.GetLabels()[kueue.QueueNameLabel]) {
			own, err := r.own(ctx, owner, kind, part, gvk)
			if err != nil {
				return above{}, false, err
			}
			if !own {
				return above{}, false, nil
			}
			top = above{owner.GetUID(), stands}
		}
		part, gvk, stands = owner, kind, deeper
		if at = metav1.GetControllerOf(owner); at == nil {
			return top, false, nil
		}
	}
	r.event(o, jobEvent{
		reason: "JobNestingTooDeep", warning: true,
		message: fmt.Sprintf("It is left alone: more than %d objects own one another above it", nesting),
	})
	return above{}, true, nil
}

// own reports whether a managed job says that an object is a part of it. What the
// cache denies is asked of the API server: the job is recorded as it is created.
func (r *reconciler) own(
	ctx context.Context,
	owner metav1.Object,
	kind schema.GroupVersionKind,
	part metav1.Object,
	gvk schema.GroupVersionKind,
) (bool, error) {
	whole, keepsRecord := r.opts.Parents[kind]
	o, typed := owner.(jobs.Object)
	if !keepsRecord || !typed {
		return true, nil
	}
	answer := whole.PartOf(o, gvk, part)
	if answer == jobs.Stranger {
		made, err := r.opts.Client.Scheme().New(kind)
		fresh, known := made.(client.Object)
		if err != nil || !known {
			return false, err
		}
		err = r.opts.Live.Get(
			ctx,
			types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()},
			fresh,
		)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read owner %s %s/%s: %w", kind.Kind, owner.GetNamespace(), owner.GetName(), err)
		}
		if err == nil && fresh.GetUID() == owner.GetUID() {
			answer = whole.PartOf(fresh, gvk, part)
		}
	}
	if answer == jobs.Expected {
		return false, errNotRecorded
	}
	return answer == jobs.Own, nil
}

// owner reads the object that a reference points at, nil if it is gone. Objects
// of kinds that are not watched are asked for at the API server; one that may
// not be read is not known, and the chain ends there.
func (r *reconciler) owner(
	ctx context.Context,
	namespace string,
	ref *metav1.OwnerReference,
) (owner metav1.Object, known bool, err error) {
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

// holdPart is the next step of a part of another managed job: it may not run
// while the whole is not admitted. The controller of the whole starts it.
func holdPart(s facts, whole *kueue.Workload) (step, error) {
	if whole == nil || convert.Finished(whole) || convert.Admitted(whole) || s.facts.Suspended ||
		s.facts.Finished != nil {
		return step{}, nil
	}
	return stop(
		s,
		"Suspended",
		"Suspended: Workload "+whole.Name+" of the job that it is part of is not admitted",
	)
}
