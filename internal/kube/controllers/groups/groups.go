// Package groups runs objects that consist of groups of pods, such as LeaderWorkerSets: those of a
// jobs.GroupedKind. For one object it looks at what there is, lets its kind say what comes next
// (jobs.GroupRunning.Next), and does it. Nothing is kept in memory, so that a controller that is killed at
// any moment is followed by one that goes on where it was.
//
// Whether the pods of a group may run is decided elsewhere: they are held when they are
// made, and package podgroup queues them.
package groups

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

// Options are what the controllers work with.
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

// Pauses: until the cache shows what was written, and until a name that is taken is
// tried again.
const (
	conflictPause = 50 * time.Millisecond
	takenPause    = 10 * time.Second
	// tellAgain is how long the same is not said again of an object.
	tellAgain = 10 * time.Minute
)

type reconciler struct {
	Options
	kind *jobs.GroupedKind
	// told is when something was last said of an object that stays as it is.
	told memo.Table[time.Time]
	// trials are what came of trying whether pods that objects lack may be made.
	trials memo.Table[trial]
}

// Cached are the objects of which the cache need not hold all: those that are made for objects of the kinds.
// A selector cannot ask for one of several labels, so that with several kinds it holds all.
func Cached(kinds []jobs.GroupedKind) map[client.Object]cache.ByObject {
	if len(kinds) != 1 {
		return nil
	}
	named, err := labels.NewRequirement(kinds[0].NameLabel, selection.Exists, nil)
	if err != nil {
		return nil // a constant can be looked for
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*named)}
	return map[client.Object]cache.ByObject{&appsv1.StatefulSet{}: ours, &appsv1.ControllerRevision{}: ours}
}

// SetupWithManager starts a controller for a kind. The cache must have foreign.Index.
func SetupWithManager(mgr ctrl.Manager, kind jobs.GroupedKind, opts Options) error {
	r := &reconciler{Options: opts, kind: &kind}
	owner := handler.EnqueueRequestsFromMapFunc(r.ownerOf)
	named := builder.WithPredicates(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[kind.NameLabel] != "" }),
	)
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return foreign.Watch(ctrl.NewControllerManagedBy(mgr), opts.Client, r.all, kind.Running.Others...).
		Named(strings.ToLower(kind.GVK.Kind)).
		For(kind.New()).
		Watches(&appsv1.StatefulSet{}, owner, named).
		Watches(&appsv1.ControllerRevision{}, owner, named).
		Watches(&corev1.Pod{}, owner, named).
		WatchesMetadata(service, owner, named).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// ownerOf leads from what was made for an object to it.
func (r *reconciler) ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[r.kind.NameLabel]}},
	}
}

// all leads to all objects of the kind.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return foreign.All(ctx, r.Client, r.kind.GVK)
}

// Reconcile does what comes next for one object.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g := &jobs.Groups{Object: r.kind.New(), Now: r.Clock.Now()}
	if err := r.Client.Get(ctx, req.NamespacedName, g.Object); err != nil {
		r.told.Forget(req.NamespacedName)
		r.trials.Forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if g.Object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // what was made for it goes with it
	}
	if other, err := foreign.Find(ctx, r.Client, r.kind.Running.Others...); err != nil || other != "" {
		r.standBack(g.Object, other)
		return reconcile.Result{}, err
	}
	if err := r.gather(ctx, g); err != nil {
		return reconcile.Result{}, err
	}
	if g.Leaders != nil && !metav1.IsControlledBy(g.Leaders, g.Object) {
		return r.waitForName(g)
	}
	again := r.missed(ctx, g)
	actions, err := r.kind.Running.Next(g)
	if err != nil {
		r.event(g.Object, corev1.EventTypeWarning, eventInvalid, err.Error())
		return reconcile.Result{}, err
	}
	err = r.do(ctx, g, actions)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil // the cache will show what is newer
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%s %s: %w", r.kind.GVK.Kind, req.NamespacedName, err)
	}
	if actions.Again > 0 && (again == 0 || actions.Again < again) {
		again = actions.Again
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// standBack says that an object is left to another controller.
func (r *reconciler) standBack(o jobs.Object, other string) {
	if other != "" && memo.Due(&r.told, client.ObjectKeyFromObject(o), r.Clock.Now(), tellAgain) {
		r.event(o, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
			"It is left to the controller in pod %s: mlbatch runs it once that pod is gone", other))
	}
}

// gather reads what there is of an object.
func (r *reconciler) gather(ctx context.Context, g *jobs.Groups) error {
	namespace, name := g.Object.GetNamespace(), g.Object.GetName()
	mine := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{r.kind.NameLabel: name}}
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
		return fmt.Errorf("read what there is of %s/%s: %w", namespace, name, err)
	}
	g.Sets, g.Services = map[string]*appsv1.StatefulSet{}, map[string]bool{}
	for i := range sets.Items {
		s := &sets.Items[i]
		if s.Name == name {
			g.Leaders = s
			continue
		}
		g.Sets[s.Name] = s
	}
	for i := range revisions.Items {
		if rev := &revisions.Items[i]; metav1.IsControlledBy(rev, g.Object) {
			g.Revisions = append(g.Revisions, rev)
		}
	}
	for i := range pods.Items {
		g.Pods = append(g.Pods, &pods.Items[i])
	}
	for i := range services.Items {
		g.Services[services.Items[i].Name] = services.Items[i].DeletionTimestamp == nil
	}
	return nil
}

// waitForName says that the name of an object is taken.
func (r *reconciler) waitForName(g *jobs.Groups) (reconcile.Result, error) {
	if memo.Due(&r.told, client.ObjectKeyFromObject(g.Object), g.Now, tellAgain) {
		r.event(
			g.Object,
			corev1.EventTypeWarning,
			eventNameTaken,
			fmt.Sprintf(
				"There is another StatefulSet %s, which is not this set's: delete it, or give the set another name",
				g.Object.GetName(),
			),
		)
	}
	return reconcile.Result{RequeueAfter: takenPause}, nil
}

// do carries actions out, and says how the object stands.
func (r *reconciler) do(ctx context.Context, g *jobs.Groups, a *jobs.GroupActions) error {
	for _, o := range a.Create {
		if err := r.create(ctx, g, o); err != nil {
			return err
		}
	}
	for _, c := range a.Change {
		if err := r.Client.Patch(
			ctx,
			c.Is,
			client.MergeFromWithOptions(c.Was, client.MergeFromWithOptimisticLock{}),
		); err != nil {
			return err
		}
	}
	for _, d := range a.Delete {
		if err := r.remove(ctx, g, d); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(g.Object, a.Is) {
		return nil
	}
	return r.Client.Status().Patch(
		ctx,
		a.Is,
		client.MergeFromWithOptions(g.Object, client.MergeFromWithOptimisticLock{}),
	)
}

// remove deletes one object.
func (r *reconciler) remove(ctx context.Context, g *jobs.Groups, d jobs.GroupDeletion) error {
	uid := d.Object.GetUID()
	options := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if d.WithParts {
		options = append(options, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	if err := r.Client.Delete(ctx, d.Object, options...); err != nil {
		return err
	}
	if d.Why != "" {
		r.event(g.Object, corev1.EventTypeNormal, eventRecreated, d.Why)
	}
	return nil
}

// create makes one object. What is there already is either in the cache soon or
// somebody else's.
func (r *reconciler) create(ctx context.Context, g *jobs.Groups, o jobs.Object) error {
	err := r.Client.Create(ctx, o)
	switch {
	case err == nil:
		if _, set := o.(*appsv1.StatefulSet); set {
			r.event(g.Object, corev1.EventTypeNormal, eventCreated, "Created StatefulSet "+o.GetName())
		}
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	default:
		r.event(g.Object, corev1.EventTypeWarning, eventFailed, jobs.Refusal(err))
	}
	return err
}

func (r *reconciler) event(o runtime.Object, kind, reason, message string) {
	r.Recorder.Eventf(o, nil, kind, reason, reason, "%s", message)
}
