package goodput

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/progress"
	"github.com/mlbatch/mlbatch/internal/sim"
)

const (
	// nodeCount nodes of eight GPUs are one block; the job takes jobNodes of them, and small jobs of others what is left.
	nodeCount, jobNodes = 272, 256
	blockLabel          = "block"
	horizon             = 30 * 24 * time.Hour
	// pause is for how long the job stops for each checkpoint.
	pause = time.Second
	// every is how often the job states that it takes a step, and step how long one takes in truth.
	every, step = time.Minute, 20 * time.Second
)

// trained is the job.
func trained() core.Key { return core.Key{Namespace: "training", Name: "model"} }

// World is the cluster with its jobs under a list of failures and a way to recover, in which the job saves its work
// each checkpoint.
func World(p *Policy, failures []Failure, checkpoint time.Duration) sim.World {
	gpus := core.MakeResources(map[string]core.Amount{core.GPU: 8})
	w := sim.World{
		Name: p.Name, Seed: 27, Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Horizon: horizon,
		Engine: cycle.Options{KeepNodes: p.KeepNodes > 0},
		Cluster: sim.ClusterModel{
			Write: sim.Span{
				Min: 20 * time.Millisecond,
				Max: 200 * time.Millisecond,
			},
			Observe: sim.Always(50 * time.Millisecond),
			// All pods of a job made anew: the last of 256 nodes is ready near the end of what one may take.
			Start:     sim.Span{Min: 75 * time.Second, Max: 90 * time.Second},
			Stop:      sim.Always(30 * time.Second),
			KeepNodes: p.KeepNodes,
		},
		Recovery: &p.Recovery,
	}
	w.Objects = []core.Event{
		core.FlavorSet{Flavor: core.Flavor{
			Name: "gpus", Topology: core.Topology{Name: "gpus", Levels: []string{blockLabel, core.HostnameLabel}},
		}},
		core.CohortSet{Cohort: core.Cohort{Name: "all"}},
	}
	for _, q := range []struct {
		name  string
		nodes core.Amount
	}{{trained().Namespace, nodeCount}, {"others", 0}} {
		w.Objects = append(w.Objects,
			core.NamespaceSet{Namespace: core.Namespace{Name: q.name}},
			core.QueueSet{Queue: core.Queue{
				Name: q.name, Cohort: "all", Namespaces: &core.Selector{},
				Preemption: core.Preemption{WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny},
				Groups: []core.ResourceGroup{{Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{
					Flavor: "gpus", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8 * q.nodes}},
				}}}},
			}},
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: q.name, Name: "queue", Queue: q.name}},
		)
		w.Teams = append(w.Teams, sim.Team{Name: q.name, Queue: q.name})
	}
	for i := range nodeCount {
		w.Objects = append(w.Objects, core.NodeSet{Node: core.Node{
			Name: NodeName(i), State: core.NodeReady, Allocatable: gpus.With(core.Pods, 100),
			Labels: map[string]string{blockLabel: "a", core.HostnameLabel: NodeName(i)},
		}})
	}
	near := core.TopologyRequest{Required: blockLabel}
	w.Jobs = append([]sim.Job{{
		Key: trained(), UID: "model", Queue: "queue", Priority: 10, Work: 2 * horizon, Checkpoint: checkpoint,
		PodSets: []core.PodSet{{Name: "worker", Count: jobNodes, Requests: gpus, Topology: near}},
		Steps:   &sim.Steps{Rule: progress.Rule{First: 10 * time.Minute, Every: every}, Takes: step},
	}}, others(gpus)...)
	for i := range failures {
		w.Script = append(w.Script, sim.Op{At: failures[i].At, Fault: &failures[i].Fault})
	}
	return w
}

// others are small jobs that keep about half of the nodes busy which the large one leaves.
func others(gpus core.Resources) (out []sim.Job) {
	r := rand.New(rand.NewPCG(27, 1)) //nolint:gosec // not for secrets
	const each = 30 * time.Minute
	for at := time.Minute; at < horizon; at += time.Duration(r.ExpFloat64() * float64(each)) {
		name := fmt.Sprintf("small-%04d", len(out))
		out = append(out, sim.Job{
			Key: core.Key{Namespace: "others", Name: name}, UID: name, Queue: "queue", Priority: 1, Submit: at,
			Work:       time.Duration((0.2 + r.ExpFloat64()) * float64(2*time.Hour)).Round(time.Second),
			Checkpoint: 10 * time.Minute,
			PodSets: []core.PodSet{{
				Name: "main", Count: 1 + int32(r.IntN(2)), Requests: gpus, //nolint:gosec // 1 or 2
			}},
		})
	}
	return out
}
