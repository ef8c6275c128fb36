package sim

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Rules of a cluster that the engine is not told: nodes that refuse a job's pods when these are to
// start there. What stands for the scheduler says so, and the controllers call the plan back.

// lapses is after how long the controllers may have nodes asked again that did not change: ten
// minutes, of which the API writes down whole seconds.
const lapses = 10*time.Minute - time.Second

// refusalState is what became of a job by such rules.
type refusalState struct {
	// refused are the nodes that refuse what is planned there, since when.
	refused   []core.NodeRefusal
	refusedAt int64
	// answered is when the controllers wrote down that a node takes so few, by node.
	answered map[core.NodeRefusal]int64
}

// refuses reports whether planned nodes refuse a job that is about to start. Those that the
// controllers know of may not be planned again (P2).
func (r *Run) refuses(j *job) bool {
	j.refused = nil
	if j.object == nil || r.podLife().hasPods() || r.now > int64(j.spec.Submit+j.spec.RefusingFor) {
		return false
	}
	for _, hidden := range j.spec.Refusing {
		if core.PodsOn(j.admission.PodSets[0].Places, hidden.Node) <= hidden.Most {
			continue
		}
		if at, known := j.answered[hidden]; known && r.now-at < int64(lapses) {
			r.fail(
				fmt.Errorf(
					"P2: %s is planned again on node %s, which takes %d of its pods and said so",
					j.spec.Key,
					hidden.Node,
					hidden.Most,
				),
			)
		}
		j.refused = append(j.refused, hidden)
	}
	if j.refusedAt = r.now; len(j.refused) > 0 {
		r.queue.push(
			item{at: r.now + int64(time.Second) + 1, kind: doRequeue, job: j, gen: r.cluster.process},
		) // to look by then
		r.workloads().enqueue(j)
	}
	return len(j.refused) > 0
}

// withdrawn notes that the controllers called back a plan whose nodes refuse the job, or that they
// were told of it when they called the plan back for another reason.
func (r *Run) withdrawn(j *job, f Observation) {
	if len(f.Refused) == 0 || !j.object.Workload().Evicting {
		return
	}
	if j.answered == nil {
		j.answered = map[core.NodeRefusal]int64{}
	}
	for _, x := range f.Refused {
		j.answered[x] = r.now
	}
}

// heldInVain checks that no job keeps quota for nodes that refuse it (P11).
func (r *Run) heldInVain(j *job) error {
	if len(j.refused) > 0 && j.state == starting && !j.evicting && !j.reconciling &&
		r.now-j.refusedAt > int64(time.Second) {
		return fmt.Errorf(
			"P11: %s holds quota, and nodes have refused it for %v",
			j.spec.Key,
			time.Duration(r.now-j.refusedAt),
		)
	}
	return nil
}
