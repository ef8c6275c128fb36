package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// BenchmarkByPlace is one decision about a gang of 16 whole nodes that owns the quota for them, while 499 gangs of
// ten pods on four to ten nodes use all: which of them go, to free nodes or a rack, or that none do,
// because a job that owns its quota has a part of each node. With relocation none may be evicted, one node in eight is
// free, two in each rack, and the gang needs three.
func BenchmarkByPlace(b *testing.B) {
	const nodes, rack, running, pods = 1248, 16, 499, 10
	for _, tc := range []struct {
		name           string
		level          string
		fixed, opposed bool // a job on each node that stays; nobody may be evicted, and some relocated
	}{
		{name: "nodes"},
		{name: "nodes/in-vain", fixed: true},
		{name: "rack", level: "rack"},
		{name: "rack/in-vain", level: "rack", fixed: true},
		{name: "relocation", level: "rack", opposed: true},
		{name: "relocation/in-vain", level: "rack", opposed: true, fixed: true},
	} {
		b.Run(tc.name, func(b *testing.B) {
			e, now := cycle.New(cycle.Options{}), time.Unix(1e6, 0)
			e.Apply(
				core.FlavorSet{
					Flavor: core.Flavor{Name: "f", Topology: core.Topology{Name: "t", Levels: []string{"rack"}}},
				},
			)
			queue := func(name string, owns core.Amount) {
				q := core.Queue{Name: name, Cohort: "c", Namespaces: &core.Selector{}, Groups: gpusOf("f", owns)}
				if q.Preemption.Reclaim = core.PreemptAny; tc.opposed {
					q.Preemption.Reclaim = core.PreemptNever
				}
				if tc.opposed && name == "borrower" {
					q.RelocationsPerHour = 1000
				}
				e.Apply(core.QueueSet{Queue: q})
				e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
			}
			queue("owner", 8*nodes/2)
			queue("borrower", 8*nodes/2)
			queue("fixed", 2*nodes)
			for i := range nodes {
				e.Apply(core.NodeSet{Node: core.Node{
					Name: nodeName(i), State: core.NodeReady, Labels: map[string]string{"rack": fmt.Sprint("r", i/rack)},
					Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100}),
				}})
			}
			run := func(queue string, i int, since time.Time, on []core.Place) {
				e.Apply(core.WorkloadSet{Workload: runningOn(queue, i, since, 2, on)})
			}
			for i := range running {
				var on []core.Place
				for k := range pods { // those that were admitted one after the other are not beside each other
					slot := (i*pods + k) * 7 % (4 * nodes) // of two GPUs
					if at := slot / 4; (!tc.opposed || at%8 > 0) && (!tc.fixed || slot%4 > 0) {
						on = append(on, core.Place{Node: nodeName(at), Count: 1})
					}
				}
				run("borrower", i, now.Add(-time.Duration(i*7919%running)*time.Minute), merged(on))
			}
			for i := range nodes {
				if tc.fixed {
					run("fixed", running+i, now, []core.Place{{Node: nodeName(i), Count: 1}})
				}
			}
			e.Decide(now)
			big := gang("owner", "big", rack, 8, tc.level)
			if tc.opposed {
				big = gang("owner", "big", 3, 8, tc.level)
			}
			decideAgainAndAgain(b, e, big, now, !tc.fixed)
		})
	}
}

// decideAgainAndAgain measures the decision about a gang that comes; what it decides is taken back. makesWay says whether
// others go for it.
func decideAgainAndAgain( //nolint:revive // what is to be seen
	b *testing.B,
	e *cycle.Engine,
	comes core.Workload,
	now time.Time,
	makesWay bool,
) {
	b.Helper()
	victims := 0
	for b.Loop() {
		e.Apply(core.WorkloadSet{Workload: comes})
		plan := e.Decide(now)
		b.StopTimer()
		victims = len(plan) - 1
		e.Apply(core.WorkloadGone{Key: comes.Key})
		for _, d := range plan {
			if ev, ok := d.(core.Evict); ok {
				e.Apply(core.Refused{Key: ev.Key})
			}
		}
		b.StartTimer()
	}
	if (victims > 0) != makesWay {
		b.Fatalf("%d go", victims)
	}
	b.ReportMetric(float64(victims), "victims")
}

// gpusOf is a resource group with so many GPUs of a flavor.
func gpusOf(flavor string, owns core.Amount) []core.ResourceGroup {
	return []core.ResourceGroup{{
		Covered: []string{core.GPU},
		Flavors: []core.FlavorQuotas{{Flavor: flavor, Quotas: []core.Quota{{Resource: core.GPU, Nominal: owns}}}},
	}}
}

// runningOn is a job that runs, with pods of so many GPUs on some nodes.
func runningOn(queue string, i int, since time.Time, gpus core.Amount, on []core.Place) core.Workload {
	pods := int32(0)
	for _, p := range on {
		pods += p.Count
	}
	w := gang(queue, fmt.Sprint("w", i), pods, gpus, "")
	w.Admission = &core.Admission{Queue: queue, PodSets: []core.PodSetAdmission{{
		Name: "main", Count: pods, Places: on,
		Flavors: []core.FlavorChoice{{Resource: core.GPU, Flavor: "f"}},
		Usage:   core.MakeResources(map[string]core.Amount{core.GPU: gpus * core.Amount(pods)}),
	}}}
	w.Reserved, w.Admitted, w.Ready, w.Settled = since, true, true, []core.PodSetPlaces{
		{Name: "main", Places: on},
	}
	return w
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// merged adds up places on the same node that follow each other.
func merged(places []core.Place) (out []core.Place) {
	for _, p := range places {
		if n := len(out); n > 0 && out[n-1].Node == p.Node {
			out[n-1].Count++
			continue
		}
		out = append(out, p)
	}
	return out
}

// gang is a job of so many pods, near to each other if a level is given.
func gang(queue, name string, pods int32, gpus core.Amount, level string) core.Workload {
	p := core.PodSet{
		Name: "main", Count: pods, Requests: core.MakeResources(map[string]core.Amount{core.GPU: gpus}),
		Topology: core.TopologyRequest{Required: level},
	}
	return core.Workload{
		Key: core.Key{Namespace: queue, Name: name}, UID: queue + name, Queue: "q", PodSets: []core.PodSet{p},
		Created: time.Unix(1, 0), QueueTime: time.Unix(1, 0),
	}
}

// BenchmarkLargeGangByPlace is one decision about a gang of 1,024 whole nodes, for which 5,000 pods in 500 gangs may be
// evicted that have every second of 10,000 nodes; the others are in use by whom nobody may evict. Blocks have 2,500.
func BenchmarkLargeGangByPlace(b *testing.B) {
	const nodes, running, pods = 10_000, 500, 10
	for _, level := range []string{"", "block"} {
		b.Run("level="+level, func(b *testing.B) {
			e, now := cycle.New(cycle.Options{}), time.Unix(1e6, 0)
			t := core.Topology{Name: "t", Levels: []string{"block"}}
			e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f", Topology: t}})
			for name, owns := range map[string]core.Amount{"owner": 8 * nodes, "borrower": 0} {
				q := core.Queue{Name: name, Cohort: "c", Namespaces: &core.Selector{}, Groups: gpusOf("f", owns)}
				q.Preemption.Reclaim = core.PreemptAny
				e.Apply(core.QueueSet{Queue: q})
				e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
			}
			for i := range nodes {
				n := core.Node{
					Name: nodeName(i), State: core.NodeReady, Labels: map[string]string{"block": fmt.Sprint("b", i/2500)},
					Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100}),
				}
				if i%2 == 1 {
					n.Foreign = core.MakeResources(map[string]core.Amount{core.GPU: 1})
				}
				e.Apply(core.NodeSet{Node: n})
			}
			for i := range running {
				var on []core.Place
				for k := range pods {
					on = append(on, core.Place{Node: nodeName((i*pods + k) * 7 % (nodes / 2) * 2), Count: 1})
				}
				e.Apply(
					core.WorkloadSet{
						Workload: runningOn("borrower", i, now.Add(-time.Duration(i*7919%running)*time.Minute), 8, on),
					},
				)
			}
			e.Decide(now)
			big := gang("owner", "big", 1024, 8, level)
			decideAgainAndAgain(b, e, big, now, true)
		})
	}
}

// BenchmarkFillByPlace admits 10,000 gangs of eight pods with a GPU each, all of one gang in one rack, until all GPUs of
// 10,000 nodes are in use.
func BenchmarkFillByPlace(b *testing.B) {
	const nodes, gangs = 10_000, 10_000
	for b.Loop() {
		b.StopTimer()
		e, now := cycle.New(cycle.Options{}), time.Unix(1e6, 0)
		t := core.Topology{Name: "t", Levels: []string{"block", "rack"}}
		e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f", Topology: t}})
		for i := range nodes {
			e.Apply(core.NodeSet{Node: core.Node{
				Name: nodeName(i), State: core.NodeReady,
				Labels: map[string]string{
					"block": fmt.Sprint("b", i/160), "rack": fmt.Sprint("r", i/16),
				},
				Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100}),
			}})
		}
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name: "owner", Namespaces: &core.Selector{}, Groups: gpusOf("f", 8*nodes),
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "owner", Name: "q", Queue: "owner"}})
		for i := range gangs {
			e.Apply(core.WorkloadSet{Workload: gang("owner", fmt.Sprint("g", i), 8, 1, "rack")})
		}
		b.StartTimer()
		if admitted := len(e.Decide(now)); admitted != gangs {
			b.Fatalf("%d of %d gangs start", admitted, gangs)
		}
	}
}
