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
	type pod struct {
		gpu, cpu core.Amount
		kind     string // of nodes, "" for any
	}
	rapid.Check(t, func(t *rapid.T) {
		s := New(core.GPU)
		var free [][2]core.Amount
		var kinds []string
		busy := s.Class(gpus(1), core.Filter{})
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			kind := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind")
			gpu, cpu := core.Amount(rapid.IntRange(0, 4).Draw(t, "gpus")), core.Amount(rapid.IntRange(2, 4).Draw(t, "cpus"))
			state := rapid.SampledFrom([]core.NodeState{core.NodeReady, core.NodeReady, core.NodeClosed}).Draw(t, "state")
			s.Set(core.Node{
				Name: fmt.Sprint("n", i), State: state, Labels: map[string]string{"kind": kind},
				Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: gpu, core.CPU: cpu, core.Pods: 100}),
			})
			s.Take(core.Now, []Hold{{s.Node(fmt.Sprint("n", i)), busy, 1}}, 1)
			free, kinds = append(free, [2]core.Amount{gpu, cpu}), append(kinds, kind)
		}
		var sets []Set
		var pods []pod
		alone := true
		for range rapid.IntRange(2, 3).Draw(t, "sets") {
			p := pod{
				core.Amount(rapid.IntRange(0, 3).Draw(t, "gpu")), core.Amount(rapid.IntRange(0, 3).Draw(t, "cpu")),
				rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "on"),
			}
			var f core.Filter
			if p.kind != "" {
				f.Must = core.Selector{{Key: "kind", Operator: core.In, Values: []string{p.kind}}}
			}
			set := Set{
				Class: s.Class(core.MakeResources(map[string]core.Amount{core.GPU: p.gpu, core.CPU: p.cpu}), f),
				Count: int32(rapid.IntRange(1, 3).Draw(t, "count")),
			}
			_, ok := s.Possible(set)
			alone = alone && ok
			sets = append(sets, set)
			for range set.Count {
				pods = append(pods, p)
			}
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
	})
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
	five, three := s.Class(gpus(5), core.Filter{}), s.Class(gpus(4), core.Filter{})
	if _, ok := s.Together([]Set{{0, five, 201}, {1, three, 399}}); !ok {
		t.Error("201 nodes have a pod of five and no other, so 199 are left for 399 pods of four, two on each: nobody has the time to find that out")
	}
	if _, ok := s.Together([]Set{{0, five, 400}, {1, three, 400}}); ok {
		t.Error("3600 of 3200 GPUs are asked for")
	}
}
