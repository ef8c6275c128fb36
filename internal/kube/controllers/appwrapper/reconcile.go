package appwrapper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// conflictPause is how long to wait for the cache to show what another client
// wrote, if no event comes before.
const conflictPause = 100 * time.Millisecond

// attempt is one pass over one AppWrapper.
type attempt struct {
	*reconciler
	// w is the AppWrapper as last read or written.
	w          *awv1beta2.AppWrapper
	components []appwrapper.Component
	// uids of the components that exist.
	uids     []types.UID
	warnings []appwrapper.Warning
	// incomplete is true while it is not recorded what the components are based on.
	incomplete bool
	facts      lifecycle.Facts
	// pods are those that the facts have, in another order.
	pods []corev1.Pod
	step lifecycle.Transition
	// failedAt is the index of the component that could not be created; -1 if
	// none was.
	failedAt int
	// remakers make pods of the AppWrapper while it deletes them.
	remakers map[types.UID]metav1.OwnerReference
}

// Reconcile does the next step for one AppWrapper.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &awv1beta2.AppWrapper{}
	if err := r.client.Get(ctx, req.NamespacedName, w); err != nil {
		if apierrors.IsNotFound(err) {
			r.made.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	a := &attempt{reconciler: r, w: w, failedAt: -1}
	run := a.run
	if !appwrapper.Ours(w) {
		run = a.leave
	}
	err := run(ctx)
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: a.step.RecheckAfter}, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Another write was faster; the cache is about to show it.
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return reconcile.Result{}, fmt.Errorf("AppWrapper %s: %w", req.NamespacedName, err)
}

// run decides and carries out one step.
func (a *attempt) run(ctx context.Context) error {
	// 1. Look, and look closer where the step relies on something being gone.
	if err := a.decide(ctx); err != nil {
		return err
	}
	if a.incomplete && !a.facts.Deleting {
		return nil // it is looked at again when that is written
	}
	// 2. The finalizer comes before the first component.
	if a.step.Finalizer == lifecycle.AddFinalizer {
		if err := a.setFinalizers(
			ctx,
			append(slices.Clone(a.w.Finalizers), awv1beta2.AppWrapperFinalizer),
		); err != nil {
			return err
		}
		a.facts.Finalizer = true
	}
	// 3. Components come before the status that says they exist.
	if a.step.Action == lifecycle.Create {
		a.create(ctx)
		a.step = lifecycle.Decide(a.facts, a.clock.Now())
	}
	// 4. One status write, and only then what it tells.
	if err := a.writeStatus(ctx); err != nil {
		return err
	}
	// 5. Deletions follow the status that announces them.
	if err := a.delete(ctx); err != nil {
		return err
	}
	// 6. Nothing is left: the AppWrapper may go.
	if a.step.Finalizer == lifecycle.RemoveFinalizer {
		return a.unpin(ctx)
	}
	return nil
}

// leave lets an AppWrapper that another controller manages go, should it carry
// our finalizer. Nothing else of it is ours.
func (a *attempt) leave(ctx context.Context) error {
	if a.w.DeletionTimestamp == nil || !slices.Contains(a.w.Finalizers, awv1beta2.AppWrapperFinalizer) {
		return nil
	}
	return a.unpin(ctx)
}

// unpin takes our finalizer away.
func (a *attempt) unpin(ctx context.Context) error {
	rest := slices.DeleteFunc(
		slices.Clone(a.w.Finalizers),
		func(f string) bool { return f == awv1beta2.AppWrapperFinalizer },
	)
	return a.setFinalizers(ctx, rest)
}

func (a *attempt) decide(ctx context.Context) error {
	if err := a.gather(ctx, cached); err != nil {
		return err
	}
	a.step = lifecycle.Decide(a.facts, a.clock.Now())
	if !a.step.Confirm {
		return nil
	}
	if err := a.gather(ctx, fresh); err != nil {
		return err
	}
	a.step = lifecycle.Decide(a.facts, a.clock.Now())
	return nil
}

func (a *attempt) setFinalizers(ctx context.Context, finalizers []string) error {
	next := a.w.DeepCopy()
	next.Finalizers = finalizers
	if err := a.client.Patch(
		ctx,
		next,
		client.MergeFromWithOptions(a.w, client.MergeFromWithOptimisticLock{}),
	); err != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	a.w = next
	return nil
}

// writeStatus writes the step's status if it differs. The write fails if the
// AppWrapper changed since it was read: the step may be wrong then, most of all
// if it was suspended in the meantime.
func (a *attempt) writeStatus(ctx context.Context) error {
	next := a.w.DeepCopy()
	next.Status = a.status()
	if c := a.told(ctx); c != nil {
		meta.SetStatusCondition(&next.Status.Conditions, *c)
	}
	if equality.Semantic.DeepEqual(a.w.Status, next.Status) {
		return nil
	}
	// The whole object, which costs the API server less than a patch of it. It is
	// refused if the object has changed.
	if err := a.client.Status().Update(ctx, next); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	a.w = next
	a.made.forget(client.ObjectKeyFromObject(a.w))
	a.tell()
	return nil
}

// tell emits the events of a step that was written, and counts it.
func (a *attempt) tell() {
	emit := func(warning bool, reason, message string) {
		kind := corev1.EventTypeNormal
		if warning {
			kind = corev1.EventTypeWarning
		}
		a.recorder.Eventf(a.w, nil, kind, reason, reason, "%s", message)
	}
	for _, e := range a.step.Events {
		emit(e.Warning, e.Reason, e.Message)
	}
	if a.step.Phase == a.facts.Phase {
		return
	}
	a.count.phase(a.w.Namespace, a.step.Phase)
	if a.step.ResetReason != "" {
		a.count.reset(a.w.Namespace, a.step.ResetReason)
	}
	// The two moments at which a user may be reading along.
	if a.facts.Phase == lifecycle.New || a.facts.Phase == lifecycle.Suspended {
		if len(a.warnings) > 0 { // in one event: of several with one reason only one would be seen
			emit(true, "InvalidAnnotation", sentences(a.warnings))
		}
	}
}

// sentences joins all that is wrong with annotations.
func sentences(warnings []appwrapper.Warning) string {
	out := make([]string, 0, len(warnings))
	for _, w := range warnings {
		out = append(out, w.String())
	}
	return strings.Join(out, "; ")
}

// delete carries out the step's deletions. It goes on after an error: what can
// go shall go.
func (a *attempt) delete(ctx context.Context) error {
	switch a.step.Action {
	case lifecycle.Delete:
		return errors.Join(a.deleteComponents(ctx), a.deleteRemakers(ctx), a.deletePods(ctx))
	case lifecycle.ForceDelete:
		return a.forceDelete(ctx)
	case lifecycle.Nothing, lifecycle.Create:
	}
	return nil
}
