package workloadlifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Checks names the admission checks that have to say yes to a workload with
// this admission, in the order of the ClusterQueue. Without an admission these
// are the checks that apply whatever flavors it will get.
func Checks(q *kueue.ClusterQueue, a *kueue.Admission) []kueue.AdmissionCheckReference {
	if q == nil || q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var out []kueue.AdmissionCheckReference
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		if len(c.OnFlavors) == 0 || (a == nil && onAll(q, c.OnFlavors)) || (a != nil && onAny(a, c.OnFlavors)) {
			out = append(out, c.Name)
		}
	}
	return out
}

func onAll(q *kueue.ClusterQueue, flavors []kueue.ResourceFlavorReference) bool {
	for _, g := range q.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			if !slices.Contains(flavors, f.Name) {
				return false
			}
		}
	}
	return true
}

func onAny(a *kueue.Admission, flavors []kueue.ResourceFlavorReference) bool {
	for _, ps := range a.PodSetAssignments {
		for _, f := range ps.Flavors {
			if slices.Contains(flavors, f) {
				return true
			}
		}
	}
	return false
}

// listed returns the states of exactly the named checks. What a check answered
// stays; one that is new has not answered.
func listed(
	was []kueue.AdmissionCheckState,
	names []kueue.AdmissionCheckReference,
	now time.Time,
) []kueue.AdmissionCheckState {
	var out []kueue.AdmissionCheckState
	for _, name := range names {
		at := slices.IndexFunc(was, func(c kueue.AdmissionCheckState) bool { return c.Name == name })
		if at >= 0 {
			out = append(out, was[at])
			continue
		}
		out = append(
			out,
			kueue.AdmissionCheckState{
				Name:               name,
				State:              kueue.CheckStatePending,
				LastTransitionTime: metav1.NewTime(now),
			},
		)
	}
	return out
}

// sameChecks reports whether two lists name the same checks, in any order: the
// API may keep another order than ours.
func sameChecks(list []kueue.AdmissionCheckState, names []kueue.AdmissionCheckReference) bool {
	if len(list) != len(names) {
		return false
	}
	for _, c := range list {
		if !slices.Contains(names, c.Name) {
			return false
		}
	}
	return true
}

// allReady reports whether every check said yes; no check at all is a yes.
func allReady(list []kueue.AdmissionCheckState) bool {
	return !slices.ContainsFunc(
		list,
		func(c kueue.AdmissionCheckState) bool { return c.State != kueue.CheckStateReady },
	)
}

// answered returns the first check in a state, by the order of the list.
func answered(list []kueue.AdmissionCheckState, state kueue.CheckState) *kueue.AdmissionCheckState {
	at := slices.IndexFunc(list, func(c kueue.AdmissionCheckState) bool { return c.State == state })
	if at < 0 {
		return nil
	}
	return &list[at]
}

// resetChecks makes every check answer anew.
func resetChecks(list []kueue.AdmissionCheckState, now time.Time) []kueue.AdmissionCheckState {
	out := slices.Clone(list)
	for i := range out {
		c := &out[i]
		if c.State == kueue.CheckStatePending {
			continue
		}
		fresh := kueue.AdmissionCheckState{
			Name:               c.Name,
			State:              kueue.CheckStatePending,
			LastTransitionTime: metav1.NewTime(now),
			Message: "Reset to Pending after eviction. Previously: " + string(
				c.State,
			),
			RetryCount:          c.RetryCount,
			RequeueAfterSeconds: c.RequeueAfterSeconds,
		}
		if c.State == kueue.CheckStateRetry {
			fresh.RetryCount = new(ptr.Deref(c.RetryCount, 0) + 1)
		}
		*c = fresh
	}
	return out
}

// retryAt is when a workload may come back whose checks asked for another try:
// when the last of them allows it; nil if none says when.
func retryAt(list []kueue.AdmissionCheckState) *metav1.Time {
	var at *metav1.Time
	for _, c := range list {
		if c.State != kueue.CheckStateRetry || c.RequeueAfterSeconds == nil {
			continue
		}
		t := metav1.NewTime(c.LastTransitionTime.Add(time.Duration(*c.RequeueAfterSeconds) * time.Second))
		if at == nil || at.Before(&t) {
			at = &t
		}
	}
	return at
}

// refusals is the rule of checks that say no: Rejected means never, Retry means
// not with this reservation.
func refusals(f Facts) (Write, bool) {
	w := f.Workload
	if isTrue(w, kueue.WorkloadEvicted) && w.Status.Admission != nil {
		return Write{}, false
	}
	if c := answered(w.Status.AdmissionChecks, kueue.CheckStateRejected); c != nil {
		message := "admission check " + string(c.Name) + " rejected it" + because(c.Message)
		return target(f, kueue.ReasonAdmissionCheck, message, Event{
			Reason: EventAdmissionCheckRejected, Warning: true, Message: "Deactivating the workload: " + message,
		}), true
	}
	c := answered(w.Status.AdmissionChecks, kueue.CheckStateRetry)
	if c == nil {
		return Write{}, false
	}
	next := w.Status.DeepCopy()
	if at := retryAt(next.AdmissionChecks); at != nil {
		requeueAfter(next, *at)
	}
	if w.Status.Admission == nil { // there is nothing to take away
		next.AdmissionChecks = resetChecks(next.AdmissionChecks, f.Now)
		return Write{Status: next}, true
	}
	message := "Admission check " + string(c.Name) + " asks for another try" + because(c.Message)
	return Write{
		Status: next,
		Events: []Event{Evict(w, next, f.Now, Eviction{Reason: kueue.ReasonAdmissionCheck, Message: message})},
	}, true
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// requeueAfter lets a workload come back at a moment, unless it must wait
// longer already.
func requeueAfter(next *kueue.WorkloadStatus, at metav1.Time) {
	if next.RequeueState == nil {
		next.RequeueState = &kueue.RequeueState{}
	}
	if r := next.RequeueState; r.RequeueAt == nil || r.RequeueAt.Before(&at) {
		r.RequeueAt = &at
	}
}

// admission is the rule of the second phase: a workload with a reservation is
// admitted when, and as long as, all its checks say yes. The list of checks
// follows the ClusterQueue until then; a check that is added later does not
// stop what runs.
func admission(f Facts) (Write, bool) {
	w := f.Workload
	if f.ClusterQueue == nil || (isTrue(w, kueue.WorkloadEvicted) && w.Status.Admission != nil) {
		return Write{}, false
	}
	next := w.Status.DeepCopy()
	admitted := isTrue(w, kueue.WorkloadAdmitted)
	if names := Checks(
		f.ClusterQueue,
		w.Status.Admission,
	); !admitted &&
		!sameChecks(w.Status.AdmissionChecks, names) {
		next.AdmissionChecks = listed(next.AdmissionChecks, names, f.Now)
	}
	var told []Event
	if ready := allReady(next.AdmissionChecks); w.Status.Admission != nil && ready != admitted {
		told = []Event{setAdmitted(w, next, f)}
	}
	if equality.Semantic.DeepEqual(w.Status, *next) {
		return Write{}, false
	}
	return Write{Status: next, Events: told}, true
}

// setAdmitted gives or takes the condition Admitted of a workload with a reservation.
func setAdmitted(w *kueue.Workload, next *kueue.WorkloadStatus, f Facts) Event {
	set := NewConditions(w, next, f.Now)
	queue := string(next.Admission.ClusterQueue)
	if allReady(next.AdmissionChecks) {
		set.Set(kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted, "The workload is admitted")
		f.Config.awaitPods(set)
		wait := f.Now.Sub(reservedAt(w)).Round(time.Second)
		return Event{
			Reason:  kueue.ReasonAdmitted,
			Message: fmt.Sprintf("Admitted by ClusterQueue %s, wait time since reservation was %s", queue, wait),
		}
	}
	leaveAdmitted(w, next, f.Now)
	message := unsatisfied(next.AdmissionChecks)
	set.Set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonUnsatisfiedAdmissionChecks, message)
	return Event{
		Reason:  kueue.ReasonUnsatisfiedAdmissionChecks,
		Warning: true,
		Message: "No longer admitted: " + message,
	}
}

// unsatisfied names the checks that did not say yes.
func unsatisfied(list []kueue.AdmissionCheckState) string {
	var names []string
	for _, c := range list {
		if c.State != kueue.CheckStateReady {
			names = append(names, string(c.Name))
		}
	}
	return "Waiting for admission checks: " + strings.Join(names, ", ")
}

func reservedAt(w *kueue.Workload) time.Time {
	if c := condition(w, kueue.WorkloadQuotaReserved); c != nil {
		return c.LastTransitionTime.Time
	}
	return w.CreationTimestamp.Time
}
