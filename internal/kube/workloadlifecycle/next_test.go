package workloadlifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// now is the moment of all decisions in these tests.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type change func(*Facts)

// facts are those of a workload that waits in an open queue, owned by a job.
func facts(changes ...change) Facts {
	f := Facts{
		Workload: &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      "w",
				UID:       "u",
				Labels:    map[string]string{kueue.JobUIDLabel: "j"},
			},
			Spec: kueue.WorkloadSpec{QueueName: "lq", Active: new(true), Priority: new(int32(5))},
		},
		Owned:        true,
		ClusterQueue: &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "cq"}},
		LocalQueue:   &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: "lq"}},
		Now:          now,
	}
	f.ClusterQueue.Spec.ResourceGroups = []kueue.ResourceGroup{
		{Flavors: []kueue.FlavorQuotas{{Name: "spot"}, {Name: "solid"}}},
	}
	for _, c := range changes {
		c(&f)
	}
	return f
}

// ago gives the workload a condition that became so some time ago.
func ago(d time.Duration, kind string, status metav1.ConditionStatus, reason string) change {
	return func(f *Facts) {
		NewConditions(f.Workload, &f.Workload.Status, now.Add(-d)).Set(kind, status, reason, "because")
	}
}

// reserved gives it quota of flavors, and what the checks answered.
func reserved(flavors ...kueue.ResourceFlavorReference) change {
	return func(f *Facts) {
		a := &kueue.Admission{ClusterQueue: "cq"}
		for _, fl := range flavors {
			a.PodSetAssignments = append(
				a.PodSetAssignments,
				kueue.PodSetAssignment{Flavors: map[kueueResource]kueue.ResourceFlavorReference{"cpu": fl}},
			)
		}
		f.Workload.Status.Admission = a
		ago(time.Hour, kueue.WorkloadQuotaReserved, metav1.ConditionTrue, kueue.ReasonQuotaReserved)(f)
		ago(time.Hour, kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonUnsatisfiedAdmissionChecks)(f)
	}
}

func admitted(d time.Duration) change {
	return func(f *Facts) {
		reserved("solid")(f)
		ago(d, kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted)(f)
	}
}

func evicted(d time.Duration, reason string) change {
	return ago(d, kueue.WorkloadEvicted, metav1.ConditionTrue, reason)
}

// back is an evicted workload that gave its quota back and has to wait.
func back(reason string) change {
	return func(f *Facts) {
		evicted(time.Minute, reason)(f)
		ago(time.Minute, kueue.WorkloadRequeued, metav1.ConditionFalse, reason)(f)
	}
}

// asks makes the ClusterQueue ask a check for some flavors, or for all.
func asks(name kueue.AdmissionCheckReference, flavors ...kueue.ResourceFlavorReference) change {
	return func(f *Facts) {
		if f.ClusterQueue.Spec.AdmissionChecksStrategy == nil {
			f.ClusterQueue.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{}
		}
		s := f.ClusterQueue.Spec.AdmissionChecksStrategy
		s.AdmissionChecks = append(
			s.AdmissionChecks,
			kueue.AdmissionCheckStrategyRule{Name: name, OnFlavors: flavors},
		)
	}
}

func says(
	name kueue.AdmissionCheckReference,
	state kueue.CheckState,
	more ...func(*kueue.AdmissionCheckState),
) change {
	return func(f *Facts) {
		c := kueue.AdmissionCheckState{
			Name:               name,
			State:              state,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
		}
		for _, m := range more {
			m(&c)
		}
		f.Workload.Status.AdmissionChecks = append(f.Workload.Status.AdmissionChecks, c)
	}
}

func after(seconds int32) func(*kueue.AdmissionCheckState) {
	return func(c *kueue.AdmissionCheckState) { c.RequeueAfterSeconds = &seconds }
}

func returned(n int32, at time.Duration) change {
	return func(f *Facts) {
		f.Workload.Status.RequeueState = &kueue.RequeueState{Count: &n, RequeueAt: new(metav1.NewTime(now.Add(at)))}
	}
}

// watchedFor says for how long this controller has run.
func watchedFor(d time.Duration) change { return func(f *Facts) { f.Watched = now.Add(-d) } }

func outspoken(f *Facts) { f.Config.Explicit = true }
func inactive(f *Facts)  { f.Workload.Spec.Active = new(false) }
func alone(f *Facts)     { f.Owned, f.Workload.Labels = false, nil }
func pods(n int) change  { return func(f *Facts) { f.LivePods = n } }
func limited(seconds int32) change {
	return func(f *Facts) { f.Workload.Spec.MaximumExecutionTimeSeconds = &seconds }
}

func used(seconds int32) change {
	return func(f *Facts) { f.Workload.Status.AccumulatedPastExecutionTimeSeconds = &seconds }
}

func stop(f *Facts)   { f.ClusterQueue.Spec.StopPolicy = new(kueue.StopPolicyHold) }
func doomed(f *Facts) { f.ClusterQueue.DeletionTimestamp = &metav1.Time{Time: now} }
func shut(f *Facts)   { f.LocalQueue.Spec.StopPolicy = new(kueue.StopPolicyHoldAndDrain) }

// impatient asks for ready pods within 30 minutes, and again within 5.
func impatient(f *Facts) {
	f.Config.PodsReady = &PodsReady{
		Timeout:         30 * time.Minute,
		RecoveryTimeout: 5 * time.Minute,
		BackoffLimit:    new(int32(2)),
		BackoffBase:     time.Minute,
		BackoffMax:      time.Hour,
	}
}

func tidy(f *Facts) {
	f.Config.Retention = Retention{AfterFinished: new(time.Hour), AfterDeactivated: new(2 * time.Hour)}
}

// outcome is a step in the words of the tests.
type outcome struct {
	Does       string            // what is written, if not the status
	Conditions map[string]string // that changed: status and reason
	Checks     map[string]string // state of every check, if one changed
	Released   bool              // the reservation is gone
	Requeue    string            // count and time from now, if they changed
	Used       int32             // accumulated execution time, if it changed
	Evictions  map[string]int32  // if they changed
	Events     []string
	Again      time.Duration
}

func TestNext(t *testing.T) {
	type m = map[string]string
	cases := map[string]struct {
		why  string
		f    Facts
		want outcome
	}{
		"waits": {"nothing concerns what waits in an open queue", facts(), outcome{}},
		"runs":  {"nothing concerns what runs without limits", facts(admitted(time.Hour)), outcome{}},

		// Deletion and end.
		"deleted, its job runs": {
			"the job's reconciler lets it go",
			facts(admitted(time.Hour), deleted),
			outcome{},
		},
		"deleted, pods run": {
			"its quota is released when they are gone",
			facts(admitted(time.Hour), deleted, alone, pods(1)),
			outcome{},
		},
		"deleted, all gone": {
			"nothing keeps it",
			facts(admitted(time.Hour), deleted, alone),
			outcome{Does: "unpin"},
		},
		"orphan": {
			"no controller will ever finish it",
			facts(admitted(time.Hour), alone, orphan),
			outcome{Conditions: m{"Finished": "True OwnerNotFound"}},
		},
		"orphan, ended": {
			"a minute later it goes: nobody else deletes it",
			facts(alone, orphan, ago(time.Minute, "Finished", "True", "Succeeded")),
			outcome{Does: "delete Workload", Events: []string{"Deleted"}},
		},
		"orphan, just ended": {
			"its end can be seen",
			facts(alone, orphan, ago(20*time.Second, "Finished", "True", "Succeeded")),
			outcome{Again: 40 * time.Second},
		},
		"orphan, pods go on": {
			"they count with it",
			facts(alone, orphan, pods(1), ago(time.Hour, "Finished", "True", "Succeeded")),
			outcome{},
		},
		"owned, ended": {
			"its job is there, and nothing says for how long it is kept",
			facts(ago(time.Hour, "Finished", "True", "Succeeded")),
			outcome{},
		},
		"orphan, kept for less": {
			"the shorter time counts",
			facts(alone, orphan, keptFor(0), ago(time.Second, "Finished", "True", "Succeeded")),
			outcome{Does: "delete Workload", Events: []string{"Deleted"}},
		},
		"orphan, pods run": {
			"quota is released when they are gone",
			facts(admitted(time.Hour), alone, orphan, pods(1)),
			outcome{},
		},
		"finished, deleted": {
			"its job's reconciler is done with it",
			facts(ago(time.Minute, "Finished", "True", "Succeeded"), deleted),
			outcome{Does: "unpin"},
		},

		// A job that is being deleted, or gone without its pods.
		"deleted with its job": {
			"what was deleted makes no pods",
			facts(admitted(time.Hour), jobDeleted(0), deleted),
			outcome{Does: "unpin"},
		},
		"deleted with its job, which makes": {
			"its components are deleted first",
			facts(admitted(time.Hour), jobDeleted(time.Hour), makes, deleted),
			outcome{},
		},
		"deleted with its job, pods run": {
			"the garbage collector sees to them",
			facts(admitted(time.Hour), jobDeleted(0), deleted, pods(1)),
			outcome{Again: 10 * time.Second},
		},
		"deleted with its job, pods stay": {
			"a finalizer keeps the job from being collected",
			facts(admitted(time.Hour), jobDeleted(time.Hour), deletedAgo(10*time.Second), pods(1)),
			outcome{Does: "stop pods", Again: 10 * time.Second},
		},
		"orphan, deleted, pods stay": {
			"no other controller stops them",
			facts(admitted(time.Hour), alone, orphan, deletedAgo(time.Minute), pods(2)),
			outcome{Does: "stop pods", Again: 10 * time.Second},
		},
		"job deleted, pods run": {
			"they may go on until a workload needs their place",
			facts(admitted(time.Hour), jobDeleted(time.Hour), pods(1)),
			outcome{},
		},
		"job deleted, no pods": {
			"a finalizer keeps the job, and no quota",
			facts(admitted(time.Hour), jobDeleted(10*time.Second)),
			outcome{Conditions: m{"Finished": "True OwnerNotFound"}},
		},
		"job deleted just now, no pods": {
			"as a rule it is gone in a moment",
			facts(admitted(time.Hour), jobDeleted(time.Second)),
			outcome{Again: 9 * time.Second},
		},
		"job deleted, makes pods": {
			"the next one may come at any moment",
			facts(admitted(time.Hour), jobDeleted(time.Hour), makes),
			outcome{},
		},
		"job deleted, evicted, pods run": {
			"its kind does not stop what was deleted",
			facts(admitted(time.Hour), jobDeleted(time.Hour), evicted(10*time.Second, kueue.ReasonPreempted), pods(1)),
			outcome{Does: "stop pods", Again: 10 * time.Second},
		},
		"job deleted, evicted just now": {
			"pods get a moment to go by themselves",
			facts(admitted(time.Hour), jobDeleted(time.Hour), evicted(time.Second, kueue.ReasonPreempted), pods(1)),
			outcome{Again: 9 * time.Second},
		},
		"job deleted, evicted, makes": {
			"its controller deletes them",
			facts(
				admitted(time.Hour),
				jobDeleted(time.Hour),
				makes,
				evicted(time.Minute, kueue.ReasonPreempted),
				pods(1),
			),
			outcome{},
		},
		"job deleted, evicted, may make more": {
			"the quota goes with the last of them",
			facts(admitted(time.Hour), jobDeleted(time.Hour), makes, evicted(time.Minute, kueue.ReasonPreempted)),
			outcome{},
		},
		"job deleted, evicted, pods gone": {
			"now the quota is free",
			facts(admitted(time.Hour), jobDeleted(time.Second), evicted(time.Minute, kueue.ReasonPreempted)),
			outcome{
				Released: true,
				Used:     3600,
				Conditions: m{
					"QuotaReserved": "False Pending",
					"Admitted":      "False NoReservation",
					"Requeued":      "True Preempted",
				},
			},
		},
		"orphan, evicted, pods run": {
			"a job deleted without its pods gives back what it borrowed all the same",
			facts(admitted(time.Hour), alone, orphan, evicted(time.Minute, kueue.ReasonPreempted), pods(1)),
			outcome{Does: "stop pods", Again: 10 * time.Second},
		},
		"nobody's workload, evicted, pods run": {
			"the controller that made the pods stops them",
			facts(admitted(time.Hour), alone, evicted(time.Minute, kueue.ReasonPreempted), pods(1)),
			outcome{},
		},

		"finished": {
			"kept as long as the retention says",
			facts(tidy, ago(time.Minute, "Finished", "True", "Succeeded")),
			outcome{Again: 59 * time.Minute},
		},
		"finished long ago": {
			"the job stays, for it is the user's",
			facts(tidy, ago(time.Hour, "Finished", "True", "Succeeded")),
			outcome{Does: "delete Workload", Events: []string{"Deleted"}},
		},
		"never started": {
			"its job would be queued anew and fail again",
			facts(tidy, ago(time.Hour, "Finished", "True", "FailedToStart")),
			outcome{},
		},
		"never started, alone": {
			"no job queues it anew",
			facts(tidy, alone, ago(time.Hour, "Finished", "True", "FailedToStart")),
			outcome{Does: "delete Workload", Events: []string{"Deleted"}},
		},
		"finished, no retention": {
			"nothing is deleted unasked",
			facts(ago(time.Hour, "Finished", "True", "Succeeded")),
			outcome{},
		},

		// Checks.
		"a check for all flavors": {
			"it may be asked before there are flavors",
			facts(asks("a"), asks("b", "spot")),
			outcome{Checks: m{"a": "Pending"}},
		},
		"a check for every flavor by name": {
			"that is all flavors",
			facts(asks("a", "spot", "solid")),
			outcome{Checks: m{"a": "Pending"}},
		},
		"reserved, checks by flavor": {
			"only those of its flavors count",
			facts(asks("a"), asks("b", "spot"), asks("c", "solid"), says("a", "Ready"), reserved("solid")),
			outcome{Checks: m{"a": "Ready", "c": "Pending"}},
		},
		"a check was removed": {
			"no controller will answer it",
			facts(asks("a"), says("a", "Ready"), says("old", "Pending"), reserved("solid")),
			outcome{Checks: m{"a": "Ready"}, Conditions: m{"Admitted": "True Admitted"}, Events: []string{"Admitted"}},
		},
		"one of two is ready": {
			"all have to agree",
			facts(asks("a"), asks("b"), says("a", "Ready"), says("b", "Pending"), reserved("solid")),
			outcome{},
		},
		"all are ready": {
			"the second phase of admission",
			facts(asks("a"), asks("b"), says("b", "Ready"), says("a", "Ready"), reserved("solid")),
			outcome{Conditions: m{"Admitted": "True Admitted"}, Events: []string{"Admitted"}},
		},
		"all are ready, pods awaited": {
			"waiting for pods begins in the same write",
			facts(impatient, asks("a"), says("a", "Ready"), reserved("solid")),
			outcome{
				Conditions: m{"Admitted": "True Admitted", "PodsReady": "False WaitForStart"},
				Events:     []string{"Admitted"},
			},
		},
		"ready without a reservation": {"quota comes first", facts(asks("a"), says("a", "Ready")), outcome{}},
		"a check is added while it runs": {
			"what runs is not stopped for it",
			facts(asks("a"), admitted(time.Minute)),
			outcome{},
		},
		"a check takes its yes back": {
			"without it the job may not run; its time counts",
			facts(asks("a"), says("a", "Pending"), admitted(time.Minute), limited(600), used(5)),
			outcome{
				Conditions: m{"Admitted": "False UnsatisfiedAdmissionChecks"},
				Used:       65,
				Events:     []string{"!UnsatisfiedAdmissionChecks"},
			},
		},
		"retry": {
			"quota goes back, the checks are asked anew and count it",
			facts(asks("a"), asks("b"), says("a", "Retry", after(180)), says("b", "Ready"), reserved("solid")),
			outcome{
				Conditions: m{
					"Evicted": "True AdmissionCheck",
				},
				Checks: m{
					"a": "Pending 1 Reset to Pending after eviction. Previously: Retry",
					"b": "Pending Reset to Pending after eviction. Previously: Ready",
				},
				Requeue:   "0 2m0s",
				Evictions: map[string]int32{"AdmissionCheck": 1},
				Events:    []string{"EvictedDueToAdmissionCheck"},
			},
		},
		"two retries": {
			"the longer pause counts",
			facts(says("a", "Retry", after(60)), says("b", "Retry", after(600)), reserved("solid")),
			outcome{
				Conditions: m{
					"Evicted": "True AdmissionCheck",
				},
				Checks: m{
					"a": "Pending 1 Reset to Pending after eviction. Previously: Retry",
					"b": "Pending 1 Reset to Pending after eviction. Previously: Retry",
				},
				Requeue:   "0 9m0s",
				Evictions: map[string]int32{"AdmissionCheck": 1},
				Events:    []string{"EvictedDueToAdmissionCheck"},
			},
		},
		"retry of what runs": {
			"a check may change its mind",
			facts(asks("a"), says("a", "Retry"), admitted(time.Minute)),
			outcome{
				Conditions: m{
					"mlbatch.dev/Attempts": "True Stopped", "Evicted": "True AdmissionCheck",
				},
				Checks:    m{"a": "Pending 1 Reset to Pending after eviction. Previously: Retry"},
				Evictions: map[string]int32{"AdmissionCheck": 1},
				Events:    []string{"EvictedDueToAdmissionCheck"},
			},
		},
		"retry of what waits": {
			"it holds nothing that could be taken",
			facts(asks("a"), says("a", "Retry")),
			outcome{Checks: m{"a": "Pending 1 Reset to Pending after eviction. Previously: Retry"}},
		},
		"retry while it is evicted": {
			"one eviction is enough",
			facts(asks("a"), says("a", "Retry"), admitted(time.Minute), evicted(time.Second, "Preempted")),
			outcome{},
		},
		"rejected": {
			"it will never run",
			facts(asks("a"), says("a", "Rejected"), reserved("solid")),
			outcome{
				Conditions: m{"DeactivationTarget": "True AdmissionCheck"},
				Events:     []string{"!AdmissionCheckRejected"},
			},
		},
		"rejected beats retry": {
			"another try cannot help",
			facts(says("a", "Retry"), says("b", "Rejected"), reserved("solid")),
			outcome{
				Conditions: m{"DeactivationTarget": "True AdmissionCheck"},
				Events:     []string{"!AdmissionCheckRejected"},
			},
		},

		// Deactivation, one write after the other.
		"to be deactivated": {
			"the second of three writes",
			facts(says("a", "Rejected"), reserved("solid"), ago(0, "DeactivationTarget", "True", "AdmissionCheck")),
			outcome{Does: "deactivate"},
		},
		"deactivated by a rule": {
			"the third names the cause and resets the checks",
			facts(
				inactive,
				says("a", "Rejected"),
				reserved("solid"),
				ago(0, "DeactivationTarget", "True", "AdmissionCheck"),
				returned(3, time.Hour),
			),
			outcome{
				Conditions: m{
					"DeactivationTarget": "",
					"Evicted":            "True DeactivatedDueToAdmissionCheck",
				},
				Checks:    m{"a": "Pending Reset to Pending after eviction. Previously: Rejected"},
				Requeue:   "none",
				Evictions: map[string]int32{"Deactivated/AdmissionCheck": 1},
				Events:    []string{"EvictedDueToDeactivatedDueToAdmissionCheck"},
			},
		},
		"deactivated by its user": {
			"it loses its quota",
			facts(inactive, admitted(time.Minute)),
			outcome{
				Conditions: m{"mlbatch.dev/Attempts": "True Stopped", "Evicted": "True Deactivated"},
				Evictions:  map[string]int32{"Deactivated": 1},
				Events:     []string{"EvictedDueToDeactivated"},
			},
		},
		"deactivated while it waits": {
			"it loses nothing and is held", facts(inactive, returned(1, time.Hour)),
			outcome{Conditions: m{"Evicted": "True Deactivated", "Requeued": "False Deactivated"}, Requeue: "none"},
		},
		"deactivated and told": {"nothing happens twice", facts(inactive, back("Deactivated")), outcome{}},
		"reactivated": {
			"it queues again",
			facts(back("Deactivated")),
			outcome{Conditions: m{"Requeued": "True Reactivated"}, Events: []string{"Reactivated"}},
		},
		"reactivated after a rule": {
			"whatever the cause was",
			facts(back("DeactivatedDueToAdmissionCheck")),
			outcome{Conditions: m{"Requeued": "True Reactivated"}, Events: []string{"Reactivated"}},
		},
		"a rule's deactivated one": {
			"kept as long as the retention says",
			facts(tidy, inactive, back("DeactivatedDueToRequeuingLimitExceeded")),
			outcome{Again: 119 * time.Minute},
		},
		"a rule's old deactivated one": {
			"its job goes, and it with it",
			facts(tidy, inactive, evicted(2*time.Hour, "DeactivatedDueToRequeuingLimitExceeded")),
			outcome{Does: "delete Job", Events: []string{"Deleted"}},
		},
		"a rule's old one, no job": {
			"it goes alone",
			facts(tidy, inactive, alone, evicted(2*time.Hour, "DeactivatedDueToRequeuingLimitExceeded")),
			outcome{Does: "delete Workload", Events: []string{"Deleted"}},
		},
		"a user's old deactivated one": {
			"users keep what they put aside",
			facts(tidy, inactive, evicted(2*time.Hour, "Deactivated")),
			outcome{},
		},

		// Time.
		"within its time": {
			"looked at again when it is over",
			facts(admitted(time.Minute), limited(100), used(10)),
			outcome{Again: 30 * time.Second},
		},
		"its time is over": {
			"earlier runs count",
			facts(admitted(time.Minute), limited(100), used(40)),
			outcome{
				Conditions: m{"DeactivationTarget": "True MaximumExecutionTimeExceeded"},
				Used:       -1,
				Events:     []string{"!MaximumExecutionTimeExceeded"},
			},
		},
		"its time is over while it leaves": {
			"it leaves already",
			facts(admitted(time.Minute), limited(60), evicted(0, "Preempted")),
			outcome{},
		},
		"waits for quota with a limit": {"waiting is free", facts(limited(1)), outcome{}},

		// Pods.
		"pods start": {
			"they have until the timeout",
			facts(impatient, admitted(10*time.Minute)),
			outcome{Again: 20 * time.Minute},
		},
		"pods are ready": {
			"then there is no timeout",
			facts(impatient, admitted(time.Hour), ago(0, "PodsReady", "True", "Started")),
			outcome{},
		},
		"nobody waits": {
			"off unless configured",
			facts(admitted(time.Hour), ago(time.Hour, "PodsReady", "False", "WaitForStart")),
			outcome{},
		},
		"pods came late": {
			"others get their turn; the pause is counted",
			facts(impatient, admitted(30*time.Minute), ago(30*time.Minute, "PodsReady", "False", "WaitForStart")),
			outcome{
				Conditions: m{
					"mlbatch.dev/Attempts": "True StartFailure", "Evicted": "True PodsReadyTimeout",
				},
				Requeue:   "1 1m1s",
				Evictions: map[string]int32{"PodsReadyTimeout/WaitForStart": 1},
				Events:    []string{"EvictedDueToPodsReadyTimeoutDueToWaitForStart"},
			},
		},
		"pods came late again": {
			"the pause doubles",
			facts(impatient, admitted(30*time.Minute), returned(1, -time.Hour)),
			outcome{
				Conditions: m{
					"mlbatch.dev/Attempts": "True StartFailure", "Evicted": "True PodsReadyTimeout",
				},
				Requeue:   "2 2m1s",
				Evictions: map[string]int32{"PodsReadyTimeout/WaitForStart": 1},
				Events:    []string{"EvictedDueToPodsReadyTimeoutDueToWaitForStart"},
			},
		},
		"pods came late too often": {
			"the limit is 2",
			facts(impatient, admitted(30*time.Minute), returned(2, -time.Hour)),
			outcome{
				Conditions: m{"DeactivationTarget": "True RequeuingLimitExceeded"},
				Events:     []string{"!RequeuingLimitExceeded"},
			},
		},
		"pods came while no controller ran": {
			"that is seen first",
			facts(
				impatient,
				watchedFor(10*time.Second),
				admitted(time.Hour),
				ago(time.Hour, "PodsReady", "False", "WaitForStart"),
			),
			outcome{Again: 50 * time.Second},
		},
		"a pod was lost while no controller ran": {
			"it may be there again",
			facts(
				impatient,
				watchedFor(0),
				admitted(time.Hour),
				ago(10*time.Minute, "PodsReady", "False", "WaitForRecovery"),
			),
			outcome{Again: time.Minute},
		},
		"pods did not come while no controller ran": {
			"nor after it has looked",
			facts(
				impatient,
				watchedFor(time.Minute),
				admitted(time.Hour),
				ago(time.Hour, "PodsReady", "False", "WaitForStart"),
			),
			outcome{
				Conditions: m{
					"mlbatch.dev/Attempts": "True StartFailure", "Evicted": "True PodsReadyTimeout",
				},
				Requeue:   "1 1m1s",
				Evictions: map[string]int32{"PodsReadyTimeout/WaitForStart": 1},
				Events:    []string{"EvictedDueToPodsReadyTimeoutDueToWaitForStart"},
			},
		},
		"pods start under a new controller": {
			"it saw them begin: no more time than others",
			facts(impatient, watchedFor(20*time.Minute), admitted(10*time.Minute)),
			outcome{Again: 20 * time.Minute},
		},
		"a pod is lost": {
			"recovery has its own clock",
			facts(impatient, admitted(time.Hour), ago(time.Minute, "PodsReady", "False", "WaitForRecovery")),
			outcome{Again: 4 * time.Minute},
		},
		"a pod stays lost": {
			"recovery took too long",
			facts(impatient, admitted(time.Hour), ago(5*time.Minute, "PodsReady", "False", "WaitForRecovery")),
			outcome{
				Conditions: m{
					"mlbatch.dev/Attempts": "True StartFailure", "Evicted": "True PodsReadyTimeout",
				},
				Requeue:   "1 1m1s",
				Evictions: map[string]int32{"PodsReadyTimeout/WaitForRecovery": 1},
				Events:    []string{"EvictedDueToPodsReadyTimeoutDueToWaitForRecovery"},
			},
		},
		"a pod stays lost, no limit": {
			"0 waits for ever",
			facts(
				impatient,
				func(f *Facts) { f.Config.PodsReady.RecoveryTimeout = 0 },
				admitted(time.Hour),
				ago(time.Hour, "PodsReady", "False", "WaitForRecovery"),
			),
			outcome{},
		},

		// Back into the queue.
		"pause goes on": {
			"looked at again when it is over",
			facts(back("PodsReadyTimeout"), returned(1, time.Minute)),
			outcome{Again: time.Minute},
		},
		"pause is over": {
			"its turn comes again; the count stays",
			facts(back("PodsReadyTimeout"), returned(1, 0)),
			outcome{
				Conditions: m{"Requeued": "True BackoffFinished"},
				Requeue:    "1",
				Events:     []string{"BackoffFinished"},
			},
		},
		"no pause": {
			"a check need not ask for one",
			facts(back("AdmissionCheck")),
			outcome{Conditions: m{"Requeued": "True BackoffFinished"}, Events: []string{"BackoffFinished"}},
		},
		"queue stays stopped": {
			"it waits for the queue",
			facts(stop, back("ClusterQueueStopped")),
			outcome{},
		},
		"queue goes on": {
			"so does it",
			facts(back("ClusterQueueStopped")),
			outcome{
				Conditions: m{"Requeued": "True ClusterQueueRestarted"},
				Events:     []string{"ClusterQueueRestarted"},
			},
		},
		"local queue stays stopped": {
			"it waits for the local queue",
			facts(shut, back("LocalQueueStopped")),
			outcome{},
		},
		"local queue goes on": {
			"it queues again",
			facts(back("LocalQueueStopped")),
			outcome{Conditions: m{"Requeued": "True LocalQueueRestarted"}, Events: []string{"LocalQueueRestarted"}},
		},
		"evicted, pods run": {
			"the job's reconciler releases it",
			facts(admitted(time.Hour), evicted(0, "Preempted")),
			outcome{},
		},
		"evicted without a job": {
			"no other controller would release it",
			facts(alone, admitted(time.Hour), evicted(0, "Preempted")),
			outcome{
				Released: true,
				Used:     3600,
				Conditions: m{
					"QuotaReserved": "False Pending",
					"Admitted":      "False NoReservation",
					"Requeued":      "True Preempted",
				},
			},
		},

		// Stopped queues.
		"reserved, queue stopped": {
			"what is not admitted does not keep quota of a stopped queue",
			facts(stop, asks("a"), says("a", "Ready"), says("b", "Pending"), reserved("solid")),
			outcome{
				Released:   true,
				Conditions: m{"QuotaReserved": "False Suspended", "Admitted": "False NoReservation"},
				Checks: m{
					"a": "Pending Reset to Pending after eviction. Previously: Ready",
					"b": "Pending",
				},
				Events: []string{"!Suspended"},
			},
		},
		"reserved, local queue stopped": {
			"either policy, either queue",
			facts(shut, asks("a"), says("a", "Pending"), reserved("solid")),
			outcome{
				Released:   true,
				Conditions: m{"QuotaReserved": "False Suspended", "Admitted": "False NoReservation"},
				Events:     []string{"!Suspended"},
			},
		},
		"a check asked again, queue stopped": {
			"it may have pods, so that its quota goes when they are gone",
			facts(
				stop,
				admitted(time.Hour),
				asks("a"),
				says("a", "Pending"),
				ago(0, "Admitted", "False", "UnsatisfiedAdmissionChecks"),
				pods(2),
			),
			outcome{
				Conditions: m{"Evicted": "True ClusterQueueStopped"},
				Evictions:  map[string]int32{"ClusterQueueStopped": 1},
				Events:     []string{"EvictedDueToClusterQueueStopped"},
			},
		},
		"a check asked again, local queue stopped": {
			"its pods are gone, but another may come before its job is stopped",
			facts(
				shut,
				admitted(time.Hour),
				asks("a"),
				says("a", "Pending"),
				ago(0, "Admitted", "False", "UnsatisfiedAdmissionChecks"),
			),
			outcome{
				Conditions: m{"Evicted": "True LocalQueueStopped"},
				Evictions:  map[string]int32{"LocalQueueStopped": 1},
				Events:     []string{"EvictedDueToLocalQueueStopped"},
			},
		},
		"reserved, queue deleted": {
			"the queue waits for no workload that has not started",
			facts(doomed, asks("a"), says("a", "Pending"), reserved("solid")),
			outcome{
				Released:   true,
				Conditions: m{"QuotaReserved": "False Inadmissible", "Admitted": "False NoReservation"},
				Events:     []string{"!Inadmissible"},
			},
		},
		"admitted, queue deleted": {"what runs, runs on", facts(doomed, admitted(time.Hour)), outcome{}},
		"admitted, queue stopped": {"Hold lets run what runs", facts(stop, admitted(time.Hour)), outcome{}},

		// Conditions from the beginning.
		"new, explicit": {
			"a user wants to see both conditions", facts(outspoken),
			outcome{Conditions: m{"QuotaReserved": "False PendingEvaluation", "Admitted": "False NoReservation"}},
		},
		"refused, explicit": {
			"the engine's reason stays",
			facts(outspoken, ago(time.Minute, "QuotaReserved", "False", "WaitingForQuota")),
			outcome{Conditions: m{"Admitted": "False NoReservation"}},
		},
		"told, explicit": {"once is enough", facts(outspoken, admitted(time.Hour)), outcome{}},
		"new":            {"nothing is written before there is something to say", facts(), outcome{}},

		// Priority.
		"class changed": {
			"the class's word counts, even for what runs",
			facts(admitted(time.Hour), func(f *Facts) { f.Priority = new(int32(9)) }),
			outcome{Does: "priority 9"},
		},
		"class is the same": {
			"no write without a change",
			facts(func(f *Facts) { f.Priority = new(int32(5)) }),
			outcome{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.f.Workload.DeepCopy()
			step := Next(c.f)
			if diff := cmp.Diff(c.want, describe(c.f.Workload, step)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if diff := cmp.Diff(before, c.f.Workload); diff != "" {
				t.Errorf("the workload itself was changed:\n%s", diff)
			}
		})
	}
}

func deleted(f *Facts) { f.Workload.DeletionTimestamp = &metav1.Time{Time: now} }
func orphan(f *Facts)  { f.Orphan = true }

func keptFor(d time.Duration) change {
	return func(f *Facts) { f.Config.Retention.AfterFinished = &d }
}

func makes(f *Facts) { f.JobMakes = true }

func deletedAgo(d time.Duration) change {
	return func(f *Facts) { f.Workload.DeletionTimestamp = &metav1.Time{Time: now.Add(-d)} }
}

// jobDeleted is a job that something keeps from going.
func jobDeleted(d time.Duration) change {
	return func(f *Facts) {
		f.Workload.OwnerReferences = []metav1.OwnerReference{
			{Kind: "Job", Name: "j", UID: "j", Controller: new(true)},
		}
		f.Owned, f.JobDeleted = false, now.Add(-d)
	}
}
