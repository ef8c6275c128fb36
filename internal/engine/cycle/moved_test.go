package cycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

// A workload counts in the LocalQueue that it is in, whatever it does when it moves,
// and in no other.
func TestCountsAfterAMove(t *testing.T) {
	e := small()
	e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "a", Name: "other", Queue: "a"}})
	counts := func(name string) [3]int {
		c := e.LocalLoad("a", name)
		return [3]int{c.Waiting(), c.Reserving, c.Admitted}
	}
	check := func(why string, q, other [3]int) {
		t.Helper()
		if diff := cmp.Diff([][3]int{q, other}, [][3]int{counts("q"), counts("other")}); diff != "" {
			t.Errorf("%s: waiting, reserving, admitted in q and other (-want +got):\n%s", why, diff)
		}
		if n := e.Load("a"); n.Waiting()+n.Reserving != 1 {
			t.Errorf("%s: the ClusterQueue counts %+v", why, n)
		}
	}
	w := cpuJob("one", 0, 300) // more than there is
	e.Apply(core.WorkloadSet{Workload: w})
	steps(t, e, 200)
	check("it waits", [3]int{1, 0, 0}, [3]int{})
	w.Queue = "other"
	e.Apply(core.WorkloadSet{Workload: w})
	check("it moved", [3]int{}, [3]int{1, 0, 0})
	steps(t, e, 201)
	check("it was looked at", [3]int{}, [3]int{1, 0, 0})

	w = cpuJob("one", 0, 3)
	w.Queue, w.Admitted = "other", true
	w.Admission = &core.Admission{Queue: "a", PodSets: []core.PodSetAdmission{{
		Name: w.PodSets[0].Name, Count: w.PodSets[0].Count, Usage: w.PodSets[0].Requests,
		Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "f"}},
	}}}
	e.Apply(core.WorkloadSet{Workload: w})
	check("it was admitted", [3]int{}, [3]int{0, 1, 1})
	w.Queue = "q"
	e.Apply(core.WorkloadSet{Workload: w})
	check("it moved while it runs", [3]int{0, 1, 1}, [3]int{})
}
