package inquiry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
	"github.com/mlbatch/mlbatch/internal/record"
)

// supposing is two queues of 8 GPUs that lend to each other, on two nodes of 8; jobs of low
// priority may be evicted by others of their queue, and borrowed quota is taken back.
func supposing(t *testing.T, now time.Time, jobs ...core.Workload) *cycle.Engine {
	t.Helper()
	gpus := func(n core.Amount) core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: n})
	}
	e := cycle.New(cycle.Options{})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
	for _, name := range []string{"blue", "red"} {
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name: name, Cohort: "all", Namespaces: &core.Selector{},
			Preemption: core.Preemption{WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny},
			Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
			}},
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	for _, name := range []string{"node-1", "node-2"} {
		e.Apply(
			core.NodeSet{
				Node: core.Node{Name: name, State: core.NodeReady, Allocatable: gpus(8).With(core.Pods, 100)},
			},
		)
	}
	e.Decide(now)
	for _, j := range jobs {
		e.Apply(core.WorkloadSet{Workload: j})
		for _, d := range e.Decide(now) {
			if a, is := d.(core.Admit); is {
				e.Apply(core.Applied{Key: a.Key, Seq: 1})
				j.Admission, j.Admitted, j.Reserved, j.Seq = &a.Admission, true, now, 1
				e.Apply(core.WorkloadSet{Workload: j})
			}
		}
	}
	e.Decide(now)
	return e
}

// asks is a job of a namespace that asks for pods with 8 GPUs each.
func asks(namespace, name string, pods int32, priority int64, at time.Time) core.Workload {
	return core.Workload{
		Key: core.Key{
			Namespace: namespace,
			Name:      name,
		},
		UID:       name,
		Queue:     "q",
		Created:   at,
		QueueTime: at,
		Priority:  priority,
		PodSets: []core.PodSet{
			{Name: "worker", Count: pods, Requests: core.MakeResources(map[string]core.Amount{core.GPU: 8})},
		},
	}
}

// picture is all that an engine knows.
func picture(t *testing.T, e *cycle.Engine) string {
	t.Helper()
	s, err := e.Dump()
	if err != nil {
		t.Fatal(err)
	}
	b, err := record.NewCodec().Append(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSuppose(t *testing.T) {
	now := time.Unix(1e6, 0)
	tests := map[string]struct {
		why    string
		there  []core.Workload
		asked  core.Workload
		nodes  []string // of its admission
		evicts []core.Key
		awaits bool
		quotas []inquiry.SupposedQuota
		code   core.Code
	}{
		"room": {
			"it starts at once, within its quota", nil, asks("blue", "new", 1, 0, now),
			[]string{"node-1"},
			nil, false,
			[]inquiry.SupposedQuota{{core.FlavorResource{Flavor: "h100", Resource: core.GPU}, 8, 8, 0}},
			"",
		},
		"borrows": {
			"from the other queue", nil, asks("blue", "new", 2, 0, now),
			[]string{"node-1", "node-2"},
			nil, false,
			[]inquiry.SupposedQuota{{core.FlavorResource{Flavor: "h100", Resource: core.GPU}, 8, 16, 8}},
			"",
		},
		"reclaims": {
			"what was lent is taken back",
			[]core.Workload{asks("red", "old", 2, 0, now)},
			asks("blue", "new", 1, 0, now),
			[]string{"node-1"},
			[]core.Key{{Namespace: "red", Name: "old"}},
			true,
			[]inquiry.SupposedQuota{{core.FlavorResource{Flavor: "h100", Resource: core.GPU}, 8, 8, 0}},
			"",
		},
		"waits": {
			"all is taken, and rightly so",
			[]core.Workload{asks("blue", "a", 1, 0, now), asks("red", "b", 1, 0, now)},
			asks("blue", "new", 1, 0, now),
			nil, nil, false, nil, core.WaitingForQuota,
		},
		"behind": {
			"those that wait already come first",
			[]core.Workload{asks("blue", "a", 2, 0, now), asks("blue", "b", 2, 0, now)},
			asks("blue", "new", 1, 0, now),
			nil, nil, false, nil, core.WaitingForQuota,
		},
		"too large": {
			"it would never start",
			nil,
			asks("blue", "new", 3, 0, now),
			nil,
			nil,
			false,
			nil,
			core.ExceedsMaxQuota,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := supposing(t, now, tc.there...)
			before := picture(t, e)
			got, err := inquiry.Suppose(inquiry.At(e.View()), tc.asked, now, nil)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []string
			if got.Admission != nil {
				for _, p := range got.Admission.PodSets[0].Places {
					nodes = append(nodes, p.Node)
				}
			}
			if diff := cmp.Diff(
				[]any{tc.nodes, tc.evicts, tc.awaits, tc.quotas, tc.code},
				[]any{nodes, got.Evicts, got.Awaits, got.Quotas, got.Explanation.Reason.Code},
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if before != picture(t, e) {
				t.Error("the question changed the engine")
			}
		})
	}
}
