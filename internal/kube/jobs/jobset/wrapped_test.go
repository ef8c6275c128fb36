package jobset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// TestSameOutcome: an AppWrapper looks again when a condition of its JobSet changes, and not for
// anything else.
func TestSameOutcome(t *testing.T) {
	js := func(conditions ...metav1.Condition) *api.JobSet {
		return &api.JobSet{Status: api.JobSetStatus{Conditions: conditions}}
	}
	held := metav1.Condition{Type: "Suspended", Status: metav1.ConditionTrue}
	released, done, other := held, metav1.Condition{Type: "Completed", Status: metav1.ConditionTrue}, held
	released.Status, other.Message = metav1.ConditionFalse, "else"
	for why, tc := range map[string]struct {
		was, is *api.JobSet
		want    bool
	}{
		"nothing":      {js(), js(), true},
		"one more":     {js(), js(held), false},
		"one less":     {js(held, done), js(held), false},
		"another":      {js(held), js(done), false},
		"not any more": {js(held), js(released), false},
		"other words":  {js(held), js(other), true},
	} {
		if got := jobset.Kind().Queueing.Wrapped.SameOutcome(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: the same is %v", why, got)
		}
	}
}

// TestHeldBack: which roles of a wrapped JobSet wait for others.
func TestHeldBack(t *testing.T) {
	group := func(name string, needs ...any) map[string]any {
		g := map[string]any{"name": name}
		if needs != nil {
			g["dependsOn"] = needs
		}
		return g
	}
	on := func(name, state string) any { return map[string]any{"name": name, "status": state} }
	says := func(name string, ready, succeeded int64) any {
		return map[string]any{"name": name, "ready": ready, "succeeded": succeeded}
	}
	heldBack := jobset.Kind().Queueing.Wrapped.HeldBack
	tests := map[string]struct {
		why    string
		groups []any
		order  string
		status []any
		want   []bool // by group
	}{
		"no order": {
			"all start at once",
			[]any{group("a"), group("b")},
			"",
			nil,
			[]bool{false, false},
		},
		"any order": {
			"all start at once",
			[]any{group("a"), group("b")},
			"AnyOrder",
			nil,
			[]bool{false, false},
		},
		"in order, nobody ready": {
			"each waits for all before it",
			[]any{group("a"), group("b"), group("c")},
			"InOrder",
			nil,
			[]bool{false, true, true},
		},
		"in order, one ready": {
			"the third waits for the second",
			[]any{group("a"), group("b"), group("c")},
			"InOrder",
			[]any{says("a", 1, 0)},
			[]bool{false, false, true},
		},
		"in order, one done": {
			"a group that is done was ready",
			[]any{group("a"), group("b")},
			"InOrder",
			[]any{says("x", 5, 5), says("a", 0, 1)},
			[]bool{false, false},
		},
		"in order, only done": {
			"JobSet leaves out what is 0",
			[]any{group("a"), group("b")},
			"InOrder",
			[]any{map[string]any{"name": "a", "succeeded": int64(1)}},
			[]bool{false, false},
		},
		"needs the first done": {
			"ready is not enough",
			[]any{group("a"), group("b", on("a", "Complete"))},
			"",
			[]any{says("a", 1, 0)},
			[]bool{false, true},
		},
		"the first is done": {
			"now it starts",
			[]any{group("a"), group("b", on("a", "Complete"))},
			"",
			[]any{says("a", 0, 1)},
			[]bool{false, false},
		},
		"needs a later one": {
			"the order of the list is no order",
			[]any{group("a", on("b", "Ready")), group("b")},
			"",
			nil,
			[]bool{true, false},
		},
		"needs two": {
			"both",
			[]any{group("a"), group("b"), group("c", on("a", "Ready"), on("b", "Ready"))},
			"",
			[]any{says("a", 1, 0)},
			[]bool{false, false, true},
		},
		"needs nobody there is": {
			"JobSet refuses that, and no wait would help",
			[]any{group("a"), group("b", on("x", "Ready"))},
			"",
			nil,
			[]bool{false, false},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{"replicatedJobs": tc.groups}
			if tc.order != "" {
				spec["startupPolicy"] = map[string]any{"startupPolicyOrder": tc.order}
			}
			o := map[string]any{"spec": spec, "status": map[string]any{"replicatedJobsStatus": tc.status}}
			var got []bool
			for i := range tc.groups {
				got = append(
					got,
					heldBack(o, "template.spec.replicatedJobs["+string(rune('0'+i))+"].template.spec.template"),
				)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if heldBack(o, "template.spec.elsewhere") {
				t.Error("a pod set that is in no group waits for none")
			}
		})
	}
	odd := map[string]any{"spec": map[string]any{"replicatedJobs": "x"}}
	if heldBack(odd, "template.spec.replicatedJobs[0].template.spec.template") {
		t.Error("what cannot be read waits for nobody")
	}
	if sets, err := jobset.Kind().Queueing.Wrapped.PodSets(odd); err == nil {
		t.Errorf("what cannot be read has the pods %v", sets)
	}
	for replicas, want := range map[int64]bool{0: false, 1: true, 3: true} {
		o := map[string]any{"spec": map[string]any{
			"replicatedJobs": []any{map[string]any{"name": "a", "replicas": replicas}, group("b", on("a", "Ready"))},
		}}
		if replicas == 3 {
			o["status"] = map[string]any{"replicatedJobsStatus": []any{says("a", 1, 1)}}
		}
		if got := heldBack(o, "template.spec.replicatedJobs[1].template.spec.template"); got != want {
			t.Errorf("after a group of %d jobs: held back %t", replicas, got)
		}
	}
}
