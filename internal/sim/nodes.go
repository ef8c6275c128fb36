package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// node is one machine in truth.
type node struct {
	spec core.Node // as the API has it
	// down says that it has failed, noticed or not; broken that chance did it.
	down, gone bool
	gen        uint32
	units      core.Amount
	jobs       []*job // that have places here
	told       int64
	draws      uint64
}

func sortedNames[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}

// object takes in that an object appeared, changed or went.
func (r nodeLife) object(ev core.Event) {
	switch ev := ev.(type) {
	case core.NodeSet:
		r.nodeSet(ev.Node)
		return
	case core.NodeGone:
		r.nodeGone(ev.Name)
		return
	case core.LocalQueueSet:
		r.cluster.localQueues[[2]string{ev.LocalQueue.Namespace, ev.LocalQueue.Name}] = ev.LocalQueue.Queue
	default:
	}
	r.workloads().enqueueAll(ev)
	name, gone := objectName(ev)
	e := &r.cluster
	i, known := e.index[name]
	switch {
	case gone && known:
		e.edited = true
		e.objects[i] = nil
		delete(e.index, name)
	case gone:
		return
	case known:
		e.objects[i] = ev
		e.edited = true
	default:
		e.index[name] = len(e.objects)
		e.objects = append(e.objects, ev)
	}
	r.meter.object(ev)
	at := max(
		e.told[name],
		r.now+int64(r.world.Cluster.Observe.draw(r.drawIf(r.world.Cluster.Observe, "object "+name))),
	)
	e.told[name] = at
	r.deliver(at, ev)
}

// drawIf draws only where the span leaves something to chance.
func (r nodeLife) drawIf(s Span, name string) uint64 {
	if s.Max <= s.Min {
		return 0
	}
	return r.draw(name)
}

func objectName(ev core.Event) (name string, gone bool) {
	switch ev := ev.(type) {
	case core.FlavorSet:
		return "flavor/" + ev.Flavor.Name, false
	case core.FlavorGone:
		return "flavor/" + ev.Name, true
	case core.CohortSet:
		return "cohort/" + ev.Cohort.Name, false
	case core.CohortGone:
		return "cohort/" + ev.Name, true
	case core.QueueSet:
		return "queue/" + ev.Queue.Name, false
	case core.QueueGone:
		return "queue/" + ev.Name, true
	case core.LocalQueueSet: // the name draws the delay: another one would be another world
		return "door/" + ev.LocalQueue.Namespace + "/" + ev.LocalQueue.Name, false
	case core.LocalQueueGone:
		return "door/" + ev.Namespace + "/" + ev.Name, true
	case core.NamespaceSet:
		return "namespace/" + ev.Namespace.Name, false
	case core.NamespaceGone:
		return "namespace/" + ev.Name, true
	}
	return "", true
}

// tellNode tells the engine about a node; changes of one node keep their order.
func (r nodeLife) tellNode(n *node, ev core.Event) {
	n.told = max(
		n.told,
		r.now+int64(r.world.Cluster.Observe.draw(r.drawIf(r.world.Cluster.Observe, "node "+n.spec.Name))),
	)
	if r.podLife().hasPods() {
		r.queue.push(item{at: n.told, kind: doShow, watched: &WatchEvent{Event: ev}, gen: r.cluster.process})
		return
	}
	r.deliver(n.told, ev)
}

// nodeSet is a node that appears, or whose state or size changes.
func (r nodeLife) nodeSet(spec core.Node) {
	e := &r.cluster
	n := e.nodes[spec.Name]
	if n == nil {
		n = &node{}
		e.nodes[spec.Name] = n
		if f := r.world.Faults; f.MTBF > 0 {
			r.planFailure(n, spec.Name)
		}
	}
	r.meter.node(n, -1)
	n.spec, n.gone = spec, false
	n.units = spec.Allocatable.Of(e.unit)
	n.gen++
	was := n.down
	n.down = spec.State == core.NodeLost || spec.State == core.NodeEvicted
	r.meter.node(n, 1)
	r.tellNode(n, core.NodeSet{Node: spec})
	switch {
	case n.down && !was:
		r.queue.push(
			item{at: r.now + int64(r.world.Cluster.Detect.draw(r.nodeDraw(n))), kind: doLost, node: n, gen: n.gen},
		)
	case spec.State.TakesWork():
		r.nodeBack(n)
	}
}

func (r nodeLife) nodeGone(name string) {
	n := r.cluster.nodes[name]
	if n == nil || n.gone {
		return
	}
	r.meter.node(n, -1)
	n.gone, n.down = true, true
	n.gen++
	r.tellNode(n, core.NodeGone{Name: name})
	r.lost(n, n.gen)
}

func (r nodeLife) nodeDraw(n *node) uint64 {
	n.draws++
	return chance(r.world.Seed, "node/"+n.spec.Name, n.draws)
}

func (r nodeLife) planFailure(n *node, name string) {
	n.draws++
	x := chance(r.world.Seed, "node/"+name, n.draws)
	r.queue.push(item{at: r.now + int64(exponential(r.world.Faults.MTBF, x)), kind: doFail, node: n})
}

// nodeFails is a failure by chance.
func (r nodeLife) nodeFails(n *node) {
	r.planFailure(n, n.spec.Name)
	if n.gone || n.down {
		return
	}
	spec := n.spec
	spec.State, spec.Why = core.NodeLost, "not ready"
	r.meter.failures++
	r.nodeSet(spec)
	r.queue.push(item{
		at: r.now + int64(
			exponential(max(r.world.Faults.MTTR, time.Second), r.nodeDraw(n)),
		),
		kind: doRepair,
		node: n,
		gen:  n.gen,
	})
}

// nodeRepaired undoes a failure by chance, unless the node was changed since.
func (r nodeLife) nodeRepaired(n *node, gen uint32) {
	if n.gone || gen != n.gen {
		return
	}
	spec := n.spec
	spec.State, spec.Why = core.NodeReady, ""
	r.nodeSet(spec)
}

// lost is the moment a node's failure is noticed: a job with a pod there is reset,
// all of it, because a gang is all or nothing.
func (r nodeLife) lost(n *node, gen uint32) {
	if n.gen != gen || !n.down {
		return
	}
	if r.podLife().hasPods() {
		for _, j := range r.cluster.jobs {
			r.podLife().lostOn(n, j)
		}
		return
	}
	for _, j := range slices.Clone(n.jobs) {
		if j.state == running {
			r.stop(j, resetting)
			r.changed(j)
			r.workloads().enqueue(j)
		}
	}
}

// nodeBack lets pods start that waited for their node.
func (r nodeLife) nodeBack(n *node) {
	for _, j := range n.jobs {
		if r.podLife().hasPods() {
			r.podLife().triesAll(j)
			continue
		}
		if j.state == starting {
			j.gen++
			r.at(j, doReady, r.faults().start(j))
		}
	}
}

// homeless reports whether a pod of a job is planned on a node that takes no work.
func (r nodeLife) homeless(j *job) bool {
	for _, p := range j.admission.PodSets {
		for _, pl := range p.Places {
			if core.PodsAt(j.ended, p.Name, pl.Node) >= pl.Count {
				continue
			}
			if n := r.cluster.nodes[pl.Node]; n == nil || n.gone || !n.spec.State.TakesWork() {
				return true
			}
		}
	}
	return false
}

// joinNodes and leaveNodes keep the lists of jobs per node.
func (r nodeLife) joinNodes(j *job) {
	for _, p := range j.admission.PodSets {
		for _, pl := range p.Places {
			if n := r.cluster.nodes[pl.Node]; n != nil && !slices.Contains(n.jobs, j) {
				n.jobs = append(n.jobs, j)
			}
		}
	}
}

func (r nodeLife) leaveNodes(j *job) {
	if j.admission == nil {
		return
	}
	for _, p := range j.admission.PodSets {
		for _, pl := range p.Places {
			if n := r.cluster.nodes[pl.Node]; n != nil {
				n.jobs = slices.DeleteFunc(n.jobs, func(x *job) bool { return x == j })
			}
		}
	}
}
