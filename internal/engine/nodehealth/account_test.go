package nodehealth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

var flavorA = core.Flavor{Name: "a"}

func machine(name string, gpus core.Amount, change ...func(*nodehealth.Signals)) nodehealth.Machine {
	f := nodehealth.Signals{Ready: "True", Labels: map[string]string{}, Capacity: core.Resources{
		{Resource: core.CPU, Amount: 10000}, {Resource: core.GPU, Amount: gpus}, {Resource: core.Pods, Amount: 250},
	}}
	for _, c := range change {
		c(&f)
	}
	return nodehealth.Machine{Name: name, Signals: f}
}

func label(v string) func(*nodehealth.Signals) {
	return func(f *nodehealth.Signals) { f.Labels[nodehealth.HealthLabel] = v }
}

func cordon(f *nodehealth.Signals) { f.Unschedulable = true }

func notReady(f *nodehealth.Signals) { f.Ready = "Unknown" }

// TestSlackStory follows two nodes of 4 GPUs and a slack quota through a day.
func TestSlackStory(t *testing.T) {
	limit := func(a core.Amount) *core.Amount { return &a }
	steps := []struct {
		why      string
		nominal  core.Amount
		machines []nodehealth.Machine
		ack      string // struck out of the inventory before the step
		want     *core.Amount
	}{
		{
			"all is well: everything may be lent",
			6,
			[]nodehealth.Machine{machine("n1", 4), machine("n2", 4)},
			"",
			nil,
		},
		{
			"n1 is evicted",
			6,
			[]nodehealth.Machine{machine("n1", 4, label("EVICT")), machine("n2", 4)},
			"",
			limit(2),
		},
		{
			"more is lost than the slack holds", 6,
			[]nodehealth.Machine{machine("n1", 4, label("EVICT")), machine("n2", 4, label("ERR"))},
			"", limit(0),
		},
		{"n1 recovers", 6, []nodehealth.Machine{machine("n1", 4), machine("n2", 4, label("ERR"))}, "", limit(2)},
		{"n2 recovers", 6, []nodehealth.Machine{machine("n1", 4), machine("n2", 4)}, "", nil},
		{
			"a warning takes nothing away",
			6,
			[]nodehealth.Machine{machine("n1", 4, label("WARN")), machine("n2", 4)},
			"",
			nil,
		},
		{"n1 is cordoned", 6, []nodehealth.Machine{machine("n1", 4, cordon), machine("n2", 4)}, "", limit(2)},
		{"the admin adds slack", 8, []nodehealth.Machine{machine("n1", 4, cordon), machine("n2", 4)}, "", limit(4)},
		{
			"n2 is deleted: its GPUs are gone although no node says so any more", 8,
			[]nodehealth.Machine{machine("n1", 4, cordon)},
			"", limit(0),
		},
		{"cordoned n1 is deleted: still nothing to lend", 8, nil, "", limit(0)},
		{"the admin accepts the loss of n2", 8, nil, "n2", limit(4)},
		{"n1 comes back", 8, []nodehealth.Machine{machine("n1", 4)}, "", nil},
		{"n1 stops answering", 8, []nodehealth.Machine{machine("n1", 4, notReady)}, "", limit(4)},
		{
			"n1 comes back without its device plugin: it still lacks 4", 8,
			[]nodehealth.Machine{machine("n1", 0, notReady)},
			"", limit(4),
		},
	}
	var inventory nodehealth.Inventory
	for i, s := range steps {
		delete(inventory, s.ack)
		var losses []nodehealth.Loss
		losses, inventory = nodehealth.Account([]core.Flavor{flavorA}, s.machines, inventory)
		loss := nodehealth.Find(losses, core.FlavorResource{Flavor: "a", Resource: core.GPU})
		if diff := cmp.Diff(s.want, nodehealth.Lending(s.nominal, loss.Amount)); diff != "" {
			t.Errorf("step %d, %s (-want +got):\n%s", i, s.why, diff)
		}
	}
}

func TestAccount(t *testing.T) {
	h100 := core.Flavor{Name: "h100", NodeLabels: map[string]string{"gpu": "h100"}}
	a100 := core.Flavor{
		Name: "a100", NodeLabels: map[string]string{"gpu": "a100"},
		Taints: []core.Taint{{Key: "team", Value: "x", Effect: core.NoSchedule}},
	}
	kind := func(v string) func(*nodehealth.Signals) { return func(f *nodehealth.Signals) { f.Labels["gpu"] = v } }
	taint := func(key, value string) func(*nodehealth.Signals) {
		return func(f *nodehealth.Signals) {
			f.Taints = append(f.Taints, core.Taint{Key: key, Value: value, Effect: core.NoSchedule})
		}
	}
	loss := func(flavor, resource string, a core.Amount, nodes ...nodehealth.LostNode) nodehealth.Loss {
		return nodehealth.Loss{
			FlavorResource: core.FlavorResource{Flavor: flavor, Resource: resource}, Amount: a, Nodes: nodes,
		}
	}
	all := func(flavor, node, why string, gpus core.Amount) []nodehealth.Loss {
		n := nodehealth.LostNode{Name: node, Why: why}
		return []nodehealth.Loss{loss(flavor, core.CPU, 10000, n), loss(flavor, core.GPU, gpus, n)}
	}
	cases := map[string]struct {
		why       string
		flavors   []core.Flavor
		machines  []nodehealth.Machine
		known     nodehealth.Inventory
		want      []nodehealth.Loss
		inventory []string
	}{
		"a label takes the GPUs only": {
			why: "the label says nothing of cpu", flavors: []core.Flavor{flavorA},
			machines: []nodehealth.Machine{machine("n", 4, label("TESTING"))},
			want: []nodehealth.Loss{loss("a", core.GPU, 4,
				nodehealth.LostNode{Name: "n", Why: "label autopilot.ibm.com/gpuhealth=TESTING"})},
			inventory: []string{"n"},
		},
		"a cordon takes everything but pods": {
			why: "pods are slots, not hardware", flavors: []core.Flavor{flavorA},
			machines: []nodehealth.Machine{machine("n", 4, cordon)},
			want:     all("a", "n", "cordoned", 4), inventory: []string{"n"},
		},
		"each flavor has its own nodes": {
			why: "a sick h100 does not make a100 scarce", flavors: []core.Flavor{a100, h100},
			machines: []nodehealth.Machine{machine("n", 8, kind("h100"), notReady), machine("m", 4, kind("a100"))},
			want:     all("h100", "n", "ready unknown", 8), inventory: []string{"m", "n"},
		},
		"a node of no flavor does not count": {
			why: "it was never promised", flavors: []core.Flavor{h100},
			machines: []nodehealth.Machine{machine("n", 8, notReady)},
		},
		"a control plane does not count": {
			why:     "no batch pod tolerates its taint",
			flavors: []core.Flavor{flavorA},
			machines: []nodehealth.Machine{
				machine("n", 8, cordon, taint("node-role.kubernetes.io/control-plane", "")),
			},
		},
		"the flavor's own taint does not exclude": {
			why: "pods of the flavor tolerate it", flavors: []core.Flavor{a100},
			machines: []nodehealth.Machine{machine("n", 4, kind("a100"), cordon, taint("team", "x"))},
			want:     all("a100", "n", "cordoned", 4), inventory: []string{"n"},
		},
		"a lifecycle taint does not exclude": {
			why: "Kubernetes adds it to every cordoned node", flavors: []core.Flavor{flavorA},
			machines: []nodehealth.Machine{machine("n", 4, cordon, taint("node.kubernetes.io/unschedulable", ""))},
			want:     all("a", "n", "cordoned", 4), inventory: []string{"n"},
		},
		"a node that left the pool is forgotten": {
			why:      "an admin gave it away while it exists, which needs no inventory",
			flavors:  []core.Flavor{flavorA},
			machines: []nodehealth.Machine{machine("n", 4, taint("other", ""))},
			known: nodehealth.Inventory{
				"n": {Flavors: []string{"a"}, Capacity: core.Resources{{Resource: core.GPU, Amount: 4}}},
			},
		},
		"a deleted node stays lost": {
			why:     "its hardware did not come back",
			flavors: []core.Flavor{flavorA},
			known: nodehealth.Inventory{
				"n": {Flavors: []string{"a"}, Capacity: core.Resources{{Resource: core.GPU, Amount: 4}}},
			},
			want:      []nodehealth.Loss{loss("a", core.GPU, 4, nodehealth.LostNode{Name: "n", Why: "deleted"})},
			inventory: []string{"n"},
		},
		"a broken driver does not make GPUs disappear": {
			why:      "the node reports 0 GPUs just because they are broken",
			flavors:  []core.Flavor{flavorA},
			machines: []nodehealth.Machine{machine("n", 0, label("EVICT"))},
			known: nodehealth.Inventory{
				"n": {Flavors: []string{"a"}, Capacity: core.Resources{{Resource: core.GPU, Amount: 4}}},
			},
			want: []nodehealth.Loss{loss("a", core.GPU, 4,
				nodehealth.LostNode{Name: "n", Why: "label autopilot.ibm.com/gpuhealth=EVICT"})},
			inventory: []string{"n"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, inventory := nodehealth.Account(c.flavors, c.machines, c.known)
			if diff := cmp.Diff(append([]nodehealth.Loss{}, c.want...), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if len(inventory) != len(c.inventory) {
				t.Errorf("inventory has %d entries, want %v; %s", len(inventory), c.inventory, c.why)
			}
			for _, n := range c.inventory {
				if _, ok := inventory[n]; !ok {
					t.Errorf("inventory lacks %s; %s", n, c.why)
				}
			}
		})
	}
}

// TestDeletionNeverRestores checks that taking nodes away never lets more be
// lent than before, whatever state they were in.
func TestDeletionNeverRestores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := []func(*nodehealth.Signals){
			func(*nodehealth.Signals) {},
			label("EVICT"),
			label("WARN"),
			cordon,
			notReady,
		}
		var machines, rest []nodehealth.Machine
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			m := machine(
				string(rune('a'+i)),
				core.Amount(rapid.IntRange(0, 8).Draw(t, "gpus")),
				rapid.SampledFrom(states).Draw(t, "state"),
			)
			machines = append(machines, m)
			if rapid.Bool().Draw(t, "kept") {
				rest = append(rest, m)
			}
		}
		fr := core.FlavorResource{Flavor: "a", Resource: core.GPU}
		before, inventory := nodehealth.Account([]core.Flavor{flavorA}, machines, nil)
		after, kept := nodehealth.Account([]core.Flavor{flavorA}, rest, inventory)
		if b, a := nodehealth.Find(before, fr).Amount, nodehealth.Find(after, fr).Amount; a < b {
			t.Fatalf("lost %v before the deletion and %v after it", b, a)
		}
		if !kept.Equal(inventory) {
			t.Fatalf("the inventory changed from %v to %v", inventory, kept)
		}
		back, _ := nodehealth.Account([]core.Flavor{flavorA}, machines, kept)
		if diff := cmp.Diff(before, back); diff != "" {
			t.Fatalf("after the nodes came back (-before +after):\n%s", diff)
		}
	})
}
