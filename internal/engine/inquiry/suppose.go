package inquiry

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
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

// Suppose says what would become of a workload: a copy of the engine is told of it and decides. look,
// now and higher are as for Explain. It fails with cycle.ErrUnsettled while edits wait for a decision.
func Suppose(look Look, w core.Workload, now time.Time, higher []int64) (Supposed, error) {
	var x *cycle.Excerpt
	err := look.ask(func(v cycle.View) (err error) {
		x, err = v.All()
		return err
	})
	if err != nil {
		return Supposed{}, err
	}
	t, err := begin(x, w.Key, now)
	if err != nil {
		return Supposed{}, err
	}
	return t.suppose(w, higher), nil
}

// suppose tells the copy of a workload, and follows it. What is stopped is gone as soon as nothing
// else can be decided.
func (t *trial) suppose(w core.Workload, higher []int64) (out Supposed) {
	w.Created, w.QueueTime, w.Seq = t.at, t.at, 0
	t.engine.Decide(t.at) // what is due without it
	t.observe(w)
	for range mostTurns {
		plan := t.engine.Decide(t.at)
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
				t.see(d)
			case core.Replace, core.Refuse:
			}
		}
		at := t.engine.View().Stage(w.Key)
		if at == "" || out.Admission != nil {
			break
		}
		if len(plan) == 0 {
			if at != core.StagePromised || out.Awaits {
				break
			}
			out.Awaits = true
			t.leave()
		}
	}
	own, is := t.engine.View().Told(w.Key)
	if !is {
		return out
	}
	out.Queue, _ = t.engine.QueueOf(own.Key.Namespace, own.Queue)
	slices.SortFunc(out.Evicts, core.Key.Compare)
	if out.Admission == nil {
		out.Explanation, _, _ = Explain(At(t.engine.View()), w.Key, t.at, higher) // there is an engine
		return out
	}
	out.Quotas = t.quotas(out.Admission)
	return out
}

// quotas are the quotas that an admission uses, with it.
func (t *trial) quotas(given *core.Admission) (out []SupposedQuota) {
	for i := range given.PodSets {
		for _, f := range given.PodSets[i].Flavors {
			pair := core.FlavorResource{Flavor: f.Flavor, Resource: f.Resource}
			if slices.ContainsFunc(out, func(q SupposedQuota) bool { return q.FlavorResource == pair }) {
				continue
			}
			q := t.engine.View().Quota(given.Queue, pair)
			out = append(out, SupposedQuota{pair, q.Nominal, q.Used, q.Borrowed})
		}
	}
	slices.SortFunc(out, func(a, b SupposedQuota) int { return a.Compare(b.FlavorResource) })
	return out
}
