// Package operator runs jobs whose pods mlbatch makes itself: those of kinds with
// jobs.Operator. For one job it looks at its object, its admission and its pods, lets
// its plan say what comes next (podplan.Next), and does it. What has to be remembered is
// in a JobRecovery and is written before anything is done because of it, and so is the
// status that follows from it; all else is seen anew each time, so that a controller that
// is killed at any moment is followed by one that goes on where it was.
//
// Whether a job may run is decided elsewhere: here it is suspended or not. As long as
// pods of a job may be made its status says that it is active, in the words of its kind,
// and it says that it is not only once none is left. Who gives back the quota of a
// suspended job waits for that.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

// Options are what the controllers work with.
type Options struct {
	Client client.Client
	// Live reads from the API server how a job is before its pods are made.
	Live     client.Reader
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Scope says which jobs have to be admitted.
	Scope jobs.Scope
	// Managed reports whether objects of a kind are queued: what they control is
	// admitted with them.
	Managed func(apiVersion, kind string) bool
	// Labels say what pods tell of their admission.
	Labels admission.Labels
	// Retries is what the configuration file says of retries; nil is nothing.
	Retries *core.RetryText
	// CallProxy is the HTTP proxy that calls to pods go through (jobs.Call); nil is none.
	CallProxy *url.URL
}

// Index is the name of the cache index from the UID of a job to its members and services.
const Index = "mlbatch.dev/operated"

// IndexOwned returns the UID of what controls an object, for Index.
func IndexOwned(o client.Object) []string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Pauses until a job is looked at again.
const (
	// conflictPause is how long to wait for the cache to show what was written.
	conflictPause = 20 * time.Millisecond
	// countsPause is how long counters of pods may be old in a status: each pod that
	// starts would be a write of its own.
	countsPause = time.Second
	// takenPause is how long to wait for a name that another object has.
	takenPause = 10 * time.Second
)

type reconciler struct {
	Options
	kind *jobs.Kind
	// awaited are pods that were made and that the cache does not show yet.
	awaited awaited
	// counted is when the counters of jobs were last written, told when it was last said
	// that they are left to another controller.
	counted, told memo.Table[time.Time]
	// kept is what is remembered of jobs.
	kept memo.Table[kept]
	// ensured is what artifacts were made to be.
	ensured ensured
	// unmade is why something of jobs could not be made last.
	unmade memo.Table[string]
	// calls ask pods of jobs; nil for kinds that ask nothing.
	calls *calls
	// exits are how pods ended of jobs whose pods restart in place.
	exits exits
}

// SetupWithManager starts a controller for a kind with an Operator. The cache must have
// Index of members and services, foreign.Index and admission.JobIndex.
func SetupWithManager(mgr ctrl.Manager, kind jobs.Kind, opts Options) error {
	r := &reconciler{Options: opts, kind: &kind}
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	b := ctrl.NewControllerManagedBy(mgr)
	for i := range kind.Running.Operator.Children {
		b = b.Owns(kind.Running.Operator.Children[i].New())
	}
	if keys := kind.Running.Operator.Rounds; keys != nil {
		b = b.Watches(&corev1.Pod{}, r.inRounds(keys))
	}
	if kind.Running.Operator.Calls != nil {
		r.calls = newCalls(opts.Client, opts.Live, opts.CallProxy, opts.Clock)
		if err := mgr.Add(r.calls); err != nil {
			return fmt.Errorf("ask pods of jobs: %w", err)
		}
		b = b.WatchesRawSource(source.Channel(r.calls.woken, &handler.EnqueueRequestForObject{}))
	}
	return foreign.Watch(b, opts.Client, r.all, kind.Running.Operator.Others...).
		Named("operator-"+kind.GVK().Kind).
		For(kind.New()).
		Owns(&corev1.Pod{}, builder.WithPredicates(controlledBy(kind.GVK()))).
		Owns(service, builder.OnlyMetadata, builder.WithPredicates(gone())).
		Watches(
			&kueue.Workload{},
			handler.EnqueueRequestForOwner(
				mgr.GetScheme(),
				mgr.GetRESTMapper(),
				kind.New(),
				handler.OnlyControllerOwner(),
			),
		).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// controlledBy lets through what a kind controls or controlled until now. The handler finds out as
// well, but only after it has done more for each of the many pods that others control.
func controlledBy(kind schema.GroupVersionKind) predicate.Predicate {
	is := func(o client.Object) bool {
		owner := metav1.GetControllerOfNoCopy(o)
		return owner != nil && owner.Kind == kind.Kind && strings.HasPrefix(owner.APIVersion, kind.Group+"/")
	}
	p := predicate.NewPredicateFuncs(is)
	return predicate.Funcs{
		CreateFunc: p.Create, DeleteFunc: p.Delete, GenericFunc: p.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectOld) || is(e.ObjectNew) },
	}
}

// Reconcile does the next step for one job.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	look, ours, err := r.look(ctx, req.NamespacedName)
	if err != nil || !ours {
		if !ours {
			r.forget(req.NamespacedName)
		}
		if err == nil && r.kind.Running.Operator.Finalization != nil {
			return r.sweep(ctx, req.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	if other, err := foreign.Find(ctx, r.Client, r.kind.Running.Operator.Others...); err != nil || other != "" {
		r.standBack(look, other)
		return reconcile.Result{}, err
	}
	result, err := r.advance(ctx, look)
	if errors.Is(err, errOvertaken) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil // the cache will show what is newer
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%s %s: %w", r.kind.GVK().Kind, req.NamespacedName, err)
	}
	if look.again > 0 && (result.RequeueAfter == 0 || look.again < result.RequeueAfter) {
		result.RequeueAfter = look.again
	}
	return result, nil
}

// advance does the next step of a job. What is remembered of it and what its status says come first.
func (r *reconciler) advance(ctx context.Context, l *look) (reconcile.Result, error) {
	switch {
	case l.behind:
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case l.rebuilt:
		return r.note(ctx, l, &l.kept)
	case !l.said:
		if changed, err := r.tell(ctx, l, &l.kept); changed || err != nil {
			return reconcile.Result{}, err // that wakes
		}
	}
	r.ask(l)
	if err := r.listen(ctx, l); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.retries(ctx, l); err != nil {
		return reconcile.Result{}, err
	}
	step := l.plan.Next(l.seen, &l.kept, l.now)
	switch {
	case step.Remove:
		return reconcile.Result{}, r.remove(ctx, l.job)
	case step.Changed:
		return r.note(ctx, l, &step.RetryState)
	default:
		return r.do(ctx, l, &step)
	}
}

// remove deletes a job whose time is over. It is there until all that is its own is gone, as with Jobs:
// another of its name then finds no name taken.
func (r *reconciler) remove(ctx context.Context, job jobs.Object) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	return r.Client.Delete(
		ctx,
		job,
		client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationForeground),
	)
}

// gone lets through only that services were deleted.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func (r *reconciler) forget(name types.NamespacedName) {
	r.awaited.forget(name)
	r.counted.Forget(name)
	r.told.Forget(name)
	r.kept.Forget(name)
	r.ensured.forget(name)
	r.unmade.Forget(name)
	r.exits.forget(name)
	if r.calls != nil {
		r.calls.forget(name)
	}
}

// ask sees to it that what there is to ask of a job is asked, and takes in what was answered.
func (r *reconciler) ask(l *look) {
	if r.calls == nil {
		return
	}
	l.answers = r.calls.answers(l.job)
	s := l.standing(&l.kept)
	var farewell []jobs.Call
	if f := r.kind.Running.Operator.PostDeleteCalls; f != nil {
		farewell = f(l.job, &s)
	}
	r.calls.want(l.job, r.kind.Running.Operator.Calls(l.job, l.plan, &s), farewell)
	if r.kind.Running.Operator.Observe != nil {
		l.seen, l.again = r.kind.Running.Operator.Observe(l.job, l.plan, l.seen, &s)
	}
}

func (r *reconciler) event(o runtime.Object, kind, reason, message string) {
	r.Recorder.Eventf(o, nil, kind, reason, reason, "%s", message)
}
