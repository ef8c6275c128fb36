package workloadlifecycle

import (
	"math"
	"strings"
	"testing"
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A requeueing state without a count, as others may write it, is the first.
func TestFirstReturn(t *testing.T) {
	f := facts(
		impatient,
		admitted(30*time.Minute),
		func(f *Facts) { f.Workload.Status.RequeueState = &kueue.RequeueState{} },
	)
	step := Next(f)
	if r := step.Status.RequeueState; r == nil || r.Count == nil || *r.Count != 1 {
		t.Errorf("it returned to the queue for the first time: %+v", r)
	}
}

// Users are told the limit that they set.
func TestExecutionTimeIsTold(t *testing.T) {
	step := Next(facts(admitted(time.Hour), limited(90)))
	const want = "Deactivating the workload: it exceeded the maximum execution time of 1m30s"
	if len(step.Events) != 1 || step.Events[0].Message != want {
		t.Errorf("%+v, want %q", step.Events, want)
	}
}

// Time that was used does not run over, nor backwards with a clock that was set back.
func TestUsedTimeIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		before, want int32
		ran          time.Duration
	}{
		"adds up":           {10, 70, time.Minute},
		"as long as it can": {math.MaxInt32 - 10, math.MaxInt32, time.Minute},
		"to the second":     {math.MaxInt32 - 60, math.MaxInt32, time.Minute},
		"a clock set back":  {10, 0, -time.Minute},
	} {
		f := facts(admitted(tc.ran), limited(math.MaxInt32), used(tc.before))
		next := f.Workload.Status.DeepCopy()
		leaveAdmitted(f.Workload, next, now)
		if got := *next.AccumulatedPastExecutionTimeSeconds; got != tc.want {
			t.Errorf("%s: %d seconds, want %d", name, got, tc.want)
		}
	}
}

// One pod of a reservation that was never admitted is enough to be evicted for: quota
// must not be free before it is gone.
func TestStoppedWithOnePod(t *testing.T) {
	for n, evicted := range map[int]bool{0: false, 1: true} {
		step := Next(facts(stop, reserved("solid"), pods(n)))
		if step.Status == nil || (step.Status.Admission != nil) != evicted {
			t.Errorf("with %d pods it holds its quota: %+v", n, step.Status)
		}
	}
}

// Messages are as long as the API takes.
func TestLongMessages(t *testing.T) {
	f := facts()
	for n, want := range map[int]int{32 << 10: 32 << 10, 32<<10 + 1: 32 << 10} {
		NewConditions(f.Workload, &f.Workload.Status, now).Set("X", "True", "Long", strings.Repeat("x", n))
		if got := len(condition(f.Workload, "X").Message); got != want {
			t.Errorf("%d bytes became %d", n, got)
		}
	}
}

// What kept the pods from being ready is told with the eviction: they are gone soon after.
func TestWhatKeptPodsIsTold(t *testing.T) {
	const said = "pod a: ImagePullBackOff: nowhere/x: not found"
	for name, change := range map[string]func(*Facts){
		"late": func(*Facts) {}, "late too often": returned(2, -time.Hour),
		"lost": ago(30*time.Minute, "PodsReady", "False", "WaitForRecovery"),
	} {
		f := facts(impatient, admitted(30*time.Minute), change)
		if !f.Config.AwaitsPods(f.Workload) {
			t.Errorf("%s: nobody asks what keeps its pods", name)
		}
		f.Trouble = said
		step := Next(f)
		told := len(step.Events) == 1 && strings.HasSuffix(step.Events[0].Message, ": "+said)
		for _, c := range step.Status.Conditions {
			if (c.Type == "Evicted" || c.Type == "DeactivationTarget") && !strings.HasSuffix(c.Message, ": "+said) {
				told = false
			}
		}
		if !told {
			t.Errorf("%s: it does not say what kept its pods: %+v", name, step)
		}
	}
	if f := facts(
		impatient,
		admitted(time.Minute),
		ago(0, "PodsReady", "True", "Started"),
	); f.Config.AwaitsPods(
		f.Workload,
	) {
		t.Error("its pods are ready")
	}
}
