package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Supposed is what would become of a workload that is not there, were it submitted now and
// nothing else happened.
type Supposed struct {
	// Queue is the ClusterQueue that it would stand in, "" if its LocalQueue leads to none.
	Queue string
	// Admission is what it would be given; nil if it would wait.
	Admission *core.Admission
	// Awaits says that it would be given that only once workloads are gone that are being
	// stopped: the ones in Evicts, and the ones that leave already.
	Awaits bool
	// Evicts are the workloads that would be evicted for it, sorted.
	Evicts []core.Key
	// Quotas are those of its queue that it would use, with it, sorted; empty if it would wait.
	Quotas []SupposedQuota
	// Explanation says why it would wait, and what would help; empty if it would not.
	Explanation core.Explanation
}

// SupposedQuota is a quota of a queue and what would be used of it.
type SupposedQuota struct {
	core.FlavorResource
	Nominal, Used, Borrowed core.Amount
}

// Suppose says what would become of a workload. It changes nothing: a copy of the engine is told
// of the workload and decides. look, now and higher are as for Explain.
func Suppose(look func(func(*Engine)) error, w core.Workload, now time.Time, higher []int64) (Supposed, error) {
	var state *State
	var opt Options
	var failed error
	if err := look(func(e *Engine) { state, failed = e.Dump(); opt = e.opt }); err != nil {
		return Supposed{}, err
	}
	if failed != nil {
		return Supposed{}, failed
	}
	opt.Budget, opt.StabilizationWindow = 0, 0
	e, err := Load(opt, state)
	if err != nil {
		return Supposed{}, err
	}
	return e.suppose(w, now, higher), nil
}

// suppose tells this engine, which is a copy, of a workload, and follows it. Admissions are seen as
// soon as they are decided, and what is stopped is gone as soon as nothing else can be decided.
func (e *Engine) suppose(w core.Workload, now time.Time, higher []int64) (out Supposed) {
	w.Created, w.QueueTime, w.Seq = now, now, 0
	e.Decide(now) // what is due without it
	e.Apply(core.WorkloadSet{Workload: w})
	t := trial{Engine: e, key: w.Key, at: now}
	for range mostTurns {
		plan := e.Decide(now)
		for _, d := range plan {
			switch d := d.(type) {
			case core.Evict:
				if d.For == w.Key {
					out.Evicts = append(out.Evicts, d.Key)
				}
			case core.Admit:
				if d.Key == w.Key {
					out.Admission = &d.Admission
				}
				o := e.workloads[d.Key].waits()
				o.Admission, o.Admitted, o.Reserved = &d.Admission, true, now
				e.Apply(core.WorkloadSet{Workload: o})
			case core.Replace, core.Refuse:
			}
		}
		own := e.workloads[w.Key]
		if own == nil || out.Admission != nil {
			break
		}
		if len(plan) == 0 {
			if own.State() != reserved || out.Awaits {
				break
			}
			out.Awaits = true
			t.heed(core.Advice{Kind: core.AwaitLeaving}, nil)
		}
	}
	own := e.workloads[w.Key]
	if own == nil {
		return out
	}
	out.Queue = e.queueOf(own)
	slices.SortFunc(out.Evicts, core.Key.Compare)
	if out.Admission == nil {
		out.Explanation, _ = e.Explain(w.Key, now, higher)
		return out
	}
	out.Quotas = e.supposedQuotas(own.Queue, out.Admission)
	return out
}

// supposedQuotas are the quotas that an admitted workload uses.
func (e *Engine) supposedQuotas(of *quota.Node, given *core.Admission) (out []SupposedQuota) {
	for i := range given.PodSets {
		set := &given.PodSets[i]
		for _, f := range set.Flavors {
			pair := core.FlavorResource{Flavor: f.Flavor, Resource: f.Resource}
			if slices.ContainsFunc(out, func(q SupposedQuota) bool { return q.FlavorResource == pair }) {
				continue
			}
			p := e.forest.FlavorResource(f.Flavor, f.Resource)
			out = append(out, SupposedQuota{pair, of.Nominal(p), of.Usage(core.Projected, p), of.Borrowed(core.Projected, p)})
		}
	}
	slices.SortFunc(out, func(a, b SupposedQuota) int { return a.Compare(b.FlavorResource) })
	return out
}
