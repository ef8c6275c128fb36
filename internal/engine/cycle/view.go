package cycle

import (
	"iter"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// View is an engine that can only be read, by questions (package inquiry). What it gives are values,
// to be read as well: nothing by which a later decision could be changed.
type View struct{ engine *Engine }

// View lets the engine be read. A view is of the engine as it is, and not as it was.
func (e *Engine) View() View { return View{e} }

// Stage is where a workload stands, "" if the engine does not know it.
func (v View) Stage(k core.Key) core.Stage {
	w := v.engine.workloads[k]
	if w == nil {
		return ""
	}
	return w.stage()
}

func (w *workload) stage() core.Stage {
	switch w.State() {
	case reserved:
		return core.StagePromised
	case running:
		return core.StageRunning
	case leaving:
		return core.StageLeaving
	case waiting:
	}
	return core.StageWaiting
}

// Told is a workload as the next that is observed of it would tell, were it as the engine has it;
// false if the engine does not know it.
func (v View) Told(k core.Key) (core.Workload, bool) {
	w := v.engine.workloads[k]
	if w == nil {
		return core.Workload{}, false
	}
	d := w.obs.details()
	out := core.Workload{
		Key:            w.Key,
		UID:            w.UID,
		Job:            w.obs.job,
		Endless:        w.obs.endless,
		Queue:          w.localQueue.key.name,
		Priority:       w.Priority,
		QueueTime:      time.Unix(0, w.Time),
		PodSets:        w.equivalence.podSets,
		PreemptionGate: w.equivalence.gate,
		Held:           d.held,
		Invalid:        d.invalid,
		GatedBy:        d.gatedBy,
		NotBefore:      d.notBefore,
		MinimumRuntime: d.minimum,
		Seq:            max(w.seq, w.applied) + 1,
	}
	if w.relocated != 0 {
		out.Relocated = time.Unix(w.relocated, 0)
	}
	if w.State() == running || w.State() == leaving {
		out.Admission, out.Reserved, out.Admitted, out.Ready = w.admission, time.Unix(
			w.Reserved,
			0,
		), w.obs.admitted, w.obs.ready
		out.Evicting, out.Settled, out.Ended = w.State() == leaving || w.Interrupted, d.settled, d.ended
		if w.Interrupted {
			out.Interruption = max(d.interruption, core.InterruptedStopping)
		}
	}
	return out, true
}

// Promised is what a workload gets once those have gone whom it waits for or, if it is to go elsewhere, its own pods; false
// if it was promised nothing.
func (v View) Promised(k core.Key) (core.Admission, bool) {
	switch w := v.engine.workloads[k]; {
	case w == nil:
	case w.State() == reserved && w.admission != nil:
		return *w.admission, true
	case w.relocation != nil:
		return *w.relocation.admission, true
	}
	return core.Admission{}, false
}

// Held are the nodes on which something is held for workloads that start there once others are gone, or they themselves
// have stopped elsewhere, by name.
func (v View) Held() []string {
	ad := v.engine.admissions
	var out []string
	add := func(a *core.Admission) {
		for i := range a.PodSets {
			for _, p := range a.PodSets[i].Places {
				out = append(out, p.Node)
			}
		}
	}
	for _, r := range ad.reservations {
		add(r.workload.admission)
	}
	for _, w := range ad.leaving {
		if w.relocation != nil {
			add(w.relocation.admission)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Leaving are the workloads that were evicted and still hold something, the first that was first.
func (v View) Leaving() []core.Key { return keysOf(v.engine.admissions.leaving) }

// Waiting are the workloads that are not admitted, in no order that means something, but always the
// same.
func (v View) Waiting() []core.Key {
	var out []core.Key
	for _, w := range v.engine.byID {
		if w != nil && (w.State() == waiting || w.State() == reserved) {
			out = append(out, w.Key)
		}
	}
	return out
}

// Unconfirmed reports whether an admission that was decided was not seen in the API yet.
func (v View) Unconfirmed() bool {
	for _, w := range v.engine.byID {
		if w != nil && w.assumed() {
			return true
		}
	}
	return false
}

// Queue is a ClusterQueue as it was told; false if it is not defined.
func (v View) Queue(name string) (core.Queue, bool) {
	q := v.engine.queues[name]
	if q == nil || q.spec == nil {
		return core.Queue{}, false
	}
	return *q.spec, true
}

// LocalQueue is a LocalQueue as it was told; false if it is not defined.
func (v View) LocalQueue(namespace, name string) (core.LocalQueue, bool) {
	d := v.engine.localQueues[localQueueKey{namespace, name}]
	if d == nil || d.spec == nil {
		return core.LocalQueue{}, false
	}
	return *d.spec, true
}

// Flavor is a flavor as it was told; false if it is not defined.
func (v View) Flavor(name string) (core.Flavor, bool) {
	f := v.engine.flavors[name]
	if f == nil {
		return core.Flavor{}, false
	}
	return f.spec, true
}

// Node is a node as it was told; false if there is none.
func (v View) Node(name string) (core.Node, bool) {
	n := v.engine.nodes.Get(name)
	if n == nil || n.Spec() == nil {
		return core.Node{}, false
	}
	return *n.Spec(), true
}

// Shares reports whether fair sharing is on.
func (v View) Shares() bool { return v.engine.Shares() }

// Quota is how a queue stands with one of its quotas once all who leave are gone, and all who were
// promised something have it; nothing where it has none and uses none.
func (v View) Quota(queue string, of core.FlavorResource) core.QuotaUse {
	out := core.QuotaUse{Queue: queue, FlavorResource: of}
	q := v.engine.queues[queue]
	if q == nil {
		return out
	}
	for _, p := range v.engine.forest.PairsOf(q.node) {
		if v.engine.forest.Name(p) == of {
			out.Nominal, out.Used, out.Borrowed = q.node.Nominal(
				p,
			), q.node.Usage(
				core.Projected,
				p,
			), q.node.Borrowed(
				core.Projected,
				p,
			)
		}
	}
	return out
}

// Stages are where all workloads stand, in the order of Waiting.
func (v View) Stages() iter.Seq2[core.Key, core.Stage] {
	return func(yield func(core.Key, core.Stage) bool) {
		for _, w := range v.engine.byID {
			if w != nil && !yield(w.Key, w.stage()) {
				return
			}
		}
	}
}
