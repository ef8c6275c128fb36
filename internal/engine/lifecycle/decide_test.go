package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// ago is a condition that changed d before start.
func ago(t ConditionType, truth bool, d time.Duration) Condition {
	return Condition{Type: t, True: truth, Reason: "Before", Since: start().Add(-d)}
}

// deployed are the conditions of an AppWrapper whose attempt began d ago.
func deployed(d time.Duration, more ...Condition) []Condition {
	out := []Condition{
		ago(QuotaReserved, true, d),
		ago(ResourcesDeployed, true, d),
		ago(PodsReady, false, d),
		ago(Unhealthy, false, d),
	}
	for _, c := range more {
		i := slices.IndexFunc(out, func(o Condition) bool { return o.Type == c.Type })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i] = c
	}
	return out
}

func job(outcome Outcome, pods int32) Component {
	return Component{
		Name: "Job j", Exists: true, Watched: true, Reports: true, Outcome: outcome,
		PodSets: []PodSet{{Name: "aw-0", Expected: pods}},
	}
}

// counted is a component that never says how it ends.
func counted(pods int32) Component {
	return Component{Name: "Pod p", Exists: true, PodSets: []PodSet{{Name: "aw-0", Expected: pods}}}
}

func missing(c Component) Component {
	c.Exists = false
	return c
}

func pods(phases ...PodPhase) []Pod {
	var out []Pod
	for i, p := range phases {
		pod := Pod{Name: fmt.Sprintf("p%d", i), PodSet: "aw-0", Phase: p}
		if p == PodFailed {
			pod.ExitCodes = []int32{1}
		}
		out = append(out, pod)
	}
	return out
}

func onBadNode(all []Pod, i int) []Pod {
	all[i].OnBadNode = "node n has the label autopilot.ibm.com/gpuhealth=EVICT"
	return all
}

func with(change func(*Policy)) Policy {
	p := Defaults()
	change(&p)
	return p
}

// summary is what most cases look at.
type summary struct {
	Phase   Phase
	Retries int32
	Action  Action
	// True are the conditions that are true, Reasons the reason of each that is
	// listed, and Recheck the time until the next look.
	True      string
	Recheck   time.Duration
	Events    string
	Finalizer FinalizerChange
}

func summarize(s Transition) summary {
	var on, events []string
	for _, c := range s.Conditions {
		if c.True {
			on = append(on, string(c.Type)+"/"+c.Reason)
		}
	}
	for _, e := range s.Events {
		events = append(events, e.Reason)
	}
	return summary{
		Phase: s.Phase, Retries: s.Retries, Action: s.Action, True: strings.Join(on, " "),
		Recheck: s.RecheckAfter, Events: strings.Join(events, " "), Finalizer: s.Finalizer,
	}
}

func TestDecide(t *testing.T) {
	two := []Component{job(Undecided, 2)}
	resumed := "QuotaReserved/Resuming ResourcesDeployed/Resuming"
	cases := map[string]struct {
		why   string
		facts Facts
		want  summary
	}{
		"new": {
			why:   "an AppWrapper is looked at before anything is asked for it",
			facts: Facts{Phase: New, Suspend: true, Components: []Component{missing(two[0])}},
			want:  summary{Phase: Suspended, Action: Nothing},
		},
		"new and not suspended": {
			why:   "the first phase is always Suspended, so that pod sets are recorded before quota is used",
			facts: Facts{Phase: New, Components: []Component{missing(two[0])}},
			want:  summary{Phase: Suspended, Action: Nothing},
		},
		"new and invalid": {
			why:   "without webhooks, what can never run has to fail here",
			facts: Facts{Phase: New, Suspend: true, Invalid: "no such path"},
			want:  summary{Phase: Failed, Action: Nothing, True: "Unhealthy/CreateFailed", Events: "Unhealthy Failed"},
		},
		"done when its quota is wanted": {
			why: "the work is done and must not be done again; the quota is free all the same",
			facts: Facts{
				Phase:      Running,
				Suspend:    true,
				Finalizer:  true,
				Fresh:      true,
				Components: []Component{job(Completed, 2)},
				Pods:       pods(PodSucceeded, PodSucceeded),
				Conditions: []Condition{ago(QuotaReserved, true, time.Hour), ago(ResourcesDeployed, true, time.Hour)},
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Nothing,
				True:    "ResourcesDeployed/Before",
				Recheck: Defaults().SuccessTTL,
			},
		},
		"done when its quota is wanted, and pods outlive it": {
			why: "a Ray cluster is kept after its job for a while, but not in the way of others",
			facts: Facts{
				Phase:      Running,
				Suspend:    true,
				Finalizer:  true,
				Fresh:      true,
				Components: []Component{job(Completed, 2)},
				Pods:       pods(PodRunning, PodSucceeded),
				Conditions: []Condition{ago(QuotaReserved, true, time.Hour), ago(ResourcesDeployed, true, time.Hour)},
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Delete,
				True:    "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
				Recheck: Defaults().DeletionGrace,
			},
		},
		"suspended waits": {
			why:   "nothing happens without quota",
			facts: Facts{Phase: Suspended, Suspend: true, Components: []Component{missing(two[0])}},
			want:  summary{Phase: Suspended, Action: Nothing},
		},
		"suspended resumes": {
			why:   "quota is marked as used, and the finalizer added, before anything is created",
			facts: Facts{Phase: Suspended, Components: []Component{missing(two[0])}},
			want:  summary{Phase: Resuming, Action: Nothing, True: resumed, Finalizer: AddFinalizer},
		},
		"suspended resumes with finalizer": {
			why:   "the write that unsuspends may add the finalizer too, which saves one",
			facts: Facts{Phase: Suspended, Finalizer: true, Components: []Component{missing(two[0])}},
			want:  summary{Phase: Resuming, Action: Nothing, True: resumed},
		},
		"suspended with a stray pod": {
			why:   "a pod created by its controller at the last moment must not run without quota (P10)",
			facts: Facts{Phase: Suspended, Suspend: true, Pods: pods(PodRunning)},
			want: summary{
				Phase:   Suspending,
				Action:  Delete,
				True:    "QuotaReserved/UnfinishedPods DeletingResources/DeletionInitiated",
				Recheck: 10 * time.Minute,
				Events:  "Suspending",
			},
		},
		"resuming and suspended again": {
			why:   "preemption may come before creation",
			facts: Facts{Phase: Resuming, Suspend: true, Finalizer: true, Conditions: deployed(0), Components: two},
			want: summary{
				Phase: Suspending, Action: Delete, Recheck: 10 * time.Minute, Events: "Suspending",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
		"resuming creates": {
			why: "components that are missing are created; the rest was before a crash",
			facts: Facts{
				Phase:      Resuming,
				Finalizer:  true,
				Conditions: deployed(0),
				Components: []Component{two[0], missing(counted(1))},
			},
			want: summary{Phase: Resuming, Action: Create, True: "QuotaReserved/Before ResourcesDeployed/Before"},
		},
		"resuming without finalizer": {
			why:   "a user removed the finalizer: without it a deletion would leave the components behind",
			facts: Facts{Phase: Resuming, Conditions: deployed(0), Components: []Component{missing(two[0])}},
			want: summary{
				Phase:     Resuming,
				Action:    Create,
				True:      "QuotaReserved/Before ResourcesDeployed/Before",
				Finalizer: AddFinalizer,
			},
		},
		"resuming done": {
			why:   "everything exists",
			facts: Facts{Phase: Resuming, Finalizer: true, Conditions: deployed(0), Components: two},
			want:  summary{Phase: Running, Action: Nothing, True: "QuotaReserved/Before ResourcesDeployed/Before"},
		},
		"resuming fatal": {
			why: "an object that the API server calls invalid stays invalid",
			facts: Facts{
				Phase:       Resuming,
				Finalizer:   true,
				Conditions:  deployed(0),
				Components:  []Component{missing(two[0])},
				Policy:      Defaults(),
				CreateError: &CreateError{Component: "Job j", Message: "invalid", Fatal: true},
			},
			want: summary{
				Phase:   Failed,
				Action:  Nothing,
				Recheck: time.Second,
				Events:  "Unhealthy Failed",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/CreateFailed DeletingResources/DeletionInitiated",
			},
		},
		"resuming, passing error": {
			why: "the API server may be away for a moment",
			facts: Facts{
				Phase:       Resuming,
				Finalizer:   true,
				Conditions:  deployed(30 * time.Second),
				Components:  []Component{missing(two[0])},
				Policy:      Defaults(),
				CreateError: &CreateError{Component: "Job j", Message: "timeout"},
			},
			want: summary{
				Phase:   Resuming,
				Action:  Nothing,
				Recheck: time.Second,
				True:    "QuotaReserved/Before ResourcesDeployed/Before",
			},
		},
		"resuming, passing error that stays": {
			why: "after the admission grace the attempt is over",
			facts: Facts{
				Phase:       Resuming,
				Finalizer:   true,
				Conditions:  deployed(time.Minute),
				Components:  []Component{two[0], missing(counted(1))},
				Policy:      Defaults(),
				CreateError: &CreateError{Component: "Pod p", Message: "timeout"},
			},
			want: summary{
				Phase:   Resetting,
				Retries: 1,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Resetting",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/CreateFailed DeletingResources/DeletionInitiated",
			},
		},
		"running suspended": {
			why: "preemption",
			facts: Facts{
				Phase:      Running,
				Suspend:    true,
				Conditions: deployed(time.Hour),
				Components: two,
				Pods:       pods(PodRunning, PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Suspending, Action: Delete, Recheck: 10 * time.Minute, Events: "Suspending",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
		"running, component gone": {
			why: "a user deleted it on purpose: no retry and no grace",
			facts: Facts{
				Phase:      Running,
				Fresh:      true,
				Conditions: deployed(time.Hour),
				Components: []Component{two[0], missing(counted(1))},
				Pods:       pods(PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Failed,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Failed",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/MissingComponent DeletingResources/DeletionInitiated",
			},
		},
		"running, job failed": {
			why: "the Job gave up: another attempt at once",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{job(Broken, 2)},
				Pods:       pods(PodFailed, PodFailed),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Resetting,
				Retries: 1,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Resetting",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FailedComponent DeletingResources/DeletionInitiated",
			},
		},
		"running, job failed, no retries left": {
			why: "the limit is a limit",
			facts: Facts{
				Phase:      Running,
				Retries:    3,
				Conditions: deployed(time.Hour),
				Components: []Component{job(Broken, 2)},
				Pods:       pods(PodFailed, PodFailed),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Failed,
				Retries: 3,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Failed",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FailedComponent DeletingResources/DeletionInitiated",
			},
		},
		"running, all done": {
			why: "quota is free at once, the components stay to be looked at",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour, ago(PodsReady, true, time.Minute)),
				Components: []Component{job(Completed, 2)},
				Pods:       pods(PodSucceeded, PodSucceeded),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Nothing,
				Recheck: 7 * 24 * time.Hour,
				True:    "ResourcesDeployed/Before",
			},
		},
		"running, counted pods done": {
			why: "kinds that do not report are judged by their pods",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{counted(2)},
				Pods:       pods(PodSucceeded, PodSucceeded),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Nothing,
				Recheck: 7 * 24 * time.Hour,
				True:    "ResourcesDeployed/Before",
			},
		},
		"running, failed pod": {
			why: "others may still end, or a person look: a grace begins",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{counted(2)},
				Pods:       pods(PodRunning, PodFailed),
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Running, Action: Nothing, Recheck: time.Minute, Events: "Unhealthy",
				True: "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FoundFailedPods",
			},
		},
		"running, failed pod, grace over": {
			why: "the attempt is over",
			facts: Facts{
				Phase: Running,
				Conditions: deployed(
					time.Hour,
					Condition{Type: Unhealthy, True: true, Reason: FoundFailedPods, Since: start().Add(-time.Minute)},
				),
				Components: []Component{counted(2)},
				Pods:       pods(PodRunning, PodFailed),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Resetting,
				Retries: 1,
				Action:  Delete,
				Recheck: time.Second,
				Events:  "Resetting",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FoundFailedPods DeletingResources/DeletionInitiated",
			},
		},
		"running, terminal exit code, grace over": {
			why: "the program says that trying again is useless",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, time.Minute)),
				Components: []Component{counted(2)},
				Pods:       pods(PodRunning, PodFailed),
				Policy:     with(func(p *Policy) { p.TerminalExitCodes = []int32{1} }),
			},
			want: summary{
				Phase:   Failed,
				Action:  Delete,
				Recheck: time.Second,
				Events:  "Unhealthy Failed",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FoundFailedPods DeletingResources/DeletionInitiated",
			},
		},
		"running, exit code not retryable": {
			why: "a list of retryable codes makes every other one terminal",
			facts: Facts{
				Phase: Running, Conditions: deployed(time.Hour), Components: []Component{job(Broken, 1)},
				Pods: pods(PodFailed), Policy: with(func(p *Policy) { p.RetryableExitCodes = []int32{2} }),
			},
			want: summary{
				Phase:   Failed,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Failed",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/FailedComponent DeletingResources/DeletionInitiated",
			},
		},
		"running, bad node": {
			why: "pods leave a node labelled EVICT without grace and without using retries",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: two,
				Pods:       onBadNode(pods(PodRunning, PodRunning), 1),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Resetting,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Resetting",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/AutopilotNoExecute DeletingResources/DeletionInitiated",
			},
		},
		"running, healed": {
			why: "the failed pod was replaced or deleted",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, time.Second)),
				Components: two,
				Pods:       pods(PodRunning, PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:  Running,
				Action: Nothing,
				True:   "QuotaReserved/Before ResourcesDeployed/Before PodsReady/SufficientPodsReady",
			},
		},
		"running, ready": {
			why: "from now on only events matter",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Second),
				Components: two,
				Pods:       pods(PodRunning, PodSucceeded),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:  Running,
				Action: Nothing,
				True:   "QuotaReserved/Before ResourcesDeployed/Before PodsReady/SufficientPodsReady",
			},
		},
		"running, ready, unwatched": {
			why: "a kind that is not watched has to be asked whether it is done",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Second),
				Components: []Component{{Name: "RayJob r", Exists: true, Reports: true, PodSets: two[0].PodSets}},
				Pods:       pods(PodRunning, PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Running,
				Action:  Nothing,
				Recheck: 5 * time.Second,
				True:    "QuotaReserved/Before ResourcesDeployed/Before PodsReady/SufficientPodsReady",
			},
		},
		"running, pods missing": {
			why: "the controller of the component has not made them yet",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(20 * time.Second),
				Components: two,
				Pods:       pods(PodPending),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Running,
				Action:  Nothing,
				Recheck: 40 * time.Second,
				True:    "QuotaReserved/Before ResourcesDeployed/Before",
			},
		},
		"running, pods missing for too long": {
			why: "after the admission grace the attempt is over",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Minute),
				Components: two,
				Pods:       pods(PodPending),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Resetting,
				Retries: 1,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				Events:  "Unhealthy Resetting",
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/InsufficientPodsReady DeletingResources/DeletionInitiated",
			},
		},
		"running, pods pending": {
			why: "images are pulled: the longer grace applies",
			facts: Facts{
				Phase:      Running,
				Conditions: deployed(time.Minute),
				Components: two,
				Pods:       pods(PodPending, PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Running,
				Action:  Nothing,
				Recheck: 4 * time.Minute,
				True:    "QuotaReserved/Before ResourcesDeployed/Before",
			},
		},
		"resetting suspended": {
			why: "preemption during a reset gives the quota back",
			facts: Facts{
				Phase:      Resetting,
				Suspend:    true,
				Conditions: deployed(time.Minute, ago(DeletingResources, true, time.Second)),
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Suspending, Action: Nothing, Recheck: time.Second, Events: "Suspending",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
		"resetting, waiting for deletion": {
			why: "what is marked is not deleted again",
			facts: Facts{
				Phase:      Resetting,
				Conditions: deployed(time.Minute, ago(DeletingResources, true, time.Minute)),
				Pods:       []Pod{{Name: "p", Phase: PodRunning, Deleting: true}},
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Resetting, Action: Nothing, Recheck: 9 * time.Minute,
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/Before",
			},
		},
		"resetting, pause": {
			why: "the pause runs from the beginning of the reset",
			facts: Facts{
				Phase:      Resetting,
				Fresh:      true,
				Conditions: deployed(time.Minute, ago(DeletingResources, true, 30*time.Second)),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Resetting,
				Action:  Nothing,
				Recheck: time.Minute,
				True:    "QuotaReserved/Before DeletingResources/Before",
			},
		},
		"resetting, pause over": {
			why: "the next attempt starts with fresh conditions",
			facts: Facts{
				Phase:      Resetting,
				Fresh:      true,
				Finalizer:  true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, 90*time.Second)),
				Policy:     Defaults(),
			},
			want: summary{Phase: Resuming, Action: Nothing, True: resumed},
		},
		"suspending, done": {
			why: "the quota is released when the last pod is gone",
			facts: Facts{
				Phase:      Suspending,
				Suspend:    true,
				Fresh:      true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, time.Second)),
				Policy:     Defaults(),
			},
			want: summary{Phase: Suspended, Action: Nothing, Events: "Suspended"},
		},
		"suspending, pods left": {
			why: "the component is gone, its pods are not",
			facts: Facts{
				Phase:      Suspending,
				Suspend:    true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, time.Second)),
				Pods:       pods(PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Suspending, Action: Delete, Recheck: 10*time.Minute - time.Second,
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/Before",
			},
		},
		"suspending, forced": {
			why: "a node that does not answer must not hold the quota for ever",
			facts: Facts{
				Phase:      Suspending,
				Suspend:    true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, 10*time.Minute)),
				Pods:       []Pod{{Name: "p", Phase: PodRunning, Deleting: true}},
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Suspending, Action: ForceDelete, Recheck: 5 * time.Second, Events: "DeletionForced",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionForced",
			},
		},
		"failed, kept for debugging": {
			why: "the user asked to keep the pods; the quota is kept with them",
			facts: Facts{
				Phase:      Failed,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, 0)),
				Components: two,
				Pods:       pods(PodRunning),
				Policy:     with(func(p *Policy) { p.FailedGrace = time.Hour }),
			},
			want: summary{
				Phase: Failed, Action: Nothing, Recheck: time.Hour,
				True: "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/Before",
			},
		},
		"failed, kept, preempted": {
			why: "others need the quota more than the debugger",
			facts: Facts{
				Phase:      Failed,
				Suspend:    true,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, 0), ago(DeletingResources, false, time.Minute)),
				Components: two,
				Pods:       pods(PodRunning),
				Policy:     with(func(p *Policy) { p.FailedGrace = time.Hour }),
			},
			want: summary{
				Phase:   Failed,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				True:    "QuotaReserved/Before ResourcesDeployed/Before Unhealthy/Before DeletingResources/DeletionInitiated",
			},
		},
		"failed, deleted": {
			why: "the quota is released when the last pod is gone; what was wrong stays to be read",
			facts: Facts{
				Phase:      Failed,
				Fresh:      true,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, 0), ago(DeletingResources, true, time.Second)),
				Policy:     Defaults(),
			},
			want: summary{Phase: Failed, Action: Nothing, True: "Unhealthy/Before"},
		},
		"succeeded, kept": {
			why: "the time runs from the end of the job",
			facts: Facts{
				Phase:      Succeeded,
				Conditions: deployed(30*24*time.Hour, ago(QuotaReserved, false, 24*time.Hour)),
				Components: []Component{job(Completed, 2)},
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Nothing,
				Recheck: 6 * 24 * time.Hour,
				True:    "ResourcesDeployed/Before",
			},
		},
		"succeeded, time over": {
			why: "finished components are cleaned up; the AppWrapper itself stays",
			facts: Facts{
				Phase:      Succeeded,
				Conditions: deployed(30*24*time.Hour, ago(QuotaReserved, false, 7*24*time.Hour)),
				Components: []Component{job(Completed, 2)},
				Pods:       pods(PodSucceeded),
				Policy:     Defaults(),
			},
			want: summary{
				Phase:   Succeeded,
				Action:  Delete,
				Recheck: 10 * time.Minute,
				True:    "ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
		"succeeded, cleaned up": {
			why: "nothing more will happen",
			facts: Facts{
				Phase:      Succeeded,
				Conditions: []Condition{ago(QuotaReserved, false, time.Hour), ago(ResourcesDeployed, false, time.Hour)},
				Policy:     Defaults(),
			},
			want: summary{Phase: Succeeded, Action: Nothing},
		},
		"terminating": {
			why: "deletion of the AppWrapper deletes its components, whatever it was doing",
			facts: Facts{
				Phase:      Running,
				Deleting:   true,
				Finalizer:  true,
				Conditions: deployed(time.Hour),
				Components: two,
				Pods:       pods(PodRunning, PodRunning),
				Policy:     Defaults(),
			},
			want: summary{
				Phase: Terminating, Action: Delete, Recheck: 10 * time.Minute, Events: "Terminating",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
		"terminating, done": {
			why: "the AppWrapper may go once nothing is left of it",
			facts: Facts{
				Phase:      Terminating,
				Deleting:   true,
				Finalizer:  true,
				Fresh:      true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, time.Second)),
				Policy:     Defaults(),
			},
			want: summary{Phase: Terminating, Action: Nothing, Finalizer: RemoveFinalizer},
		},
		"terminating, never ours": {
			why:   "an AppWrapper that never ran has nothing to clean up",
			facts: Facts{Phase: Suspended, Deleting: true, Suspend: true},
			want:  summary{Phase: Suspended, Action: Nothing},
		},
		"unknown phase": {
			why:   "status that was edited by hand must not leave an AppWrapper stuck",
			facts: Facts{Phase: "Dancing", Conditions: deployed(time.Hour), Components: two, Policy: Defaults()},
			want: summary{
				Phase: Suspending, Action: Delete, Recheck: 10 * time.Minute, Events: "Suspending",
				True: "QuotaReserved/Before ResourcesDeployed/Before DeletingResources/DeletionInitiated",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.facts.Policy.GraceMaximum == 0 {
				c.facts.Policy = Defaults()
			}
			got := summarize(Decide(c.facts, start()))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n(-want +got)\n%s", c.why, diff)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	cases := map[string]struct {
		why   string
		facts Facts
	}{
		"release": {
			"a cache that lags behind must not release quota",
			Facts{Phase: Suspending, Suspend: true, Conditions: deployed(time.Hour, ago(DeletingResources, true, 0))},
		},
		"reset": {
			"a pod of the old attempt must not live beside the new one",
			Facts{Phase: Resetting, Conditions: deployed(time.Hour, ago(DeletingResources, true, time.Hour))},
		},
		"missing": {
			"a component that was just created may not be in the cache yet",
			Facts{Phase: Running, Conditions: deployed(0), Components: []Component{missing(job(Undecided, 1))}},
		},
		"terminating": {
			"the finalizer goes last",
			Facts{
				Phase:      Terminating,
				Deleting:   true,
				Finalizer:  true,
				Conditions: deployed(time.Hour, ago(DeletingResources, true, 0)),
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.facts.Policy = Defaults()
			if s := Decide(c.facts, start()); !s.Confirm || s.Phase != c.facts.Phase {
				t.Errorf("%s: got %+v", c.why, s)
			}
			c.facts.Fresh = true
			if s := Decide(c.facts, start()); s.Confirm {
				t.Errorf("fresh facts need no confirmation: %+v", s)
			}
		})
	}
}

func TestInputsAreNotChanged(t *testing.T) {
	f := Facts{
		Phase:      Running,
		Conditions: deployed(time.Hour),
		Components: []Component{job(Completed, 1)},
		Policy:     Defaults(),
	}
	before := slices.Clone(f.Conditions)
	Decide(f, start())
	if diff := cmp.Diff(before, f.Conditions); diff != "" {
		t.Errorf("Decide changed its facts (-before +after)\n%s", diff)
	}
}

// TestFailureNamesPodNodeAndCode: what failed, where, and how, for pods that no
// controller replaces and for Jobs that gave up.
func TestFailureNamesPodNodeAndCode(t *testing.T) {
	failed := []Pod{{Name: "p-0", PodSet: "a", Node: "node-1", Phase: PodFailed, ExitCodes: []int32{3}}}
	set := []PodSet{{Name: "a", Expected: 1}}
	tests := map[string]struct {
		why       string
		component Component
		policy    Policy
		want      string
	}{
		"pods": {
			"no controller replaces them",
			Component{Name: "Pod p", Exists: true, PodSets: set},
			Defaults(),
			"pod p-0 failed on node-1 with exit code 3",
		},
		"job": {
			"its own message does not say",
			Component{
				Name:    "Job j",
				Exists:  true,
				Reports: true,
				Outcome: Broken,
				Message: "too many failures",
				PodSets: set,
			},
			Defaults(),
			"Job j failed: too many failures (pod p-0 failed on node-1 with exit code 3)",
		},
		"terminal": {
			"and why it is over",
			Component{Name: "Pod p", Exists: true, PodSets: set},
			with(func(p *Policy) { p.TerminalExitCodes = []int32{3} }),
			"pod p-0 ended on node-1 with exit code 3, which rules out another attempt",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				Phase:      Running,
				Conditions: deployed(time.Hour),
				Components: []Component{tc.component},
				Pods:       failed,
				Policy:     tc.policy,
			}
			conditions := Decide(f, start()).Conditions
			i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Type == Unhealthy })
			if i < 0 || !strings.HasPrefix(conditions[i].Message, tc.want) {
				t.Errorf("%s: conditions are %+v, want Unhealthy with %q", tc.why, conditions, tc.want)
			}
		})
	}
}
