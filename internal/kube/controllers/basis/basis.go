// Package basis records in jobs what they are based on (jobs.Basis), such as the runtime of a
// TrainJob: once, when a job is first looked at, or when what it names comes to be. Nothing
// else is done here. Until then the job is looked at by nobody, and what is written wakes all
// who do.
package basis

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// notFound is the reason of the event of a job that waits for what it names.
const notFound = "BasisNotFound"

// notRecorded is the reason of the event of a job in which there is no room for what it names.
const notRecorded = "BasisNotRecorded"

// Options are what the controllers work with.
type Options struct {
	Client client.Client
	// Live reads from the API server what the cache does not have.
	Live     client.Reader
	Recorder events.EventRecorder
	// Scope says which jobs are queued, Schedulers which scheduler their pods have.
	Scope      jobs.Scope
	Schedulers jobs.Schedulers
}

type reconciler struct {
	Options
	kind *jobs.Kind
}

// SetupWithManager starts a controller for a kind with a Basis.
func SetupWithManager(mgr ctrl.Manager, kind jobs.Kind, opts Options) error {
	r := &reconciler{opts, &kind}
	c := ctrl.NewControllerManagedBy(mgr).Named("basis-"+kind.GVK().Kind).
		For(kind.New(), builder.WithPredicates(predicate.NewPredicateFuncs(r.waits)))
	for i := range kind.Queueing.Basis.Kinds {
		c = c.Watches(
			kind.Queueing.Basis.Kinds[i].New(),
			handler.EnqueueRequestsFromMapFunc(r.waiting(&kind.Queueing.Basis.Kinds[i])),
			builder.WithPredicates(comes()),
		)
	}
	return c.WithOptions(fairqueue.Options()).Complete(r)
}

// waits reports whether a job waits for its basis.
func (r *reconciler) waits(o client.Object) bool {
	job, is := o.(jobs.Object)
	return is && job.GetDeletionTimestamp() == nil && r.kind.Ours(job) && r.kind.Queueing.Basis.Missing(job)
}

// comes lets through what is new.
func comes() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// waiting leads from an object to the jobs that wait for it.
func (r *reconciler) waiting(k *jobs.BasisKind) handler.MapFunc {
	return func(ctx context.Context, basis client.Object) []reconcile.Request {
		made, err := r.Client.Scheme().New(r.kind.ListGVK())
		list, known := made.(client.ObjectList)
		if err != nil || !known {
			return nil
		}
		if err := r.Client.List(
			ctx,
			list,
			client.InNamespace(basis.GetNamespace()),
			client.UnsafeDisableDeepCopy,
		); err != nil {
			return nil
		}
		var out []reconcile.Request
		_ = apimeta.EachListItem(list, func(item runtime.Object) error { // what it is given returns no error
			job, is := item.(jobs.Object)
			if !is || !r.waits(job) {
				return nil
			}
			if ref := r.kind.Queueing.Basis.Of(job); ref.Kind == k.GVK.Kind && ref.Name == basis.GetName() {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			}
			return nil
		})
		return out
	}
}

// Reconcile records the basis of one job.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	job := r.kind.New()
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.waits(job) {
		return reconcile.Result{}, nil
	}
	inherited, is, err := r.inherited(ctx, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	if is {
		return r.write(ctx, job, inherited)
	}
	ref := r.kind.Queueing.Basis.Of(job)
	k := r.kind.Queueing.Basis.Kind(ref)
	if k == nil {
		r.Recorder.Eventf(
			job,
			nil,
			corev1.EventTypeWarning,
			notFound,
			notFound,
			"There are no %ss that a %s could name: correct %s",
			ref.Kind,
			r.kind.GVK().Kind,
			ref.At,
		)
		return reconcile.Result{}, nil
	}
	basis := k.New()
	key := client.ObjectKey{Name: ref.Name}
	if k.Namespaced {
		key.Namespace = req.Namespace
	}
	// What is recorded stays, so that it is what there is, and not what the cache shows of it.
	err = r.Live.Get(ctx, key, basis)
	if apierrors.IsNotFound(err) {
		r.Recorder.Eventf(
			job,
			nil,
			corev1.EventTypeWarning,
			notFound,
			notFound,
			"It waits until there is a %s %s: correct %s, or create it",
			ref.Kind,
			ref.Name,
			ref.At,
		)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", ref.Kind, key, err)
	}
	schedulers, err := r.schedulers(ctx, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.write(ctx, job, r.kind.Queueing.Basis.With(job, basis, schedulers))
}

// inherited returns a job with what was recorded for it in the AppWrapper that it is part of;
// false if that is nothing.
func (r *reconciler) inherited(ctx context.Context, job jobs.Object) (jobs.Object, bool, error) {
	name := appwrapper.WrapperOf(r.kind.GVK(), job)
	if name == "" {
		return nil, false, nil
	}
	w := &aw.AppWrapper{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.GetNamespace(), Name: name}, w); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("read AppWrapper %s: %w", name, err)
	}
	return appwrapper.Inherit(w, r.kind.GVK(), job)
}

// write records what a job was given.
func (r *reconciler) write(ctx context.Context, was, job jobs.Object) (reconcile.Result, error) {
	var err error
	b, kind := r.kind.Queueing.Basis, r.kind.GVK().Kind
	if b.Stored != nil {
		job = b.Stored(job)
	}
	if b.Annotation != "" {
		err = r.Client.Patch(ctx, job, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
	} else {
		err = r.Client.Status().Update(ctx, job)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the newer one is looked at
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		r.Recorder.Eventf(was, nil, corev1.EventTypeWarning, notRecorded, notRecorded,
			"What it is based on cannot be recorded in it: %v", err)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf(
			"record what %s %s is based on: %w",
			kind,
			client.ObjectKeyFromObject(was),
			err,
		)
	}
	return reconcile.Result{}, nil
}

// schedulers are those of jobs that are queued, and leave the pods of others what they name.
func (r *reconciler) schedulers(ctx context.Context, job jobs.Object) (jobs.Schedulers, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, client.ObjectKey{Name: job.GetNamespace()}, &ns); err != nil {
		return jobs.Schedulers{}, client.IgnoreNotFound(err)
	}
	if !r.Scope.Covers(&ns, job.GetLabels()[kueue.QueueNameLabel]) {
		return jobs.Schedulers{}, nil
	}
	return r.Schedulers, nil
}
