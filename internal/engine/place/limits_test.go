package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// crowd is a workload of pods that have room on every node, and what bounds them.
type crowd struct {
	nodes   int
	foreign []map[string]int32 // taken by others, by node and limit
	kept    []map[string]int32 // taken by its own pods that stay
	counts  []int32            // by set
	limits  [][]core.Limit     // by set
	refused [][]core.NodeRefusal
}

// admits reports whether limits and answers let pods of a set be on each node.
func (c *crowd) admits(given [][]int32) bool {
	for node := range c.nodes {
		taken := map[string]int32{}
		for set, counts := range given {
			for _, l := range c.limits[set] {
				taken[l.Name] += l.Count * counts[node]
			}
			for _, r := range c.refused[set] {
				if r.Node == fmt.Sprint("n", node) && counts[node] > r.Most {
					return false
				}
			}
		}
		for set, counts := range given {
			for _, l := range c.limits[set] {
				if counts[node] > 0 && taken[l.Name]+c.foreign[node][l.Name]+c.kept[node][l.Name] > l.Most {
					return false
				}
			}
		}
	}
	return true
}

// exists tries every distribution.
func (c *crowd) exists(given [][]int32, set, node int, left int32) bool {
	switch {
	case set == len(c.counts):
		return c.admits(given)
	case node == c.nodes:
		return left == 0 && c.exists(given, set+1, 0, c.next(set+1))
	}
	for n := range left + 1 {
		given[set][node] = n
		if c.exists(given, set, node+1, left-n) {
			return true
		}
	}
	given[set][node] = 0
	return false
}

func (c *crowd) next(set int) int32 {
	if set == len(c.counts) {
		return 0
	}
	return c.counts[set]
}

// TestLimitsAgainstExhaustiveSearch: pods that may not share nodes as they like have places
// exactly when there is some distribution that every limit and every answer of a node lets be.
func TestLimitsAgainstExhaustiveSearch(t *testing.T) {
	names := []core.Limit{
		{Name: "port", Most: 1},
		{Name: "apart", Most: 3},
		{Name: "spread", Own: true, Most: 2},
	}
	rapid.Check(t, func(t *rapid.T) {
		s := New(core.GPU)
		c := &crowd{nodes: rapid.IntRange(1, 4).Draw(t, "nodes")}
		r := Request{View: rapid.SampledFrom([]View{Free, After}).Draw(t, "view")}
		for i := range c.nodes {
			node := core.Node{
				Name:        fmt.Sprint("n", i),
				State:       core.NodeReady,
				Allocatable: core.Resources{}.With(core.Pods, 100),
			}
			foreign := map[string]int32{}
			for _, l := range names[:2] {
				if n := rapid.Int32Range(0, 4).Draw(t, "foreign"); n <= l.Most {
					foreign[l.Name] = n
					node.ForeignLimits = append(node.ForeignLimits, core.Limit{Name: l.Name, Count: n, Most: l.Most})
				}
			}
			c.foreign, c.kept = append(c.foreign, foreign), append(c.kept, map[string]int32{})
			s.Set(node)
		}
		given := [][]int32{}
		for set := range rapid.IntRange(1, 3).Draw(t, "sets") {
			var limits []core.Limit
			for _, l := range names {
				if l.Count = rapid.Int32Range(0, l.Most).Draw(t, l.Name); l.Count > 0 {
					limits = append(limits, l)
				}
			}
			var refused []core.NodeRefusal
			for i := range c.nodes {
				if n := rapid.Int32Range(0, 6).Draw(t, "takes"); n < 3 {
					refused = append(refused, core.NodeRefusal{Node: fmt.Sprint("n", i), Most: n})
				}
			}
			count := rapid.Int32Range(1, 3).Draw(t, "count")
			c.counts, c.limits, c.refused = append(
				c.counts,
				count,
			), append(
				c.limits,
				limits,
			), append(
				c.refused,
				refused,
			)
			given = append(given, make([]int32, c.nodes))
			r.Sets = append(
				r.Sets,
				Set{
					Index: set,
					Class: s.Class(
						nil,
						core.Constraints{Filter: core.Filter{Refused: refused}, Limits: limits},
						core.Topology{},
					),
					Count: count,
				},
			)
		}
		for range rapid.IntRange(0, 2).Draw(t, "kept") {
			on := rapid.IntRange(0, c.nodes-1).Draw(t, "stays on")
			h := Hold{
				s.Node(fmt.Sprint("n", on)),
				s.Class(
					nil,
					core.Constraints{Limits: []core.Limit{{Name: "spread", Own: true, Count: 1, Most: 2}}},
					core.Topology{},
				),
				1,
			}
			r.Kept = append(r.Kept, h)
			c.kept[on]["spread"]++
		}
		spots, _, ok := s.Place(r)
		if exists := c.exists(given, 0, 0, c.counts[0]); ok != exists {
			t.Fatalf("found a place: %t, there is one: %t: %+v", ok, exists, c)
		}
		if len(r.Kept) == 0 && ok != s.Fits(r) {
			t.Fatalf("a place was found (%t) and Fits says the opposite", ok)
		}
		got := make([][]int32, len(spots))
		for i, set := range spots {
			got[i] = make([]int32, c.nodes)
			total := int32(0)
			for _, sp := range set {
				total += sp.Count
				got[i][sp.Node.rank] += sp.Count
			}
			if total != c.counts[i] {
				t.Fatalf("set %d: %d of %d pods have a place", i, total, c.counts[i])
			}
		}
		if ok && !c.admits(got) {
			t.Fatalf("the places %v break a limit: %+v", got, c)
		}
		if _, possible := s.Together(r.Sets); ok && !possible {
			t.Fatal("what has places could never have them")
		}
		for _, n := range s.order {
			if len(n.shares[core.Current])+len(n.shares[core.Projected]) > 0 {
				t.Fatalf("something of %s stayed booked", n.Name())
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestShortageNamesWhatIsInTheWay(t *testing.T) {
	port := core.Limit{Name: "host port 8471/TCP", Count: 1, Most: 1}
	apart := core.Limit{Name: "affinity", Count: 9, Most: 9}
	tests := map[string]struct {
		why     string
		foreign []core.Limit
		refused []core.NodeRefusal
		limits  []core.Limit
		count   int32
		want    Shortage
	}{
		"taken by others": {
			why:     "both nodes have room, one has the port",
			foreign: []core.Limit{port},
			limits:  []core.Limit{port},
			count:   2,
			want:    Shortage{Cause: core.NodesShort, Fit: 1, Wanted: 2, Nodes: 2, Limit: port.Name},
		},
		"more than nodes": {
			why: "one per node, and there are two", limits: []core.Limit{apart}, count: 3,
			want: Shortage{Cause: core.GangTooLarge, Fit: 2, Wanted: 3, Nodes: 2, Limit: apart.Name},
		},
		"all refused": {
			why:     "a takes one pod, b none",
			refused: []core.NodeRefusal{{Node: "a", Most: 1, Why: "no such volume"}, {Node: "b", Why: "other"}},
			count:   2,
			want: Shortage{
				Cause:   core.NodesRefused,
				Fit:     1,
				Wanted:  2,
				Nodes:   1,
				Refused: 2,
				Answer:  "no such volume",
			},
		},
		"one refused, the other busy": {
			why:     "the port of a is taken, b said no",
			foreign: []core.Limit{port},
			limits:  []core.Limit{port},
			count:   1,
			refused: []core.NodeRefusal{{Node: "b", Why: "no"}},
			want:    Shortage{Cause: core.NodesShort, Wanted: 1, Nodes: 1, Limit: port.Name, Refused: 1, Answer: "no"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(core.GPU)
			a := machine("a", 8, core.NodeReady)
			a.ForeignLimits = tc.foreign
			s.Set(a)
			s.Set(machine("b", 8, core.NodeReady))
			_, short, ok := s.Place(
				Request{
					Sets: []Set{
						{
							Class: s.Class(
								gpus(1),
								core.Constraints{Filter: core.Filter{Refused: tc.refused}, Limits: tc.limits},
								core.Topology{},
							),
							Count: tc.count,
						},
					},
				},
			)
			if ok || short != tc.want {
				t.Errorf("%s: found %t, short of %+v, want %+v", tc.why, ok, short, tc.want)
			}
		})
	}
}

func TestWhoHoldsALimit(t *testing.T) {
	s := New(core.GPU)
	port := core.Limit{Name: "host port 80/TCP", Count: 1, Most: 1}
	s.Set(machine("a", 8, core.NodeReady))
	n := machine("b", 8, core.NodeReady)
	n.ForeignLimits = []core.Limit{port}
	s.Set(n)
	c := s.Class(gpus(1), core.Constraints{Limits: []core.Limit{port}}, core.Topology{})
	hold := Hold{s.Node("a"), c, 1}
	s.Take(core.Current, []Hold{hold}, 1)
	s.Take(core.Projected, []Hold{hold}, 1)
	held := s.Occupied(c, 9)
	if len(held) != 2 {
		t.Fatalf("the port is taken on a and b, said of %d nodes", len(held))
	}
	if r, amount := s.Taken(held[0], hold); r != port.Name || amount != 1 {
		t.Errorf("the workload holds %s %d of a", r, amount)
	}
	if r, amount := s.TakenByOthers(held[1]); r != port.Name || amount != 1 {
		t.Errorf("other pods hold %s %d of b", r, amount)
	}
	undo := s.Clear(s.Get("b"))
	if !s.Can(Set{Class: c, Count: 1}, Free) {
		t.Error("without the pods of others b has the port")
	}
	undo()
	if better, _ := s.Set(machine("b", 8, core.NodeReady)); !better || !s.Can(Set{Class: c, Count: 1}, Free) {
		t.Error("a port that comes free is room for those that wait")
	}
	s.Give(core.Current, []Hold{hold}, 1)
	s.Give(core.Projected, []Hold{hold}, 1)
	if !s.Holdable(core.Current, []Hold{hold}) || s.Holdable(core.Current, []Hold{hold, hold}) {
		t.Error("a has the port once")
	}
}

// Pods can be held where others have come to share a node that must not: of the limits of a
// node those count that the pods have.
func TestHoldableBesideExceededLimit(t *testing.T) {
	s := New(core.GPU)
	port := core.Limit{Name: "port 80", Count: 1, Most: 1}
	n := machine("a", 8, core.NodeReady)
	s.Set(n)
	host, plain := s.Class(
		gpus(1),
		core.Constraints{Limits: []core.Limit{port}},
		core.Topology{},
	), s.Class(
		gpus(1),
		core.Constraints{},
		core.Topology{},
	)
	s.Take(core.Projected, []Hold{{s.Node("a"), host, 1}}, 1)
	n.ForeignLimits = []core.Limit{port}
	s.Set(n)
	if !s.Node("a").Over(core.Projected) {
		t.Fatal("the port is taken once")
	}
	if !s.Holdable(core.Projected, []Hold{{s.Node("a"), plain, 1}}) {
		t.Error("pods without a host port need it")
	}
	if s.Holdable(core.Projected, []Hold{{s.Node("a"), host, 1}}) {
		t.Error("pods with the host port have it although it is taken")
	}
}

// How many pods nodes would take if they were empty, by what they answered, is the same while pods of
// the workload stay on them, and after.
func TestWhatEmptyNodesTakeIsTheSameWhilePodsStay(t *testing.T) {
	s := New(core.GPU)
	for _, name := range []string{"a", "b"} {
		s.Set(machine(name, 8, core.NodeReady))
	}
	class := s.Class(
		gpus(1),
		core.Constraints{
			Filter: core.Filter{Refused: []core.NodeRefusal{{Node: "a", Most: 1, Why: "no"}, {Node: "b", Why: "no"}}},
		},
		core.Topology{},
	)
	stays := Request{Sets: []Set{{Class: class, Count: 1}}, Kept: []Hold{{s.Node("a"), class, 1}}}
	if _, short, ok := s.Place(stays); ok || short.Cause == "" {
		t.Fatalf("node a takes one pod, and one stays there: %t, %+v", ok, short)
	}
	if slots, nodes, _ := s.Total(class); slots != 1 || nodes != 1 {
		t.Errorf("empty nodes take %d pods on %d nodes, want 1 on 1", slots, nodes)
	}
	if short, ok := s.Possible(Set{Class: class, Count: 1}); !ok {
		t.Errorf("node a takes the pod: %+v", short)
	}
}

// TestHoldableInADomain: where pods of all count in a domain, a plan that waits for others to leave does not hold as
// long as they are there, on whatever node of the domain, in service or not.
func TestHoldableInADomain(t *testing.T) {
	s := New(core.GPU)
	in := func(name, rack string, state core.NodeState) core.Node {
		n := machine(name, 8, state)
		n.Labels["rack"] = rack
		return n
	}
	for name, rack := range map[string]string{"a": "r1", "b": "r1", "c": "r2"} {
		s.Set(in(name, rack, core.NodeReady))
	}
	c := s.Class(gpus(1), core.Constraints{
		Limits: []core.Limit{{Name: "apart", Count: 1, Most: 2, Level: "rack"}},
	}, core.Topology{})
	others := []Hold{{s.Node("a"), c, 1}}
	s.Take(core.Current, others, 1) // they leave: in no other account
	s.Set(in("a", "r1", core.NodeLost))
	for _, tc := range []struct {
		why     string
		account core.Account
		holds   []Hold
		want    bool
	}{
		{"two and the one that leaves are three", core.Current, []Hold{{s.Node("b"), c, 2}}, false},
		{"once it is gone there are two", core.Projected, []Hold{{s.Node("b"), c, 2}}, true},
		{"one more is allowed", core.Current, []Hold{{s.Node("b"), c, 1}}, true},
		{"another rack", core.Current, []Hold{{s.Node("c"), c, 2}}, true},
		{"three of its own", core.Projected, []Hold{{s.Node("c"), c, 3}}, false},
	} {
		if got := s.Holdable(tc.account, tc.holds); got != tc.want {
			t.Errorf("%s: %t", tc.why, got)
		}
	}
}
