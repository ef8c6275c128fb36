// Package leaderworkerset runs LeaderWorkerSets: for one set it looks at what there is,
// lets its kind say what comes next (jobs/leaderworkerset.Next), and does it. Nothing is
// kept in memory, so that a controller that is killed at any moment is followed by one
// that goes on where it was.
//
// Whether the pods of a group may run is decided elsewhere: they are held when they are
// made, and package podgroup queues them.
package leaderworkerset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

// Options are what the controller works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
}

// Reasons of events.
const (
	eventCreated   = "Created"
	eventRecreated = "RecreateGroup"
	eventNameTaken = "NameTaken"
	eventFailed    = "FailedCreate"
	eventInvalid   = "InvalidSet"
)

type reconciler struct {
	Options
	told told
	// trials are what came of trying whether pods that sets lack may be made.
	trials memo.Table[trial]
}

// Cached are the objects of which the cache need not hold all.
func Cached() map[client.Object]cache.ByObject {
	named, err := labels.NewRequirement(api.NameLabel, selection.Exists, nil)
	if err != nil {
		return nil // a constant can be looked for
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*named)}
	return map[client.Object]cache.ByObject{&appsv1.StatefulSet{}: ours, &appsv1.ControllerRevision{}: ours}
}

// SetupWithManager starts the controller. The cache must have foreign.Index.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{Options: opts}
	ofSet := handler.EnqueueRequestsFromMapFunc(setOf)
	named := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[api.NameLabel] != "" }))
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return foreign.Watch(ctrl.NewControllerManagedBy(mgr), opts.Client, r.all, leaderworkerset.Image).
		Named("leaderworkerset").
		For(&api.LeaderWorkerSet{}).
		Watches(&appsv1.StatefulSet{}, ofSet, named).
		Watches(&appsv1.ControllerRevision{}, ofSet, named).
		Watches(&corev1.Pod{}, ofSet, named).
		WatchesMetadata(service, ofSet, named).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// setOf leads from what was made for a set to it.
func setOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[api.NameLabel]}}}
}

// Reconcile does what comes next for one set.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &leaderworkerset.Observed{Object: &api.LeaderWorkerSet{}, Now: r.Clock.Now()}
	if err := r.Client.Get(ctx, req.NamespacedName, w.Object); err != nil {
		r.told.forget(req.NamespacedName)
		r.trials.Forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if w.Object.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // what was made for it goes with it
	}
	if other, err := foreign.Find(ctx, r.Client, leaderworkerset.Image); err != nil || other != "" {
		r.standBack(w.Object, other)
		return reconcile.Result{}, err
	}
	if err := r.gather(ctx, w); err != nil {
		return reconcile.Result{}, err
	}
	if w.Leaders != nil && !metav1.IsControlledBy(w.Leaders, w.Object) {
		return r.waitForName(w)
	}
	again := r.missed(ctx, w)
	step, err := leaderworkerset.Next(w)
	if err != nil {
		r.event(w.Object, corev1.EventTypeWarning, eventInvalid, err.Error())
		return reconcile.Result{}, err
	}
	err = r.do(ctx, w, step)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil // the cache will show what is newer
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("LeaderWorkerSet %s: %w", req.NamespacedName, err)
	}
	if step.Again > 0 && (again == 0 || step.Again < again) {
		again = step.Again
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// gather reads what there is of a set.
func (r *reconciler) gather(ctx context.Context, w *leaderworkerset.Observed) error {
	l := w.Object
	mine := []client.ListOption{client.InNamespace(l.Namespace), client.MatchingLabels{api.NameLabel: l.Name}}
	var sets appsv1.StatefulSetList
	var revisions appsv1.ControllerRevisionList
	var pods corev1.PodList
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	err := errors.Join(
		r.Client.List(ctx, &sets, mine...),
		r.Client.List(ctx, &revisions, mine...),
		r.Client.List(ctx, &pods, append(mine, client.UnsafeDisableDeepCopy)...),
		r.Client.List(ctx, services, append(mine, client.UnsafeDisableDeepCopy)...))
	if err != nil {
		return fmt.Errorf("read what there is of %s/%s: %w", l.Namespace, l.Name, err)
	}
	w.Sets, w.Services = map[string]*appsv1.StatefulSet{}, map[string]bool{}
	for i := range sets.Items {
		s := &sets.Items[i]
		if s.Name == l.Name {
			w.Leaders = s
			continue
		}
		w.Sets[s.Name] = s
	}
	for i := range revisions.Items {
		if rev := &revisions.Items[i]; metav1.IsControlledBy(rev, l) {
			w.Revisions = append(w.Revisions, rev)
		}
	}
	for i := range pods.Items {
		w.Pods = append(w.Pods, &pods.Items[i])
	}
	for i := range services.Items {
		w.Services[services.Items[i].Name] = services.Items[i].DeletionTimestamp == nil
	}
	return nil
}

// waitForName says that the name of a set is taken.
func (r *reconciler) waitForName(w *leaderworkerset.Observed) (reconcile.Result, error) {
	if r.told.again(client.ObjectKeyFromObject(w.Object), w.Now) {
		r.event(w.Object, corev1.EventTypeWarning, eventNameTaken,
			fmt.Sprintf("There is another StatefulSet %s, which is not this set's: delete it, or give the set another name", w.Object.Name))
	}
	return reconcile.Result{RequeueAfter: takenPause}, nil
}

// do carries a step out, and says how the set stands.
func (r *reconciler) do(ctx context.Context, w *leaderworkerset.Observed, s *leaderworkerset.Actions) error {
	for _, o := range s.Create {
		if err := r.create(ctx, w, o); err != nil {
			return err
		}
	}
	if s.Leaders != nil {
		if err := r.Client.Patch(ctx, s.Leaders, client.MergeFromWithOptions(w.Leaders, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	for _, want := range s.Workers {
		if err := r.Client.Patch(ctx, want, client.MergeFromWithOptions(w.Sets[want.Name], client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Complete)) {
		is := w.Sets[name].DeepCopy()
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, leaderworkerset.MembersAnnotation, s.Complete[name])
		if err := r.Client.Patch(ctx, is, client.MergeFromWithOptions(w.Sets[name], client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	for _, g := range s.Recreate {
		// The set of its workers goes first, and the new leader comes when all are gone.
		err := r.Client.Delete(ctx, g.Leader, client.Preconditions{UID: &g.Leader.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if err != nil {
			return err
		}
		r.event(w.Object, corev1.EventTypeNormal, eventRecreated, g.Message+": deleted its leader "+g.Leader.Name)
	}
	for _, p := range s.Replace {
		if err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); err != nil {
			return err
		}
		r.event(w.Object, corev1.EventTypeNormal, eventRecreated, "Pod "+p.Name+" was not told its place: deleted it")
	}
	for _, old := range s.Forget {
		if err := r.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(w.Object.Status, s.Status) {
		return nil
	}
	is := w.Object.DeepCopy()
	is.Status = s.Status
	return r.Client.Status().Patch(ctx, is, client.MergeFromWithOptions(w.Object, client.MergeFromWithOptimisticLock{}))
}

// create makes one object. What is there already is either in the cache soon or
// somebody else's.
func (r *reconciler) create(ctx context.Context, w *leaderworkerset.Observed, o jobs.Object) error {
	made, is := o.(client.Object)
	if !is {
		return fmt.Errorf("create %T: it is no object", o)
	}
	err := r.Client.Create(ctx, made)
	switch {
	case err == nil:
		if _, set := o.(*appsv1.StatefulSet); set {
			r.event(w.Object, corev1.EventTypeNormal, eventCreated, "Created StatefulSet "+o.GetName())
		}
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	default:
		r.event(w.Object, corev1.EventTypeWarning, eventFailed, jobs.Refusal(err))
	}
	return err
}

func (r *reconciler) event(o runtime.Object, kind, reason, message string) {
	r.Recorder.Eventf(o, nil, kind, reason, reason, "%s", message)
}
