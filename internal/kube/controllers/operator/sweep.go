package operator

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Reasons of events about what a job leaves behind (jobs.Sweep).
const (
	swept    = "SweepCompleted"
	notSwept = "SweepFailed"
)

// sweepPause is how often it is looked how far a sweep is. It may wait in a queue, and is of no
// kind of member whose changes are told.
const sweepPause = 2 * time.Second

// sweepQueueAnnotation of an object is the queue in which its sweep waits: that of the job which
// it is a part of may be gone by then.
const sweepQueueAnnotation = "mlbatch.dev/sweep-queue"

// retain sees to it that a job stays when it is deleted until what it leaves behind is removed.
// It reports whether that is so, before the job has its first member.
func (r *reconciler) retain(ctx context.Context, job jobs.Object) (bool, error) {
	s := r.kind.Running.Operated.Sweep
	if s == nil || s.Job(job) == nil || controllerutil.ContainsFinalizer(job, s.Finalizer) {
		return true, nil
	}
	queue, err := r.queueOf(ctx, job)
	if err != nil {
		return false, err
	}
	return false, r.change(ctx, job, func(o jobs.Object) {
		controllerutil.AddFinalizer(o, s.Finalizer)
		if all := o.GetAnnotations(); queue != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[sweepQueueAnnotation] = queue
			o.SetAnnotations(all)
		}
	})
}

// change writes a job, if it is still as it was read.
func (r *reconciler) change(ctx context.Context, job jobs.Object, how func(jobs.Object)) error {
	next, is := job.DeepCopyObject().(jobs.Object)
	if !is {
		return nil // a copy is of the same kind
	}
	how(next)
	return r.Client.Patch(ctx, next, client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{}))
}

// mostOwners is how many objects may own one another above a job.
const mostOwners = 4

// queueOf is the queue of a job, or of what it is a part of; "" is none.
func (r *reconciler) queueOf(ctx context.Context, job metav1.Object) (string, error) {
	for range mostOwners {
		if queue := job.GetLabels()[kueue.QueueNameLabel]; queue != "" {
			return queue, nil
		}
		owner := metav1.GetControllerOf(job)
		if owner == nil || !r.Managed(owner.APIVersion, owner.Kind) {
			return "", nil
		}
		next := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind},
		}
		if err := r.Live.Get(
			ctx,
			types.NamespacedName{Namespace: job.GetNamespace(), Name: owner.Name},
			next,
		); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		job = next
	}
	return "", nil
}

// sweep removes what a job that was deleted leaves behind, once its pods are gone, and lets the
// job go then. What cannot be done within jobs.SweepTime is said and left.
func (r *reconciler) sweep(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	s, job := r.kind.Running.Operated.Sweep, r.kind.New()
	if err := r.Client.Get(ctx, name, job); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if job.GetDeletionTimestamp() == nil || !r.kind.Ours(job) ||
		!controllerutil.ContainsFinalizer(job, s.Finalizer) {
		return reconcile.Result{}, nil
	}
	if other, err := foreign.Find(ctx, r.Client, r.kind.Running.Operated.Others...); err != nil || other != "" {
		return reconcile.Result{}, err
	}
	if left, err := r.emptied(ctx, job); err != nil || left {
		return reconcile.Result{RequeueAfter: sweepPause}, err
	}
	done, err := r.swept(ctx, job, s.Job(job))
	if err != nil || !done {
		return reconcile.Result{RequeueAfter: sweepPause}, err
	}
	err = r.change(ctx, job, func(o jobs.Object) { controllerutil.RemoveFinalizer(o, s.Finalizer) })
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// emptied deletes the pods of a job that was deleted, and reports whether any is left that runs:
// it would write anew what is removed.
func (r *reconciler) emptied(ctx context.Context, job jobs.Object) (left bool, err error) {
	var pods corev1.PodList
	mine := []client.ListOption{
		client.InNamespace(job.GetNamespace()),
		client.MatchingFields{Index: string(job.GetUID())},
	}
	if err := r.Client.List(ctx, &pods, mine...); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	err = admission.InParallel(len(pods.Items), func(i int) error {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			return nil
		}
		return client.IgnoreNotFound(r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}))
	})
	if err != nil {
		return false, err
	}
	return r.left(ctx, job)
}

// swept makes the Job that removes what a job leaves behind, nil if there is nothing, and reports
// whether it has ended, or is given up. The Job has no owner: one of an object that is deleted with
// what it owns would go before it has begun.
func (r *reconciler) swept(ctx context.Context, job jobs.Object, sweep *batchv1.Job) (bool, error) {
	if sweep == nil {
		return true, nil
	}
	sweep.Namespace = job.GetNamespace()
	metav1.SetMetaDataLabel(&sweep.ObjectMeta, recovery.JobLabel, string(job.GetUID()))
	if queue := job.GetAnnotations()[sweepQueueAnnotation]; queue != "" {
		metav1.SetMetaDataLabel(&sweep.ObjectMeta, kueue.QueueNameLabel, queue)
	}
	giveUp := func(why string) (bool, error) {
		r.event(job, corev1.EventTypeWarning, notSwept, "What it leaves behind was not removed: "+why)
		return true, nil
	}
	var is batchv1.Job
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(sweep), &is)
	switch {
	case apierrors.IsNotFound(err):
		switch err := r.Client.Create(ctx, sweep); {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return giveUp(err.Error())
		case err != nil:
			return false, client.IgnoreAlreadyExists(err)
		}
		r.event(job, corev1.EventTypeNormal, created+"Job", "Created Job: "+sweep.Name)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for Job %s: %w", sweep.Name, err)
	case is.Labels[recovery.JobLabel] != string(job.GetUID()):
		return giveUp("there is another Job " + is.Name)
	}
	end := jobEnd(&is)
	if end == "" && r.Clock.Since(is.CreationTimestamp.Time) < jobs.SweepTime {
		return false, nil
	}
	if err := r.Client.Delete(
		ctx,
		&is,
		client.Preconditions{UID: &is.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); client.IgnoreNotFound(
		err,
	) != nil {
		return false, fmt.Errorf("remove Job %s: %w", is.Name, err)
	}
	if end == batchv1.JobComplete {
		r.event(job, corev1.EventTypeNormal, swept, "What it left behind was removed")
		return true, nil
	}
	if end == "" {
		return giveUp(fmt.Sprintf("Job %s did not end within %s", is.Name, jobs.SweepTime))
	}
	return giveUp("Job " + is.Name + " failed")
}

// jobEnd is how a Job ended; "" if it has not.
func jobEnd(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}
