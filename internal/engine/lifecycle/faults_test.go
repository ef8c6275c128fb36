package lifecycle

import (
	"strings"
	"testing"
	"time"
)

// Faults of AppWrapper before (A1 to A18 of what was found), and which tests would find each of them here. Those without
// a package are in this one.
//
//	A1  done after the first wave      TestFaults: more completions than parallelism, leader that never ends
//	A2  a Job's own retries are no use TestFaults: failed pod, replaced; failed pod, back-off; pod failure policy
//	A3  a pod lost late has no grace   TestFaults: pod drained late, one set makes up for another
//	A4  a second failure has no grace  TestSecondFailure; pauses that grow: TestFlappingNode
//	A5  moves need retries             TestFaults: bad node, no retries left; bad node, retry limit 0; failed on a bad node
//	A6  polls                          kube/controllers/appwrapper: TestBadNode, TestNodeTurnsBad, TestPodChanges, TestLife
//	A7  Ray is not read                TestFaults: finished Ray job; kube/jobs/appwrapper: TestObserve
//	A8  ordered starts are late        TestFaults: ordered start
//	A9  few kinds                      kube/jobs/appwrapper: TestNewKindIsWrapped, TestRuntimesAreCounted
//	A10 slack does not follow nodes    kube/controllers/slack: TestLendingFollowsNodes
//	A11 lenient configuration          kube/settings: TestFiles
//	A12 confused deputy                kube/webhook: TestValidateNewWrapper
//	A13 misspelt annotations           kube/webhook: TestAnnotationsAreTold; kube/jobs/appwrapper: TestParsePolicy
//	A14 nobody knows what was lost     view: TestAttemptsAsARetryPolicySeesThem; test/e2e: TestAttemptsAreTold
//	A15 all restarts, and for ever     TestFlappingNode, TestPolicyOfRetries; engine/podplan: TestPolicyOfRetries
//	A16 debugging holds quota          TestDecide: failed, kept for debugging; failed, kept, preempted
//	A17 owners compared by name        kube/controllers/appwrapper: TestForeignObject, TestWhoseObjectItIs
//	A18 a kind that is gone            kube/controllers/appwrapper: TestDeletionOfKindThatIsGone
//
// TestFaults are those of them that are decided here.
func TestFaults(t *testing.T) {
	cases := map[string]struct {
		why   string
		facts Facts
		want  Phase
		check func(t *testing.T, s Transition)
	}{
		"more completions than parallelism": {
			why: "a Job with 6 completions, 2 at a time, is not done after its first two pods",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Minute),
				Components: []Component{job(Undecided, 2)},
				Pods:       pods(PodSucceeded, PodSucceeded),
			},
			want: Running,
		},
		"leader that never ends": {
			why: "a JobSet is done when its success policy says so, though its leader was stopped",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Minute),
				Components: []Component{job(Completed, 3)},
				Pods:       pods(PodSucceeded, PodSucceeded),
			},
			want: Succeeded,
		},
		"failed pod, replaced": {
			why: "a Job that replaced a failed pod within its backoffLimit is healthy",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{job(Undecided, 2)},
				Pods:       pods(PodFailed, PodRunning, PodRunning),
			},
			want: Running,
			check: func(t *testing.T, s Transition) {
				t.Helper()
				if on := summarize(s).True; strings.Contains(on, "Unhealthy") || s.RecheckAfter != 0 {
					t.Errorf("it must be healthy and at rest, got %s, recheck after %s", on, s.RecheckAfter)
				}
			},
		},
		"failed pod, back-off": {
			why: "while the Job waits to replace a pod, only the long grace runs",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour, ago(PodsReady, false, 2*time.Minute)),
				Components: []Component{job(Undecided, 2)},
				Pods:       pods(PodFailed, PodRunning),
			},
			want: Running,
		},
		"failed pod, replaced, counted": {
			why: "a Deployment replaces an evicted pod and leaves the failed one behind",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{counted(2)},
				Pods:       pods(PodFailed, PodRunning, PodRunning),
			},
			want: Running,
		},
		"pod failure policy": {
			why: "a Job failed by its own podFailurePolicy is not tried again",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{job(NonRetryable, 2)},
				Pods:       pods(PodFailed),
			},
			want: Failed,
		},
		"pod drained late": {
			why: "a pod lost after hours has the whole admission grace to come back",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(5*time.Hour, ago(PodsReady, true, 4*time.Hour)),
				Components: []Component{job(Undecided, 2)},
				Pods:       pods(PodRunning),
			},
			want: Running,
			check: func(t *testing.T, s Transition) {
				t.Helper()
				if s.RecheckAfter != time.Minute {
					t.Errorf("want the full grace of 1m, got %s", s.RecheckAfter)
				}
			},
		},
		"one set makes up for another": {
			why: "two masters do not replace a worker",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Minute),
				Components: []Component{
					{Name: "X x", Exists: true, PodSets: []PodSet{{Name: "aw-0", Expected: 1}, {Name: "aw-1", Expected: 1}}},
				},
				Pods: pods(PodRunning, PodRunning),
			},
			want: Resetting,
		},
		"bad node, no retries left": {
			why: "a healthy job on a bad node moves although its retries are used up",
			facts: Facts{
				Phase:      Running,
				Retries:    3,
				Conditions: deployed(time.Hour),
				Components: []Component{job(Undecided, 1)},
				Pods:       onBadNode(pods(PodRunning), 0),
			},
			want: Resetting,
			check: func(t *testing.T, s Transition) {
				t.Helper()
				if s.Retries != 3 {
					t.Errorf("moving must not count: %d retries", s.Retries)
				}
			},
		},
		"bad node, retry limit 0": {
			why: "no retries for failures does not mean no moves",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Policy:     with(func(p *Policy) { p.RetryLimit = 0 }),
				Components: []Component{job(Undecided, 1)},
				Pods:       onBadNode(pods(PodRunning), 0),
			},
			want: Resetting,
		},
		"failed on a bad node": {
			why: "the node is blamed for the failure of a job that ran on it",
			facts: Facts{
				Phase:      Running,
				Retries:    3,
				Conditions: deployed(time.Hour),
				Components: []Component{job(Broken, 1)},
				Pods:       onBadNode(pods(PodFailed), 0),
			},
			want: Resetting,
		},
		"finished Ray job": {
			why: "a RayJob deletes its cluster when done; the missing pods are not missed",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{
					{
						Name:    "RayJob r",
						Exists:  true,
						Reports: true,
						Outcome: Completed,
						PodSets: []PodSet{{Name: "aw-0", Expected: 8}},
					},
				},
			},
			want: Succeeded,
		},
		"ordered start": {
			why: "the second stage of a JobSet is not late while the first has to get ready",
			facts: Facts{Phase: Running, Conditions: deployed(2 * time.Minute), Components: []Component{{
				Name: "JobSet s", Exists: true, Reports: true,
				PodSets: []PodSet{{Name: "aw-0", Expected: 1}, {Name: "aw-1", Expected: 4, HeldBack: true}},
			}}, Pods: pods(PodPending)},
			want: Running,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.facts.Policy.GraceMaximum == 0 {
				c.facts.Policy = Defaults()
			}
			c.facts.Fresh, c.facts.Finalizer = true, true
			s := Decide(c.facts, start())
			if s.Phase != c.want {
				t.Errorf("%s: got %s, want %s: %+v", c.why, s.Phase, c.want, s.Events)
			}
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}

// TestSecondFailure: graces and pauses of a second failure are as
// long as those of the first.
func TestSecondFailure(t *testing.T) {
	w := newWorld(Defaults(), counted(2))
	w.suspend = false
	w.advanceTo(t, Running)
	for attempt := range 2 {
		w.pods = pods(PodRunning, PodFailed)
		failed := w.now
		w.advanceTo(t, Resetting)
		if grace := w.now.Sub(failed); grace != time.Minute {
			t.Errorf("attempt %d: failure grace lasted %s, want 1m", attempt, grace)
		}
		began := w.now
		w.advanceTo(t, Resuming)
		if pause := w.now.Sub(began); pause != 90*time.Second {
			t.Errorf("attempt %d: retry pause lasted %s, want 90s", attempt, pause)
		}
		w.advanceTo(t, Running)
	}
	if w.retries != 2 {
		t.Errorf("two failures used %d retries", w.retries)
	}
}
