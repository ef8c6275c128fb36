// Package job joins jobs of every kind with their Workloads. For one job it
// gathers the facts, lets decide choose the one write that comes next, and does
// it; the write comes back as a watch event and the next step follows. Nothing
// is kept in memory, so that a restart at any point goes on where it was.
package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
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
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
)

// Options are what the reconcilers work with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Managed reports whether objects of a kind are jobs of their own, so that
	// what they control is not.
	Managed func(apiVersion, kind string) bool
	// Wholes are the kinds that say themselves what their parts are; the parts of
	// others are believed.
	Wholes map[schema.GroupVersionKind]jobs.Whole
	// Ended is told of every Workload whose end was written.
	Ended func(*kueue.Workload)
	// Lifecycle are the settings of what follows a reservation.
	Lifecycle workloadlifecycle.Config
	// Told is called for every eviction of a Workload, once, after it was written;
	// w is as it was before.
	Told func(w *kueue.Workload, e workloadlifecycle.Event)
	// Scope says which jobs are managed.
	Scope jobs.Scope
	// Live reads from the API server what is not watched.
	Live client.Reader
	// SakkaraMaps are shared by all who read ConfigMaps of groups of Sakkara's; nil shares none.
	SakkaraMaps *admission.SakkaraMaps
	// LabelKeysToCopy are the labels of a job that its Workload gets too.
	LabelKeysToCopy []string
	// Labels say what pods tell of their admission.
	Labels admission.Labels
	// NoReclaimablePods keeps the quota of pods that are done until the job ends.
	NoReclaimablePods bool
	// Crowd says when it yields that a job which stopped is written as its author wrote it.
	Crowd *crowd.Crowd
	// Kinds are all that there are, of which some are parts of others.
	Kinds jobs.Kinds
}

// conflictPause is how long to wait for the cache to show what was written.
const conflictPause = 20 * time.Millisecond

// recordPause is how long to wait for a job to say which parts are its own.
const recordPause = 200 * time.Millisecond

type reconciler struct {
	opts    Options
	kind    *jobs.Kind
	adapter jobs.Adapter // that of the kind, which also takes out what an admission wrote into objects
	// waiting are the jobs whose Workloads were refused.
	waiting waitList
	// trials are what came of trying whether pods of jobs may be made.
	trials memo.Table[trial]
	// passed are the pods that might have been made a moment ago, by likeness.
	passed *cache.LRUExpireCache
	// made are the Workloads that were made, until the cache shows them.
	made memo.Table[made]
	// reported is what ConfigMaps of groups of Sakkara's were told of jobs.
	reported memo.Table[string]
	// ready is since when the pods of jobs are all ready.
	ready memo.Since
}

// SetupWithManager starts a reconciler for a kind. The cache must have admission.PodIndex,
// admission.JobIndex, foreign.Index and, for the kind, PrebuiltIndex. How many jobs are handled at
// the same time is the manager's GroupKindConcurrency.
func SetupWithManager(mgr ctrl.Manager, kind *jobs.Kind, opts Options) error {
	r := &reconciler{opts: opts, kind: kind, adapter: restoring(kind), passed: newPassed(opts.Clock)}
	gvk := kind.GVK()
	return ctrl.NewControllerManagedBy(mgr).
		Named("job-"+gvk.Kind).
		For(kind.New()).
		Owns(&kueue.Workload{}).
		Watches(&kueue.Workload{}, r.jobOfPrebuilt()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.jobOfPod), admission.PodsEnding()).
		Watches(&kueue.WorkloadPriorityClass{}, handler.EnqueueRequestsFromMapFunc(r.jobsOfClass), appears()).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.jobsIn), changesHands()).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.roomFor), givesRoom()).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// Reconcile does the next step for one job.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, ours, err := r.gather(ctx, req.NamespacedName)
	if errors.Is(err, errNotRecorded) {
		return reconcile.Result{RequeueAfter: recordPause}, nil
	}
	if err != nil || !ours {
		r.waiting.forget(req.NamespacedName)
		r.trials.Forget(req.NamespacedName)
		r.made.Forget(req.NamespacedName)
		r.reported.Forget(req.NamespacedName)
		r.ready.Forget(req.NamespacedName)
		return reconcile.Result{}, err
	}
	if s.workload != nil {
		r.made.Forget(req.NamespacedName)
	}
	next, err := decide(s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if next.releases || next.shrinks {
		if newest, err := r.newest(ctx, s.job); err != nil || !newest {
			return reconcile.Result{RequeueAfter: conflictPause}, err
		}
	}
	if next.shrinks {
		if same, err := r.samePods(ctx, &s); err != nil || !same {
			return reconcile.Result{RequeueAfter: conflictPause}, err
		}
	}
	if next.create && r.awaited(&s) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	err = r.do(ctx, s, next)
	if next.create && apierrors.IsForbidden(err) {
		return r.refused(s, err), nil
	}
	r.waiting.forget(req.NamespacedName)
	if workloadstatus.Overtaken(err) || apierrors.IsAlreadyExists(err) {
		// Another write was faster; the cache will show it, and waiting for it is
		// all there is to do.
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%s %s: %w", r.adapter.GVK().Kind, req.NamespacedName, err)
	}
	err = r.report(ctx, &s)
	if apierrors.IsConflict(err) {
		next.again, err = conflictPause, nil
	}
	return reconcile.Result{RequeueAfter: next.again}, err
}

// made is that a job's Workload was made: of which job, and when.
type made struct {
	uid types.UID
	at  time.Time
}

// longestWait is for how long a Workload that was made is awaited: it may have been deleted before the
// cache showed it.
const longestWait = 10 * time.Second

// awaited reports whether the job's Workload was made and the cache does not show it yet. Its name is
// taken, so that making it again would do no harm: it costs the API server a write.
func (r *reconciler) awaited(s *facts) bool {
	m := r.made.Get(client.ObjectKeyFromObject(s.job))
	return m.uid == s.job.GetUID() && s.now.Sub(m.at) < longestWait
}

// yields is for how long the job of a Workload yields still to others that stop, 0 if it has not stopped.
func (r *reconciler) yields(w *kueue.Workload) time.Duration {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadRequeued)
	if w.Status.Admission != nil || c == nil {
		return 0
	}
	return r.opts.Crowd.Yields(c.LastTransitionTime.Time)
}

// newest reports whether a job is as the API server has it. Jobs and Workloads are
// watched apart: a job that was started a moment ago may look as if it never was,
// and its quota would be given back while it makes pods.
func (r *reconciler) newest(ctx context.Context, o jobs.Object) (bool, error) {
	is := r.adapter.New()
	err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(o), is)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf(
			"read %s %s/%s before its quota is given back: %w",
			r.adapter.GVK().Kind,
			o.GetNamespace(),
			o.GetName(),
			err,
		)
	}
	return is.GetUID() == o.GetUID() && is.GetResourceVersion() == o.GetResourceVersion(), nil
}

// samePods reports whether as many pods of a Workload hold quota as the cache says: pods that a
// job made before it was made smaller may not be seen yet.
func (r *reconciler) samePods(ctx context.Context, s *facts) (bool, error) {
	is, err := admission.PodsNow(ctx, r.opts.Live, s.workload.Namespace, s.workload.Name)
	if err != nil {
		return false, err
	}
	was := maps.Clone(s.pods.Of)
	delete(was, "") // pods that do not say of which pod set they are
	delete(is.Of, "")
	return maps.Equal(is.Of, was), nil
}

func (r *reconciler) do(ctx context.Context, s facts, next step) error {
	var err error
	switch {
	case next.job != nil:
		// Only what changes is told. The whole object would be written as this program spells it
		// (cpu: "1" for 1, without zeros), and its author would meet that when applying it again.
		err = r.opts.Client.Patch(
			ctx,
			next.job,
			client.MergeFromWithOptions(s.job, client.MergeFromWithOptimisticLock{}),
		)
	case next.create:
		err = r.create(ctx, s)
	case next.adopt:
		err = r.adopt(ctx, s)
	case next.remove != nil:
		err = r.remove(ctx, next.remove)
	case next.domain != nil:
		err = r.makeDomain(ctx, next.domain)
	case next.removeDomain != nil:
		err = r.removeDomain(ctx, next.removeDomain)
	case next.unpin:
		err = apply.Unpin(ctx, r.opts.Client, s.workload)
	case next.spec != nil:
		err = r.respec(ctx, s.workload, next)
	case next.status != nil:
		before := s.workload.DeepCopy()
		if err = workloadstatus.Write(ctx, r.opts.Client, s.workload, *next.status); err != nil {
			break
		}
		if !convert.Finished(before) && convert.Finished(s.workload) {
			r.opts.Ended(s.workload)
		}
		if next.evicted != nil {
			r.event(before, jobEvent{reason: next.evicted.Reason, message: next.evicted.Message})
			r.opts.Told(before, *next.evicted)
		}
	}
	if err == nil && next.tell != nil {
		r.event(s.job, *next.tell)
	}
	return err
}

func (r *reconciler) create(ctx context.Context, s facts) error {
	gvk := r.adapter.GVK()
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.job.GetNamespace(),
			Name:        admission.WorkloadName(gvk, s.job),
			Labels:      r.labels(s.job),
			Annotations: r.annotations(s),
			Finalizers:  admission.Finalizers(),
		},
		Spec: kueue.WorkloadSpec{
			PodSets:          s.facts.PodSets,
			QueueName:        kueue.LocalQueueName(s.queue),
			Priority:         s.priority.Value,
			PriorityClassRef: s.priority.Class,
			Active:           new(true),

			MaximumExecutionTimeSeconds: admission.ExecutionTime(s.job),
		},
	}
	if err := controllerutil.SetControllerReference(s.job, w, r.opts.Client.Scheme()); err != nil {
		return fmt.Errorf("own workload %s: %w", w.Name, err)
	}
	if err := r.opts.Client.Create(ctx, w); err != nil {
		return err
	}
	r.made.Set(client.ObjectKeyFromObject(s.job), made{s.job.GetUID(), s.now})
	if by := w.Annotations[kueue.AdmissionGatedByAnnotation]; by != "" {
		r.event(w, jobEvent{reason: "AdmissionGated", message: "Admission is gated by: " + by})
	}
	return nil
}

// respec changes the spec of a Workload, and with it the annotations that keep
// it from being queued: it must not be for a moment between the two.
func (r *reconciler) respec(ctx context.Context, old *kueue.Workload, next step) error {
	w := old.DeepCopy()
	w.Spec = *next.spec
	for key, value := range next.notes {
		note(w, key, value)
	}
	if err := r.patch(ctx, old, w); err != nil {
		return err
	}
	if old.Annotations[kueue.AdmissionGatedByAnnotation] != "" &&
		w.Annotations[kueue.AdmissionGatedByAnnotation] == "" {
		r.event(w, jobEvent{reason: "AdmissionGateCleared", message: "Admission is no longer gated"})
	}
	return nil
}

// note writes an annotation of a Workload, or removes it if the value is "".
func note(o metav1.Object, key, value string) {
	all := maps.Clone(o.GetAnnotations())
	delete(all, key)
	if value != "" {
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	o.SetAnnotations(all)
}

// labels are those of a job's new Workload.
func (r *reconciler) labels(job metav1.Object) map[string]string {
	out := map[string]string{}
	for _, key := range r.opts.LabelKeysToCopy {
		if v, ok := job.GetLabels()[key]; ok {
			out[key] = v
		}
	}
	out[kueue.JobUIDLabel] = string(job.GetUID())
	return out
}

// endsOnce is what a Workload notes of a job of which no pod follows one that
// succeeded.
func endsOnce(f jobs.Facts) string {
	if f.EndsOnce {
		return "true"
	}
	return ""
}

// later is what a Workload notes of pods that come after others.
func later(f jobs.Facts) string { return strings.Join(f.Later, ",") }

// annotations are those of a job's new Workload.
func (r *reconciler) annotations(s facts) map[string]string {
	job := s.job
	out := admission.Submitted(job)
	if user := jobs.User(r.kind, job); user != "" {
		out[history.UserAnnotation] = user
	}
	if s.priority.Awaited != "" {
		out[kueue.AwaitedPriorityClassAnnotation] = s.priority.Awaited
	}
	for k, v := range job.GetAnnotations() {
		if strings.HasPrefix(k, kueue.ProvisioningParameterPrefix) {
			out[k] = v
		}
	}
	if by := job.GetAnnotations()[kueue.AdmissionGatedByAnnotation]; by != "" {
		out[kueue.AdmissionGatedByAnnotation] = by
	}
	if after := job.GetAnnotations()[kueue.AfterAnnotation]; after != "" {
		out[kueue.AfterAnnotation] = after
	}
	if notice := s.notice(); notice != "" {
		out[kueue.StopNoticeAnnotation] = notice
	}
	if s.facts.EndsOnce {
		out[kueue.EndsOnceAnnotation] = "true"
	}
	if s.refusal != "" {
		out[kueue.PodsRefusedAnnotation] = s.refusal
	}
	if sets := later(s.facts); sets != "" {
		out[kueue.LaterPodSetsAnnotation] = sets
	}
	if s.sakkara.name != "" {
		out[kueue.SakkaraGroupAnnotation] = s.sakkara.name
	}
	if note := s.sakkara.placedNote(); note != "" {
		out[kueue.SakkaraPlacedAnnotation] = note
	}
	if s.sakkara.awaits != "" {
		out[kueue.GroupAwaitedAnnotation] = s.sakkara.awaits
	}
	if sets := domainNote(&s); sets != "" {
		out[kueue.ComputeDomainPodSetsAnnotation] = sets
	}
	return out
}

func (r *reconciler) event(o runtime.Object, e jobEvent) {
	kind := corev1.EventTypeNormal
	if e.warning {
		kind = corev1.EventTypeWarning
	}
	r.opts.Recorder.Eventf(o, nil, kind, e.reason, e.reason, "%s", e.message)
}

// jobOfPod leads from a pod to the job whose Workload it belongs to.
func (r *reconciler) jobOfPod(ctx context.Context, o client.Object) []reconcile.Request {
	name := o.GetAnnotations()[kueue.WorkloadAnnotation]
	if name == "" {
		return nil
	}
	var w kueue.Workload
	if err := r.opts.Client.Get(
		ctx,
		types.NamespacedName{Namespace: o.GetNamespace(), Name: name},
		&w,
	); err != nil {
		return nil
	}
	owner := metav1.GetControllerOf(&w)
	if owner == nil || owner.Kind != r.adapter.GVK().Kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}}}
}

// jobsOfClass leads from a WorkloadPriorityClass to the jobs that name it, which
// may have waited for it.
func (r *reconciler) jobsOfClass(ctx context.Context, o client.Object) []reconcile.Request {
	return r.jobsWith(ctx, client.MatchingLabels{kueue.PriorityClassLabel: o.GetName()})
}

// jobsIn leads from a namespace to its jobs.
func (r *reconciler) jobsIn(ctx context.Context, o client.Object) []reconcile.Request {
	return r.jobsWith(ctx, client.InNamespace(o.GetName()))
}

// changesHands lets through namespaces whose labels say other than before which jobs of theirs
// wait for admission.
func changesHands() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
		},
	})
}

// appears lets through what is new.
func appears() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}
