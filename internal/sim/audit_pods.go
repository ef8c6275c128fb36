package sim

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What must hold of pods, counted from the pods that exist, whatever any account says.

// bound checks a pod that just got its node (P2): the node has room for all that
// hold it, the job has no more unfinished pods than it was given, and its queue
// and all that it lends to and borrows from have no more than there is.
func (a *Auditor) bound(r *Run, j *job, p *pod) error {
	if n := r.cluster.nodes[p.Node]; n != nil {
		for _, q := range r.podLife().usedOn(p.Node) {
			if has := n.spec.Allocatable.Of(q.Resource); q.Amount > has {
				return fmt.Errorf(
					"P2: node %s has %v of %s, and its unfinished pods use %v since pod %s came",
					p.Node,
					has,
					q.Resource,
					q.Amount,
					p.Name,
				)
			}
		}
	}
	n := int32(0)
	for _, x := range j.pods {
		if x.set == p.set && x.HoldsPlace() {
			n++
		}
	}
	if given := j.admission.PodSets[p.set].Count; n > given {
		return fmt.Errorf(
			"P2: %d unfinished pods of %s have a node in pod set %s, which was given quota for %d",
			n,
			j.spec.Key,
			p.PodSet,
			given,
		)
	}
	return a.treeHolds(r, j)
}

// treeHolds checks that the unfinished pods of a tree of queues use no more than
// all of its quota, as long as that was not changed.
func (a *Auditor) treeHolds(r *Run, j *job) error {
	if r.cluster.edited {
		return nil
	}
	above := parents(r.cluster.objects)
	root := above.root(member{j.admission.Queue, true})
	used, quota := map[pair]core.Amount{}, map[pair]core.Amount{}
	for _, other := range r.cluster.jobs {
		if other.admission == nil || above.root(member{other.admission.Queue, true}) != root {
			continue
		}
		for _, p := range other.pods {
			if !p.HoldsPlace() {
				continue
			}
			for _, q := range p.Requests {
				k := pair{Flavor: other.admission.PodSets[p.set].FlavorOf(q.Resource), Resource: q.Resource}
				used[k] = used[k].Add(q.Amount)
			}
		}
	}
	add := func(groups []core.ResourceGroup) {
		for _, g := range groups {
			for _, f := range g.Flavors {
				for _, q := range f.Quotas {
					k := pair{Flavor: f.Flavor, Resource: q.Resource}
					quota[k] = quota[k].Add(q.Nominal)
				}
			}
		}
	}
	for _, ev := range r.cluster.objects {
		switch ev := ev.(type) {
		case core.QueueSet:
			if above.root(member{ev.Queue.Name, true}) == root {
				add(ev.Queue.Groups)
			}
		case core.CohortSet:
			if above.root(member{ev.Cohort.Name, false}) == root {
				add(ev.Cohort.Groups)
			}
		default:
		}
	}
	for k, n := range used { // any will do, so order does not matter
		if k.Flavor != "" && n > quota[k] {
			return fmt.Errorf(
				"P2: unfinished pods of the tree of queue %s use %v of %s in flavor %s, and its quota is %v",
				j.admission.Queue,
				n,
				k.Resource,
				k.Flavor,
				quota[k],
			)
		}
	}
	return nil
}

// tree is the cohort above each queue and cohort, as the objects of the cluster say
// and whatever a process that just started has seen of them.
type tree map[member]string

func parents(objects []core.Event) tree {
	t := tree{}
	for _, ev := range objects {
		switch ev := ev.(type) {
		case core.QueueSet:
			t[member{ev.Queue.Name, true}] = ev.Queue.Cohort
		case core.CohortSet:
			t[member{ev.Cohort.Name, false}] = ev.Cohort.Parent
		default:
		}
	}
	return t
}

// root is the top of the tree that a member stands in.
func (t tree) root(m member) member {
	for range len(t) + 2 { // cohorts may form a circle
		p := t[m]
		if p == "" {
			return m
		}
		m = member{name: p}
	}
	return m
}

// podsHold checks that a job holds quota exactly while an unfinished pod of it
// exists or may come to exist (P10): not shorter, and not longer than controllers
// need to see that it ended and to write so.
func (a *Auditor) podsHold(r *Run, j *job) error {
	if j.admission == nil && j.holds() {
		return fmt.Errorf(
			"P10: %s has no quota, and its pods exist or may come to exist (%+v, %d pods)",
			j.spec.Key,
			j.maker,
			len(j.pods),
		)
	}
	if err := a.endInTime(r, j); err != nil {
		return err
	}
	if leaves := j.evicting || j.doomed || j.finishing; j.admission == nil || !leaves || j.holds() {
		j.due = -1
		return nil
	}
	if j.due < 0 {
		j.due = r.now
	}
	model := &r.world.Cluster
	most := int64(20*(model.Write.Max+model.Observe.Max) + time.Second)
	most += int64(r.world.Cluster.KeepNodes) // it keeps it that long if its nodes failed
	if d := r.now - j.due; d > most {
		return fmt.Errorf("P10: %s holds quota for %s after its last pod (evicted: %t, deleted: %t, finished: %t)",
			j.spec.Key, time.Duration(d), j.evicting, j.doomed, j.finishing)
	}
	return nil
}

// endInTime checks that pods that were deleted go on for no longer than any may, and than the controllers
// need to say so (P10): whoever waits for their quota waits for that.
func (a *Auditor) endInTime(r *Run, j *job) error {
	most := r.world.Lifecycle.LongestEnd
	if most <= 0 {
		return nil
	}
	most += 10*r.world.Cluster.Write.Max + time.Second
	for _, p := range j.pods {
		if d := time.Duration(r.now - p.deleted); p.Deleting && p.HoldsPlace() && d > most {
			return fmt.Errorf(
				"P10: pod %s was deleted %s ago and goes on, which none may for longer than %s",
				p.Name,
				d,
				r.world.Lifecycle.LongestEnd,
			)
		}
	}
	return nil
}

// wakes checks that a job which is on its way somewhere has something that wakes
// it (P11): a controller that looks now finds nothing to do, or one is about to look.
func (a *Auditor) wakes(r *Run, j *job) error {
	leaves := j.evicting || j.doomed || j.finishing
	if j.seen.awaited > 0 || j.reconciling || j.object.Gone() || (!leaves && a.moments%everyWorkload != 0) {
		return nil
	}
	for i := range r.queue.items {
		if x := &r.queue.items[i]; x.job == j && x.kind == doCollect {
			return nil
		}
	}
	if j.finishing && !j.seen.holds() && !j.doomed {
		return fmt.Errorf("P11: %s has finished, and no controller is going to look at it", j.spec.Key)
	}
	if why := j.object.Stranded(r.workloads().observationOf(j)); why != "" {
		return fmt.Errorf("P11: nothing wakes %s: %s", j.spec.Key, why)
	}
	return nil
}
