package place

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What a change of a node means for those that wait, and for those that run there.
func TestSet(t *testing.T) {
	base := func() core.Node {
		n := machine("a", 4, core.NodeReady)
		n.Labels["x"] = "1"
		n.Foreign = core.Resources{}.With(core.CPU, 1000).With(core.Pods, 2)
		return n
	}
	tests := map[string]struct {
		why          string
		was          func(*core.Node)
		is           func(*core.Node)
		better, lost bool
		other        bool // its kind changed
	}{
		"the same": {why: "told again"},
		"closed": {
			why:   "it takes no more work",
			is:    func(n *core.Node) { n.State = core.NodeClosed },
			lost:  true,
			other: true,
		},
		"opened": {
			why:    "it takes work again",
			was:    func(n *core.Node) { n.State = core.NodeClosed },
			better: true,
			other:  true,
		},
		"closed otherwise": {
			why:   "it took none before",
			was:   func(n *core.Node) { n.State = core.NodeClosed },
			is:    func(n *core.Node) { n.State = core.NodeLost },
			other: true,
		},
		"warned": {
			why:    "it takes work still",
			is:     func(n *core.Node) { n.State = core.NodeWarned },
			better: true,
			other:  true,
		},
		"for another reason": {why: "nothing else changed", is: func(n *core.Node) { n.Why = "cordoned" }},
		"others left":        {why: "their cpu is free", is: func(n *core.Node) { n.Foreign = nil }, better: true},
		"others left, closed": {
			why: "no pod may use it", was: func(n *core.Node) { n.State = core.NodeClosed },
			is: func(n *core.Node) { n.State, n.Foreign = core.NodeClosed, nil },
		},
		"others came": {
			why: "less is free",
			is:  func(n *core.Node) { n.Foreign = n.Foreign.With(core.CPU, 2000) },
		},
		"another label": {
			why:    "others may match",
			is:     func(n *core.Node) { n.Labels["x"] = "2" },
			better: true,
			other:  true,
		},
		"one label more": {
			why:    "others may match",
			is:     func(n *core.Node) { n.Labels["y"] = "" },
			better: true,
			other:  true,
		},
		"one instead": {
			why:    "as many as before, but not the same",
			is:     func(n *core.Node) { delete(n.Labels, "x"); n.Labels["y"] = "" },
			better: true,
			other:  true,
		},
		"a taint": {
			why:    "which pods tolerate it does not matter here",
			is:     func(n *core.Node) { n.Taints = []core.Taint{{Key: "t"}} },
			better: true,
			other:  true,
		},
		"a resource": {
			why:    "it was not known before",
			is:     func(n *core.Node) { n.Allocatable = n.Allocatable.With("fpga", 1) },
			better: true,
			other:  true,
		},
		"fewer of a device": {
			why:    "a GPU broke: pods might match otherwise",
			is:     func(n *core.Node) { n.Allocatable = n.Allocatable.With(core.GPU, 1) },
			better: true,
			other:  true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, was, is := New(core.GPU), base(), base()
			if tc.was != nil {
				tc.was(&was)
				tc.was(&is)
				is.State = core.NodeReady
			}
			if tc.is != nil {
				tc.is(&is)
			}
			if better, lost := s.Set(was); better != was.State.TakesWork() || lost {
				t.Errorf("a new node: better %t, lost %t", better, lost)
			}
			before := s.Version()
			better, lost := s.Set(is)
			if better != tc.better || lost != tc.lost {
				t.Errorf("%s: better %t, lost %t, want %t, %t", tc.why, better, lost, tc.better, tc.lost)
			}
			if changed := s.Version() != before; changed != tc.other {
				t.Errorf("%s: what the node is like changed: %t, want %t", tc.why, changed, tc.other)
			}
		})
	}
}

// Nodes that go stay on record as long as something is held there.
func TestGone(t *testing.T) {
	s := New(core.GPU)
	s.Set(machine("a", 4, core.NodeReady))
	s.Set(machine("b", 4, core.NodeReady))
	hold := []Hold{{s.Node("b"), s.Class(gpus(1), core.Constraints{}, core.Topology{}), 1}}
	s.Take(core.Projected, hold, 1)
	before := s.Version()
	s.Gone("nobody")
	if s.Version() != before {
		t.Error("something changed when a node went that was never there")
	}
	s.Gone("a")
	s.Gone("b")
	s.Gone("b")
	if s.Version() != before+2 {
		t.Errorf("two nodes went, the version grew by %d", s.Version()-before)
	}
	s.Sweep()
	if s.Get("a") != nil || s.Get("b") == nil || s.Get("b").Spec() != nil || s.Get("b").Name() != "b" {
		t.Errorf("a is %v, b is %v", s.Get("a"), s.Get("b"))
	}
	if b := s.Get("b"); !b.Over(core.Projected) || b.Over(core.Current) {
		t.Error("a node that is gone has room for nothing, and only what will be held there is too much")
	}
	if s.Any(map[string]string{core.HostnameLabel: "b"}) || len(s.Specs()) != 0 {
		t.Error("a node that is gone still counts")
	}
	s.Set(machine("b", 4, core.NodeReady))
	if got := s.slots(
		s.Class(gpus(1), core.Constraints{}, core.Topology{}),
		After,
	); got != 3 || !s.Any(map[string]string{core.HostnameLabel: "b"}) ||
		s.Any(map[string]string{"x": ""}) {
		t.Errorf("b is back: %d of 4 GPUs are free, 1 is held", got)
	}
	if d := cmp.Diff([]core.Node{machine("b", 4, core.NodeReady)}, s.Specs()); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

// Pods that may use different nodes never share a class.
func TestClassKeys(t *testing.T) {
	in := func(op core.Operator, values ...string) core.Selector {
		return core.Selector{{Key: "k", Operator: op, Values: values}}
	}
	s, seen := New(core.GPU), map[*Class]int{}
	tolerate := func(l ...core.Toleration) core.Filter { return core.Filter{Tolerations: l} }
	filters := []core.Filter{
		{},
		{Must: in(core.In, "a")},
		{Must: in(core.In, "a", "b")},
		{Must: in(core.In, `a""b`)},
		{Must: in(core.NotIn, "a")},
		{Must: append(in(core.In, "a"), in(core.In, "b")...)},
		{Terms: []core.Selector{in(core.In, "a")}},
		{Terms: []core.Selector{in(core.In, "a"), in(core.In, "b")}},
		{Terms: []core.Selector{append(in(core.In, "a"), in(core.In, "b")...)}},
		{Terms: []core.Selector{nil}},
		tolerate(
			core.Toleration{Key: "k"},
		),
		tolerate(core.Toleration{Key: "k", Exists: true}),
		tolerate(core.Toleration{Key: "k", Value: "v"}),
		tolerate(
			core.Toleration{Key: "k", Effect: "NoExecute"},
		),
		tolerate(core.Toleration{Key: "k"}, core.Toleration{Key: "k"}),
	}
	for i, f := range filters {
		c := s.Class(gpus(1), core.Constraints{Filter: f}, core.Topology{})
		if was, ok := seen[c]; ok {
			t.Errorf("filters %d and %d share a class", was, i)
		}
		seen[c] = i
		if s.Class(gpus(1), core.Constraints{Filter: f}, core.Topology{}) != c {
			t.Errorf("filter %d has two classes", i)
		}
		if s.Class(gpus(2), core.Constraints{Filter: f}, core.Topology{}) == c ||
			s.Class(amounts(1, 1), core.Constraints{Filter: f}, core.Topology{}) == c {
			t.Errorf("other requests with filter %d have the same class", i)
		}
		s.Release(c)
		if s.Class(gpus(1), core.Constraints{Filter: f}, core.Topology{}) != c {
			t.Errorf("filter %d lost its class while it was still held", i)
		}
		s.Release(c)
		s.Release(c)
		if s.Class(gpus(1), core.Constraints{Filter: f}, core.Topology{}) == c {
			t.Errorf("filter %d keeps its class though nothing holds it", i)
		}
	}
}

// Of what a pod needs too much is told of the nodes that it may use, GPUs first.
func TestExcess(t *testing.T) {
	s := New(core.GPU)
	for name, n := range map[string][2]core.Amount{"a": {4, 3000}, "b": {8, 1000}, "c": {16, 9000}} {
		s.Set(core.Node{
			Name:        name,
			State:       core.NodeReady,
			Labels:      map[string]string{"big": map[bool]string{true: "yes", false: "no"}[name == "c"]},
			Allocatable: amounts(n[0], n[1]).With(core.Pods, 10),
		})
	}
	small := core.Filter{Must: core.Selector{{Key: "big", Operator: core.In, Values: []string{"no"}}}}
	tests := map[string]struct {
		why  string
		ask  core.Resources
		want Shortage
	}{
		"GPUs first": {
			"both are too much",
			amounts(9, 3001),
			Shortage{Resource: core.GPU, Need: 9, Largest: 8},
		},
		"cpus": {
			"only these",
			amounts(8, 3001),
			Shortage{Resource: core.CPU, Need: 3001, Largest: 3000},
		},
		"no one of them": {"each is somewhere, but not on one node", amounts(8, 3000), Shortage{}},
		"no node has any": {
			"unknown to all nodes",
			core.Resources{}.With("fpga", 2),
			Shortage{Resource: "fpga", Need: 2},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := s.Possible(
				Set{Class: s.Class(tc.ask, core.Constraints{Filter: small}, core.Topology{}), Count: 1},
			)
			tc.want.Cause, tc.want.Wanted, tc.want.Nodes = core.PodTooLarge, 1, 2
			if d := cmp.Diff(tc.want, got); ok || d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if _, ok := s.Possible(
				Set{Class: s.Class(tc.ask, core.Constraints{Filter: small}, core.Topology{})},
			); !ok {
				t.Error("no pods are possible anywhere")
			}
		})
	}
	if got, ok := s.Possible(
		Set{Class: s.Class(gpus(1), core.Constraints{Filter: ofKind("k")}, core.Topology{}), Count: 1},
	); ok ||
		got.Cause != core.NoSuchNode {
		t.Errorf("without any node of its kind: %+v", got)
	}
	if got, ok := s.Possible(
		Set{Class: s.Class(gpus(4), core.Constraints{Filter: small}, core.Topology{}), Count: 3},
	); !ok {
		t.Errorf("three of four on 4 + 8: %+v", got)
	}
}

// What was held can be held again if its nodes take work and all have room together.
func TestHoldable(t *testing.T) {
	s := New(core.GPU)
	s.Set(machine("a", 4, core.NodeReady))
	s.Set(machine("b", 4, core.NodeClosed))
	anyone, k := s.Class(
		gpus(2),
		core.Constraints{},
		core.Topology{},
	), s.Class(
		gpus(1),
		core.Constraints{Filter: ofKind("k")},
		core.Topology{},
	)
	tests := map[string]struct {
		holds []Hold
		want  bool
	}{
		"exactly all of a node":  {[]Hold{{s.Node("a"), anyone, 2}}, true},
		"too many together":      {[]Hold{{s.Node("a"), anyone, 1}, {s.Node("a"), anyone, 2}}, false},
		"a node out of service":  {[]Hold{{s.Node("a"), anyone, 1}, {s.Node("b"), anyone, 1}}, false},
		"a node of no such kind": {[]Hold{{s.Node("a"), k, 1}}, false},
		"a node that is gone":    {[]Hold{{s.Node("z"), anyone, 1}}, false},
	}
	for name, tc := range tests {
		if got := s.Holdable(core.Projected, tc.holds); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.slots(anyone, After) != 2 {
		t.Error("something is held afterwards")
	}
}
