package place

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

func amounts(gpus, cpus core.Amount) core.Resources {
	return core.MakeResources(map[string]core.Amount{core.GPU: gpus, core.CPU: cpus})
}

// park is six nodes: a and b are in service, a has pods that others placed there; c is
// cordoned, d lost, e tainted, f of another kind.
func park() *Nodes {
	s := New(core.GPU)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		n := machine(name, 8, core.NodeReady)
		n.Labels["kind"] = "k"
		switch name {
		case "a":
			n.Foreign = amounts(0, 5000).With(core.Pods, 1)
		case "c":
			n.State, n.Why = core.NodeClosed, core.Cordoned
		case "d":
			n.State, n.Why = core.NodeLost, "gone"
		case "e":
			n.Taints = []core.Taint{{Key: "odd", Value: "1", Effect: "NoSchedule"}}
		case "f":
			n.Labels["kind"] = "other"
		}
		s.Set(n)
	}
	return s
}

func ofKind(kind string) core.Filter {
	return core.Filter{Must: core.Selector{{Key: "kind", Operator: core.In, Values: []string{kind}}}}
}

func TestSurvey(t *testing.T) {
	down := []core.DownNode{
		{Name: "c", State: core.NodeClosed, Why: core.Cordoned},
		{Name: "d", State: core.NodeLost, Why: "gone"},
	}
	tests := map[string]struct {
		why   string
		class core.Resources
		held  int32 // pods of a GPU and a cpu on b
		want  core.NodeFacts
	}{
		"GPUs are scarce": {
			why:   "16 places by GPUs and 11 by cpus: cpus are",
			class: amounts(1, 1000),
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Fit:      11,
				Resource: core.CPU,
				Free:     11000,
				Largest:  8000,
				Need:     1000,
			},
		},
		"no room for one more": {
			why:   "two places on b, none on a, which has 3 cpus left",
			class: amounts(4, 4000),
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Fit:      2,
				Full:     1,
				Resource: core.CPU,
				Free:     11000,
				Largest:  8000,
				Need:     4000,
			},
		},
		"the packed resource of equal ones": {
			why:   "16 places by either",
			class: amounts(1, 650),
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Fit:      12,
				Resource: core.GPU,
				Free:     16,
				Largest:  8,
				Need:     1,
			},
		},
		"what is held counts": {
			why:   "7 of 8 GPUs of b are held",
			class: amounts(2, 0),
			held:  7,
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Fit:      4,
				Full:     1,
				Resource: core.GPU,
				Free:     9,
				Largest:  8,
				Need:     2,
			},
		},
		"GPUs before pods": {
			why:   "8 places by GPUs are fewer than 19 by the number of pods",
			class: amounts(2, 0),
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Fit:      8,
				Resource: core.GPU,
				Free:     16,
				Largest:  8,
				Need:     2,
			},
		},
		"a resource that no node has": {
			why:   "there is no place at all",
			class: core.Resources{}.With("fpga", 1),
			want: core.NodeFacts{
				Total:    6,
				Matching: 4,
				Down:     down,
				Cordoned: 1,
				Lost:     1,
				Full:     2,
				Resource: "fpga",
				Need:     1,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := park()
			hold := []Hold{{s.Node("b"), s.Class(amounts(1, 1000), core.Constraints{}, core.Topology{}), tc.held}}
			s.Take(core.Current, hold, 1)
			s.Take(core.Projected, hold, 1)
			if d := cmp.Diff(
				tc.want,
				s.Survey(s.Class(tc.class, core.Constraints{Filter: ofKind("k")}, core.Topology{})),
			); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// Of many nodes out of service ten are named, and all are counted.
func TestSurveyNamesTen(t *testing.T) {
	s := New(core.GPU)
	states := []core.NodeState{core.NodeEvicted, core.NodeLost, core.NodeClosed}
	for i := range 12 {
		s.Set(machine(fmt.Sprint("n", i), 8, states[i%3]))
	}
	f := s.Survey(s.Class(gpus(1), core.Constraints{}, core.Topology{}))
	if len(f.Down) != 10 || f.Down[9].Name != "n9" || f.Evicted != 4 || f.Lost != 4 || f.Closed != 4 ||
		f.Cordoned != 0 {
		t.Errorf("%+v", f)
	}
}

// Nodes are named in order of their names, whatever faults they have.
func TestFaultsNameNoOthers(t *testing.T) {
	s := New(core.GPU)
	for i, state := range []core.NodeState{core.NodeLost, core.NodeLost, core.NodeReady, core.NodeReady} {
		n := machine(fmt.Sprint("n", i), 8, state)
		n.Faults, n.Taints = []int32{3, 2, 1, 0}[i], []core.Taint{{Key: fmt.Sprint("t", i), Effect: "NoSchedule"}}
		s.Set(n)
	}
	tolerant := core.Filter{Tolerations: []core.Toleration{{Exists: true}}}
	c := s.Class(gpus(8), core.Constraints{Filter: tolerant}, core.Topology{})
	if f := s.Survey(c); len(f.Down) != 2 || f.Down[0].Name != "n0" {
		t.Errorf("out of service are %+v, want n0 first", f.Down)
	}
	if down := s.Down(c, 1); len(down) != 1 || down[0].Name() != "n0" {
		t.Errorf("the first out of service is %v, want n0", down)
	}
	if used := s.Used(c, 1); len(used) != 1 || used[0].Name() != "n2" {
		t.Errorf("the first that may be used is %v, want n2", used)
	}
	k := s.Class(gpus(8), core.Constraints{}, core.Topology{})
	if in := s.TaintsInTheWay(k, 1); len(in) != 1 || in[0].Key != "t0" {
		t.Errorf("the first taint in the way is %v, want t0", in)
	}
}

func occupied(s *Nodes, list []Occupied) (out []string) {
	for _, o := range list {
		text := o.Name() + ":"
		for _, id := range o.scarce {
			text += " " + s.resourceName(id)
		}
		out = append(out, text)
	}
	return out
}

// Where one more pod would find room if a workload left, and of what.
func TestOccupied(t *testing.T) {
	s := park()
	hold := []Hold{{s.Node("b"), s.Class(amounts(5, 1000), core.Constraints{}, core.Topology{}), 1}}
	for _, l := range []core.Account{core.Current, core.Projected} {
		s.Take(l, hold, 1)
	}
	tests := map[string]struct {
		why   string
		class *Class
		looks int
		want  []string
	}{
		"each lacks something else": {
			"a has 3 cpus left, b 3 GPUs",
			s.Class(amounts(4, 4000), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			9,
			[]string{"a: cpu", "b: nvidia.com/gpu"},
		},
		"so many looks": {
			"b was not looked at",
			s.Class(amounts(4, 4000), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			1,
			[]string{"a: cpu"},
		},
		"no look": {
			"none was",
			s.Class(amounts(4, 4000), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			0,
			nil,
		},
		"exactly all": {
			"an empty node would do for 8",
			s.Class(amounts(8, 0), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			9,
			[]string{"b: nvidia.com/gpu"},
		},
		"more than an empty node": {
			"no workload that leaves helps",
			s.Class(amounts(9, 0), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			9,
			nil,
		},
		"one more than fits": {
			"b has room for three and could have four; a has all eight",
			s.Class(amounts(1, 0), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			9,
			[]string{"b: nvidia.com/gpu"},
		},
		"a resource that no one has": {
			"no workload holds it",
			s.Class(core.Resources{}.With("fpga", 1), core.Constraints{Filter: ofKind("k")}, core.Topology{}),
			9,
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, occupied(s, s.Occupied(tc.class, tc.looks))); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
		})
	}
	used := []string{"a: cpu nvidia.com/gpu pods", "b: cpu nvidia.com/gpu pods"}
	for looks := range 4 {
		if d := cmp.Diff(
			used[:min(looks, 2)],
			occupied(s, s.Used(s.Class(amounts(1, 1), core.Constraints{Filter: ofKind("k")}, core.Topology{}), looks)),
			cmp.Transformer("text", func(l []string) string { return fmt.Sprint(l) }),
		); d != "" {
			t.Errorf("nodes in use, %d looked at (-want +got):\n%s", looks, d)
		}
	}
}

// What a workload takes of what is scarce: GPUs first, whatever else is.
func TestTaken(t *testing.T) {
	s := park()
	a, b := s.Node("a"), s.Node("b")
	both, cpus := s.Class(
		amounts(2, 1500),
		core.Constraints{},
		core.Topology{},
	), s.Class(
		amounts(0, 1500),
		core.Constraints{},
		core.Topology{},
	)
	gpu, cpu := s.resource(core.GPU), s.resource(core.CPU)
	tests := map[string]struct {
		why    string
		of     Occupied
		hold   Hold
		want   string
		others string
	}{
		"GPUs first": {
			"both are scarce",
			Occupied{Node: a, scarce: []int{cpu, gpu}},
			Hold{a, both, 3},
			"nvidia.com/gpu 6",
			"cpu 5000",
		},
		"only cpus": {
			"GPUs are not scarce",
			Occupied{Node: a, scarce: []int{cpu}},
			Hold{a, both, 3},
			"cpu 4500",
			"cpu 5000",
		},
		"it has no GPUs": {
			"what it does take",
			Occupied{Node: a, scarce: []int{cpu, gpu}},
			Hold{a, cpus, 2},
			"cpu 3000",
			"cpu 5000",
		},
		"nothing scarce": {"it takes no GPUs", Occupied{Node: a, scarce: []int{gpu}}, Hold{a, cpus, 2}, " 0", " 0"},
		"elsewhere":      {"it is on b", Occupied{Node: a, scarce: []int{cpu}}, Hold{b, cpus, 2}, " 0", "cpu 5000"},
		"no others": {
			"no other workload has pods on b",
			Occupied{Node: b, scarce: []int{cpu}},
			Hold{b, cpus, 2},
			"cpu 3000",
			" 0",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, n := s.Taken(tc.of, tc.hold)
			if got := fmt.Sprint(r, " ", int64(n)); got != tc.want {
				t.Errorf("%s: takes %q, want %q", tc.why, got, tc.want)
			}
			r, n = s.TakenByOthers(tc.of)
			if got := fmt.Sprint(r, " ", int64(n)); got != tc.others {
				t.Errorf("%s: others take %q, want %q", tc.why, got, tc.others)
			}
		})
	}
}

// What alone keeps nodes away, most nodes first.
func TestInTheWay(t *testing.T) {
	s := park()
	extra := machine("g", 8, core.NodeReady)
	extra.Labels["kind"] = "k"
	extra.Taints = []core.Taint{{Key: "odd", Value: "1", Effect: "NoSchedule"}}
	s.Set(extra)
	extra.Name, extra.Taints = "h", []core.Taint{{Key: "new", Effect: "NoExecute"}}
	s.Set(extra)
	extra.Name, extra.Taints = "i", []core.Taint{
		{Key: "new", Effect: "NoExecute"},
		{Key: "odd", Effect: "NoSchedule"},
	}
	s.Set(extra)
	k := s.Class(gpus(1), core.Constraints{Filter: ofKind("k")}, core.Topology{})
	want := []core.Obstacle{
		{Text: "odd=1:NoSchedule", Taint: true, Nodes: 2},
		{Text: "kind=k", Nodes: 1},
		{Text: "new:NoExecute", Taint: true, Nodes: 1},
	}
	if d := cmp.Diff(want, s.InTheWay(k)); d != "" {
		t.Errorf("in the way (-want +got):\n%s", d)
	}
	reached := ofKind("k")
	reached.Volumes = []core.Volume{
		{
			Claim: "data",
			Terms: []core.Selector{
				{{Key: "kind", Operator: core.In, Values: []string{"x"}}},
				{{Key: "disk", Operator: core.Exists}},
			},
		},
	}
	far := s.Class(gpus(1), core.Constraints{Filter: reached}, core.Topology{})
	if far == k {
		t.Error("pods with a volume are of the class of those without")
	}
	for _, o := range s.InTheWay(far) {
		if want := "to reach the volume of claim data, which is on kind=x or disk"; o.Text != want &&
			o.Text != "kind=k" {
			t.Errorf("%q is in the way, want %q", o.Text, want)
		}
	}
	taints := []core.Taint{{Key: "odd", Value: "1", Effect: "NoSchedule"}, {Key: "new", Effect: "NoExecute"}}
	for most, want := range [][]core.Taint{nil, taints[:1], taints, taints} {
		if d := cmp.Diff(want, s.TaintsInTheWay(k, most)); d != "" {
			t.Errorf("at most %d taints in the way (-want +got):\n%s", most, d)
		}
	}
	for most, want := range []string{"[]", "[c]", "[c d]", "[c d]"} {
		got := []string{}
		for _, n := range s.Down(k, most) {
			got = append(got, n.Name())
		}
		if fmt.Sprint(got) != want {
			t.Errorf("at most %d out of service: %v, want %s", most, got, want)
		}
	}
}

// What is only thought of is seen, and gone when it is taken back.
func TestThoughts(t *testing.T) {
	s := park()
	k := s.Class(amounts(1, 1000), core.Constraints{Filter: ofKind("k")}, core.Topology{})
	type seen struct {
		slots, total int64
		down         int32
	}
	look := func() seen {
		total, _, down := s.Total(k)
		return seen{s.slots(k, Free), total, down}
	}
	before := look()
	if want := (seen{11, 32, 2}); before != want {
		t.Fatalf("there are %v, want %v", before, want)
	}
	for what, tc := range map[string]struct {
		think func() func()
		want  seen
	}{
		"c is opened":  {func() func() { return s.Suppose(s.Node("c"), core.NodeReady) }, seen{19, 32, 1}},
		"b is closed":  {func() func() { return s.Suppose(s.Node("b"), core.NodeClosed) }, seen{3, 32, 3}},
		"a is emptied": {func() func() { return s.Clear(s.Node("a")) }, seen{16, 32, 2}},
		"a GPU is held": {func() func() {
			h := []Hold{{s.Node("b"), k, 2}}
			s.Imagine(core.Current, h, 1)
			return func() { s.Imagine(core.Current, h, -1) }
		}, seen{9, 32, 2}},
	} {
		undo := tc.think()
		if got := look(); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
		if undo(); look() != before {
			t.Errorf("%s, and not any more: %v, want %v", what, look(), before)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s, and not any more: %v", what, err)
		}
	}
}
