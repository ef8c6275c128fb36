package cycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// Nodes that are kept for recovery take no new job, whatever its pods tolerate or select, and it is told that they are
// kept, also where it can never start for that. A gang that loses a node gets one of them.
func TestOnlyRecoveryUsesSpares(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gpus := func(n core.Amount) core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: n})
	}
	e := cycle.New(cycle.Options{KeepNodes: true})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100", KeepsSpares: true}})
	e.Apply(core.QueueSet{Queue: core.Queue{
		Name: "blue", Namespaces: &core.Selector{},
		Groups: []core.ResourceGroup{{
			Covered: []string{core.GPU},
			Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 100}}}},
		}},
	}})
	e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "team", Name: "q", Queue: "blue"}})
	node := func(name string, state core.NodeState, spare bool) core.NodeSet {
		n := core.Node{
			Name: name, State: state, Labels: map[string]string{}, Allocatable: gpus(8).With(core.Pods, 100),
		}
		if spare {
			n.Labels[core.SpareLabel] = "true"
		}
		return core.NodeSet{Node: n}
	}
	e.Apply(node("n1", core.NodeReady, false))
	e.Apply(node("n2", core.NodeReady, false))
	e.Apply(node("n3", core.NodeReady, true))
	job := func(name string, pods int32, seconds int) core.Workload {
		return core.Workload{
			Key: core.Key{Namespace: "team", Name: name}, UID: name, Queue: "q",
			Created: now, QueueTime: now.Add(time.Duration(seconds) * time.Second),
			PodSets: []core.PodSet{{
				Name: "worker", Count: pods, Requests: gpus(8),
				Filter: core.Filter{Tolerations: []core.Toleration{{Exists: true}}},
			}},
		}
	}
	train := job("train", 2, 0)
	e.Apply(core.WorkloadSet{Workload: train})
	e.Apply(core.WorkloadSet{Workload: job("small", 1, 1)})
	e.Apply(core.WorkloadSet{Workload: job("large", 3, 2)})
	told := map[string]string{}
	for _, d := range e.Decide(now) {
		switch d := d.(type) {
		case core.Admit:
			for _, p := range d.Admission.PodSets[0].Places {
				if p.Node == "n3" {
					t.Errorf("%s starts on a node that is kept", d.Key)
				}
			}
			train.Admission, train.Admitted, train.Reserved, train.Seq = &d.Admission, true, now, 2
		case core.Refuse:
			told[d.Key.Name] = explain.Sentence(d.Why)
		}
	}
	for name, want := range map[string]string{
		"small": "couldn't assign flavors to pod set worker: nodes of flavor h100 have room for only 0 out of 1 pod(s). " +
			"Total nodes: 2; kept for recovery: 1 node(s)",
		"large": "couldn't assign flavors to pod set worker: all 2 node(s) of flavor h100 together hold only 2 out of " +
			"3 pod(s), even if empty; kept for recovery: 1 node(s)",
	} {
		if told[name] != want {
			t.Errorf("%s is told %q, want %q", name, told[name], want)
		}
	}
	e.Apply(core.WorkloadSet{Workload: train})
	e.Apply(node("n2", core.NodeLost, false))
	var moved []core.Place
	for _, d := range e.Decide(now.Add(time.Minute)) {
		if r, is := d.(core.Replace); is && r.Key == train.Key {
			moved = r.Admission.PodSets[0].Places
		}
	}
	if core.PodsOn(moved, "n1") != 1 || core.PodsOn(moved, "n3") != 1 {
		t.Errorf("after n2 was lost, train is on %v, want n1 and the node that is kept", moved)
	}
}
