package cycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

func TestSmoke(t *testing.T) {
	e := New(Options{})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	all := core.Selector{}
	for _, n := range []string{"slack", "blue", "red"} {
		e.Apply(core.QueueSet{Queue: core.Queue{Name: n, Cohort: "c", Namespaces: &all, Preemption: core.Preemption{WithinQueue: core.PreemptLowerOrNewerEqualPrio, Reclaim: core.PreemptAny},
			Groups: []core.ResourceGroup{{Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}}}}}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: n, Name: "q", Queue: n}})
	}
	for i := range 3 {
		e.Apply(core.NodeSet{Node: core.Node{Name: fmt.Sprint("node-", i), State: core.NodeReady, Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100})}})
	}
	now := time.Unix(1000, 0)
	wl := func(ns, name string, prio int32, gpus core.Amount, n int32) {
		now = now.Add(time.Second)
		e.Apply(core.WorkloadSet{Workload: core.Workload{Key: core.Key{Namespace: ns, Name: name}, UID: name, Queue: "q", Priority: prio, Created: now, QueueTime: now,
			PodSets: []core.PodSet{{Name: "main", Count: n, Requests: core.MakeResources(map[string]core.Amount{core.GPU: gpus})}}}})
	}
	dec := func() {
		for _, d := range e.Decide(now) {
			switch d := d.(type) {
			case core.Admit:
				t.Log("admit", d.Key, d.Admission)
			case core.Evict:
				t.Log("evict", d.Key, d.Reason, d.For)
			case core.Refuse:
				t.Log("refuse", d.Key, explain.Paragraph(d.Why))
			default:
				t.Log(d)
			}
		}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		wl("blue", fmt.Sprint("n", i), 5, 4, 2)
	}
	dec()
	wl("blue", "imp", 10, 8, 1)
	dec()
	e.Apply(core.WorkloadGone{Key: core.Key{Namespace: "blue", Name: "n2"}})
	dec()
	wl("red", "r0", 5, 4, 2)
	wl("red", "r1", 5, 4, 2)
	dec()
	e.Apply(core.NodeSet{Node: core.Node{Name: "node-0", State: core.NodeEvicted, Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100})}})
	dec()
	wl("red", "big", 5, 9, 1)
	dec()
}
