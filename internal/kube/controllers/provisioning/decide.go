package provisioning

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// facts are everything that the next step of one workload depends on.
type facts struct {
	workload *kueue.Workload
	// checks are those of the workload that are ours to answer.
	checks []check
	// requests are the ProvisioningRequests that the workload owns.
	requests []*autoscaling.ProvisioningRequest
	// flavors are the flavors that it is assigned.
	flavors map[kueue.ResourceFlavorReference]*kueue.ResourceFlavor
	now     time.Time
}

// check is an AdmissionCheck with its settings.
type check struct {
	name kueue.AdmissionCheckReference
	// config is nil if the check is not active.
	config *kueue.ProvisioningRequestConfig
}

// step is what comes next: requests to remove and to make, and the new states
// of checks.
type step struct {
	remove []*autoscaling.ProvisioningRequest
	create []demand
	states []kueue.AdmissionCheckState
}

// Messages of states.
const (
	messageInactive = "The check is not active"
	messageNoNeed   = "No provisioning request is needed"
)

// decide returns the next step of one workload. A workload without a
// reservation, or that is losing it, needs no request.
func decide(f facts) step {
	w := f.workload
	if w.DeletionTimestamp != nil || w.Status.Admission == nil || convert.Finished(w) || convert.Evicted(w) {
		if !convert.NoticeBegan(w).IsZero() {
			return step{} // its pods run on for a while, on the nodes that were provided
		}
		return step{remove: f.requests}
	}
	var s step
	keep := map[string]bool{}
	for _, c := range f.checks {
		at := slices.IndexFunc(
			w.Status.AdmissionChecks,
			func(s kueue.AdmissionCheckState) bool { return s.Name == c.name },
		)
		if at < 0 {
			continue
		}
		have := &w.Status.AdmissionChecks[at]
		next, want := f.judge(c, have, keep)
		if want != nil {
			s.create = append(s.create, *want)
		}
		if next.State != have.State {
			next.LastTransitionTime = metav1.NewTime(f.now)
		}
		if !equality.Semantic.DeepEqual(*have, next) {
			s.states = append(s.states, next)
		}
	}
	for _, r := range f.requests {
		if !keep[r.Name] {
			s.remove = append(s.remove, r)
		}
	}
	return s
}

// judge returns the next state of one check and the request to make, if any. It
// notes in keep the request that is in use.
func (f facts) judge(
	c check,
	have *kueue.AdmissionCheckState,
	keep map[string]bool,
) (kueue.AdmissionCheckState, *demand) {
	next := *have.DeepCopy()
	attempt := ptr.Deref(have.RetryCount, 0) + 1
	name := requestName(f.workload.Name, string(c.name), attempt)
	ready := have.State == kueue.CheckStateReady
	if ready { // its nodes are in use, whatever the settings are now
		keep[name] = true
	}
	switch {
	case c.config == nil:
		if !ready {
			next.State, next.Message = kueue.CheckStatePending, messageInactive
		}
		return next, nil
	case len(f.required(c.config)) == 0:
		if !ready {
			next.State, next.Message, next.PodSetUpdates = kueue.CheckStateReady, messageNoNeed, nil
		}
		return next, nil
	}
	want := f.demand(c.config, name)
	at := slices.IndexFunc(f.requests, func(r *autoscaling.ProvisioningRequest) bool { return r.Name == name })
	switch {
	case at < 0 && have.State == kueue.CheckStatePending:
		return next, &want
	case at < 0:
		return next, nil
	case !ready && (f.stale(f.requests[at]) || !equality.Semantic.DeepEqual(f.requests[at].Spec, want.request.Spec)):
		return next, nil // it is removed, and made anew when it is gone
	}
	keep[name] = true
	f.follow(&next, f.requests[at], c.config, attempt)
	return next, nil
}

// stale reports whether a request is for an earlier reservation, which had
// other flavors or lost its nodes. Clocks are not compared: the API server that
// dates the request has another one.
func (f facts) stale(r *autoscaling.ProvisioningRequest) bool {
	return r.Annotations[reservationAnnotation] != f.reservation()
}

// reservation names the reservation that the workload has.
func (f facts) reservation() string {
	c := apimeta.FindStatusCondition(f.workload.Status.Conditions, kueue.WorkloadQuotaReserved)
	if c == nil {
		return ""
	}
	return c.LastTransitionTime.UTC().Format(time.RFC3339)
}

// follow sets the state of a check by the conditions of its request, the first
// of these that is true.
func (f facts) follow(
	next *kueue.AdmissionCheckState,
	r *autoscaling.ProvisioningRequest,
	config *kueue.ProvisioningRequestConfig,
	attempt int32,
) {
	if next.State == kueue.CheckStateRejected || next.State == kueue.CheckStateRetry {
		return // it is said; the eviction resets it
	}
	message := func(kind string) string {
		if c := apimeta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
			return c.Message
		}
		return ""
	}
	is := func(kind string) bool { return apimeta.IsStatusConditionTrue(r.Status.Conditions, kind) }
	switch {
	case is(autoscaling.Failed):
		fail(next, config, attempt, "failure", message(autoscaling.Failed))
	case is(autoscaling.CapacityRevoked):
		// The nodes are gone: pods that replace others would wait for ever.
		next.State, next.Message, next.PodSetUpdates = kueue.CheckStateRejected, message(
			autoscaling.CapacityRevoked,
		), nil
	case is(autoscaling.BookingExpired):
		// Pods that run keep their nodes without a booking.
		if !convert.Admitted(f.workload) {
			fail(next, config, attempt, "booking expired", message(autoscaling.BookingExpired))
		}
	case is(autoscaling.Provisioned):
		f.provisioned(next, r, config, message(autoscaling.Provisioned))
	case is(autoscaling.Accepted):
		if eta := message(autoscaling.Provisioned); eta != "" {
			next.Message = eta
		}
	}
}

// fail asks for another try with a new reservation, later each time, until
// there were enough.
func fail(
	next *kueue.AdmissionCheckState,
	config *kueue.ProvisioningRequestConfig,
	attempt int32,
	what, message string,
) {
	next.PodSetUpdates = nil
	limit, base, longest := retries(config)
	if attempt > limit {
		next.State, next.Message = kueue.CheckStateRejected, message
		return
	}
	next.State = kueue.CheckStateRetry
	next.Message = fmt.Sprintf("Retrying after %s: %s", what, message)
	next.RequeueAfterSeconds = new(backoff(base, longest, attempt))
}

// retries returns the settings of retryStrategy with the schema's defaults, for
// objects that were stored without them.
func retries(config *kueue.ProvisioningRequestConfig) (limit, base, longest int32) {
	s := ptr.Deref(config.Spec.RetryStrategy, kueue.ProvisioningRequestRetryStrategy{})
	return ptr.Deref(
			s.BackoffLimitCount,
			3,
		), ptr.Deref(
			s.BackoffBaseSeconds,
			60,
		), ptr.Deref(
			s.BackoffMaxSeconds,
			1800,
		)
}

// backoff is base doubled with each attempt after the first, in seconds.
func backoff(base, longest, attempt int32) int32 {
	d := int64(max(base, 0))
	for i := int32(1); i < attempt && d < int64(longest); i++ {
		d *= 2
	}
	return int32(min(d, int64(max(longest, 0)))) //nolint:gosec // it is at most longest
}

// provisioned says yes, and ties the pods to the nodes. It waits for details
// that the pods need.
func (f facts) provisioned(
	next *kueue.AdmissionCheckState,
	r *autoscaling.ProvisioningRequest,
	config *kueue.ProvisioningRequestConfig,
	message string,
) {
	if next.State == kueue.CheckStateReady {
		return
	}
	selector := map[string]string{}
	if u := config.Spec.PodSetUpdates; u != nil {
		for _, s := range u.NodeSelector {
			value, ok := r.Status.ProvisioningClassDetails[s.ValueFromProvisioningClassDetail]
			if !ok {
				next.Message = fmt.Sprintf(
					"Provisioned; waiting for the detail %q of the provisioning class",
					s.ValueFromProvisioningClassDetail,
				)
				return
			}
			selector[s.Key] = string(value)
		}
	}
	next.State, next.Message = kueue.CheckStateReady, message
	next.PodSetUpdates = nil
	for _, ps := range f.required(config) {
		u := kueue.PodSetUpdate{
			Name: ps.Name,
			Annotations: map[string]string{
				autoscaling.ConsumeAnnotation: r.Name,
				autoscaling.ClassAnnotation:   r.Spec.ProvisioningClassName,
			},
		}
		if len(selector) > 0 {
			u.NodeSelector = selector
		}
		next.PodSetUpdates = append(next.PodSetUpdates, u)
	}
}
