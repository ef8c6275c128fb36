package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// shelf is a cluster of nodes with so many free GPUs, in which a queue may have so many; what is
// above own starts only after others were stopped.
type shelf struct {
	free       []int64
	quota, own int64
	asked      int
	// ending: they are being stopped as it is, and none is stopped for it.
	ending bool
	// apart: the gangs that were asked about had to be, each of so many pods, in one domain of a level.
	apart map[string]bool
}

// Plan is what a controller would say.
func (s *shelf) Plan(
	_ context.Context,
	_ string,
	spec visibility.WorkloadPlanSpec,
) (*visibility.WorkloadPlan, error) {
	s.asked++
	if notes := spec.PodSets[0].Template.Annotations; len(notes) > 0 {
		if s.apart == nil {
			s.apart = map[string]bool{}
		}
		s.apart[fmt.Sprint(notes)] = true
	}
	gpus := spec.PodSets[0].Template.Spec.Containers[0].Resources.Limits[core.GPU]
	size, n := gpus.Value(), int64(spec.PodSets[0].Count)
	places, free, largest, nodes := int64(0), int64(0), int64(0), []visibility.PlannedNode(nil)
	for i, f := range s.free {
		if k := min(f/size, n-places); k > 0 {
			places += k
			nodes = append(nodes, visibility.PlannedNode{Name: fmt.Sprint("node-", i), Count: int32(k)})
		}
		free, largest = free+f, max(largest, f)
	}
	status := &visibility.WorkloadPlanStatus{Outcome: visibility.PlanStarts}
	switch {
	case n*size > s.quota:
		status.Outcome, status.Explanation = visibility.PlanWaits, &visibility.Explanation{
			Reason:  string(core.WaitingForQuota),
			Message: "quota is used up",
		}
	case places < n:
		status.Outcome = visibility.PlanWaits
		status.Explanation = &visibility.Explanation{
			Reason:  string(core.TopologyPlacementFailed),
			Message: "nodes are short",
			Nodes: &visibility.NodeFacts{
				Free: resource.NewQuantity(
					free,
					resource.DecimalSI,
				),
				Largest: resource.NewQuantity(largest, resource.DecimalSI),
			},
		}
	case n*size > s.own:
		if status.Outcome = visibility.PlanStartsAfterStops; !s.ending {
			status.Preempts = []visibility.WorkloadReference{{}}
		}
	default:
		status.PodSets = []visibility.PlannedAdmission{
			{Nodes: nodes, Flavors: []visibility.PlannedFlavor{{Resource: core.GPU, Flavor: "h100"}}},
		}
		status.Quotas = []visibility.PlannedQuota{
			{Resource: core.GPU, Borrowed: *resource.NewQuantity(max(0, n*size-8), resource.DecimalSI)},
		}
	}
	return &visibility.WorkloadPlan{Status: status}, nil
}

func question(sizes ...int64) cli.CapacityQuestion {
	return cli.CapacityQuestion{
		Namespace:    "blue",
		LocalQueue:   "default-queue",
		ClusterQueue: "blue-queue",
		Sizes:        sizes,
	}
}

// TestCapacity: the largest gang is the one that starts where one pod more does not, whatever
// bounds it, and few questions find it.
func TestCapacity(t *testing.T) {
	const much = 1 << 40
	for name, tc := range map[string]struct {
		why   string
		s     shelf
		pods  []int32
		bound string // of the largest pods
	}{
		"quota":         {"of 20", shelf{[]int64{8, 8, 8}, 20, much, 0, false, nil}, []int32{20, 10, 5, 2}, cli.BoundQuota},
		"nodes":         {"of 24", shelf{[]int64{8, 8, 8}, 100, much, 0, false, nil}, []int32{24, 12, 6, 3}, cli.BoundNodes},
		"fragmentation": {"9 are free, 3 on a node at most", shelf{[]int64{3, 3, 3}, 100, much, 0, false, nil}, []int32{9, 3, 0, 0}, cli.BoundFragmentation},
		"preemption":    {"more starts only when others stop", shelf{[]int64{8, 8, 8}, 100, 9, 0, false, nil}, []int32{9, 4, 2, 1}, cli.BoundPreemption},
		"nothing":       {"nothing starts", shelf{[]int64{0}, 100, much, 0, false, nil}, []int32{0, 0, 0, 0}, cli.BoundNodes},
		"large":         {"a thousand nodes", shelf{manyNodes(1000), 7777, much, 0, false, nil}, []int32{4096, 3888, 1944, 972}, cli.BoundQuota},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := cli.Capacity(t.Context(), &tc.s, question(8, 1, 2, 4))
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rows {
				if r.Pods != tc.pods[i] || r.GPUs != int64(r.Pods)*r.GPUsPerPod {
					t.Errorf("%s: pods of %d GPUs: %d, want %d", tc.why, r.GPUsPerPod, r.Pods, tc.pods[i])
				}
			}
			if last := rows[3]; last.Bound != tc.bound {
				t.Errorf("%s: bound by %q, want %q", tc.why, last.Bound, tc.bound)
			}
			if tc.s.asked > 100 {
				t.Errorf("%d questions", tc.s.asked)
			}
		})
	}
}

// TestCapacityAfterStops: what has to end before one pod more starts is told as what it is: stopped for
// it, or on its way out already.
func TestCapacityAfterStops(t *testing.T) {
	for want, ending := range map[string]bool{
		"one more starts when 1 job is stopped for it": false, "one more starts when jobs that are being stopped have ended": true,
	} {
		rows, err := cli.Capacity(
			t.Context(),
			&shelf{free: []int64{8}, quota: 100, own: 7, ending: ending},
			question(1),
		)
		if err != nil {
			t.Fatal(err)
		}
		if rows[0].Why != want || rows[0].MorePreempts == ending {
			t.Errorf("%q, and others are stopped for it: %t; want %q", rows[0].Why, rows[0].MorePreempts, want)
		}
	}
}

// TestCapacityCountsGangs: of some numbers of pods as many gangs as start are counted, each in one domain of a level if one
// is given; one gang more does not start.
func TestCapacityCountsGangs(t *testing.T) {
	const much = 1 << 40
	for name, tc := range map[string]struct {
		why   string
		s     shelf
		gangs []int32 // of 1, 2 and 5 pods, of 1 and of 4 GPUs each
		bound string  // of the last
	}{
		"quota":   {"of 20", shelf{free: []int64{8, 8, 8}, quota: 20, own: much}, []int32{20, 5, 10, 2, 4, 1}, cli.BoundQuota},
		"nodes":   {"of 24", shelf{free: []int64{8, 8, 8}, quota: 100, own: much}, []int32{24, 6, 12, 3, 4, 1}, cli.BoundNodes},
		"nothing": {"nothing starts", shelf{free: []int64{0}, quota: 100, own: much}, []int32{0, 0, 0, 0, 0, 0}, cli.BoundNodes},
		"large":   {"many nodes", shelf{free: manyNodes(1000), quota: 7777, own: much}, []int32{4096, 1944, 2048, 972, 819, 388}, cli.BoundQuota},
	} {
		t.Run(name, func(t *testing.T) {
			q := question(4, 1)
			q.Pods, q.Level = []int32{5, 1, 2}, "rack"
			rows, err := cli.Capacity(t.Context(), &tc.s, q)
			if err != nil || len(rows) != len(tc.gangs) {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			for i, r := range rows {
				if r.Gangs != tc.gangs[i] || r.Pods != r.Gangs*r.PodsPerGang || r.GPUs != int64(r.Pods)*r.GPUsPerPod {
					t.Errorf("%s: gangs of %d pods of %d GPUs: %d of %d pods and %d GPUs, want %d",
						tc.why, r.PodsPerGang, r.GPUsPerPod, r.Gangs, r.Pods, r.GPUs, tc.gangs[i])
				}
			}
			if last := rows[5]; last.Bound != tc.bound {
				t.Errorf("%s: bound by %q, want %q", tc.why, last.Bound, tc.bound)
			}
			want := "map[kueue.x-k8s.io/podset-slice-required-topology:rack kueue.x-k8s.io/podset-slice-size:5]"
			if len(tc.s.apart) != 3 || !tc.s.apart[want] {
				t.Errorf("it asked about %v, want %s and the like", tc.s.apart, want)
			}
		})
	}
}

func manyNodes(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = 8
	}
	return out
}

// TestCapacityTable: what people read, in terminals of several widths.
func TestCapacityTable(t *testing.T) {
	rows, err := cli.Capacity(
		t.Context(),
		&shelf{free: []int64{8, 3, 3}, quota: 100, own: 1 << 40},
		question(1, 2, 4, 8),
	)
	if err != nil {
		t.Fatal(err)
	}
	counts := question(1, 8)
	counts.Pods, counts.Level = []int32{1, 2}, "rack"
	counted, err := cli.Capacity(t.Context(), &shelf{free: []int64{8, 8, 3}, quota: 100, own: 1 << 40}, counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 140} {
		for name, rows := range map[string][]cli.CapacityRow{"": rows, "gangs-": counted} {
			var out bytes.Buffer
			columns := cli.CapacityColumns(false, name != "")
			if err := cli.PrintTable(&out, columns, rows, cli.Layout{Width: width}); err != nil {
				t.Fatal(err)
			}
			fits(t, out.String(), width)
			testkit.Golden(t, filepath.Join("testdata", "capacity", name+strconv.Itoa(width)+".txt"), out.String())
		}
	}
}

// TestCapacityQueues: one way into each ClusterQueue, or all of a namespace.
func TestCapacityQueues(t *testing.T) {
	c := cluster(t, "testdata/queue/cluster.yaml").Build()
	all, err := cli.CapacityQueues(t.Context(), c, "", "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, q := range all {
		if seen[q.ClusterQueue] || q.LocalQueue == "" || q.Namespace == "" {
			t.Errorf("ClusterQueue %s is asked twice, or cannot be: %+v", q.ClusterQueue, q)
		}
		seen[q.ClusterQueue] = true
	}
	if _, err := cli.CapacityQueues(t.Context(), c, "", "nosuch"); err == nil {
		t.Error("a queue that there is not")
	}
}
