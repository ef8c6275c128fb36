package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

const (
	// collectFailed is the same for jobs that failed: it lets the status of their pods arrive, and
	// is over before people delete them.
	collectFailed = 100 * time.Millisecond
	// collect is how long jobs that end are collected before they are recorded together.
	collect = time.Second
	// pruneEvery is how often pages are looked for that are too old.
	pruneEvery = 10 * time.Minute
)

// Options are what the reconciler works with.
type Options struct {
	Client client.Client
	// Live reads from the API server: what is looked for here may be newer than what watches
	// brought, and pages would fill a cache.
	Live      client.Reader
	Clock     clock.PassiveClock
	Kinds     jobs.Kinds
	Retention Retention
	// Recorded is called with the record of each job that ended, once nothing is left to do with it.
	Recorded func(*api.JobRecord)
}

type reconciler struct{ Options }

// Index finds the Workloads of a namespace that there is something to do with.
const Index = "mlbatch.dev/history"

// What is to be done with a Workload.
const (
	nothing = ""
	// toRecord: it ended, or is being deleted, and that is not recorded yet.
	toRecord = "record"
	// toKeep: it has no finalizer yet, as one that somebody else made, or an older controller.
	toKeep = "keep"
)

// IndexWorkload is what Workloads are found by.
func IndexWorkload(o client.Object) []string {
	if w, is := o.(*kueue.Workload); is && pending(w) != nothing {
		return []string{pending(w)}
	}
	return nil
}

// pending is what is to be done with a Workload.
func pending(w *kueue.Workload) string {
	ends := w.DeletionTimestamp != nil || convert.Finished(w)
	switch kept := controllerutil.ContainsFinalizer(w, api.Finalizer); {
	case ends && kept:
		return toRecord
	case !ends && !kept:
		return toKeep
	}
	return nothing
}

// SetupWithManager starts the reconciler, a request for each namespace. The cache must have Index
// and admission.PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("add the pruning of histories: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("history").
		Watches(&kueue.Workload{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				enqueue(e.Object, q)
			},
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				enqueue(e.ObjectNew, q)
			},
		}).
		Complete(r)
}

func enqueue(o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	w, is := o.(*kueue.Workload)
	if !is || pending(w) == nothing {
		return
	}
	in := reconcile.Request{NamespacedName: types.NamespacedName{Name: w.Namespace}}
	if w.DeletionTimestamp != nil { // somebody waits for it to be gone, and its quota
		q.Add(in)
		return
	}
	if finished := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadFinished,
	); finished != nil &&
		finished.Reason != kueue.ReasonSucceeded {
		q.AddAfter(in, collectFailed)
		return
	}
	q.AddAfter(in, collect)
}

// Reconcile records the jobs of a namespace that ended, a page at a time.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace := req.Name
	if err := r.keep(ctx, namespace); err != nil {
		return reconcile.Result{}, err
	}
	// 1. Gather.
	list, err := r.workloads(ctx, namespace, toRecord)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(list.Items) == 0 {
		return reconcile.Result{}, nil
	}
	all, err := r.ended(ctx, list.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	// 2. Write one page.
	left, err := r.write(ctx, namespace, all)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: collect}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("record what ended in %s: %w", namespace, err)
	}
	// 3. Let go of what is in it, or needs no record.
	var errs []error
	for i := range list.Items {
		w := &list.Items[i]
		if left[w.UID] {
			continue
		}
		err := r.pin(ctx, w, controllerutil.RemoveFinalizer)
		errs = append(errs, err)
		if k := slices.IndexFunc(all, func(o api.JobRecord) bool { return o.UID == w.UID }); k >= 0 && err == nil {
			r.Recorded(&all[k])
		}
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	if len(left) > 0 {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// workloads are those of a namespace that something is to be done with.
func (r *reconciler) workloads(ctx context.Context, namespace, what string) (*kueue.WorkloadList, error) {
	list := &kueue.WorkloadList{}
	if err := r.Client.List(
		ctx,
		list,
		client.InNamespace(namespace),
		client.MatchingFields{Index: what},
	); err != nil {
		return nil, fmt.Errorf("list workloads of %s: %w", namespace, err)
	}
	return list, nil
}

// keep puts the finalizer on Workloads that came without it.
func (r *reconciler) keep(ctx context.Context, namespace string) error {
	if r.Retention.AfterEnded <= 0 {
		return nil
	}
	list, err := r.workloads(ctx, namespace, toKeep)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, r.pin(ctx, &list.Items[i], controllerutil.AddFinalizer))
	}
	return errors.Join(errs...)
}

// ended are those of Workloads whose jobs ended: a Workload may also go because it is made anew.
func (r *reconciler) ended(ctx context.Context, list []kueue.Workload) ([]api.JobRecord, error) {
	if r.Retention.AfterEnded <= 0 {
		return nil, nil
	}
	var out []api.JobRecord
	for i := range list {
		w := &list[i]
		goesOn, err := r.goesOn(ctx, w)
		if err != nil {
			return nil, err
		}
		if goesOn {
			continue
		}
		e := ended{workload: w, trouble: r.trouble(ctx)}
		r.told(ctx, &e)
		if e.pods, err = admission.ListPods(ctx, r.Client, w.Namespace, w.Name); err != nil {
			return nil, err
		}
		out = append(out, e.record())
	}
	return out, nil
}

// goesOn reports whether the job of a Workload that is being deleted is still there to stay.
func (r *reconciler) goesOn(ctx context.Context, w *kueue.Workload) (bool, error) {
	if convert.Finished(w) {
		return false, nil
	}
	if convert.OfGroup(w) {
		var pods corev1.PodList
		if err := r.Live.List(
			ctx,
			&pods,
			client.InNamespace(w.Namespace),
			client.MatchingLabels{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: w.Name},
		); err != nil {
			return false, fmt.Errorf("list pods of group %s/%s: %w", w.Namespace, w.Name, err)
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				return true, nil
			}
		}
		return false, nil
	}
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return false, nil
	}
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s/%s: %w", owner.Kind, w.Namespace, owner.Name, err)
	}
	return o.UID == owner.UID && o.DeletionTimestamp == nil, nil
}

// told adds what the job of a Workload says, as far as it is still there to say: how often its pods were
// made anew, and which attempts ended with that.
func (r *reconciler) told(ctx context.Context, e *ended) {
	w := e.workload
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return
	}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		if k.GVK().Kind != owner.Kind || k.GVK().GroupVersion().String() != owner.APIVersion {
			continue
		}
		o := k.New()
		if err := r.Client.Get(
			ctx,
			types.NamespacedName{Namespace: w.Namespace, Name: owner.Name},
			o,
		); err != nil ||
			o.GetUID() != owner.UID {
			return
		}
		memory := r.remembered(ctx, k, o)
		e.job, e.restarts, e.within = o, k.Restarts(o, memory), attemptsWithin(o, memory)
		return
	}
}

// attemptsWithin are the attempts of a job that cost it no quota.
func attemptsWithin(job jobs.Object, memory *recovery.Recovery) api.Attempts {
	if memory != nil {
		return memory.Attempts
	}
	if aw, is := job.(*appwrapper.AppWrapper); is {
		return view.RestartedAttempts(aw)
	}
	return api.Attempts{}
}

// trouble tells what is wrong with the node of a pod, as far as that is seen.
func (r *reconciler) trouble(ctx context.Context) func(*corev1.Pod) core.NodeTrouble {
	return func(pod *corev1.Pod) core.NodeTrouble {
		out, _ := view.TroubleAt(pod.Spec.NodeName, func(name string) (*corev1.Node, error) {
			var node corev1.Node
			err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &node, client.UnsafeDisableDeepCopy)
			return &node, err
		}, func(node *corev1.Node) bool { return jobs.MustLeave(pod, node, jobs.AvoidBadGPUs()) != "" })
		return out
	}
}

// remembered is what is remembered of a job whose pods are made here; nil if nothing is.
func (r *reconciler) remembered(ctx context.Context, k *jobs.Kind, o jobs.Object) *recovery.Recovery {
	var stored recovery.JobRecovery
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: string(o.GetUID())}
	if k.Running.Operated == nil || r.Live.Get(ctx, name, &stored) != nil {
		return nil
	}
	return stored.Of(o)
}

// write puts records into one page, and says which of them it had no room for, by the UIDs of
// their Workloads. In a namespace that is going there is nothing to keep.
func (r *reconciler) write(
	ctx context.Context,
	namespace string,
	records []api.JobRecord,
) (map[types.UID]bool, error) {
	if len(records) == 0 {
		return nil, nil
	}
	pages, err := r.pages(ctx, namespace)
	if err != nil {
		return nil, err
	}
	newest, err := r.page(ctx, pages, 1)
	if err != nil {
		return nil, err
	}
	before, err := r.page(ctx, pages, 2)
	if err != nil {
		return nil, err
	}
	oldest := r.Clock.Now().Add(-r.Retention.AfterEnded)
	page, rest := fill(
		namespace,
		newest,
		before,
		records,
		func(k *api.JobRecord) bool { return k.Ended.After(oldest) },
	)
	switch {
	case page == nil:
		return nil, nil
	case page.ResourceVersion != "":
		err = r.Client.Update(ctx, page)
	default:
		err = r.Client.Create(ctx, page)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil, nil
		}
		if err == nil {
			err = r.prune(ctx, pages)
		}
	}
	if err != nil {
		return nil, err
	}
	left := map[types.UID]bool{}
	for i := range rest {
		left[rest[i].UID] = true
	}
	return left, nil
}

// page reads the n-th page from the end, nil if there are not so many.
func (r *reconciler) page(
	ctx context.Context,
	pages []metav1.PartialObjectMetadata,
	n int,
) (*api.JobHistory, error) {
	if len(pages) < n {
		return nil, nil
	}
	out, is := &api.JobHistory{}, &pages[len(pages)-n]
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: is.Namespace, Name: is.Name}, out); err != nil {
		return nil, fmt.Errorf("read JobHistory %s/%s: %w", is.Namespace, is.Name, err)
	}
	return out, nil
}

// pages are those of a namespace, or of all if it is "", as far as metadata tells of them.
func (r *reconciler) pages(ctx context.Context, namespace string) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(api.GroupVersion.WithKind("JobHistoryList"))
	if err := r.Live.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list JobHistories: %w", err)
	}
	return sortPages(list.Items), nil
}

// prune deletes pages of a namespace that are not kept.
func (r *reconciler) prune(ctx context.Context, pages []metav1.PartialObjectMetadata) error {
	var errs []error
	for _, p := range r.Retention.outdated(pages, r.Clock.Now()) {
		o := &api.JobHistory{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		err := r.Client.Delete(ctx, o, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete JobHistory %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// pin puts the finalizer on a Workload, or takes it away.
func (r *reconciler) pin(
	ctx context.Context,
	w *kueue.Workload,
	change func(client.Object, string) bool,
) error {
	next := w.DeepCopy()
	change(next, api.Finalizer)
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) == nil || apierrors.IsConflict(err) {
		return nil // the newer one is on its way here
	}
	return fmt.Errorf("write the finalizer of workload %s/%s: %w", w.Namespace, w.Name, err)
}

// Start deletes pages that are too old, from time to time, until ctx ends.
func (r *reconciler) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.pruneAll(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Histories that are too old stay for now")
		}
	}, pruneEvery)
	return nil
}

func (r *reconciler) pruneAll(ctx context.Context) error {
	all, err := r.pages(ctx, "")
	if err != nil {
		return err
	}
	byNamespace := map[string][]metav1.PartialObjectMetadata{}
	for i := range all {
		byNamespace[all[i].Namespace] = append(byNamespace[all[i].Namespace], all[i])
	}
	var errs []error
	for _, pages := range byNamespace { // each by itself
		errs = append(errs, r.prune(ctx, pages))
	}
	return errors.Join(append(errs, r.pruneEvidence(ctx))...)
}
