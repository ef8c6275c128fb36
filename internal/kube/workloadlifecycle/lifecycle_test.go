package workloadlifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

type kueueResource = corev1.ResourceName

// describe says what a step changes.
func describe(w *kueue.Workload, s Write) outcome {
	var o outcome
	switch {
	case s.Unpin:
		o.Does = "unpin"
	case s.StopPods:
		o.Does = "stop pods"
	case s.Deactivate:
		o.Does = "deactivate"
	case s.Priority != nil:
		o.Does = fmt.Sprintf("priority %d", *s.Priority)
	case s.Delete != DeleteNothing:
		o.Does = "delete " + string(s.Delete)
	}
	for _, e := range s.Events {
		warning := ""
		if e.Warning {
			warning = "!"
		}
		o.Events = append(o.Events, warning+e.Reason)
	}
	if !s.Again.IsZero() {
		o.Again = s.Again.Sub(now)
	}
	if s.Status != nil {
		describeStatus(&o, &w.Status, s.Status)
	}
	return o
}

func describeStatus(o *outcome, was, is *kueue.WorkloadStatus) {
	o.Conditions = changed(conditions(was), conditions(is))
	if diff := changed(checkStates(was), checkStates(is)); diff != nil {
		o.Checks = checkStates(is)
	}
	o.Released = was.Admission != nil && is.Admission == nil
	if !equality.Semantic.DeepEqual(was.RequeueState, is.RequeueState) {
		o.Requeue = "none"
		if r := is.RequeueState; r != nil {
			o.Requeue = fmt.Sprint(ptr.Deref(r.Count, 0))
			if r.RequeueAt != nil {
				o.Requeue += " " + r.RequeueAt.Sub(now).String()
			}
		}
	}
	if u := is.AccumulatedPastExecutionTimeSeconds; !equality.Semantic.DeepEqual(
		was.AccumulatedPastExecutionTimeSeconds,
		u,
	) {
		o.Used = ptr.Deref(u, -1)
	}
	if !equality.Semantic.DeepEqual(was.SchedulingStats, is.SchedulingStats) {
		o.Evictions = map[string]int32{}
		for _, e := range is.SchedulingStats.Evictions {
			o.Evictions[strings.TrimSuffix(e.Reason+"/"+string(e.UnderlyingCause), "/")] = e.Count
		}
	}
}

func conditions(s *kueue.WorkloadStatus) map[string]string {
	out := map[string]string{}
	for _, c := range s.Conditions {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

func checkStates(s *kueue.WorkloadStatus) map[string]string {
	out := map[string]string{}
	for _, c := range s.AdmissionChecks {
		text := string(c.State)
		if c.RetryCount != nil {
			text += fmt.Sprintf(" %d", *c.RetryCount)
		}
		out[string(c.Name)] = strings.TrimSpace(text + " " + c.Message)
	}
	return out
}

// changed are the entries of is that was does not have, and "" for those that
// went; nil if there are none.
func changed(was, is map[string]string) map[string]string {
	var out map[string]string
	put := func(k, v string) {
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	for k, v := range is {
		if was[k] != v {
			put(k, v)
		}
	}
	for k := range was {
		if _, ok := is[k]; !ok {
			put(k, "")
		}
	}
	return out
}

func TestReserve(t *testing.T) {
	type m = map[string]string
	cases := map[string]struct {
		why  string
		f    Facts
		want outcome
	}{
		"no checks": {
			"one write does both phases",
			facts(),
			outcome{Conditions: m{"QuotaReserved": "True QuotaReserved", "Admitted": "True Admitted"}},
		},
		"no checks, pods awaited": {
			"the wait begins with the admission",
			facts(impatient),
			outcome{
				Conditions: m{
					"QuotaReserved": "True QuotaReserved",
					"Admitted":      "True Admitted",
					"PodsReady":     "False WaitForStart",
				},
			},
		},
		"checks": {
			"they are asked now, those of other flavors not",
			facts(impatient, asks("a"), asks("b", "spot")),
			outcome{
				Conditions: m{"QuotaReserved": "True QuotaReserved", "Admitted": "False UnsatisfiedAdmissionChecks"},
				Checks:     m{"a": "Pending"},
			},
		},
		"checks of other flavors": {
			"no controller has to agree",
			facts(asks("b", "spot")),
			outcome{Conditions: m{"QuotaReserved": "True QuotaReserved", "Admitted": "True Admitted"}},
		},
		"after an eviction": {
			"old conditions must not look like a new eviction; the count of returns stays",
			facts(back("PodsReadyTimeout"), ago(0, "Preempted", "True", "InClusterQueue"), returned(2, 0)),
			outcome{
				Conditions: m{
					"QuotaReserved": "True QuotaReserved",
					"Admitted":      "True Admitted",
					"Evicted":       "False QuotaReserved",
					"Preempted":     "False QuotaReserved",
				},
				Requeue: "2",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := &kueue.Admission{
				ClusterQueue: "cq",
				PodSetAssignments: []kueue.PodSetAssignment{
					{Flavors: map[kueueResource]kueue.ResourceFlavorReference{"cpu": "solid"}},
				},
			}
			next := c.f.Workload.Status.DeepCopy()
			Reserve(c.f.Workload, next, a, c.f.ClusterQueue, c.f.Config, now)
			if diff := cmp.Diff(c.want, describe(c.f.Workload, Write{Status: next})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestReleased(t *testing.T) {
	cases := map[string]struct {
		why, reason string
		again       string
		used        int32
	}{
		"preempted":   {"it did nothing wrong and waits again", "Preempted", "True Preempted", 3605},
		"node failed": {"another node may take it", "NodeFailures", "True NodeFailures", 3605},
		"queue stopped": {
			"until the queue goes on",
			"ClusterQueueStopped",
			"False ClusterQueueStopped",
			3605,
		},
		"local queue stopped": {
			"until the local queue opens",
			"LocalQueueStopped",
			"False LocalQueueStopped",
			3605,
		},
		"pods not ready":   {"until the pause is over", "PodsReadyTimeout", "False PodsReadyTimeout", 3605},
		"check said retry": {"until the pause is over", "AdmissionCheck", "False AdmissionCheck", 3605},
		"deactivated":      {"until its user activates it", "Deactivated", "False Deactivated", 3605},
		"its time was over": {
			"activated again it has all its time",
			"DeactivatedDueToMaximumExecutionTimeExceeded",
			"False DeactivatedDueToMaximumExecutionTimeExceeded",
			-1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := facts(
				admitted(time.Hour),
				evicted(0, c.reason),
				limited(9999),
				used(5),
				ago(time.Hour, "PodsReady", "True", "Started"),
			)
			want := outcome{
				Released: true,
				Used:     c.used,
				Conditions: map[string]string{
					"QuotaReserved": "False Pending",
					"Admitted":      "False NoReservation",
					"Requeued":      c.again,
					"PodsReady":     "False WaitForStart",
				},
			}
			if diff := cmp.Diff(want, describe(f.Workload, Write{Status: Released(f.Workload, now)})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func TestEvictForgets(t *testing.T) {
	f := facts(admitted(time.Hour), ago(time.Hour, "BlockedOnPreemptionGates", "True", "PreemptionGated"))
	s := &f.Workload.Status
	s.UnhealthyNodes = []kueue.UnhealthyNode{{Name: "n1"}}
	s.ClusterName, s.NominatedClusterNames = new("c1"), []string{"c1"}
	s.PreemptionGates = []kueue.PreemptionGateState{{Name: "g", Position: kueue.GateOpen}}
	s.SchedulingStats = &kueue.SchedulingStats{
		Evictions: []kueue.WorkloadSchedulingStatsEviction{
			{Reason: "Preempted", UnderlyingCause: "InClusterQueue", Count: 2},
		},
	}
	next := s.DeepCopy()
	Evict(f.Workload, next, now, Eviction{Reason: "Preempted", Cause: "InClusterQueue"})
	if next.UnhealthyNodes != nil || next.ClusterName != nil || next.NominatedClusterNames != nil ||
		next.PreemptionGates[0].Position != kueue.GateClosed {
		t.Errorf("nodes, clusters and open gates of the last run are kept: %+v", next)
	}
	want := outcome{
		Conditions: map[string]string{
			"Evicted":                  "True Preempted",
			"mlbatch.dev/Attempts":     "True Preemption",
			"BlockedOnPreemptionGates": "False PreemptionGated",
		},
		Evictions: map[string]int32{"Preempted/InClusterQueue": 3},
	}
	if diff := cmp.Diff(want, describe(f.Workload, Write{Status: next})); diff != "" {
		t.Error(diff)
	}
}

func TestObservePods(t *testing.T) {
	cases := map[string]struct {
		why   string
		f     Facts
		ready bool
		want  string
	}{
		"off":          {"no write for what no user asked for", facts(admitted(time.Minute)), true, ""},
		"not admitted": {"it has no pods", facts(impatient, reserved("solid")), true, ""},
		"start": {
			"all pods run",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "False", "WaitForStart")),
			true,
			"True Started",
		},
		"still not": {
			"no write without a change",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "False", "WaitForStart")),
			false,
			"",
		},
		"runs on": {
			"no write without a change",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "True", "Started")),
			true,
			"",
		},
		"a pod is lost": {
			"its recovery is awaited",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "True", "Started")),
			false,
			"False WaitForRecovery",
		},
		"it is replaced": {
			"recovered is not started",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "False", "WaitForRecovery")),
			true,
			"True Recovered",
		},
		"admitted before": {
			"waiting was switched on later",
			facts(impatient, admitted(time.Minute)),
			false,
			"False WaitForStart",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if next := ObservePods(c.f.Workload, c.ready, c.f.Config, now); next != nil {
				got = conditions(next)["PodsReady"]
			}
			if got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// That pods have become ready is written within a second, and in time before the workload would be
// evicted for it.
func TestReadinessDue(t *testing.T) {
	waits := ago(time.Minute, "PodsReady", "False", "WaitForStart")
	const late = 30*time.Minute - 1500*time.Millisecond // of those that the impatient have
	cases := map[string]struct {
		why   string
		f     Facts
		ready bool
		since time.Duration
		told  bool
		wait  time.Duration
	}{
		"just now": {
			"it may end at once",
			facts(impatient, admitted(time.Minute), waits),
			true,
			400 * time.Millisecond,
			false,
			600 * time.Millisecond,
		},
		"for a second": {
			"people look",
			facts(impatient, admitted(time.Minute), waits),
			true,
			time.Second,
			true,
			0,
		},
		"not": {"nothing is new", facts(impatient, admitted(time.Minute), waits), false, 0, false, 0},
		"recovered": {
			"it was told that one was lost",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "False", "WaitForRecovery")),
			true,
			0,
			true,
			0,
		},
		"lost": {
			"its recovery is awaited",
			facts(impatient, admitted(time.Minute), ago(time.Minute, "PodsReady", "True", "Started")),
			false,
			0,
			true,
			0,
		},
		"at the last hour": {
			"it would be evicted although it runs",
			facts(impatient, admitted(late), waits),
			true,
			0,
			true,
			0,
		},
		"others wait": {
			"they are admitted then",
			facts(
				impatient,
				admitted(time.Minute),
				waits,
				func(f *Facts) { c := *f.Config.PodsReady; c.Awaited = true; f.Config.PodsReady = &c },
			),
			true,
			0,
			true,
			0,
		},
		"off": {"nobody asked for it", facts(admitted(time.Minute)), true, 0, false, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			next, wait := ReadinessDue(c.f.Workload, c.ready, c.f.Config, now.Add(-c.since), now)
			if (next != nil) != c.told || wait != c.wait {
				t.Errorf("told %v, wait %s, want %v and %s: %s", next != nil, wait, c.told, c.wait, c.why)
			}
		})
	}
}

// The pause doubles up to its limit, is never shorter than the rule says, hardly
// longer, and the same wherever it is computed.
func TestPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &PodsReady{
			BackoffBase: time.Duration(rapid.IntRange(1, 3600).Draw(t, "base")) * time.Second,
			BackoffMax:  time.Duration(rapid.IntRange(1, 100_000).Draw(t, "max")) * time.Second,
		}
		n := rapid.Int32Range(1, 1<<31-1).Draw(t, "n")
		w := facts().Workload
		got := c.pause(w, n)
		want := c.BackoffMax
		if n <= 40 && c.BackoffBase<<(n-1) < c.BackoffMax && c.BackoffBase<<(n-1) > 0 {
			want = c.BackoffBase << (n - 1)
		}
		if got < want || got > want+want/10_000 {
			t.Fatalf("pause is %v, want %v and at most 0.01%% more", got, want)
		}
		if again := c.pause(w, n); again != got {
			t.Fatalf("the same pause is once %v and once %v", got, again)
		}
	})
}

// Whatever the checks, queues and users do, steps come to rest, and a workload
// that rests is admitted exactly if it has a reservation and all checks agree.
func TestStepsComeToRest(t *testing.T) {
	states := []kueue.CheckState{
		kueue.CheckStatePending,
		kueue.CheckStateReady,
		kueue.CheckStateRetry,
		kueue.CheckStateRejected,
	}
	rapid.Check(t, func(t *rapid.T) {
		f := facts(impatient, tidy, asks("a"), asks("b", "spot"), asks("c", "solid"))
		f.Workload.Spec.MaximumExecutionTimeSeconds = new(int32(rapid.IntRange(60, 7200).Draw(t, "limit")))
		for range rapid.IntRange(1, 8).Draw(t, "turns") {
			w := f.Workload
			f.Now = f.Now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "pass")) * time.Second)
			switch rapid.SampledFrom([]string{"reserve", "answer", "active", "stop", "gone", "preempt"}).
				Draw(t, "turn") {
			case "reserve":
				if w.Status.Admission == nil && ptr.Deref(w.Spec.Active, true) {
					a := facts(reserved("solid")).Workload.Status.Admission
					Reserve(w, &w.Status, a, f.ClusterQueue, f.Config, f.Now)
				}
			case "answer":
				for i := range w.Status.AdmissionChecks {
					w.Status.AdmissionChecks[i].State = rapid.SampledFrom(states).Draw(t, "answer")
				}
			case "active":
				w.Spec.Active = new(rapid.Bool().Draw(t, "active"))
			case "stop":
				f.ClusterQueue.Spec.StopPolicy = new(
					rapid.SampledFrom([]kueue.StopPolicy{kueue.StopPolicyNone, kueue.StopPolicyHold}).Draw(t, "policy"),
				)
			case "gone": // the job's reconciler saw the last pod go
				if w.Status.Admission != nil && isTrue(w, kueue.WorkloadEvicted) {
					w.Status = *Released(w, f.Now)
				}
			case "preempt":
				if w.Status.Admission != nil && !isTrue(w, kueue.WorkloadEvicted) {
					Evict(w, &w.Status, f.Now, Eviction{Reason: kueue.ReasonPreempted})
				}
			}
			if !rest(&f) {
				return // deleted
			}
			admittedNow := isTrue(w, kueue.WorkloadAdmitted)
			if admittedNow != (w.Status.Admission != nil && allReady(w.Status.AdmissionChecks)) &&
				!isTrue(w, kueue.WorkloadEvicted) {
				t.Fatalf(
					"Admitted is %v with reservation %v and checks %v",
					admittedNow,
					w.Status.Admission != nil,
					checkStates(&w.Status),
				)
			}
		}
	})
}

// rest takes steps until there are none, and reports whether the workload is
// still there.
func rest(f *Facts) bool {
	for range 10 {
		step := Next(*f)
		switch {
		case step.Status != nil:
			f.Workload.Status = *step.Status
		case step.Deactivate:
			f.Workload.Spec.Active = new(false)
		case step.Delete != DeleteNothing:
			return false
		default:
			return true
		}
	}
	panic(fmt.Sprintf("no rest after 10 steps: %+v", f.Workload.Status))
}

func TestWholeSecond(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{0: 0, 1: time.Second, time.Second: time.Second} {
		if got := wholeSecond(now.Add(in)); got != metav1.NewTime(now.Add(want)) {
			t.Errorf("%v becomes %v: what the API cannot store must not end a pause early", in, got.Sub(now))
		}
	}
}
