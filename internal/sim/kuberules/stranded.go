package kuberules

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Stranded says what is wrong with a job that no controller is about to look at: it is
// stuck between two states, or it waits for something that cannot happen.
func (p *object) Stranded(f sim.Observation) string {
	w := p.w
	if r := w.Status.RequeueState; r != nil && p.config.PodsReady != nil &&
		p.config.PodsReady.BackoffLimit != nil &&
		ptr.Deref(r.Count, 0) > *p.config.PodsReady.BackoffLimit {
		return fmt.Sprintf(
			"P5: it came back %d times, and %d is the limit",
			*r.Count,
			*p.config.PodsReady.BackoffLimit,
		)
	}
	if n := p.Workload().PodSets[0].Count; (f.Live && n < f.Left) || (w.Status.Admission == nil && n < f.Rest) {
		return fmt.Sprintf(
			"P10: %d pods of its first pod set count, and %d have to run yet (of %d in all)",
			n,
			f.Left,
			f.Rest,
		)
	}
	trial := *p
	trial.w = w.DeepCopy()
	wrote, again := trial.Reconcile(f)
	if wrote && trial.gone {
		return "P6: a controller that starts now would let it go"
	}
	if wrote {
		return fmt.Sprintf("P6: a controller that starts now would change it to %+v", trial.w.Status)
	}
	switch {
	case w.DeletionTimestamp != nil && f.Live:
	case w.DeletionTimestamp != nil:
		return "P11: its job was deleted, no pod holds anything, and it keeps its quota"
	case !again.IsZero() && !f.Watched:
		return "P1: it has to be looked at again at " + again.UTC().String() + ", and will not be"
	case !again.IsZero():
	case w.Status.Admission != nil && convert.Evicted(w) && !f.Live:
		return "P10: it was evicted, its pods are gone, and it keeps its quota"
	case w.Status.Admission != nil && !convert.Evicted(w) && !convert.Admitted(w) && len(p.Asked()) == 0:
		return "P1: it has quota, no check is asked, and it is not admitted"
	case w.Status.Admission != nil || !ptr.Deref(w.Spec.Active, true) || !open(f):
	case p.Workload().Held != "":
		return "P1: it is active, its queue is open, and nothing will ever let it be considered: " + p.Workload().Held
	}
	return ""
}

func open(f sim.Observation) bool {
	return f.Queue != nil && f.LocalQueue != nil && policy(f.Queue.Stop) == nil &&
		policy(f.LocalQueue.Stop) == nil
}
