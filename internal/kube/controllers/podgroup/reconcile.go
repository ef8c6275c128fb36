// Package podgroup queues pods that nobody suspends: a pod alone, or a group of pods
// that name each other. For one such unit it gathers the facts, lets decide choose
// what comes next, and does it; the write comes back as a watch event and the next
// step follows. Nothing is kept in memory, so that a restart at any point goes on
// where it was.
//
// A unit is known by the name of its Workload: that of the group, or one that follows
// from the pod.
package podgroup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
)

// Options are what the reconciler works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Live reads from the API server what is not watched.
	Live client.Reader
	// SakkaraMaps are shared by all who read ConfigMaps of groups of Sakkara's; nil shares none.
	SakkaraMaps *admission.SakkaraMaps
	// Scope says which pods wait for admission.
	Scope jobs.Scope
	// Lifecycle are the settings of what follows a reservation.
	Lifecycle workloadlifecycle.Config
	// Ended is told of every Workload whose end was written, Told of every eviction.
	Ended func(*kueue.Workload)
	Told  func(w *kueue.Workload, e workloadlifecycle.Event)
	// LabelKeysToCopy are the labels of the first pod that the Workload gets too.
	LabelKeysToCopy []string
	// Labels say what pods tell of their admission.
	Labels admission.Labels
	// NoReclaimablePods keeps the quota of pods that are done until the end.
	NoReclaimablePods bool
	// Native: PodGroups of Kubernetes (scheduling.k8s.io/v1beta1) are served, and watched.
	Native bool
	// Composites: so are CompositePodGroups (scheduling.k8s.io/v1alpha3). The cache has composite.ParentIndex.
	Composites bool
	// Concurrency is how many units are handled at the same time.
	Concurrency int
}

// UnitIndex is the name of the cache index from a unit to its pods.
const UnitIndex = "mlbatch.dev/unit"

// IndexUnit returns the unit that a pod belongs to, for UnitIndex.
func IndexUnit(o client.Object) []string {
	p, ok := o.(*corev1.Pod)
	if !ok || !podmeta.Managed(p) {
		return nil
	}
	return []string{admission.PodWorkloadName(p)}
}

// Pauses: how long to wait for the cache to show what was written, and until a
// Workload that may not be created is tried again.
const (
	conflictPause = 20 * time.Millisecond
	refusedPause  = time.Minute
)

type reconciler struct {
	Options
	// told remembers the last event about each unit that waits, so that it is not
	// repeated with every pod that comes. A restart tells it once more.
	told sync.Map
	// reported is what the ConfigMaps of groups were told, for the same reason.
	reported sync.Map
	// toldKAI is what PodGroups of KAI Scheduler were told.
	toldKAI sync.Map
	// ready is since when the pods of units are all ready.
	ready memo.Since
}

// SetupWithManager starts the reconciler. The cache must have UnitIndex and
// admission.PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{Options: opts}
	managed := predicate.NewPredicateFuncs(
		func(o client.Object) bool { return o.GetLabels()[kueue.ManagedLabel] == "true" },
	)
	comes := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	queue := fairqueue.Options()
	queue.MaxConcurrentReconciles = opts.Concurrency
	b := ctrl.NewControllerManagedBy(mgr).
		Named("podgroup").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod), builder.WithPredicates(managed)).
		Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(ofWorkload)).
		Watches(
			&kueue.WorkloadPriorityClass{},
			handler.EnqueueRequestsFromMapFunc(r.ofClass),
			builder.WithPredicates(comes),
		).
		WithOptions(queue)
	if opts.Native {
		b = b.Watches(
			&schedulingv1beta1.PodGroup{},
			handler.EnqueueRequestsFromMapFunc(r.ofNativeGroup),
			builder.WithPredicates(respecified()),
		)
	}
	if opts.Composites {
		b = b.Watches(
			&schedulingv1alpha3.CompositePodGroup{},
			handler.EnqueueRequestsFromMapFunc(r.ofComposite),
			builder.WithPredicates(respecified()),
		)
	}
	return b.Complete(r)
}

func ofPod(_ context.Context, o client.Object) []reconcile.Request {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: admission.PodWorkloadName(p)}},
	}
}

// ofWorkload leads from a Workload of pods to its unit.
func ofWorkload(_ context.Context, o client.Object) []reconcile.Request {
	if w, ok := o.(*kueue.Workload); !ok || !ofPods(w) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// ofPods reports whether a Workload was made here.
func ofPods(w *kueue.Workload) bool {
	owner := metav1.GetControllerOf(w)
	return convert.OfGroup(w) ||
		owner != nil && owner.Kind == podmeta.GVK().Kind &&
			owner.APIVersion == podmeta.GVK().GroupVersion().String()
}

// ofClass leads from a new WorkloadPriorityClass to the pods that may wait for it.
func (r *reconciler) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.Client.List(
		ctx,
		&pods,
		client.MatchingLabels{kueue.PriorityClassLabel: o.GetName(), kueue.ManagedLabel: "true"},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		out = append(out, ofPod(ctx, &pods.Items[i])...)
	}
	return out
}

// Reconcile does the next step for one unit.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(s.unit.Pods) == 0 {
		r.told.Delete(req.NamespacedName)
		r.reported.Delete(req.NamespacedName)
		r.toldKAI.Delete(req.NamespacedName)
		r.ready.Forget(req.NamespacedName)
	}
	next := decide(s)
	if sure, err := r.sure(ctx, req.NamespacedName, s, next); err != nil || !sure {
		return reconcile.Result{RequeueAfter: conflictPause}, err
	}
	err = r.do(ctx, req.NamespacedName, s, next)
	switch {
	case err == nil:
	case next.create && apierrors.IsForbidden(err):
		r.event(
			s,
			podEvent{
				reason:  kueue.EventWorkloadRefused,
				warning: true,
				message: "The pods cannot be queued, because their Workload may not be created: " + err.Error(),
			},
		)
		return reconcile.Result{RequeueAfter: refusedPause}, nil
	case workloadstatus.Overtaken(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	default:
		return reconcile.Result{}, fmt.Errorf("pods of workload %s: %w", req.NamespacedName, err)
	}
	if next.tell != nil {
		r.tell(req.NamespacedName, s, next)
	}
	if s.unwatched && next.again == 0 {
		next.again = makerPause
	}
	err = r.report(ctx, req.NamespacedName, &s)
	if apierrors.IsConflict(err) {
		next.again, err = conflictPause, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.tellKAI(ctx, req.NamespacedName, &s)
	if again > 0 && (next.again == 0 || again < next.again) {
		next.again = again
	}
	return reconcile.Result{RequeueAfter: next.again}, err
}

// sure asks the API server before pods are deleted because they have no Workload, or
// a Workload because it has no pods: Pods and Workloads are watched apart, and what
// is seen of one may be older than what is seen of the other.
func (r *reconciler) sure(ctx context.Context, unit types.NamespacedName, s facts, next step) (bool, error) {
	switch {
	case len(next.stop) > 0 && s.workload == nil:
		err := r.Live.Get(ctx, unit, &kueue.Workload{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	case next.remove == nil || len(s.unit.Pods) > 0:
	case convert.OfGroup(next.remove):
		var pods corev1.PodList
		err := r.Live.List(ctx, &pods, client.InNamespace(unit.Namespace), client.Limit(1),
			client.MatchingLabels{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: unit.Name})
		return len(pods.Items) == 0, err
	default:
		owner := metav1.GetControllerOf(next.remove)
		var p corev1.Pod
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: unit.Namespace, Name: owner.Name}, &p)
		return err != nil || p.UID != owner.UID, client.IgnoreNotFound(err)
	}
	return true, nil
}

// tell records an event once the step is done. Those about what a unit waits for are
// told when they change.
func (r *reconciler) tell(unit types.NamespacedName, s facts, next step) {
	e := *next.tell
	if e.reason == eventIncomplete || e.reason == eventMismatch {
		if last, ok := r.told.Swap(unit, e); ok && last == e {
			return
		}
	}
	r.event(s, e)
}

func (r *reconciler) event(s facts, e podEvent) {
	p := s.unit.First()
	if p == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if e.warning {
		kind = corev1.EventTypeWarning
	}
	action := e.reason
	if e.reason == eventMismatch { // one action is told in its first words for minutes, and what is mended may leave more to mend
		action += "-" + jobs.Sum(e.message)
	}
	r.Recorder.Eventf(p, nil, kind, e.reason, action, "%s", e.message)
}

func (r *reconciler) do(ctx context.Context, unit types.NamespacedName, s facts, next step) error {
	w := s.workload
	switch {
	case len(next.release) > 0:
		return each(next.release, func(p *corev1.Pod) error { return client.IgnoreNotFound(r.release(ctx, p)) })
	case len(next.stop) > 0:
		return each(next.stop, func(p *corev1.Pod) error { return client.IgnoreNotFound(r.stop(ctx, p, next)) })
	case len(next.start) > 0:
		return each(next.start, func(p *corev1.Pod) error { return r.write(ctx, s.podOf(p), p) })
	case len(next.detach) > 0:
		return each(next.detach, func(p *corev1.Pod) error { return r.write(ctx, s.podOf(p), p) })
	case next.create:
		return r.create(ctx, unit, s)
	case next.remove != nil && next.remove.DeletionTimestamp == nil:
		return r.Client.Delete(
			ctx,
			next.remove,
			client.Preconditions{UID: &next.remove.UID, ResourceVersion: &next.remove.ResourceVersion},
		)
	case next.remove != nil:
		return apply.Unpin(ctx, r.Client, next.remove)
	case next.spec != nil:
		return r.respec(ctx, w, next)
	case next.status != nil:
		before := w.DeepCopy()
		if err := workloadstatus.Write(ctx, r.Client, w, *next.status); err != nil {
			return err
		}
		if !convert.Finished(before) && convert.Finished(w) {
			r.Ended(w)
		}
		if next.evicted != nil {
			r.Recorder.Eventf(
				before,
				nil,
				corev1.EventTypeNormal,
				next.evicted.Reason,
				next.evicted.Reason,
				"%s",
				next.evicted.Message,
			)
			r.Told(before, *next.evicted)
		}
	}
	return nil
}

// podOf is a pod as it was before it was started, or detached.
func (s *facts) podOf(p *corev1.Pod) *corev1.Pod {
	at := slices.IndexFunc(s.unit.Pods, func(o *corev1.Pod) bool { return o.UID == p.UID && o.Name == p.Name })
	return s.unit.Pods[at]
}

// each does the same to several pods, some at a time.
func each(pods []*corev1.Pod, do func(*corev1.Pod) error) error {
	return admission.InParallel(len(pods), func(i int) error { return do(pods[i]) })
}

func (r *reconciler) write(ctx context.Context, was, is *corev1.Pod) error {
	return r.Client.Patch(ctx, is, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
}

func (r *reconciler) release(ctx context.Context, p *corev1.Pod) error {
	out := p.DeepCopy()
	controllerutil.RemoveFinalizer(out, kueue.PodFinalizer)
	return r.write(ctx, p, out)
}

// stop says why a pod has to go, and deletes it.
func (r *reconciler) stop(ctx context.Context, p *corev1.Pod, next step) error {
	if !pod.Stopped(p) {
		out := p.DeepCopy()
		out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{
			Type:               pod.TerminationTarget,
			Status:             corev1.ConditionTrue,
			Reason:             "StoppedByKueue",
			Message:            next.message,
			LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		})
		if err := r.Client.Status().Patch(ctx, out, client.StrategicMergeFrom(p)); err != nil {
			return err
		}
	}
	if err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); err != nil {
		return err
	}
	r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, next.reason, next.reason, "%s", next.message)
	return nil
}

func (r *reconciler) create(ctx context.Context, unit types.NamespacedName, s facts) error {
	first := s.unit.First()
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: unit.Namespace, Name: unit.Name, Finalizers: admission.Finalizers(),
			Labels: map[string]string{}, Annotations: admission.Submitted(first),
		},
		Spec: kueue.WorkloadSpec{
			PodSets:                     s.unit.PodSets(),
			QueueName:                   kueue.LocalQueueName(podmeta.Queue(first)),
			Active:                      new(true),
			Priority:                    s.priority.Value,
			PriorityClassRef:            s.priority.Class,
			MaximumExecutionTimeSeconds: admission.ExecutionTime(first),
		},
	}
	for _, key := range r.LabelKeysToCopy {
		if v, ok := first.Labels[key]; ok {
			w.Labels[key] = v
		}
	}
	for key, value := range map[string]string{
		kueue.AwaitedPriorityClassAnnotation: s.priority.Awaited,
		kueue.AdmissionGatedByAnnotation:     first.Annotations[kueue.AdmissionGatedByAnnotation],
		kueue.LaterPodSetsAnnotation:         s.later(),
		kueue.StopNoticeAnnotation:           s.notice(),
		history.UserAnnotation:               jobs.User(nil, first),
	} {
		if value != "" {
			w.Annotations[key] = value
		}
	}
	if !s.unit.Serving {
		w.Annotations[kueue.EndsOnceAnnotation] = "true"
	}
	if s.unit.Alone() {
		w.Labels[kueue.JobUIDLabel] = string(first.UID)
		if err := controllerutil.SetControllerReference(first, w, r.Client.Scheme()); err != nil {
			return fmt.Errorf("own workload %s: %w", w.Name, err)
		}
	} else {
		w.Annotations[kueue.IsGroupWorkloadAnnotation] = "true"
	}
	if m := s.maker; m != nil {
		w.Labels[kueue.JobUIDLabel] = string(m.uid)
		w.Annotations[kueue.JobOwnerGVKAnnotation], w.Annotations[kueue.JobOwnerNameAnnotation] = m.gvk.String(), m.name
	}
	if err := r.Client.Create(ctx, w); err != nil {
		return err
	}
	if w.Spec.QueueName == "" {
		r.event(
			s,
			podEvent{
				reason:  "Held",
				warning: true,
				message: "Held, because this namespace runs queued jobs only: set the label " + kueue.QueueNameLabel + " to the name of a LocalQueue",
			},
		)
	}
	return nil
}

func (r *reconciler) respec(ctx context.Context, old *kueue.Workload, next step) error {
	w := old.DeepCopy()
	w.Spec = *next.spec
	for key, value := range next.notes {
		if value == "" {
			delete(w.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, key, value)
	}
	return r.Client.Patch(ctx, w, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
}
