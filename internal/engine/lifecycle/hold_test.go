package lifecycle

import (
	"strings"
	"testing"
	"time"
)

// bound pods have a node; deleted ones may take another hour to end.
func bound(phases ...PodPhase) []Pod {
	all := pods(phases...)
	for i := range all {
		all[i].Node = "n"
	}
	return all
}

func deleted(all []Pod) []Pod {
	for i := range all {
		all[i].Deleting, all[i].Until = true, start().Add(time.Hour)
	}
	return all
}

// kept is a component that was deleted and that another's finalizer keeps.
func kept(c Component) Component {
	c.Deleting, c.Finalizers = true, []string{"example.com/hold"}
	return c
}

func truth(s Transition, of ConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == of {
			return c.True
		}
	}
	return false
}

func reasonOf(s Transition, of ConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == of {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// TestRunningAndSuspendedIsLeft: whatever became of its components and pods, and in whatever order it was
// seen, a job that is to be suspended is not Running after the next step: it has succeeded, or it deletes
// what there is. Its Job may complete in the moment in which its Workload is evicted.
func TestRunningAndSuspendedIsLeft(t *testing.T) {
	conditions := []Condition{
		ago(QuotaReserved, true, time.Hour),
		ago(ResourcesDeployed, true, time.Hour),
		ago(PodsReady, true, time.Hour),
	}
	for _, outcome := range []Outcome{Undecided, Completed, Broken, NonRetryable} {
		for _, exists := range []bool{true, false} {
			for _, gone := range []string{"", "its node does not exist any more"} {
				for name, all := range map[string][]Pod{
					"none": nil, "run": bound(PodRunning, PodRunning), "are done": bound(PodSucceeded, PodSucceeded), "failed": bound(PodFailed, PodRunning),
					"leave": deleted(bound(PodRunning, PodSucceeded)), "have to leave": onBadNode(bound(PodRunning, PodRunning), 0),
				} {
					c := job(outcome, 2)
					c.Exists, c.NodeGone = exists, gone
					f := Facts{
						Phase:      Running,
						Suspend:    true,
						Finalizer:  true,
						Conditions: conditions,
						Components: []Component{c},
						Pods:       all,
						Policy:     Defaults(),
					}
					step := Decide(f, start())
					if step.Confirm {
						f.Fresh = true
						step = Decide(f, start())
					}
					want := Suspending
					if exists && outcome == Completed {
						want = Succeeded
					}
					if step.Phase != want || step.Confirm {
						t.Errorf(
							"component %v, there %t, %s, its pods %s: %s, confirm %t",
							outcome,
							exists,
							gone,
							name,
							step.Phase,
							step.Confirm,
						)
					}
				}
			}
		}
	}
}

// Quota is held exactly while a pod may use it, whatever is left of objects.
func TestQuotaGoesWithTheLastPod(t *testing.T) {
	deploy := counted(1)
	deploy.Deputies = true
	forced := ago(DeletingResources, true, time.Minute)
	forced.Reason = DeletionForced
	for name, tc := range map[string]struct {
		why       string
		phase     Phase
		suspend   bool
		deleting  bool
		component Component
		pods      []Pod
		mark      Condition
		holds     bool
	}{
		"a Job is kept": {
			"a deleted Job makes no pods", Suspending, true, false,
			kept(job(Undecided, 1)), nil, ago(DeletingResources, true, time.Second), false,
		},
		"a Job and its ended pods are kept": {
			"ended pods use nothing", Suspending, true, false,
			kept(job(Undecided, 2)), deleted(bound(PodFailed, PodSucceeded)), ago(DeletingResources, true, time.Second), false,
		},
		"a pod goes on": {
			"deleted is not ended", Suspending, true, false,
			kept(job(Undecided, 1)), deleted(bound(PodRunning)), ago(DeletingResources, true, time.Second), true,
		},
		"a pod without a node is kept": {
			"no scheduler binds it", Suspending, true, false,
			kept(job(Undecided, 1)), deleted(pods(PodPending)), ago(DeletingResources, true, time.Second), false,
		},
		"not deleted yet": {
			"its controller may make a pod at any moment", Suspending, true, false,
			job(Undecided, 1), nil, ago(DeletingResources, true, time.Second), true,
		},
		"a Deployment is kept": {
			"its ReplicaSet makes pods as long as the Deployment exists", Suspending, true, false,
			kept(deploy), nil, ago(DeletingResources, true, time.Second), true,
		},
		"a Deployment is kept, and deletion was forced": {
			"then what it owns was deleted before it", Suspending, true, false, kept(deploy), nil, forced, false,
		},
		"deleted by its user": {
			"the AppWrapper need not wait for others", Running, false, true,
			kept(job(Undecided, 1)), nil, ago(DeletingResources, true, time.Second), false,
		},
		"kept for debugging": {
			"a Job that failed makes no pods, and those that ended use nothing", Failed, false, false,
			job(Broken, 1), bound(PodFailed), ago(DeletingResources, false, time.Second), false,
		},
		"kept for debugging, one still runs": {
			"its node is in use", Failed, false, false,
			job(Broken, 2), bound(PodFailed, PodRunning), ago(DeletingResources, false, time.Second), true,
		},
		"between two attempts": {
			"the next one needs the quota", Resetting, false, false,
			kept(job(Undecided, 1)), nil, ago(DeletingResources, true, time.Second), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				Phase:      tc.phase,
				Suspend:    tc.suspend,
				Deleting:   tc.deleting,
				Finalizer:  true,
				Fresh:      true,
				Policy:     with(func(p *Policy) { p.FailedGrace = time.Hour }),
				Components: []Component{tc.component},
				Pods:       tc.pods,
				Conditions: []Condition{
					ago(QuotaReserved, true, time.Hour),
					ago(ResourcesDeployed, true, time.Hour),
					tc.mark,
				},
			}
			if got := truth(Decide(f, start()), QuotaReserved); got != tc.holds {
				t.Errorf("quota is held: %v, want %v, because %s", got, tc.holds, tc.why)
			}
			if f.Fresh = false; !tc.holds && !Decide(f, start()).Confirm {
				t.Error("a cache that lags behind gave the quota away")
			}
		})
	}
}

// Our own finalizer does not wait for those of others.
func TestDeletionDoesNotWaitForOthersFinalizers(t *testing.T) {
	f := Facts{
		Phase:      Terminating,
		Deleting:   true,
		Finalizer:  true,
		Fresh:      true,
		Policy:     Defaults(),
		Components: []Component{kept(job(Undecided, 1))},
		Pods:       deleted(bound(PodFailed)),
		Conditions: []Condition{
			ago(QuotaReserved, true, time.Hour),
			ago(ResourcesDeployed, true, time.Hour),
			ago(DeletingResources, true, time.Second),
		},
	}
	if s := Decide(f, start()); s.Finalizer != RemoveFinalizer || s.RecheckAfter != 0 || s.Action != Nothing {
		t.Errorf("step %+v, want the finalizer removed", s)
	}
	f.Pods = deleted(bound(PodRunning))
	if s := Decide(f, start()); s.Finalizer != KeepFinalizer {
		t.Error("a pod goes on, and the AppWrapper is let go")
	}
}

// What was given quota and cannot use it, because something of the previous
// attempt does not go, says so and ends.
func TestLeftoversEndTheAppWrapper(t *testing.T) {
	long := Defaults().DeletionGrace + Defaults().AdmissionGrace
	for name, tc := range map[string]struct {
		why     string
		phase   Phase
		suspend bool
		since   time.Duration
		pods    []Pod
		want    Phase
	}{
		"reset":                      {"it would hold quota for ever and never run", Resetting, false, long, nil, Failed},
		"reset, just forced":         {"forced deletion gets its time", Resetting, false, long - time.Second, nil, Resetting},
		"reset, a pod goes on":       {"it ends some day, and its place is in use", Resetting, false, long, deleted(bound(PodRunning)), Resetting},
		"suspended":                  {"it holds nothing and nothing waits for it", Suspending, true, long, nil, Suspending},
		"suspended and admitted now": {"it has quota again that it can never use", Suspending, false, long, nil, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			mark := ago(DeletingResources, true, tc.since)
			mark.Reason = DeletionForced
			f := Facts{
				Phase:      tc.phase,
				Suspend:    tc.suspend,
				Finalizer:  true,
				Fresh:      true,
				Policy:     Defaults(),
				Components: []Component{kept(job(Undecided, 1))},
				Pods:       tc.pods,
				Conditions: []Condition{
					ago(QuotaReserved, true, time.Hour),
					ago(ResourcesDeployed, true, time.Hour),
					mark,
				},
			}
			s := Decide(f, start())
			if s.Phase != tc.want {
				t.Errorf("phase %s, want %s, because %s", s.Phase, tc.want, tc.why)
			}
			if why := reasonOf(
				s,
				Unhealthy,
			); tc.want == Failed &&
				!strings.Contains(why, "remove its finalizers example.com/hold") {
				t.Errorf("it says %q", why)
			}
		})
	}
}

// A component that may not be read fails with the reason before it exists, and
// stops nothing afterwards.
func TestUnreadableComponent(t *testing.T) {
	blind := missing(job(Undecided, 1))
	blind.Unreadable = "nobody may"
	f := Facts{
		Phase: Resuming, Finalizer: true, Fresh: true, Policy: Defaults(), Components: []Component{blind},
		Conditions: []Condition{ago(QuotaReserved, true, rightsGrace), ago(ResourcesDeployed, true, rightsGrace)},
	}
	s := Decide(f, start())
	if why := reasonOf(
		s,
		Unhealthy,
	); s.Phase != Failed || truth(s, QuotaReserved) ||
		!strings.Contains(why, "CreateFailed: Read Job j: nobody may") {
		t.Errorf("before its creation: phase %s, quota held %v, it says %q", s.Phase, truth(s, QuotaReserved), why)
	}
	f.Components[0].Exists = true
	f.Phase, f.Pods = Running, bound(PodRunning)
	if s := Decide(f, start()); s.Phase != Running {
		t.Errorf("while it runs: phase %s; rights that are taken away for a moment end no job", s.Phase)
	}
	f.Deleting, f.Pods = true, nil
	s = Decide(f, start())
	if s.Action != Delete || s.Finalizer != KeepFinalizer {
		t.Errorf("it is deleted: %+v, want its deletion ordered first", s)
	}
	f.Phase, f.Conditions = s.Phase, s.Conditions
	if s = Decide(f, start()); s.Finalizer != RemoveFinalizer || truth(s, QuotaReserved) {
		t.Errorf("after that: %+v, want it let go: deletion never depends on reading", s)
	}
}

// The controller gets its rights in a namespace with the first queue there, and the
// first job may be faster by a moment.
func TestRightsMayComeAMomentLater(t *testing.T) {
	blind := missing(job(Undecided, 1))
	blind.Unreadable = "not yet"
	f := Facts{
		Phase: Resuming, Finalizer: true, Fresh: true, Policy: Defaults(), Components: []Component{blind},
		Conditions: []Condition{ago(QuotaReserved, true, 0), ago(ResourcesDeployed, true, 0)},
	}
	if s := Decide(
		f,
		start(),
	); s.Phase != Resuming || s.Action == Create || s.RecheckAfter <= 0 ||
		s.RecheckAfter > createRetry {
		t.Errorf("without rights: %+v, want it to look again soon", s)
	}
	f.Components[0].Unreadable = ""
	if s := Decide(f, start()); s.Action != Create {
		t.Errorf("with rights: %+v, want its components created", s)
	}
}

// A pod whose node is gone is moved, without using up retries, also if the pod is
// the component and goes with the node.
func TestNodeIsGone(t *testing.T) {
	all := bound(PodRunning)
	all[0].OnBadNode, all[0].NodeGone = "node n does not exist any more", true
	f := Facts{
		Phase:      Running,
		Finalizer:  true,
		Fresh:      true,
		Policy:     Defaults(),
		Components: []Component{counted(1)},
		Pods:       all,
		Conditions: []Condition{ago(QuotaReserved, true, time.Hour), ago(ResourcesDeployed, true, time.Hour)},
	}
	for name, change := range map[string]func(){
		"running":               func() {},
		"being deleted":         func() { all[0].Deleting = true },
		"failed":                func() { all[0].Phase = PodFailed },
		"component deleted too": func() { f.Components[0].Exists = false },
	} {
		change()
		if s := Decide(f, start()); s.Phase != Resetting || s.ResetReason != NodeGone || s.Retries != 0 {
			t.Errorf("%s: phase %s, reason %s, %d retries", name, s.Phase, s.ResetReason, s.Retries)
		}
	}
}

// A pod that is the component may be gone by the time the controller looks.
func TestNodeTookTheComponent(t *testing.T) {
	gone := counted(1)
	gone.Exists, gone.NodeGone = false, "node n does not exist any more"
	f := Facts{
		Phase: Running, Finalizer: true, Fresh: true, Policy: Defaults(), Components: []Component{gone},
		Conditions: []Condition{ago(QuotaReserved, true, time.Hour), ago(ResourcesDeployed, true, time.Hour)},
	}
	if s := Decide(f, start()); s.Phase != Resetting || s.ResetReason != NodeGone || s.Retries != 0 {
		t.Errorf("phase %s, reason %s, %d retries", s.Phase, s.ResetReason, s.Retries)
	}
	f.Components[0].NodeGone = ""
	if s := Decide(f, start()); s.Phase != Failed {
		t.Errorf("deleted by a user: phase %s", s.Phase)
	}
}

// A workload that waits for the place of a pod that was deleted is not late, and has the
// usual time afterwards.
func TestDeletedPodsAreWaitedFor(t *testing.T) {
	going := deleted(bound(PodRunning))
	next := pods(PodPending)
	next[0].Name = "next"
	f := Facts{
		Phase:      Running,
		Finalizer:  true,
		Fresh:      true,
		Policy:     Defaults(),
		Components: []Component{counted(1)},
		Pods:       append(going, next...),
		Conditions: []Condition{
			ago(QuotaReserved, true, time.Hour),
			ago(ResourcesDeployed, true, time.Hour),
			ago(PodsReady, true, time.Hour),
		},
	}
	s := Decide(f, start())
	if s.Phase != Running || s.RecheckAfter != time.Hour ||
		!strings.HasPrefix(reasonOf(s, PodsReady), PodsTerminating) {
		t.Fatalf("phase %s, look again in %s, %s", s.Phase, s.RecheckAfter, reasonOf(s, PodsReady))
	}
	f.Conditions = s.Conditions
	now := start().Add(59 * time.Minute)
	if s = Decide(f, now); s.Phase != Running {
		t.Fatalf("it is reset while a place is waited for")
	}
	f.Pods = next
	if s = Decide(f, now); s.Phase != Running || s.RecheckAfter != f.Policy.WarmupGrace {
		t.Errorf("once it has ended: phase %s, look again in %s, want the usual patience", s.Phase, s.RecheckAfter)
	}
	f.Pods = append(going, next...)
	now = start().Add(time.Hour + f.Policy.WarmupGrace)
	f.Conditions = Decide(f, start().Add(time.Hour)).Conditions
	if s = Decide(f, now); s.Phase != Resetting {
		t.Errorf("its grace is long over: phase %s, want a reset, which forces deletion", s.Phase)
	}
}
