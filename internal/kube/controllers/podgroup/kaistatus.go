package podgroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// PodGroups of KAI Scheduler are told how many of their pods run, and what they wait for, where KAI Scheduler itself
// tells it: users and the dashboards of Run:ai read it there.

const (
	// kaiWaits is the condition that a PodGroup cannot start, kaiPool the pool of nodes of which it says so, where
	// nobody has made others.
	kaiWaits = "UnschedulableOnNodePool"
	kaiPool  = "default"
	// kaiReason is why it waits where no better word is known.
	kaiReason = "Unschedulable"
	// kaiLook is after how long it is looked whether a PodGroup was made anew, whose pods run: nobody watches it.
	kaiLook = time.Minute
	// kaiPause is how long after a write the next one comes at the earliest: pods come and go one by one.
	kaiPause = time.Second
)

// kaiStatus is what a PodGroup of KAI Scheduler is told.
type kaiStatus struct {
	pending, running, succeeded, failed int64
	// known: it is known whether the pods wait. reason and message say for what, and "" for nothing.
	known           bool
	reason, message string
}

// toldKAI is what a PodGroup was told, and when, and when it was looked whether it is still the same.
type toldKAI struct {
	is     kaiStatus
	at     time.Time
	uid    types.UID
	looked time.Time
}

// look is after how long it is looked whether the PodGroup is another one: soon while its pods wait, as it is read then
// anyway; 0 for never, where none of them is left.
func (k kaiStatus) look(w *kueue.Workload) time.Duration {
	switch {
	case k.pending+k.running == 0:
		return 0
	case w == nil || w.Status.Admission == nil:
		return makerPause
	}
	return kaiLook
}

// kaiStatusOf is how the pods of a unit stand.
func kaiStatusOf(s *facts) (is kaiStatus) {
	for _, p := range s.unit.Pods {
		switch p.Status.Phase {
		case corev1.PodRunning:
			is.running++
		case corev1.PodSucceeded:
			is.succeeded++
		case corev1.PodFailed:
			is.failed++
		case corev1.PodPending, corev1.PodUnknown:
			is.pending++
		default:
			is.pending++
		}
	}
	w := s.workload
	switch {
	case w == nil && s.unit.Wrong != "":
		is.known, is.reason, is.message = true, eventMismatch, s.unit.Wrong
	case w == nil && s.unit.Missing() > 0:
		is.known, is.reason = true, eventIncomplete
		is.message = fmt.Sprintf("It waits until all of its %d pods are created", s.unit.Total)
	case w == nil:
	case w.Status.Admission != nil:
		is.known = true
	default:
		c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved)
		if c != nil && c.Status == metav1.ConditionFalse {
			is.known, is.reason, is.message = true, cmp.Or(c.Reason, kaiReason), c.Message
		}
	}
	return is
}

// tellKAI writes into the PodGroup of a unit how its pods stand, if that has changed. It says when to look again, 0 for
// never.
func (r *reconciler) tellKAI(
	ctx context.Context,
	unit types.NamespacedName,
	s *facts,
) (time.Duration, error) {
	if s.unit.OfPodGroup() != podmeta.KAIGroup || s.theirs || !s.covered || len(s.unit.Pods) == 0 {
		return 0, nil
	}
	is := kaiStatusOf(s)
	look := is.look(s.workload)
	var last toldKAI
	told, was := r.toldKAI.Load(unit)
	if was {
		last, _ = told.(toldKAI)
		switch left := last.looked.Add(look).Sub(s.now); {
		case last.is == is && (look == 0 || left > 0 && left <= look):
			return max(0, min(left, look)), nil
		case last.is == is:
		default:
			if left := last.at.Add(kaiPause).Sub(s.now); left > 0 && left <= kaiPause {
				return left, nil
			}
		}
	}
	kind, _ := podmeta.GangKind(podmeta.KAIGroup)
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	if err != nil {
		if apimeta.IsNoMatchError(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("find PodGroups of %s: %w", kind.Group, err)
	}
	o, err := s.podGroup.read(ctx, r.Live, unit, mapping.GroupVersionKind)
	if apierrors.IsNotFound(err) {
		r.toldKAI.Store(unit, toldKAI{is: is, at: s.now, looked: s.now}) // one that is made is another
		return look, nil
	}
	if err != nil {
		return look, err
	}
	if was && last.is == is && last.uid == o.GetUID() {
		last.looked = s.now
		r.toldKAI.Store(unit, last)
		return look, nil
	}
	after := o.DeepCopy()
	if err := is.write(after, s.now); err != nil {
		return 0, fmt.Errorf("write the status of PodGroup %s: %w", unit, err)
	}
	if !equality.Semantic.DeepEqual(o.Object, after.Object) {
		err := r.Client.Status().
			Patch(ctx, after, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return conflictPause, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("write the status of PodGroup %s: %w", unit, err)
		}
	}
	r.toldKAI.Store(unit, toldKAI{is, s.now, o.GetUID(), s.now})
	return look, nil
}

// write puts it into a PodGroup. Conditions of other pools of nodes stay.
func (k kaiStatus) write(o *unstructured.Unstructured, now time.Time) error {
	for key, n := range map[string]int64{
		"pending": k.pending, "running": k.running, "succeeded": k.succeeded, "failed": k.failed,
	} {
		if err := unstructured.SetNestedField(o.Object, n, "status", key); err != nil {
			return err
		}
	}
	if !k.known {
		return nil
	}
	const field = "schedulingConditions"
	all, _, _ := unstructured.NestedSlice(o.Object, "status", field) // what is no list is replaced
	at := slices.IndexFunc(all, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == kaiWaits && m["nodePool"] == kaiPool
	})
	next := k.condition()
	switch {
	case at < 0 && k.reason == "":
		return nil // it never waited
	case at < 0:
		next["transitionID"], next["lastTransitionTime"] = "0", now.UTC().Format(time.RFC3339)
		all = append(all, next)
	default:
		was, _ := all[at].(map[string]any)
		next["transitionID"], next["lastTransitionTime"] = was["transitionID"], was["lastTransitionTime"]
		if was["status"] != next["status"] {
			id, _ := was["transitionID"].(string)
			n, _ := strconv.Atoi(id) // what is no number begins anew
			next["transitionID"], next["lastTransitionTime"] = strconv.Itoa(n+1), now.UTC().Format(time.RFC3339)
		}
		all[at] = next
	}
	return unstructured.SetNestedSlice(o.Object, all, "status", field)
}

// condition says whether the pods wait, and for what.
func (k kaiStatus) condition() map[string]any {
	out := map[string]any{"type": kaiWaits, "nodePool": kaiPool, "status": string(corev1.ConditionFalse)}
	if k.reason == "" {
		return out
	}
	out["status"], out["reason"], out["message"] = string(corev1.ConditionTrue), kaiReason, k.message
	out["reasons"] = []any{map[string]any{"reason": k.reason, "message": k.message}}
	return out
}
