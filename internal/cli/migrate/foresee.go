package migrate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Policy is what a configuration says of decisions.
type Policy struct {
	Rules  convert.Rules
	Engine cycle.Options
}

// Start is a job that the first decision starts.
type Start struct {
	Workload string `json:"workload"`
	Job      string `json:"job"`
	Queue    string `json:"queue"`
}

// Stop is a job that the first decision would evict.
type Stop struct {
	Workload string `json:"workload"`
	Job      string `json:"job"`
	Why      string `json:"why"`
}

// Use is what jobs with quota use of a queue, as the old system counts it and as mlbatch does.
type Use struct {
	Queue    string `json:"queue"`
	Flavor   string `json:"flavor"`
	Resource string `json:"resource"`
	Before   string `json:"before"`
	After    string `json:"after"`
	differs  bool
}

// outlook is what the engine makes of a picture.
type outlook struct {
	starts []Start
	stops  []Stop
	uses   []Use
}

// foresee lets the engine decide about a picture, with pods marked as they are going to be.
func (p *Picture) foresee(policy Policy, marks []Mark) outlook {
	world, engine := cache.NewWorld(policy.Rules), cycle.New(policy.Engine)
	for _, e := range world.Translate(p.changes(marks)) {
		engine.Apply(e)
	}
	// What is reserved is asked before anything is decided.
	out := outlook{uses: p.uses(engine)}
	for _, d := range engine.Decide(p.Now) {
		switch d := d.(type) {
		case core.Admit:
			out.starts = append(
				out.starts,
				Start{Workload: d.Key.String(), Job: world.Workload(d.Key).Job, Queue: d.Admission.Queue},
			)
		case core.Evict:
			out.stops = append(
				out.stops,
				Stop{Workload: d.Key.String(), Job: world.Workload(d.Key).Job, Why: stopped(d)},
			)
		case core.Replace, core.Refuse:
		}
	}
	return out
}

func stopped(d core.Evict) string {
	if d.For != (core.Key{}) {
		return string(d.Reason) + ", for " + d.For.String()
	}
	return string(d.Reason) + ": " + explain.Sentence(d.Why)
}

// changes are all objects, as watches would tell of them.
func (p *Picture) changes(marks []Mark) []cache.ObjectUpdate {
	var out []cache.ObjectUpdate
	add := func(kind cache.RefKind, o client.Object) {
		out = append(
			out,
			cache.ObjectUpdate{Ref: cache.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o},
		)
	}
	each(p.Topologies, func(o *kueue.Topology) { add(cache.Topology, o) })
	each(p.Flavors, func(o *kueue.ResourceFlavor) { add(cache.Flavor, o) })
	each(p.Cohorts, func(o *kueue.Cohort) { add(cache.Cohort, o) })
	each(p.Checks, func(o *kueue.AdmissionCheck) { add(cache.AdmissionCheck, o) })
	each(p.Queues, func(o *kueue.ClusterQueue) { add(cache.Queue, o) })
	each(p.LocalQueues, func(o *kueue.LocalQueue) { add(cache.LocalQueue, o) })
	for i := range p.Namespaces {
		add(cache.Namespace, &p.Namespaces[i])
	}
	for i := range p.LimitRanges {
		add(cache.LimitRange, &p.LimitRanges[i])
	}
	for i := range p.Runtimes {
		add(cache.RuntimeClass, &p.Runtimes[i])
	}
	for i := range p.Volumes {
		add(cache.Volume, &p.Volumes[i])
	}
	for i := range p.Nodes {
		add(cache.Node, &p.Nodes[i])
	}
	of := make(map[types.NamespacedName]*Mark, len(marks))
	for i := range marks {
		of[marks[i].Pod] = &marks[i]
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if m := of[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]; m != nil {
			pod = m.on(pod)
		}
		add(cache.Pod, pod)
	}
	each(p.Workloads, func(o *kueue.Workload) { add(cache.Workload, o) })
	return out
}

func each[T any](all []T, do func(*T)) {
	for i := range all {
		do(&all[i])
	}
}

// uses compares what queues have given, by their status and by the engine.
func (p *Picture) uses(engine *cycle.Engine) []Use {
	var out []Use
	for i := range p.Queues {
		q := &p.Queues[i]
		after := engine.Load(q.Name).Reserved
		before := map[core.FlavorResource]core.Amount{}
		for _, f := range q.Status.FlavorsReservation {
			for _, r := range f.Resources {
				before[core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}] = convert.Amount(
					r.Name,
					r.Total,
				)
			}
		}
		for _, fr := range slices.SortedFunc(keys(before, after), core.FlavorResource.Compare) {
			if before[fr] == 0 && after[fr] == 0 {
				continue
			}
			was, is := convert.Quantity(fr.Resource, before[fr]), convert.Quantity(fr.Resource, after[fr])
			out = append(
				out,
				Use{
					Queue:    q.Name,
					Flavor:   fr.Flavor,
					Resource: fr.Resource,
					Before:   was.String(),
					After:    is.String(),
					differs:  before[fr] != after[fr],
				},
			)
		}
	}
	return out
}

// keys are those of two maps, each once.
func keys[V any](a, b map[core.FlavorResource]V) func(func(core.FlavorResource) bool) {
	return func(yield func(core.FlavorResource) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if _, both := a[k]; !both && !yield(k) {
				return
			}
		}
	}
}
