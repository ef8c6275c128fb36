package workloadlifecycle

import (
	"slices"
	"testing"
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func avoids(w *kueue.Workload) (names []string) {
	for _, n := range convert.Avoided(w) {
		names = append(names, n.Name)
	}
	return names
}

// TestFailedNodesAreAvoidedForAWhile: a workload that is stopped for nodes that failed, or since it hung, avoids them and those of the hour
// before, whatever process it was; when it has waited with that for an hour it avoids none.
func TestFailedNodesAreAvoidedForAWhile(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	fail := func(w *kueue.Workload, at time.Time, nodes ...string) {
		Reserve(w, &w.Status, &kueue.Admission{ClusterQueue: "a"}, nil, Config{}, at.Add(-time.Minute))
		Evict(w, &w.Status, at, Eviction{Reason: kueue.ReasonNodeFailures, Message: "nodes failed", Nodes: nodes})
		w.Status = *Released(w, at)
	}
	w := &kueue.Workload{}
	Reserve(w, &w.Status, &kueue.Admission{ClusterQueue: "a"}, nil, Config{}, at.Add(-time.Minute))
	Evict(w, &w.Status, at, Eviction{Reason: kueue.ReasonPreempted, Message: "for another"})
	if w.Status = *Released(w, at); avoids(w) != nil {
		t.Errorf("after a preemption it avoids %v", avoids(w))
	}
	Reserve(w, &w.Status, &kueue.Admission{ClusterQueue: "a"}, nil, Config{}, at.Add(-time.Minute))
	Evict(w, &w.Status, at, Eviction{Reason: kueue.ReasonHang, Message: "no step", Nodes: []string{"node-9"}})
	if w.Status = *Released(w, at); !slices.Equal(avoids(w), []string{"node-9"}) {
		t.Errorf("the node of the rank that was behind may be why it hung, and it avoids %v", avoids(w))
	}
	w = &kueue.Workload{}
	fail(w, at, "node-3")
	fail(w, at.Add(50*time.Minute), "node-1", "node-2")
	if got := avoids(w); !slices.Equal(got, []string{"node-1", "node-2", "node-3"}) {
		t.Errorf("within the hour it avoids %v", got)
	}
	if step, acts := forgive(
		Facts{Workload: w, Now: at.Add(100 * time.Minute)},
	); acts ||
		!step.Again.Equal(at.Add(110*time.Minute)) {
		t.Errorf("too early: %+v", step)
	}
	fail(w, at.Add(70*time.Minute), "node-2")
	if got := avoids(w); !slices.Equal(got, []string{"node-1", "node-2"}) {
		t.Errorf("node-3 had its hour: it avoids %v", got)
	}
	step, acts := forgive(Facts{Workload: w, Now: at.Add(130 * time.Minute)})
	if !acts {
		t.Fatal("it avoids them for ever")
	}
	if w.Status = *step.Status; avoids(w) != nil {
		t.Errorf("then it avoids %v", avoids(w))
	}
	if step, acts := forgive(Facts{Workload: w, Now: at.Add(140 * time.Minute)}); acts || !step.Again.IsZero() {
		t.Errorf("that is written again: %+v", step)
	}
}

// TestManyFailedNodes: the last ones are avoided, so that the condition stays small.
func TestManyFailedNodes(t *testing.T) {
	at, w := time.Unix(1_000_000, 0), &kueue.Workload{}
	var many []string
	for i := range 40 {
		many = append(many, "node-"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	Reserve(w, &w.Status, &kueue.Admission{ClusterQueue: "a"}, nil, Config{}, at.Add(-time.Minute))
	Evict(w, &w.Status, at, Eviction{Reason: kueue.ReasonNodeFailures, Message: "a rack failed", Nodes: many})
	if got := len(avoids(w)); got != mostAvoided {
		t.Errorf("it avoids %d nodes", got)
	}
}
