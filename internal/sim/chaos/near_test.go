package chaos_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
	"github.com/mlbatch/mlbatch/internal/sim/kuberules"
)

// workloads has an engine hear something else of workloads than what is told.
func workloads(change func(w *core.Workload, p *core.PodSet)) func(core.Event) core.Event {
	return func(ev core.Event) core.Event {
		set, is := ev.(core.WorkloadSet)
		if !is {
			return ev
		}
		set.Workload.PodSets = slices.Clone(set.Workload.PodSets)
		for i := range set.Workload.PodSets {
			change(&set.Workload, &set.Workload.PodSets[i])
		}
		return set
	}
}

// withoutLevels has an engine know no labels of racks and blocks.
func withoutLevels(ev core.Event) core.Event {
	switch ev := ev.(type) {
	case core.NodeSet:
		labels := map[string]string{}
		for key, value := range ev.Node.Labels { // in any order
			if key != "rack" && key != "block" {
				labels[key] = value
			}
		}
		ev.Node.Labels = labels
		return ev
	default:
		return ev
	}
}

// Each rule about where pods go is broken on purpose: some made-up world must notice.
func TestBrokenRulesOfPlacesAreNoticed(t *testing.T) {
	t.Parallel()
	const worlds = 400
	for name, c := range map[string]struct {
		why   string
		heard func(core.Event) core.Event
		want  string
	}{
		"a required level counts for nothing": {
			"a gang that needs one rack is torn",
			workloads(func(_ *core.Workload, p *core.PodSet) { p.Topology.Required = "" }),
			"must be in one",
		},
		"what groups require counts for nothing": {
			"the pod sets of a job are in several blocks",
			workloads(func(_ *core.Workload, p *core.PodSet) { p.Topology.Parents, p.Parents = nil, nil }),
			"must be in one",
		},
		"slices count for nothing": {
			"pods that work closely together are in two racks",
			workloads(func(_ *core.Workload, p *core.PodSet) { p.Topology.Slices = nil }),
			"must be in slices of",
		},
		"nearness counts for nothing": {
			"pods that should be near are far from each other, though one rack had room",
			withoutLevels,
			"are in no one",
		},
		"even shares count for nothing": {
			"a job has six pods in one rack and two in the other",
			workloads(func(_ *core.Workload, p *core.PodSet) { p.Topology.Spread, p.Topology.Balanced = "", "" }),
			"could have equal shares of",
		},
		"limits of domains count for nothing": {
			"pods that must keep apart share a rack",
			workloads(func(_ *core.Workload, p *core.PodSet) {
				p.Limits = slices.DeleteFunc(slices.Clone(p.Limits), func(l core.Limit) bool { return !l.PerNode() })
			}),
			"does not hold",
		},
		"avoided nodes count as any": {
			"a job is tried again where it failed, though there are other nodes",
			workloads(func(_ *core.Workload, p *core.PodSet) { p.Filter.Avoided = nil }),
			"of which it avoids",
		},
		"avoided nodes are refused": {
			"a job waits for ever because it failed once on each node that there is",
			workloads(func(_ *core.Workload, p *core.PodSet) {
				p.Filter.Refused = nil
				for _, name := range p.Filter.Avoided {
					p.Filter.Refused = append(p.Filter.Refused, core.NodeRefusal{Node: name})
				}
			}),
			"P9: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := map[string]int{}
			for seed := uint64(2); seed <= 3*worlds; seed += 3 { // those that have racks
				w := chaos.World(seed)
				w.Rules = kuberules.Rules{}
				err := chaos.Mishear(w, c.heard)
				if err != nil && strings.Contains(err.Error(), c.want) {
					return
				}
				if err != nil {
					others[strings.SplitN(err.Error(), "\n", 2)[0]]++
				}
			}
			t.Errorf("%s: none of %d worlds notices with %q, but with %v", c.why, worlds, c.want, others)
		})
	}
}

// losing is a world with two racks, in which a node closes after a gang was given it and before the gang starts.
func losing(nodes map[string]string, closes string, p core.PodSet) sim.World {
	w := sim.World{Name: closes + " closes", Start: time.Unix(1_000_000, 0).UTC()}
	w.Cluster.Start = sim.Always(10 * time.Second)
	at := func(t time.Duration, ev core.Event) { w.Script = append(w.Script, sim.Op{At: t, Object: ev}) }
	at(
		0,
		core.FlavorSet{
			Flavor: core.Flavor{Name: "x", Topology: core.Topology{Name: "t", Levels: []string{"rack"}}},
		},
	)
	at(0, core.NamespaceSet{Namespace: core.Namespace{Name: "q"}})
	at(0, core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "q", Name: "q", Queue: "q"}})
	at(0, core.QueueSet{Queue: core.Queue{Name: "q", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
		Covered: []string{core.GPU},
		Flavors: []core.FlavorQuotas{{Flavor: "x", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 100}}}},
	}}}})
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := core.Node{Name: name, State: core.NodeReady, Labels: map[string]string{"rack": nodes[name]}}
		n.Allocatable = core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 9})
		at(0, core.NodeSet{Node: n})
		if n.State = core.NodeClosed; name == closes {
			at(5*time.Second, core.NodeSet{Node: n})
		}
	}
	p.Name, p.Requests = "main", core.MakeResources(map[string]core.Amount{core.GPU: 8})
	w.Script = append(w.Script, sim.Op{At: time.Second, Job: &sim.Job{
		Key: core.Key{Namespace: "q", Name: "gang"}, UID: "gang", Queue: "q", Work: time.Minute,
		Submit: time.Second, PodSets: []core.PodSet{p},
	}})
	slices.SortStableFunc(w.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	return w
}

// What must hold of places must hold of those that replace them: the rules are broken once a gang is placed, and the
// auditor must notice; with the rules it has nothing to say.
func TestBrokenRulesOfReplacedPlacesAreNoticed(t *testing.T) {
	racks := map[string]string{"a1": "a", "a2": "a", "b1": "b", "b2": "b", "b3": "b"}
	for name, c := range map[string]struct {
		why    string
		set    core.PodSet
		closes string
		broken func(p *core.PodSet)
		want   string
	}{
		"required level": {
			"the pod comes back in another rack than the others",
			core.PodSet{Count: 2, Topology: core.TopologyRequest{Required: "rack"}},
			"a1",
			func(p *core.PodSet) { p.Topology.Required = "" },
			"P2: the pods of main must be in one rack and are in",
		},
		"slices": {
			"the pod comes back in another rack than its slice",
			core.PodSet{
				Count:    4,
				Topology: core.TopologyRequest{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
			},
			"a1",
			func(p *core.PodSet) { p.Topology.Slices = nil },
			"P2: pods of main were moved to others than the rack of their slice",
		},
		"limits of domains": {
			"the pod comes back in the rack from which it must keep apart",
			core.PodSet{Count: 2, Limits: []core.Limit{{Name: "apart", Own: true, Count: 1, Most: 1, Level: "rack"}}},
			"b1",
			func(p *core.PodSet) { p.Limits = nil },
			"P2: apart does not hold",
		},
		"equal shares": {
			"three pods are in one rack and one in the other, though both had room for two",
			core.PodSet{Count: 4, Topology: core.TopologyRequest{Balanced: "rack"}},
			"b1",
			func(p *core.PodSet) { p.Topology.Balanced = "" },
			"P2: the pods of main had equal shares",
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := maps.Clone(racks)
			switch name {
			case "limits of domains": // the other rack has no node but those that are closed
				delete(nodes, "b2")
				delete(nodes, "b3")
			case "equal shares":
				nodes["a3"], nodes["a4"] = "a", "a"
				delete(nodes, "a4")
			}
			w := losing(nodes, c.closes, c.set)
			if err := chaos.Try(w); err != nil {
				t.Fatalf("with the rule: %v", err)
			}
			err := chaos.Mishear(w, workloads(func(w *core.Workload, p *core.PodSet) {
				if w.Admission != nil {
					c.broken(p)
				}
			}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: noticed with %v, want %q", c.why, err, c.want)
			}
		})
	}
}
