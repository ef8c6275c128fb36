package place

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

func machine(name string, gpus core.Amount, state core.NodeState) core.Node {
	return core.Node{
		Name: name, State: state, Labels: map[string]string{core.HostnameLabel: name},
		Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: gpus, core.CPU: 8000, core.Pods: 10}),
	}
}

func gpus(n core.Amount) core.Resources {
	return core.MakeResources(map[string]core.Amount{core.GPU: n})
}

func TestPlace(t *testing.T) {
	ready, warned, closed := core.NodeReady, core.NodeWarned, core.NodeClosed
	tests := map[string]struct {
		why   string
		nodes []core.Node
		sets  []struct {
			gpus  core.Amount
			count int32
		}
		want  string
		short Shortage
	}{
		"best fit": {
			why:   "the node with the fewest GPUs that still hold the pod",
			nodes: []core.Node{machine("a", 8, ready), machine("b", 4, ready), machine("c", 2, ready)},
			sets:  pods(3, 1), want: "b*1",
		},
		"ties by natural name": {
			why:   "n-9 before n-10",
			nodes: []core.Node{machine("n-10", 8, ready), machine("n-9", 8, ready)},
			sets:  pods(8, 1), want: "n-9*1",
		},
		"warned nodes last": {
			why:   "a warned node is used only when the others are full",
			nodes: []core.Node{machine("a", 2, warned), machine("b", 8, ready)},
			sets:  pods(2, 5), want: "a*1 b*4",
		},
		"all or nothing": {
			why: "three of four is nothing; the closed node counts as out of service",
			nodes: []core.Node{
				machine("a", 8, ready),
				machine("b", 8, ready),
				machine("c", 8, ready),
				machine("d", 8, closed),
			},
			sets:  pods(8, 4),
			short: Shortage{Cause: core.NodesShort, Fit: 3, Wanted: 4, Nodes: 4, Down: 1},
		},
		"larger than any node": {
			why:   "no wait helps",
			nodes: []core.Node{machine("a", 8, ready)},
			sets: pods(
				9,
				1,
			),
			short: Shortage{Cause: core.PodTooLarge, Wanted: 1, Nodes: 1, Resource: core.GPU, Need: 9, Largest: 8},
		},
		"larger than all nodes": {
			why:   "the gang needs three nodes and there are two",
			nodes: []core.Node{machine("a", 8, ready), machine("b", 8, closed)},
			sets:  pods(8, 3), short: Shortage{Cause: core.GangTooLarge, Fit: 2, Wanted: 3, Nodes: 2, Down: 1},
		},
		"the larger pod first": {
			why:   "pods of 3 must leave room for pods of 2 on the node of 4",
			nodes: []core.Node{machine("a", 4, ready), machine("b", 3, ready)},
			sets:  append(pods(3, 1), pods(2, 2)...), want: "b*1 a*2",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(core.GPU)
			for _, n := range tc.nodes {
				s.Set(n)
			}
			r := Request{}
			for _, p := range tc.sets {
				r.Sets = append(
					r.Sets,
					Set{Class: s.Class(gpus(p.gpus), core.Constraints{}, core.Topology{}), Count: p.count},
				)
			}
			spots, short, ok := s.Place(r)
			got := ""
			for _, set := range spots {
				for _, sp := range set {
					got += fmt.Sprintf(" %s*%d", sp.Node.Name(), sp.Count)
				}
			}
			if got != "" {
				got = got[1:]
			}
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("%s: places %q, want %q", tc.why, got, tc.want)
			}
			if d := cmp.Diff(tc.short, short); !ok && d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", tc.why, err)
			}
		})
	}
}

func pods(gpus core.Amount, count int32) []struct {
	gpus  core.Amount
	count int32
} {
	return []struct {
		gpus  core.Amount
		count int32
	}{{gpus, count}}
}

func TestCompareNames(t *testing.T) {
	names := []string{"n-10", "n-2", "n-1", "m-3", "n-02", "n", "n-1a"}
	slices.SortFunc(names, core.CompareNames)
	want := []string{"m-3", "n", "n-1", "n-1a", "n-02", "n-2", "n-10"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("natural order (-want +got):\n%s", d)
	}
}

// TestAgainstExhaustiveSearch compares with every way to distribute pods over
// up to six nodes: a place is found exactly when there is one, and what is found
// fits.
func TestAgainstExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(core.GPU)
		n := rapid.IntRange(1, 5).Draw(t, "nodes")
		free, names := make([][2]core.Amount, n), make([]string, n)
		r := Request{View: After}
		var want [][2]core.Amount // one per pod
		tight := rapid.IntRange(0, 3).Draw(t, "tight") > 0
		for range rapid.IntRange(1, 3).Draw(t, "sets") {
			req := [2]core.Amount{
				core.Amount(rapid.IntRange(0, 4).Draw(t, "gpu")),
				core.Amount(rapid.IntRange(0, 4).Draw(t, "cpu")),
			}
			count := int32(rapid.IntRange(1, 3).Draw(t, "count"))
			c := s.Class(
				core.MakeResources(map[string]core.Amount{core.GPU: req[0], core.CPU: req[1]}),
				core.Constraints{},
				core.Topology{},
			)
			r.Sets = append(r.Sets, Set{Class: c, Count: count})
			for range count {
				want = append(want, req)
			}
		}
		for _, w := range want {
			if tight { // there is one way at least, and little room for others
				i := rapid.IntRange(0, n-1).Draw(t, "on")
				free[i] = [2]core.Amount{free[i][0] + w[0], free[i][1] + w[1]}
			}
		}
		for i := range n {
			more := 1
			if !tight {
				more = 8
			}
			free[i][0] += core.Amount(rapid.IntRange(0, more).Draw(t, "gpus"))
			free[i][1] += core.Amount(rapid.IntRange(0, more).Draw(t, "cpus"))
			names[i] = fmt.Sprint("n", i)
			s.Set(
				core.Node{Name: names[i], State: core.NodeReady, Allocatable: core.MakeResources(map[string]core.Amount{
					core.GPU: free[i][0], core.CPU: free[i][1], core.Pods: 100,
				})},
			)
		}
		spots, _, ok := s.Place(r)
		if exists := exists(slices.Clone(free), want); ok != exists || ok != s.Fits(r) {
			t.Fatalf("found a place: %t, there is one: %t", ok, exists)
		}
		for i, set := range spots {
			total := int32(0)
			for _, sp := range set {
				total += sp.Count
				k := slices.Index(names, sp.Node.Name())
				for _, q := range r.Sets[i].Class.needs {
					switch q.resource {
					case s.resource(core.GPU):
						free[k][0] -= core.Amount(q.amount) * core.Amount(sp.Count)
					case s.resource(core.CPU):
						free[k][1] -= core.Amount(q.amount) * core.Amount(sp.Count)
					}
				}
				if free[k][0] < 0 || free[k][1] < 0 {
					t.Fatalf("node %s is given more than it has", names[k])
				}
			}
			if total != r.Sets[i].Count {
				t.Fatalf("set %d: %d of %d pods have a place", i, total, r.Sets[i].Count)
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func exists(free [][2]core.Amount, pods [][2]core.Amount) bool {
	if len(pods) == 0 {
		return true
	}
	for i := range free {
		if free[i][0] < pods[0][0] || free[i][1] < pods[0][1] {
			continue
		}
		free[i][0] -= pods[0][0]
		free[i][1] -= pods[0][1]
		ok := exists(free, pods[1:])
		free[i][0] += pods[0][0]
		free[i][1] += pods[0][1]
		if ok {
			return true
		}
	}
	return false
}
