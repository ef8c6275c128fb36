package gather

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Nodes reads the nodes, and what is on them. Pods that the user may not read are not counted;
// seen is false then.
func Nodes(ctx context.Context, c client.Reader) (rows []view.Node, seen bool, err error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, false, fmt.Errorf("list nodes: %w", err)
	}
	var pods corev1.PodList
	var workloads kueue.WorkloadList
	err = c.List(ctx, &pods)
	if seen = err == nil; Readable(err) != nil {
		return nil, false, fmt.Errorf("list pods: %w", err)
	}
	if err := Readable(c.List(ctx, &workloads)); err != nil {
		return nil, false, fmt.Errorf("list Workloads: %w", err)
	}
	healths := healthsFor(ctx, c)
	jobs := map[string]string{}
	for i := range workloads.Items {
		w := &workloads.Items[i]
		if kind, _ := convert.Owner(w); kind.Kind != string(view.KindPod) || convert.OfGroup(w) {
			jobs[w.Namespace+"/"+w.Name] = w.Namespace + "/" + JobName(w)
		}
	}
	at, used := map[string]*view.Node{}, map[string]*spans{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		h := convert.OfNode(n, healths[n.Name])
		is := convert.NodeWith(n, h)
		row := &view.Node{
			Name:    n.Name,
			State:   is.State,
			Why:     is.Why,
			Created: n.CreationTimestamp.UTC(),
			Drained: view.DrainOf(n),
			Health:  view.HealthOf(h),
		}
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
		at[n.Name], used[n.Name] = row, &spans{}
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
				used[row.Name].add(at.Time, n)
			}
			if row.Jobs == nil {
				row.Jobs = map[string]int64{}
			}
			key := p.Namespace + "/" + p.Annotations[kueue.WorkloadAnnotation]
			_, name := MadeBy(p)
			row.Jobs[cmp.Or(jobs[key], p.Namespace+"/"+name)] += cmp.Or(n, view.SliceSum(parts))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		row := at[name]
		if row.Free != nil {
			*row.Free = max(*row.Free, 0) // while a device plugin begins, pods have GPUs that are not there
		}
		row.UsedSince = used[name].mean()
		rows = append(rows, *row)
	}
	return rows, seen, nil
}

// nodeHealth is a reader that knows what is remembered of nodes.
type nodeHealth interface {
	NodeHealth(ctx context.Context) *corev1.ConfigMap
}

// HealthOf is what is remembered of a node, nothing if the user may not read it.
func HealthOf(ctx context.Context, c client.Reader, n *corev1.Node) nodehealth.Health {
	return convert.OfNode(n, healthsFor(ctx, c)[n.Name])
}

// healthsFor are what is remembered of nodes, nothing if the user may not read it: then labels and conditions say it,
// where mlbatch writes those.
func healthsFor(ctx context.Context, c client.Reader) map[string]nodehealth.Health {
	var m *corev1.ConfigMap
	if t, is := c.(nodeHealth); is {
		m = t.NodeHealth(ctx)
	} else {
		var own corev1.ConfigMap
		if c.Get(
			ctx,
			client.ObjectKey{Namespace: v1beta2.DefaultNamespace, Name: convert.HealthMemory},
			&own,
		) == nil {
			m = &own
		}
	}
	out, _ := convert.Healths(m)
	return out
}

// spans are times from which on GPUs are used.
type spans struct {
	first   time.Time
	gpus    int64
	seconds float64 // after first, of each GPU
}

func (s *spans) add(since time.Time, gpus int64) {
	if s.gpus == 0 {
		s.first = since
	}
	s.gpus += gpus
	s.seconds += float64(gpus) * since.Sub(s.first).Seconds()
}

// mean is the mean of the times, to the second; nil for none.
func (s *spans) mean() *time.Time {
	if s.gpus == 0 {
		return nil
	}
	return new(
		s.first.Add(time.Duration(s.seconds / float64(s.gpus) * float64(time.Second))).UTC().Truncate(time.Second),
	)
}
