// Package dependency finds out whether the jobs have ended that others come after
// (kueue.AfterAnnotation), and writes it into the Workloads of the jobs that wait: that all have
// ended as they must, once and for all, or which have not and why. Nothing is kept in memory.
package dependency

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Options are what the reconciler works with.
type Options struct {
	Client client.Client
	// Live reads from the API server the pages of the history, which are in no cache, and jobs
	// that should be gone.
	Live     client.Reader
	Recorder events.EventRecorder
	Kinds    jobs.Kinds
}

type reconciler struct{ Options }

// Names of cache indexes of Workloads: by the name of their job, and, of waiting ones, by the
// names of the jobs that they come after.
const (
	JobIndex   = "mlbatch.dev/job-name"
	AfterIndex = "mlbatch.dev/after"
)

// slip is how long before a job was submitted one that it comes after may have ended, and been
// deleted at once: whoever submitted it had seen that it runs.
const slip = 10 * time.Second

// jobOf is the name of the job of a Workload: of what controls it, or of its group of pods.
func jobOf(w *kueue.Workload) string {
	if owner := metav1.GetControllerOf(w); owner != nil {
		return owner.Name
	}
	return w.Name
}

// IndexJob is for JobIndex.
func IndexJob(o client.Object) []string {
	if w, is := o.(*kueue.Workload); is {
		return []string{jobOf(w)}
	}
	return nil
}

// IndexAfter is for AfterIndex.
func IndexAfter(o client.Object) []string {
	w, is := o.(*kueue.Workload)
	if !is || !waits(w) {
		return nil
	}
	all, _ := jobs.ParseDependencies(w.Annotations[kueue.AfterAnnotation], "")
	var out []string
	for _, d := range all {
		if !slices.Contains(out, d.Job) {
			out = append(out, d.Job)
		}
	}
	return out
}

// waits reports whether a Workload comes after others and still waits for them.
func waits(w *kueue.Workload) bool {
	return convert.Awaited(w) != "" && w.DeletionTimestamp == nil && !convert.Finished(w)
}

// SetupWithManager starts the reconciler. The cache must have both indexes.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	waiting := predicate.NewPredicateFuncs(func(o client.Object) bool {
		w, is := o.(*kueue.Workload)
		return is && waits(w)
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("dependency").
		For(&kueue.Workload{}, builder.WithPredicates(waiting)).
		Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(r.after)).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// after leads from a Workload, also one that is gone, to the Workloads of jobs that come after its job.
func (r *reconciler) after(ctx context.Context, o client.Object) []reconcile.Request {
	w, is := o.(*kueue.Workload)
	if !is {
		return nil
	}
	var all kueue.WorkloadList
	err := r.Client.List(
		ctx,
		&all,
		client.InNamespace(w.Namespace),
		client.MatchingFields{AfterIndex: jobOf(w)},
		client.UnsafeDisableDeepCopy,
	)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Who comes after a job was not found", "job", jobOf(w))
	}
	out := make([]reconcile.Request, 0, len(all.Items))
	for i := range all.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return out
}

// Reconcile writes down how far a Workload is with what it comes after.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &kueue.Workload{}
	if err := r.Client.Get(ctx, req.NamespacedName, w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !waits(w) {
		return reconcile.Result{}, nil
	}
	state, never, err := r.state(ctx, w)
	if err != nil || state == w.Annotations[kueue.AfterStateAnnotation] {
		return reconcile.Result{}, err
	}
	is := w.DeepCopy()
	is.Annotations[kueue.AfterStateAnnotation] = state
	// What is known to be true of one state of the annotation is not of the next.
	if err := r.Client.Patch(
		ctx,
		is,
		client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{}),
	); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case state == kueue.AfterStateMet:
		r.Recorder.Eventf(
			w,
			nil,
			"Normal",
			"DependenciesMet",
			"Start",
			"The jobs that it comes after have ended: %s",
			w.Annotations[kueue.AfterAnnotation],
		)
	case never:
		r.Recorder.Eventf(w, nil, "Warning", "DependencyNeverMet", "Wait", "It never starts: %s", state)
	}
	return reconcile.Result{}, nil
}

// state is what AfterStateAnnotation is to be. never: what it says does not change by itself.
func (r *reconciler) state(ctx context.Context, w *kueue.Workload) (state string, never bool, err error) {
	all, err := jobs.ParseDependencies(w.Annotations[kueue.AfterAnnotation], "")
	if err != nil { // written where no webhook looked
		return "it cannot be read: " + err.Error(), true, nil //nolint:nilerr // it is told
	}
	var open []string
	for _, d := range all {
		found, err := r.find(ctx, w, d.Job)
		if err != nil {
			return "", false, err
		}
		switch {
		case !found.known:
			open = append(open, d.String()+": no queue has a job of this name yet")
		case !found.ended:
			open = append(open, d.String())
		case !d.Met(found.succeeded):
			never = true
			open = append(open, fmt.Sprintf("%s: it %s, %s", d, found.how(), kueue.AfterNever))
		}
	}
	if len(open) == 0 {
		return kueue.AfterStateMet, false, nil
	}
	return strings.Join(open, ", "), never, nil
}

// outcome is how far a job is.
type outcome struct{ known, ended, succeeded, deleted bool }

func (o outcome) how() string {
	switch {
	case o.succeeded:
		return "succeeded"
	case o.deleted:
		return "was deleted before it ended"
	}
	return "failed"
}

// find looks for a job by its name: for one that is there, or else for the last one that ended
// while w waited. Earlier ones of the name are not meant: names are used again.
func (r *reconciler) find(ctx context.Context, w *kueue.Workload, job string) (outcome, error) {
	var there kueue.WorkloadList
	if err := r.Client.List(
		ctx,
		&there,
		client.InNamespace(w.Namespace),
		client.MatchingFields{JobIndex: job},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return outcome{}, fmt.Errorf("list workloads of job %s in namespace %s: %w", job, w.Namespace, err)
	}
	var out outcome
	for i := range there.Items { // several jobs of different kinds can have a name
		is := &there.Items[i]
		switch ended := convert.Finished(is); {
		case is.UID == w.UID:
			continue
		case !ended:
			return outcome{known: true}, nil
		case out.known:
			out.succeeded = out.succeeded && convert.Succeeded(is)
		default:
			out = outcome{known: true, ended: true, succeeded: convert.Succeeded(is)}
		}
	}
	if out.known {
		return out, nil
	}
	return r.past(ctx, w.Namespace, job, convert.Submitted(w).Add(-slip))
}

// past looks for a job in the history, from its newest page to the first that is older than since.
func (r *reconciler) past(ctx context.Context, namespace, job string, since time.Time) (outcome, error) {
	pages := &metav1.PartialObjectMetadataList{}
	pages.SetGroupVersionKind(history.GroupVersion.WithKind("JobHistoryList"))
	if err := r.Live.List(ctx, pages, client.InNamespace(namespace)); err != nil {
		return outcome{}, fmt.Errorf("list the history of namespace %s: %w", namespace, err)
	}
	slices.SortFunc(
		pages.Items,
		func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(b.Name, a.Name) },
	)
	for i := range pages.Items {
		if newest, err := time.Parse(
			time.RFC3339,
			pages.Items[i].Annotations[history.NewestAnnotation],
		); err == nil &&
			newest.Before(since) {
			break
		}
		page := &history.JobHistory{}
		if err := r.Live.Get(
			ctx,
			types.NamespacedName{Namespace: namespace, Name: pages.Items[i].Name},
			page,
		); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return outcome{}, fmt.Errorf("read the history of namespace %s: %w", namespace, err)
		}
		for j := range slices.Backward(page.Records) {
			rec := &page.Records[j]
			if rec.Name != job || rec.Ended.Time.Before(since) {
				continue
			}
			out := outcome{
				known:     true,
				ended:     true,
				succeeded: rec.State == history.Succeeded,
				deleted:   rec.State == history.Cancelled,
			}
			if out.deleted {
				alive, err := r.alive(ctx, namespace, rec)
				return outcome{known: true, ended: !alive, deleted: true}, err
			}
			return out, nil
		}
	}
	return outcome{}, nil
}

// alive reports whether only the Workload of a job was deleted: it gets another one.
func (r *reconciler) alive(ctx context.Context, namespace string, rec *history.JobRecord) (bool, error) {
	for i := range r.Kinds {
		gvk := r.Kinds[i].GVK()
		if gvk.Kind != rec.Kind {
			continue
		}
		job := &metav1.PartialObjectMetadata{}
		job.SetGroupVersionKind(gvk)
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: rec.Name}, job)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("look for %s %s/%s: %w", rec.Kind, namespace, rec.Name, err)
		}
		if err == nil && job.DeletionTimestamp == nil {
			return true, nil
		}
	}
	return false, nil
}
