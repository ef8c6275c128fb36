package sim

import (
	"github.com/mlbatch/mlbatch/internal/core"
)

// What a process sees of objects, late and each kind in an order of its own. The
// engine is told what ObjectCache makes of it, the controllers look at the Workload
// of a job when Rules.Wakes says so, and then see what arrived until then.

// ObjectCache is what a process makes of the objects that it is shown.
type ObjectCache interface {
	// Show takes in an object and returns what the engine is told.
	Show(WatchEvent) []core.Event
	// Decided takes in a plan before it is written.
	Decided(core.Plan)
	// Holds says which nodes the engine holds for workloads that do not start yet.
	Holds(nodes []string)
}

// WatchEvent is one object as a watch shows it. Exactly one of the fields is set
// besides Key, the job that it is about.
type WatchEvent struct {
	Key core.Key
	// Event is a node, or a decision that was refused.
	Event core.Event
	// Pod is a pod.
	Pod *Pod
	// Maker is the job.
	Maker *core.MakerState
	// IsWorkload says that it is the job's Workload; Snapshot is nil once it is gone.
	// Seq numbers the states of the job, or of its Workload.
	IsWorkload bool
	Snapshot   any
	Seq        uint64
	// Spec is the job, as it was submitted.
	Spec *Job
}

// seen is what the controllers know of a job's pods and of the job.
type seen struct {
	pods  map[string]core.PodState
	maker core.MakerState
	// makerSeq is the number of the state of the job that was seen last.
	makerSeq uint64
	// awaited counts watch events under way, told are when the last of each kind arrives.
	awaited                   int
	podsTold, toldMaker, told int64
}

// holds reports whether the job holds quota, as far as the controllers see.
func (s *seen) holds() bool {
	states := make([]core.PodState, 0, len(s.pods))
	for _, name := range sortedNames(s.pods) {
		states = append(states, s.pods[name])
	}
	return core.Holds([]core.MakerState{s.maker}, states)
}

// count is how many pods hold quota, how many of those were not deleted, and how
// many there are, as far as the controllers see.
func (s *seen) count() (hold, standing, all int) {
	for _, p := range s.pods { // sums, so order does not matter
		if p.HoldsQuota() {
			hold++
			if !p.Deleting {
				standing++
			}
		}
	}
	return hold, standing, len(s.pods)
}

// show has engine and controllers see an object, in a while but not before at.
func (r watches) show(j *job, x WatchEvent, at *int64) {
	*at = max(r.now+r.span(r.world.Cluster.Observe, j), *at)
	x.Key, x.Spec = j.spec.Key, j.spec
	j.seen.awaited++
	r.queue.push(item{at: *at, kind: doShow, job: j, watched: &x, gen: r.cluster.process})
}

func (r watches) showPod(j *job, p *pod) {
	is := p.Pod
	r.show(j, WatchEvent{Pod: &is}, &j.seen.podsTold)
}

// showMaker shows the job. Its controller says that it stopped, or that it ended,
// once it has seen its pods; and its deletion is seen after the pods that it had.
func (r watches) showMaker(j *job) {
	j.makerSeq++
	is := j.maker
	if !is.MayMakePods() {
		j.seen.toldMaker = max(j.seen.toldMaker, j.seen.podsTold)
	}
	r.show(j, WatchEvent{Maker: &is, Seq: j.makerSeq}, &j.seen.toldMaker)
}

func (r watches) showWorkload(j *job) {
	r.cluster.version++
	j.seq = r.cluster.version
	r.show(j, r.workloadEvent(j), &j.seen.told)
}

func (r watches) workloadEvent(j *job) WatchEvent {
	x := WatchEvent{Key: j.spec.Key, Spec: j.spec, IsWorkload: true, Seq: j.seq}
	if j.state != done {
		x.Snapshot = j.object.Snapshot()
	}
	return x
}

// sees is an object that engine and controllers see now.
func (r watches) sees(j *job, x *WatchEvent) {
	r.inbox = append(r.inbox, r.cache.Show(*x)...)
	if j == nil {
		return
	}
	j.seen.awaited--
	wakes := r.world.Rules.Wakes(x, j.seen.look(x))
	switch {
	case x.Pod != nil && x.Pod.Gone:
		delete(j.seen.pods, x.Pod.Name)
	case x.Pod != nil:
		j.seen.pods[x.Pod.Name] = x.Pod.PodState
	case x.Maker != nil:
		j.seen.maker, j.seen.makerSeq = *x.Maker, x.Seq
	}
	if wakes {
		r.workloads().enqueue(j)
	}
}

// look is what was seen of a pod before.
func (s *seen) look(x *WatchEvent) (before *core.PodState) {
	if x.Pod == nil {
		return nil
	}
	if p, known := s.pods[x.Pod.Name]; known {
		return &p
	}
	return nil
}

// watchEvents are all objects as the API has them that an ObjectCache is made of.
func (r watches) watchEvents() (out []WatchEvent) {
	e := &r.cluster
	for _, name := range sortedNames(e.nodes) {
		if n := e.nodes[name]; !n.gone {
			out = append(out, WatchEvent{Event: core.NodeSet{Node: n.spec}})
		}
	}
	for _, j := range e.jobs {
		if j.object != nil && j.state != done {
			out = append(out, r.workloadEvent(j))
		}
	}
	for _, p := range e.sortedPods() {
		is := p.Pod
		out = append(out, WatchEvent{Key: is.Job, Pod: &is})
	}
	return out
}

// newObjectCache is an empty one, nil if there is none.
func (r watches) newObjectCache() ObjectCache {
	if !r.podLife().hasPods() {
		return nil
	}
	return r.world.Rules.NewObjectCache(&r.world)
}

// relist has a new process see everything as it is.
func (r watches) relist() {
	r.cache = r.world.Rules.NewObjectCache(&r.world)
	for _, j := range r.cluster.jobs {
		j.seen.awaited = 0
		j.seen.maker, j.seen.makerSeq, j.seen.pods = j.maker, j.makerSeq, map[string]core.PodState{}
		for _, p := range j.pods {
			j.seen.pods[p.Name] = p.PodState
		}
	}
}
