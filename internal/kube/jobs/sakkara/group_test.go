package sakkara_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// What a ConfigMap says is read as it is written, in the order in which levels are listed, nodes last.
func TestReadGroup(t *testing.T) {
	got, err := sakkara.ReadGroup(map[string]string{
		"name":        "train",
		"size":        "8",
		"priority":    "-3",
		"constraints": `{"node": {"factor": 2}, "zone": {}, "rack": {"type": "spread", "hard": true, "partitions": 2, "min": 1, "max": 4}}`,
		"status":      "Bound",
	})
	want := sakkara.Group{Name: "train", Size: 8, Constraints: []sakkara.Constraint{
		{Level: "zone"},
		{Level: "rack", Type: "spread", Hard: true, Partitions: 2, Min: 1, Max: 4},
		{Level: "node", Factor: 2},
	}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("(-want +got): %s, %v", d, err)
	}
	got, err = sakkara.ReadGroup(map[string]string{"name": "one"})
	if got.Size != 1 || len(got.Constraints) > 0 || err != nil {
		t.Errorf("what is left out is %+v, %v", got, err)
	}
}

// What cannot be meant is refused, and the answer names the key.
func TestReadGroupFaults(t *testing.T) {
	var levels strings.Builder
	for i := range 17 {
		fmt.Fprintf(&levels, `"l%d": {"min": 500001}, `, i)
	}
	for name, tc := range map[string]struct {
		why, key, value, want string
	}{
		"no number":      {"pods are counted", "size", "many", `size: "many" is not a number of pods`},
		"no pods":        {"a group has pods", "size", "0", "size: "},
		"too many":       {"no cluster has so many, and they would be counted one by one", "size", "2000000000", "size: "},
		"priority":       {"it is a number, though not used", "priority", "high", `priority: "high"`},
		"no object":      {"levels have names", "constraints", "[]", "constraints: write a JSON object of levels"},
		"cut off":        {"it ends too early", "constraints", `{"rack": {}`, "constraints: "},
		"something more": {"it would not be read", "constraints", `{} {}`, "constraints: there is something behind"},
		"twice":          {"one would be lost", "constraints", `{"rack": {}, "rack": {}}`, "constraints.rack: it is there twice"},
		"a key":          {"a misspelt key would be none", "constraints", `{"rack": {"partition": 2}}`, `constraints.rack: unknown field "partition"; type, hard, partitions`},
		"a type":         {"Sakkara knows two", "constraints", `{"rack": {"type": "scatter"}}`, `constraints.rack.type: "scatter" is neither`},
		"a text":         {"numbers have no quotes", "constraints", `{"rack": {"min": "2"}}`, "constraints.rack.min: it cannot be a string"},
		"negative":       {"nothing is less than none", "constraints", `{"node": {"factor": -1}}`, "constraints.node.factor: "},
		"levels":         {"no cluster is so deep, and each is counted through", "constraints", "{" + strings.TrimSuffix(levels.String(), ", ") + "}", "constraints: there are more than 16 levels"},
		"reversed":       {"no number is in that range", "constraints", `{"node": {"min": 4, "max": 2}}`, "constraints.node.min: 4 is more than max"},
	} {
		_, err := sakkara.ReadGroup(map[string]string{"name": "g", tc.key: tc.value})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %s: %v", name, tc.why, err)
		}
	}
}

// A group is a pod group of its own name, or of one that only it has.
func TestGroupName(t *testing.T) {
	if got := sakkara.GroupName("train-1"); got != "train-1" {
		t.Errorf("a good name becomes %q", got)
	}
	seen := map[string]bool{}
	for _, name := range []string{"Train", "train_", "TRAIN", "_", strings.Repeat("A", 63), strings.Repeat("A", 62) + "_"} {
		got := sakkara.GroupName(name)
		if seen[got] || sakkara.GroupName(got) != got || got == "train" {
			t.Errorf("%q becomes %q, which is no name of its own", name, got)
		}
		seen[got] = true
	}
}
