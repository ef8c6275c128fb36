package convert_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func refusal(set, node string, most int32, why string, times int32) convert.Refusal {
	return convert.Refusal{
		PodSet:      set,
		NodeRefusal: core.NodeRefusal{Node: node, Most: most, Why: why},
		Times:       times,
	}
}

func TestRefusalsAreReadAsWritten(t *testing.T) {
	all := []convert.Refusal{
		refusal("main", "n-1", 0, "node(s) had volume node affinity conflict: pv x", 1),
		refusal(
			"main",
			"n-2",
			2,
			"node(s) had volume node affinity conflict: pv x",
			3,
		),
		refusal("other", "n-1", 0, "no such device", 1),
	}
	text := convert.RefusalsText(all)
	want := "main: n-1=0 n-2=2/3: node(s) had volume node affinity conflict: pv x\nother: n-1=0: no such device"
	if text != want {
		t.Errorf("written as\n%s\nwant\n%s", text, want)
	}
	if diff := cmp.Diff(all, convert.ReadRefusals(text)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if got := convert.ReadRefusals("by hand\nmain: n-1: x\nmain: n-1=-1 n-2=x n-3=1/x: y"); got != nil {
		t.Errorf("what nobody wrote says %v", got)
	}
}

// TestManyRefusalsFitACondition: whatever nodes answer, the text is no longer than the API takes
// and reads as a part of what was written.
func TestManyRefusalsFitACondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []convert.Refusal
		known := map[convert.Refusal]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "refusals") {
			r := refusal(
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "set"),
				"n-"+strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "name")),
				rapid.Int32Range(0, 9).Draw(t, "most"),
				strings.Repeat("y", rapid.IntRange(1, 900).Draw(t, "why")),
				rapid.Int32Range(1, 3).Draw(t, "times"),
			)
			all, known[r] = append(all, r), true
		}
		text := convert.RefusalsText(all)
		if len(text) > 32*1024 {
			t.Fatalf("%d bytes", len(text))
		}
		for _, r := range convert.ReadRefusals(text) {
			if !known[r] {
				t.Fatalf("read what was not written: %v", r)
			}
		}
	})
}

func TestRefusalsOfWorkloadsAndPods(t *testing.T) {
	w := &kueue.Workload{
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "main", Count: 1}, {Name: "other", Count: 1}}},
	}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadNodesRefused, Status: "True", Message: "main: n-2=1 n-1=0: no"},
	}
	got := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).PodSets
	if diff := cmp.Diff(
		[]core.NodeRefusal{{Node: "n-1", Why: "no"}, {Node: "n-2", Most: 1, Why: "no"}},
		got[0].Filter.Refused,
	); diff != "" ||
		got[1].Filter.Refused != nil {
		t.Errorf("pod sets know who refused them (-want +got):\n%s\nthe other: %v", diff, got[1].Filter.Refused)
	}
	w.Status.Conditions[0].Status = "False"
	if got := convert.Refusals(w); got != nil {
		t.Errorf("lapsed refusals are %v", got)
	}
	p := &corev1.Pod{}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: kueue.PodNodesRefused, Status: corev1.ConditionTrue, Message: "main: n-1=0: no"},
	}
	if got := convert.PodRefusals(p); len(got) != 1 {
		t.Errorf("a pod that waits was refused by %v", got)
	}
	p.Spec.NodeName = "n-2"
	if got := convert.PodRefusals(p); got != nil {
		t.Errorf("a pod that has a node was refused by %v", got)
	}
}
