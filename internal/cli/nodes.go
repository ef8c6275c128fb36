package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// NodeRow is a node in one line.
type NodeRow struct {
	Name string `json:"name"`
	// State is what the node is good for, Why the reason if that is not everything.
	State core.NodeState `json:"state"`
	Why   string         `json:"why,omitempty"`
	// GPUs is how many it offers, Free how many of them no pod has, whatever its state; nil if
	// the user may not read pods.
	GPUs int64  `json:"gpus"`
	Free *int64 `json:"free,omitempty"`
	// Slices and FreeSlices are the same for parts of GPUs, by their sort, such as mig-1g.5gb.
	Slices     map[string]int64 `json:"slices,omitempty"`
	FreeSlices map[string]int64 `json:"freeSlices,omitempty"`
	// Pods is how many are on it that have not ended, nil as above; Jobs whose those are that have
	// GPUs, as NAMESPACE/NAME with the number of GPUs or, of a job without, of parts of them.
	Pods    *int             `json:"pods,omitempty"`
	Jobs    map[string]int64 `json:"jobs,omitempty"`
	Created time.Time        `json:"created"`
	// Drained is who took it out of service with mlbatch drain, nil if nobody did.
	Drained *Drain `json:"drained,omitempty"`

	// started is the sum, over its GPUs that pods have, of when those pods started, in seconds.
	started float64
}

// TakeNodes reads the nodes, and what is on them. Pods that the user may not read are not counted;
// seen is false then.
func TakeNodes(ctx context.Context, c client.Reader) (rows []NodeRow, seen bool, err error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, false, fmt.Errorf("list nodes: %w", err)
	}
	var pods corev1.PodList
	var workloads kueue.WorkloadList
	err = c.List(ctx, &pods)
	if seen = err == nil; gather.Readable(err) != nil {
		return nil, false, fmt.Errorf("list pods: %w", err)
	}
	if err := gather.Readable(c.List(ctx, &workloads)); err != nil {
		return nil, false, fmt.Errorf("list Workloads: %w", err)
	}
	jobs := map[string]string{}
	for i := range workloads.Items {
		w := &workloads.Items[i]
		if kind, _ := convert.Owner(w); kind.Kind != string(view.KindPod) || convert.OfGroup(w) {
			jobs[w.Namespace+"/"+w.Name] = w.Namespace + "/" + jobName(w)
		}
	}
	at := map[string]*NodeRow{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		is := convert.Node(n)
		row := &NodeRow{Name: n.Name, State: is.State, Why: is.Why, Created: n.CreationTimestamp.UTC(), Drained: DrainOf(n)}
		for _, r := range is.Allocatable {
			if name := view.Slice(r.Resource); name != "" && r.Amount > 0 {
				row.Slices = view.AddSlices(row.Slices, map[string]int64{name: int64(r.Amount)})
			} else if view.IsGPU(r.Resource) {
				row.GPUs += int64(r.Amount)
			}
		}
		if seen {
			row.Free, row.Pods, row.FreeSlices = new(row.GPUs), new(0), maps.Clone(row.Slices)
		}
		at[n.Name] = row
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		row := at[p.Spec.NodeName]
		if row == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		*row.Pods++
		n, parts := view.GPUs(&p.Spec), view.Slices(&p.Spec, 1)
		for name, of := range parts {
			if free, offered := row.FreeSlices[name]; offered {
				row.FreeSlices[name] = max(free-of, 0)
			}
		}
		if n > 0 || len(parts) > 0 {
			*row.Free -= n
			if at := p.Status.StartTime; at != nil {
				row.started += float64(n) * float64(at.Unix())
			}
			if row.Jobs == nil {
				row.Jobs = map[string]int64{}
			}
			key := p.Namespace + "/" + p.Annotations[kueue.WorkloadAnnotation]
			_, name := gather.MadeBy(p)
			row.Jobs[cmp.Or(jobs[key], p.Namespace+"/"+name)] += cmp.Or(n, sliceSum(parts))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		row := at[name]
		if row.Free != nil {
			*row.Free = max(*row.Free, 0) // while a device plugin begins, pods have GPUs that are not there
		}
		rows = append(rows, *row)
	}
	return rows, seen, nil
}

// NodeColumns are those of a list of nodes.
func NodeColumns(now time.Time) []Column[NodeRow] {
	return []Column[NodeRow]{
		{Title: "NAME", Text: func(r NodeRow) string { return r.Name }},
		{Title: "STATE", State: true, Text: func(r NodeRow) string { return string(r.State) }},
		{Title: "GPUS", Rank: 1, Text: func(r NodeRow) string { return devices(r.GPUs, r.Slices) }, Less: func(a, b NodeRow) int { return cmp.Compare(a.GPUs, b.GPUs) }},
		{
			Title: "FREE", Text: func(r NodeRow) string {
				if r.Free == nil {
					return ""
				}
				return devices(*r.Free, r.FreeSlices)
			},
			Less: func(a, b NodeRow) int { return cmp.Compare(ptr.Deref(a.Free, 0), ptr.Deref(b.Free, 0)) },
		},
		{
			Title: "PODS", Rank: 3, Text: func(r NodeRow) string {
				if r.Pods == nil {
					return ""
				}
				return strconv.Itoa(*r.Pods)
			},
			Less: func(a, b NodeRow) int { return cmp.Compare(ptr.Deref(a.Pods, 0), ptr.Deref(b.Pods, 0)) },
		},
		{Title: "AGE", Rank: 4, Text: func(r NodeRow) string { return duration.HumanDuration(max(now.Sub(r.Created), 0)) }, Less: func(a, b NodeRow) int { return b.Created.Compare(a.Created) }},
		{Title: "WHY", Rank: 2, Text: func(r NodeRow) string {
			if r.Drained != nil {
				return r.Drained.Words(now)
			}
			return r.Why
		}},
		{Title: "JOBS WITH GPUS", Text: func(r NodeRow) string {
			var out []string
			for _, job := range slices.Sorted(maps.Keys(r.Jobs)) {
				out = append(out, fmt.Sprintf("%s (%d)", job, r.Jobs[job]))
			}
			return strings.Join(out, ", ")
		}},
	}
}

// SumOfNodes says in a line how full the nodes are.
func SumOfNodes(rows []NodeRow) string {
	var gpus, used, free, block, out int64
	var parts, left map[string]int64
	for _, r := range rows {
		parts, left = view.AddSlices(parts, r.Slices), view.AddSlices(left, r.FreeSlices)
		whole := ptr.Deref(r.Free, 0)
		gpus, used = gpus+r.GPUs, used+r.GPUs-whole
		if r.State != core.NodeReady {
			out += whole
			continue
		}
		free, block = free+whole, max(block, whole)
	}
	text := fmt.Sprintf("%s, %s: %d used, %d free", words.Count(len(rows), "node"), words.Count(int(gpus), "GPU"), used, free)
	if block > 0 && block < free {
		text += fmt.Sprintf(" (%d on one node at most)", block)
	}
	if out > 0 {
		text += fmt.Sprintf(", %d on nodes that are closed or suspect", out)
	}
	said := []string{text}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		said = append(said, fmt.Sprintf("%d %s: %d used, %d free", parts[name], name, parts[name]-left[name], left[name]))
	}
	return strings.Join(said, ", ")
}
