package workloadlifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func refusedBy(node string, most int32) convert.Refusal {
	return convert.Refusal{
		PodSet:      "main",
		NodeRefusal: core.NodeRefusal{Node: node, Most: most, Why: "no volume"},
	}
}

// planned is a workload that was admitted a minute before at, and is called back then.
func planned(at time.Time) *kueue.Workload {
	w := &kueue.Workload{Status: kueue.WorkloadStatus{Admission: &kueue.Admission{ClusterQueue: "q"}}}
	set := NewConditions(w, &w.Status, at.Add(-time.Minute))
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, kueue.ReasonQuotaReserved, "")
	set.Set(kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted, "")
	return w
}

// TestWithdrawnPlanIsMadeAnewAtOnce: a job that never ran waits again without a pause, without its
// time counting as used, knows which nodes refused it, and says what they answered.
func TestWithdrawnPlanIsMadeAnewAtOnce(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := planned(at)
	next, event := Withdraw(
		w,
		Refused{Nodes: []convert.Refusal{refusedBy("n-1", 0)}, Why: "0/9 nodes are available"},
		at,
	)
	w.Status = *next
	if got := convert.Refusals(w); len(got) != 1 || got[0].Node != "n-1" {
		t.Errorf("refused by %v, want n-1", got)
	}
	if want := "The planned nodes refuse its pods: no volume"; event.Message != want ||
		event.Eviction.Reason != kueue.ReasonNodesRefused {
		t.Errorf("told %q for %s, want %q", event.Message, event.Eviction.Reason, want)
	}
	w.Status = *Released(w, at.Add(time.Second))
	if w.Status.AccumulatedPastExecutionTimeSeconds != nil || w.Status.RequeueState != nil {
		t.Errorf(
			"%v seconds count as used, pause %v: it never ran",
			w.Status.AccumulatedPastExecutionTimeSeconds,
			w.Status.RequeueState,
		)
	}
	if !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadRequeued) ||
		len(convert.Refusals(w)) != 1 {
		t.Errorf("it does not wait for other nodes: %v", w.Status.Conditions)
	}
}

// TestRefusalsAreKnownWhateverEvictsTheJob: a job that is preempted, or was not ready in time, while
// nodes refuse its pods leaves these nodes out of its next plan, too. What is known is not written twice.
func TestRefusalsAreKnownWhateverEvictsTheJob(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := planned(at)
	next := w.Status.DeepCopy()
	Evict(w, next, at, Eviction{Reason: kueue.ReasonPreempted, Message: "Preempted"})
	w.Status = *next
	cases := []struct {
		why     string
		refused Refused
		want    int32 // pods that the node takes, -1 if nothing is written
	}{
		{"nobody refused", Refused{}, -1},
		{"it ran there", Refused{Nodes: []convert.Refusal{refusedBy("n-1", 2)}, Ran: true}, -1},
		{
			"its pods are about to go, and with them what they say",
			Refused{Nodes: []convert.Refusal{refusedBy("n-1", 2)}},
			2,
		},
		{"it is known", Refused{Nodes: []convert.Refusal{refusedBy("n-1", 2)}}, -1},
		{"it takes fewer than was known", Refused{Nodes: []convert.Refusal{refusedBy("n-1", 1)}}, 1},
	}
	for _, c := range cases {
		next := NoteRefused(w, c.refused, at.Add(time.Second))
		if (next == nil) != (c.want < 0) {
			t.Fatalf("%s: written %v", c.why, next)
		}
		if next == nil {
			continue
		}
		w.Status = *next
		if got := convert.Refusals(w); len(got) != 1 || got[0].Most != c.want {
			t.Errorf("%s: refused by %v, want %d", c.why, got, c.want)
		}
		if reason := condition(w, kueue.WorkloadEvicted).Reason; reason != kueue.ReasonPreempted {
			t.Errorf("%s: evicted by %s", c.why, reason)
		}
	}
	w.Status = *Released(w, at.Add(2*time.Second))
	if len(convert.Refusals(w)) != 1 {
		t.Error("they are forgotten with its quota")
	}
}

// TestNodesThatRefuseAgainAreAskedLater: each time that a node was asked again in vain the pause
// doubles; nodes that are new to refusing cost none.
func TestNodesThatRefuseAgainAreAskedLater(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := planned(at)
	for _, step := range []struct {
		why   string
		nodes []convert.Refusal
		pause time.Duration
	}{
		{"the first", []convert.Refusal{refusedBy("n-1", 2)}, 0},
		{"another", []convert.Refusal{refusedBy("n-2", 0)}, 0},
		{"it takes fewer than it said", []convert.Refusal{refusedBy("n-1", 1)}, 0},
		{"the same again", []convert.Refusal{refusedBy("n-2", 0), refusedBy("n-3", 0)}, 2 * time.Second},
		{"and again", []convert.Refusal{refusedBy("n-2", 0)}, 4 * time.Second},
	} {
		w.Status.RequeueState = nil
		next, _ := Withdraw(w, Refused{Nodes: step.nodes}, at)
		w.Status = *next
		pause := time.Duration(0)
		if r := w.Status.RequeueState; r != nil {
			pause = r.RequeueAt.Sub(at)
		}
		if pause != step.pause {
			t.Errorf("%s: a pause of %v, want %v", step.why, pause, step.pause)
		}
	}
	var nodes []string
	for _, r := range convert.Refusals(w) {
		nodes = append(nodes, r.Node)
	}
	if !slices.Equal(nodes, []string{"n-1", "n-2", "n-3"}) {
		t.Errorf("refused by %v, want all three", nodes)
	}
}

// TestWhatTheEngineCountsIsAskedAgainLater: nodes that refuse for what the engine counts itself are
// not left out, and the job waits for others to have their turn.
func TestWhatTheEngineCountsIsAskedAgainLater(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := planned(at)
	next, event := Withdraw(w, Refused{Why: "Insufficient nvidia.com/gpu", Ran: true}, at)
	w.Status = *next
	if pause := w.Status.RequeueState.RequeueAt.Sub(at); pause != time.Minute || convert.Refusals(w) != nil {
		t.Errorf("a pause of %v, refused by %v", pause, convert.Refusals(w))
	}
	if want := "The planned nodes refuse its pods: Insufficient nvidia.com/gpu"; event.Message != want {
		t.Errorf("told %q, want %q", event.Message, want)
	}
	w.Status = *Released(w, at.Add(time.Second))
	if !apimeta.IsStatusConditionFalse(w.Status.Conditions, kueue.WorkloadRequeued) {
		t.Error("it is queued again at once")
	}
	if used := w.Status.AccumulatedPastExecutionTimeSeconds; used == nil || *used != 61 {
		t.Errorf("it ran for 61 s, of which %v count", used)
	}
	if got := Next(Facts{Workload: w, Owned: true, Now: at.Add(time.Minute)}); got.Status == nil ||
		!apimeta.IsStatusConditionTrue(got.Status.Conditions, kueue.WorkloadRequeued) {
		t.Errorf("it does not come back after its pause: %+v", got)
	}
}

func TestRefusalIsDue(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	nodes := []convert.Refusal{refusedBy("n-1", 0)}
	type want struct {
		left time.Duration
		due  bool
	}
	for why, c := range map[string]struct {
		refused Refused
		want    want
	}{
		"nothing is refused":             {Refused{}, want{}},
		"nodes refuse for good":          {Refused{Nodes: nodes}, want{0, true}},
		"some of it runs":                {Refused{Nodes: nodes, Ran: true, Since: at.Add(-time.Second)}, want{59 * time.Second, false}},
		"what the engine counts":         {Refused{Since: at.Add(-20 * time.Second)}, want{40 * time.Second, false}},
		"what the engine counts, longer": {Refused{Since: at.Add(-time.Minute)}, want{0, true}},
	} {
		left, due := c.refused.Due(at)
		if got := (want{left, due}); got != c.want {
			t.Errorf("%s: %+v, want %+v", why, got, c.want)
		}
	}
}

// TestRefusalsLapse: what rules looked at may change unseen, so nodes are asked again after a
// while, and how often they refused is kept.
func TestRefusalsLapse(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := planned(at)
	next, _ := Withdraw(w, Refused{Nodes: []convert.Refusal{refusedBy("n-1", 0)}}, at)
	w.Status = *next
	w.Status = *Released(w, at)
	if got := Next(
		Facts{Workload: w, Owned: true, Now: at.Add(9 * time.Minute)},
	); got.Status != nil ||
		!got.Again.Equal(at.Add(10*time.Minute)) {
		t.Errorf("after nine minutes: %+v", got)
	}
	got := Next(Facts{Workload: w, Owned: true, Now: at.Add(10 * time.Minute)})
	if got.Status == nil {
		t.Fatal("after ten minutes nodes are still left out")
	}
	w.Status = *got.Status
	if convert.Refusals(w) != nil {
		t.Errorf("left out are %v", convert.Refusals(w))
	}
	again, _ := Withdraw(w, Refused{Nodes: []convert.Refusal{refusedBy("n-1", 0)}}, at.Add(11*time.Minute))
	w.Status = *again
	want := refusedBy("n-1", 0)
	want.Times = 2
	if diff := cmp.Diff([]convert.Refusal{want}, convert.Refusals(w)); diff != "" {
		t.Errorf("refused again (-want +got):\n%s", diff)
	}
}
