package cycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// cutWorld is a cohort in which blue was promised 8 GPUs and uses as many as it says, and red was promised 8, of which
// as many as it says are cut of both; red has a job of 4 that waits.
func cutWorld(options cycle.Options, used int, cut core.Amount) core.Plan {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gpus := func(n core.Amount) core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: n})
	}
	e := cycle.New(options)
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
	queue := func(name string, nominal, cut core.Amount) {
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name: name, Cohort: "all", Namespaces: &core.Selector{},
			Preemption: core.Preemption{Reclaim: core.PreemptAny},
			Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{
					Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: nominal - cut, Cut: cut}},
				}},
			}},
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	job := func(queue, name string, pods int32) core.Workload {
		return core.Workload{
			Key: core.Key{Namespace: queue, Name: name}, UID: queue + name, Queue: "q", Created: now, QueueTime: now,
			PodSets: []core.PodSet{{Name: "worker", Count: pods, Requests: gpus(1)}},
		}
	}
	queue("blue", 8, 0)
	queue("red", 8, 0)
	running := map[core.Key]core.Workload{}
	for i := range used {
		w := job("blue", string(rune('a'+i)), 1)
		running[w.Key] = w
		e.Apply(core.WorkloadSet{Workload: w})
	}
	for _, d := range e.Decide(now) {
		if a, is := d.(core.Admit); is {
			w := running[a.Key]
			w.Admission, w.Admitted, w.Reserved, w.Seq = &a.Admission, true, now, 2
			e.Apply(core.WorkloadSet{Workload: w})
		}
	}
	queue("blue", 8, cut)
	queue("red", 8, cut)
	e.Apply(core.WorkloadSet{Workload: job("red", "new", 4)})
	return e.Decide(now.Add(time.Minute))
}

// What runs within what was promised is not evicted since that is cut: who asks waits, and is told. What is borrowed
// beyond what was promised is given back as ever.
func TestNobodyIsEvictedForACut(t *testing.T) {
	for name, options := range map[string]cycle.Options{
		"without fair sharing": {},
		"with fair sharing": {FairSharing: &core.FairSharing{
			Strategies: []core.FairStrategy{core.LessThanOrEqualToFinalShare, core.LessThanInitialShare},
		}},
		"with fair sharing that takes back what is its own": {FairSharing: &core.FairSharing{
			Strategies: []core.FairStrategy{core.LessThanInitialShare}, ReclaimNominal: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for why, c := range map[string]struct {
				used    int
				cut     core.Amount
				evicted int
			}{
				"within what was promised, with half of it cut": {8, 4, 0},
				"beyond what was promised":                      {11, 1, 1},
				"beyond it, with nothing cut":                   {14, 0, 2},
			} {
				evicted, told := 0, ""
				for _, d := range cutWorld(options, c.used, c.cut) {
					switch d := d.(type) {
					case core.Evict:
						evicted++
					case core.Refuse:
						told = explain.Sentence(d.Why)
					}
				}
				if c.evicted == 0 {
					want := "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in " +
						"flavor h100, 4 more needed (4 of the quota of ClusterQueue red are cut while nodes are out of service)"
					if told != want {
						t.Errorf("%s: it is told %q, want %q", why, told, want)
					}
				}
				if evicted != c.evicted {
					t.Errorf("%s: %d are evicted, want %d", why, evicted, c.evicted)
				}
			}
		})
	}
}
