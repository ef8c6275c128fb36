package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestTogether compares with every way to distribute the pods of several sets
// over empty nodes. What is held on nodes, and whether they are in service, does
// not count.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			together(t)
		}
	})
}

func together(t *rapid.T) {
	type pod struct {
		gpu, cpu core.Amount
		kind     string // of nodes, "" for any
	}
	s := New(core.GPU)
	n := rapid.IntRange(1, 5).Draw(t, "nodes")
	free, kinds := make([][2]core.Amount, n), make([]string, n)
	for i := range kinds {
		kinds[i] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind")
	}
	var sets []Set
	var pods []pod
	for range rapid.IntRange(2, 3).Draw(t, "sets") {
		p := pod{
			core.Amount(rapid.IntRange(0, 3).Draw(t, "gpu")), core.Amount(rapid.IntRange(0, 3).Draw(t, "cpu")),
			rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "on"),
		}
		var f core.Filter
		if p.kind != "" {
			f = ofKind(p.kind)
		}
		set := Set{
			Class: s.Class(
				core.MakeResources(map[string]core.Amount{core.GPU: p.gpu, core.CPU: p.cpu}),
				core.Constraints{Filter: f},
				core.Topology{},
			),
			Count: int32(rapid.IntRange(1, 3).Draw(t, "count")),
		}
		sets = append(sets, set)
		for range set.Count {
			pods = append(pods, p)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "tight") > 0 {
		// Room for one way, but for a piece that is on another node: no sum tells
		// that something is lacking.
		for _, p := range pods {
			if i := rapid.IntRange(0, n-1).Draw(t, "room on"); p.kind == "" || p.kind == kinds[i] {
				free[i] = [2]core.Amount{free[i][0] + p.gpu, free[i][1] + p.cpu}
			}
		}
		from, to, what := rapid.IntRange(0, n-1).
			Draw(t, "from"),
			rapid.IntRange(0, n-1).
				Draw(t, "to"),
			rapid.IntRange(0, 1).
				Draw(t, "what")
		if free[from][what] > 0 {
			free[from][what]--
			free[to][what]++
		}
	} else {
		for i := range free {
			free[i] = [2]core.Amount{
				core.Amount(rapid.IntRange(0, 4).Draw(t, "gpus")),
				core.Amount(rapid.IntRange(2, 4).Draw(t, "cpus")),
			}
		}
	}
	busy := s.Class(gpus(1), core.Constraints{}, core.Topology{})
	for i := range n {
		state := rapid.SampledFrom([]core.NodeState{core.NodeReady, core.NodeReady, core.NodeClosed}).
			Draw(t, "state")
		s.Set(core.Node{
			Name:   fmt.Sprint("n", i),
			State:  state,
			Labels: map[string]string{"kind": kinds[i]},
			Allocatable: core.MakeResources(
				map[string]core.Amount{core.GPU: free[i][0], core.CPU: free[i][1], core.Pods: 100},
			),
		})
		s.Take(core.Current, []Hold{{s.Node(fmt.Sprint("n", i)), busy, 1}}, 1)
	}
	alone := true
	for _, set := range sets {
		_, ok := s.Possible(set)
		alone = alone && ok
	}
	if !alone {
		return
	}
	var fits func(pods []pod) bool
	fits = func(pods []pod) bool {
		if len(pods) == 0 {
			return true
		}
		p := pods[0]
		for i, f := range free {
			if (p.kind != "" && p.kind != kinds[i]) || f[0] < p.gpu || f[1] < p.cpu {
				continue
			}
			free[i] = [2]core.Amount{f[0] - p.gpu, f[1] - p.cpu}
			ok := fits(pods[1:])
			if free[i] = f; ok {
				return true
			}
		}
		return false
	}
	short, ok := s.Together(sets)
	if want := fits(pods); ok != want {
		t.Fatalf("possible: %t, in truth %t", ok, want)
	}
	if !ok && (short.Cause != core.PodSetsTooLarge || short.Wanted != sets[short.Set].Count) {
		t.Fatalf("the shortage is %+v", short)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestTogetherGivesUp: where there are too many distributions to try them all, the
// gang is not told that it can never run, unless some resource proves it.
func TestTogetherGivesUp(t *testing.T) {
	s := New(core.GPU)
	for i := range 400 {
		n := machine(fmt.Sprint("n", i), 8, core.NodeReady)
		n.Allocatable = n.Allocatable.With(core.Memory, core.Amount(1000+i)) // no two alike
		s.Set(n)
	}
	five, three := s.Class(
		gpus(5),
		core.Constraints{},
		core.Topology{},
	), s.Class(
		gpus(4),
		core.Constraints{},
		core.Topology{},
	)
	if _, ok := s.Together(
		[]Set{{Index: 0, Class: five, Count: 201}, {Index: 1, Class: three, Count: 399}},
	); !ok {
		t.Error(
			"201 nodes have a pod of five and no other, so 199 are left for 399 pods of four, two on each: no search has the time to find that out",
		)
	}
	if _, ok := s.Together(
		[]Set{{Index: 0, Class: five, Count: 400}, {Index: 1, Class: three, Count: 400}},
	); ok {
		t.Error("3600 of 3200 GPUs are asked for")
	}
	if _, ok := s.Together([]Set{{Index: 0, Class: five, Count: 1}, {Index: 1, Class: three, Count: 799}}); ok {
		t.Error("3201 of 3200 GPUs are asked for")
	}
	x := packing{
		sets:  []Set{{Index: 0, Class: five, Count: 2}},
		bins:  make([]bin, 4),
		room:  []int64{2},
		looks: 3,
	}
	if x.set(0) != gaveUp {
		t.Error("with three looks at four nodes nothing can be known")
	}
}

// TestPodSetsThatShareALimitNeedDomainsForAll: two pods of one set and four of another may be two in each rack: three
// racks hold them, two never do, and where nodes are in no rack there is no bound.
func TestPodSetsThatShareALimitNeedDomainsForAll(t *testing.T) {
	limits := []core.Limit{{Name: "apart", Own: true, Count: 1, Most: 2, Level: "rack"}}
	for nodes, fits := range map[string]bool{
		"/r1/a /r1/b /r2/c /r2/d":             false,
		"/r1/a /r1/b /r2/c /r2/d /r3/e /r3/f": true,
		"/r1/a /r1/b /r2/c /r2/d //e //f":     true,
	} {
		s := inRacks(t, nodes)
		large := s.Class(gpus(4), core.Constraints{Limits: limits}, core.Topology{})
		small := s.Class(gpus(1), core.Constraints{Limits: limits}, core.Topology{})
		short, ok := s.Together([]Set{{Class: large, Count: 2}, {Class: small, Count: 4}})
		if ok != fits || !ok && (short.Cause != core.PodSetsTooLarge || short.Limit != "apart") {
			t.Errorf("%s: they fit: %t, %+v", nodes, ok, short)
		}
	}
}
