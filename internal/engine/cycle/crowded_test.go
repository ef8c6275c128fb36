package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// TestStuckMeansRefused fills cohorts with more than fits and lets jobs end: a workload that
// the bounds leave parked, because it could do no better, is refused when it is
// judged all the same. The worlds of the duels are too small for shares to matter
// often.
func TestStuckMeansRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fair := core.DefaultFairSharing()
		fair.Strategies = pick(t, "strategies", fair.Strategies, fair.Strategies[:1], fair.Strategies[1:])
		if pick(t, "without fair sharing", false, false, true) {
			fair = nil
		}
		e := cycle.New(cycle.Options{FairSharing: fair})
		names := crowdedCohort(t, e)
		d := &apiServer{e, map[core.Key]core.Workload{}}
		var running []core.Key
		for step := range 25 {
			for range rapid.IntRange(0, 12).Draw(t, "jobs") {
				w := oneUnit(
					pick(t, "queue", names...),
					len(d.workloads),
					pick[int64](t, "priority", 0, 0, 1),
					pick[core.Amount](t, "size", 1, 1, 2),
				)
				if pick(t, "asks for", "all", "all", "cpu") == "cpu" { // its eviction leaves shares of the others
					w.PodSets[0].Requests = w.PodSets[0].Requests[:1]
				}
				d.workloads[w.Key] = w
				e.Apply(core.WorkloadSet{Workload: w})
			}
			for range min(len(running), rapid.IntRange(0, 3).Draw(t, "ends")) {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				e.Apply(core.WorkloadGone{Key: running[i]})
				running = slices.Delete(running, i, i+1)
			}
			if err := e.CheckStuck(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			now := time.Unix(1e6+int64(step), 0)
			running = append(running, d.confirm(release(e, d, e.Decide(now), &running), now)...)
		}
	})
}

// crowdedCohort is a cohort of queues that own little and borrow by weight, some of
// them below a cohort of their own.
func crowdedCohort(t *rapid.T, e *cycle.Engine) []string {
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	all := core.Selector{}
	groups := func(n core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{
			{Covered: []string{core.CPU, core.Memory, core.GPU}, Flavors: []core.FlavorQuotas{{
				Flavor: "f", Quotas: []core.Quota{
					{
						Resource: core.CPU,
						Nominal:  n * 1500,
					},
					{Resource: core.Memory, Nominal: n << 30},
					{Resource: core.GPU, Nominal: n},
				},
			}}},
		}
	}
	e.Apply(core.CohortSet{Cohort: core.Cohort{Name: "top", Groups: groups(12)}})
	e.Apply(core.CohortSet{Cohort: core.Cohort{Name: "low", Parent: "top", Groups: groups(2)}})
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("q%d", i))
		weight := core.WeightOne * core.Weight(pick(t, "weight", 1, 1, 2, 3))
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name:       names[i],
			Cohort:     pick(t, "cohort", "top", "top", "low"),
			Namespaces: &all,
			Weight:     &weight,
			Groups: groups(
				pick[core.Amount](t, "own", 0, 0, 1),
			),
			Fungibility: core.Fungibility{PreemptTriesNext: true},
			Preemption: core.Preemption{
				WithinQueue: core.PreemptLowerPriority,
				Reclaim:     pick(t, "reclaim", core.PreemptAny, core.PreemptAny, core.PreemptLowerPriority),
			},
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: names[i], Name: "q", Queue: names[i]}})
	}
	return names
}

// release lets the victims of a plan go at once, and wait again, and returns the plan.
func release(e *cycle.Engine, d *apiServer, plan core.Plan, running *[]core.Key) core.Plan {
	for _, dec := range plan {
		if v, ok := dec.(core.Evict); ok {
			e.Apply(core.WorkloadGone{Key: v.Key})
			e.Apply(core.WorkloadSet{Workload: d.workloads[v.Key]})
			*running = slices.DeleteFunc(*running, func(k core.Key) bool { return k == v.Key })
		}
	}
	return plan
}
