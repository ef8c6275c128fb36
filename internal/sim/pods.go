package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Pods that exist one by one, in worlds whose Lifecycle says so: they are made and
// replaced by what stands for the job's controller, bound by what stands for the
// scheduler, and end when their grace is over. Tenants act on them (tenants.go),
// controllers and the engine see them late (watches.go).

// Pod is one pod as the API has it.
type Pod struct {
	Name string
	// Job is the job that it belongs to, PodSet the pod set.
	Job      core.Key
	PodSet   string
	Requests core.Resources
	// Node is where it was bound, "" until then.
	Node string
	core.PodState
	// Succeeded is true if it ended well, Gone if its object is no more.
	Succeeded, Gone bool
}

// elsewhere is where pods run whose flavors have no nodes.
const elsewhere = "elsewhere"

// pod is one pod in truth.
type pod struct {
	Pod
	set int
	// pinned is true while a finalizer of the tenant keeps its object.
	pinned bool
	// deleted is when it was deleted, and ends when its grace is over.
	deleted, ends int64
	// trying is true while the scheduler is about to look at it.
	trying bool
}

// jobPods are the pods of a job and what makes them.
type jobPods struct {
	pods  []*pod // whose objects exist
	made  int
	maker core.MakerState
	// makerSeq counts the states of maker.
	makerSeq uint64
	// size is what its first pod set was scaled to; nil: as it was admitted.
	size *int32
	// doomed is true once the job was deleted, finishing once its work is done.
	doomed, finishing bool
	// due is since when it should give back its quota, -1 while it should not.
	due  int64
	seen seen
}

// hasPods reports whether pods exist one by one.
func (r podLife) hasPods() bool { return r.world.Lifecycle != nil && r.world.Lifecycle.Pods }

// holds reports whether the job holds quota in truth.
func (j *job) holds() bool {
	states := make([]core.PodState, 0, len(j.pods))
	for _, p := range j.pods {
		states = append(states, p.PodState)
	}
	return core.Holds([]core.MakerState{j.maker}, states)
}

// starts lets the job's controller make pods.
func (r podLife) starts(j *job) {
	j.maker.Stopped = false
	r.watches().showMaker(j)
	r.wants(j)
}

// wants has the job's controller compare its pods with how many it should have,
// in a while.
func (r podLife) wants(j *job) {
	r.startAnew(j)
	r.queue.push(item{at: r.now + r.span(r.world.Cluster.Write, j), kind: doMake, job: j})
}

// wanted is how many pods of a pod set the job's controller wants.
func (j *job) wanted(set int) int32 {
	if set == 0 && j.size != nil {
		return *j.size
	}
	return j.admission.PodSets[set].Count
}

// makes is the job's controller at work: it makes the pods that are missing and
// deletes the newest of those too many, whatever made them.
func (r podLife) makes(j *job) {
	if !j.maker.MayMakePods() || j.admission == nil || j.state == resetting {
		return
	}
	for i := range j.admission.PodSets {
		var stand []*pod
		for _, p := range j.pods {
			if p.set == i && !p.Ended && (!p.Deleting || !j.spec.Eager) {
				stand = append(stand, p)
			}
		}
		have := int32(len(stand)) //nolint:gosec // a few
		for ; have < j.wanted(i); have++ {
			r.makePod(j, i)
		}
		for n := len(stand) - 1; n >= 0 && have > j.wanted(i); n-- {
			if !stand[n].Deleting {
				r.deletePod(j, stand[n], j.spec.Grace)
				have--
			}
		}
	}
	r.ready(j)
	r.startAnew(j)
}

func (r podLife) makePod(j *job, set int) {
	p := &pod{set: set}
	p.Name, p.Job, p.PodSet = fmt.Sprintf("%s-%d", j.spec.Key.Name, j.made), j.spec.Key, j.spec.PodSets[set].Name
	p.Requests = j.spec.PodSets[set].Requests
	j.made++
	j.pods = append(j.pods, p)
	r.watches().showPod(j, p)
	r.tries(j, p)
}

// tries has the scheduler look at a pod, in a while.
func (r podLife) tries(j *job, p *pod) {
	if !p.trying && !p.Bound && !p.Deleting {
		p.trying = true
		r.queue.push(item{at: r.now + r.span(r.world.Cluster.Start, j), kind: doBind, job: j, pod: p})
	}
}

// triesAll has the scheduler look at all pods of a job that wait for a node.
func (r podLife) triesAll(j *job) {
	for _, p := range j.pods {
		r.tries(j, p)
	}
}

// binds is the scheduler: a pod gets a node that its job has a place on, unless a
// pod of its job holds that place still, or pods hold the node.
func (r podLife) binds(j *job, p *pod) {
	p.trying = false
	if p.Bound || p.Deleting || p.Gone || j.admission == nil || !j.checked || j.evicting || j.doomed {
		return
	}
	node := r.openPlace(j, p)
	if node == "" {
		return
	}
	p.Node, p.Bound = node, true
	r.watches().showPod(j, p)
	if r.audit != nil {
		r.fail(r.audit.bound(r.Run, j, p))
	}
	r.ready(j)
}

// openPlace is a node with a place for a pod, "" if there is none now.
func (r podLife) openPlace(j *job, p *pod) string {
	taken, total := map[string]int32{}, int32(0)
	for _, x := range j.pods {
		if x.set == p.set && r.world.Rules.TakesPlace(x.PodState) {
			taken[x.Node]++
			total++
		}
	}
	plan := &j.admission.PodSets[p.set]
	switch {
	case total >= plan.Count:
		return ""
	case len(plan.Places) == 0:
		return elsewhere
	}
	for _, pl := range plan.Places {
		n := r.cluster.nodes[pl.Node]
		if n != nil && !n.gone && n.spec.State.TakesWork() && taken[pl.Node] < pl.Count && r.fits(n, p) {
			return pl.Node
		}
	}
	return ""
}

// fits reports whether a node has room for a pod beside all that hold it.
func (r podLife) fits(n *node, p *pod) bool {
	used := r.usedOn(n.spec.Name).Plus(p.Requests.With(core.Pods, 1))
	for _, q := range used {
		if q.Amount > n.spec.Allocatable.Of(q.Resource) {
			return false
		}
	}
	return true
}

// usedOn is what pods hold of a node.
func (r podLife) usedOn(node string) (sum core.Resources) {
	for _, j := range r.cluster.jobs {
		for _, p := range j.pods {
			if p.Node == node && p.HoldsPlace() {
				sum = sum.Plus(p.Requests.With(core.Pods, 1))
			}
		}
	}
	return sum
}

// ready lets a job run once all the pods that it was given and wants still do.
func (r podLife) ready(j *job) {
	if j.state != starting || j.stuck() {
		return
	}
	for i := range j.admission.PodSets {
		n := int32(0)
		for _, p := range j.pods {
			if p.set == i && p.Bound && !p.Ended && !p.Deleting {
				n++
			}
		}
		if n < min(j.wanted(i), j.admission.PodSets[i].Count) {
			return
		}
	}
	if j.started < 0 {
		j.started = r.now
	}
	j.since = r.now
	r.enter(j, running)
	r.at(j, doFinish, int64(j.needs(j.left)))
	r.workloads().enqueue(j)
}

// unready is a job that ran and lost a pod. What it did counts.
func (r podLife) unready(j *job) {
	if j.state == running && !j.finishing {
		j.left -= min(j.left, j.progress(time.Duration(r.now-j.since)))
		r.enter(j, starting)
		r.workloads().enqueue(j)
	}
}

// collectPods is when Kubernetes' collector of pods has Failed one that was deleted
// before it had a node and that a finalizer keeps (pod-garbage-collector). Its job's
// controller may wait for that before it makes another.
const collectPods = 20 * time.Second

// deletePod deletes a pod, whose containers go on until its grace is over.
func (r podLife) deletePod(j *job, p *pod, grace time.Duration) {
	ends := r.now + int64(grace)
	if p.Deleting && p.ends <= ends {
		return
	}
	if !p.Deleting {
		p.deleted = r.now
	}
	p.Deleting, p.ends = true, ends
	switch {
	case p.Ended:
	case p.Bound:
		r.queue.push(item{at: ends, kind: doEnd, job: j, pod: p})
		if most := r.world.Lifecycle.LongestEnd; most > 0 && time.Duration(ends-p.deleted) > most {
			r.queue.push(item{at: r.now + r.span(r.world.Cluster.Write, j), kind: doShorten, job: j, pod: p})
		}
		r.unready(j)
	case p.pinned:
		r.queue.push(item{at: max(ends, r.now+int64(collectPods)), kind: doEnd, job: j, pod: p})
	}
	r.watches().showPod(j, p)
	r.forget(j, p)
	r.wants(j)
}

// shortens is the controller that has deleted pods end in time.
func (r podLife) shortens(j *job, p *pod) {
	if p.Ended || p.Gone {
		return
	}
	left, shorten := r.world.Rules.TimeToEnd(
		time.Duration(p.ends-p.deleted),
		time.Duration(r.now-p.deleted),
		r.world.Lifecycle.LongestEnd,
	)
	if shorten {
		r.deletePod(j, p, left)
	}
}

// ends is a pod whose containers end.
func (r podLife) ends(j *job, p *pod) {
	if p.Ended || p.Gone {
		return
	}
	p.Ended = true
	r.unready(j)
	r.watches().showPod(j, p)
	r.forget(j, p)
	if n := r.cluster.nodes[p.Node]; n != nil {
		for _, other := range n.jobs {
			r.triesAll(other)
		}
	}
	r.triesAll(j)
	r.wants(j)
}

// forget removes the object of a deleted pod that holds no node, unless a
// finalizer keeps it.
func (r podLife) forget(j *job, p *pod) {
	if p.Gone || !p.Deleting || p.pinned || p.HoldsPlace() {
		return
	}
	p.Gone = true
	j.pods = slices.DeleteFunc(j.pods, func(x *pod) bool { return x == p })
	r.watches().showPod(j, p)
}

// startAnew lets a job that was reset start once nothing of it is left.
func (r podLife) startAnew(j *job) {
	if j.state == resetting && !slices.ContainsFunc(j.pods, func(p *pod) bool { return p.HoldsQuota() }) {
		r.enter(j, starting)
		r.wants(j)
	}
}

// halts is the job's controller that sees that the job is suspended: it makes no
// more pods and deletes the ones that it has.
func (r podLife) halts(j *job) {
	if j.state != stopping || j.finishing {
		return
	}
	j.maker.Stopped = true
	r.deleteAll(j)
	r.watches().showMaker(j)
}

func (r podLife) deleteAll(j *job) {
	for _, p := range slices.Clone(j.pods) {
		r.deletePod(j, p, j.spec.Grace)
	}
	r.startAnew(j)
}

// finishes is the job's controller that sees that the work is done.
func (r podLife) finishes(j *job) {
	j.finishing, j.maker.Ended = true, true
	for _, p := range slices.Clone(j.pods) {
		if p.Bound && !p.Ended && !p.Deleting {
			p.Succeeded = true
			r.ends(j, p)
		}
	}
	for _, p := range slices.Clone(j.pods) { // those too many
		if !p.Bound {
			r.deletePod(j, p, 0)
		}
	}
	r.watches().showMaker(j)
	r.startAnew(j)
	r.workloads().enqueue(j)
}

// leaves forgets all pods of a job that has ended.
func (r podLife) leaves(j *job) {
	for _, p := range j.pods {
		p.Gone = true
		r.watches().showPod(j, p)
	}
	j.pods = nil
}

// lostOn is a node whose failure is noticed: its pods are gone, and a job that
// had one starts anew as a whole.
func (r podLife) lostOn(n *node, j *job) {
	some := false
	for _, p := range slices.Clone(j.pods) {
		if p.Node == n.spec.Name && !p.Ended {
			some, p.Deleting, p.pinned = true, true, false
			r.ends(j, p)
		}
	}
	if some && (j.state == running || j.state == starting) && !j.finishing {
		r.stop(j, resetting)
		r.deleteAll(j)
		r.startAnew(j)
		r.workloads().enqueue(j)
	}
}

// sortedPods are all pods in the order of their names.
func (e *clusterState) sortedPods() (out []*pod) {
	for _, j := range e.jobs {
		out = append(out, j.pods...)
	}
	slices.SortFunc(out, func(a, b *pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
