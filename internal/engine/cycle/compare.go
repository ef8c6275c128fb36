package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Compare says how a workload that waits stands to another one, and what would become of it
// were that one not there. waits is false as for Explain; look and now are as there. It
// changes nothing.
func Compare(look func(func(*Engine)) error, k, other core.Key, now time.Time) (out core.Comparison, waits bool, err error) {
	var c *inquiry
	if err := look(func(e *Engine) { c, waits = e.contrast(k, other, now, &out) }); err != nil || !waits {
		return core.Comparison{}, false, err
	}
	out.Gone = c.without(other)
	return out, true, nil
}

// Compare is Compare of this engine.
func (e *Engine) Compare(k, other core.Key, now time.Time) (core.Comparison, bool) {
	out, waits, _ := Compare(func(ask func(*Engine)) error { ask(e); return nil }, k, other, now)
	return out, waits
}

// contrast finds out how two workloads stand to each other, and copies what matters; false if
// the first does not wait.
func (e *Engine) contrast(k, other core.Key, now time.Time, out *core.Comparison) (*inquiry, bool) {
	c := &inquiry{key: k, at: now, opt: e.opt}
	c.opt.Budget, c.opt.StabilizationWindow = 0, 0
	var waits bool
	out.Waits, waits = e.explain(k, now, func(q *question, w *workload, _ core.Reason) {
		out.Self.Uses = q.amounts(q.asked(w))
		c.copied = q.excerpt(w, manyAlike)
		if o := e.workloads[other]; o != nil {
			out.Other.Uses = q.amounts(q.asked(o))
			if w.group != nil {
				q.standoff(w, o, out)
			}
		}
	})
	if !waits {
		return nil, false
	}
	w, o := e.workloads[k], e.workloads[other]
	out.Self = e.contestant(w, out.Self.Uses)
	if o == nil {
		out.Other = core.Contestant{Key: other}
	} else {
		out.Other = e.contestant(o, out.Other.Uses)
		e.rank(w, o, out)
	}
	c.found = out.Waits
	return c, true
}

// contestant is a workload that is compared, and asks for so much if it holds nothing.
func (e *Engine) contestant(w *workload, asks []core.FlavorAmount) core.Contestant {
	out := core.Contestant{Key: w.Key, UID: w.UID, Queue: e.queueOf(w), Priority: w.Priority, Time: time.Unix(0, w.Time)}
	switch w.State() {
	case waiting:
		out.Stage, out.Uses = core.StageWaiting, asks
		return out
	case reserved:
		out.Stage = core.StagePromised
	case running:
		out.Stage = core.StageRunning
	case leaving:
		out.Stage = core.StageLeaving
	}
	if out.Stage != core.StagePromised && w.Reserved > 0 {
		out.Reserved = time.Unix(w.Reserved, 0)
	}
	out.Queue, out.Uses = e.byNode[w.Queue.ID].name, e.amounts(w.Uses)
	return out
}

// asked is what a workload that waits in a queue would use with the flavors that look best or,
// where none does, with the first that could ever serve it.
func (q *question) asked(w *workload) []quota.Use {
	if w.group == nil {
		return nil
	}
	q.verdict(w)
	plan, chosen := q.judge.compile(w.group), q.judge.assigned.Chosen
	var out []quota.Use
	for i := range plan.Requests {
		options := plan.Requests[i].Options
		at := slices.IndexFunc(options, func(o quota.Option) bool { return o.Bad == "" })
		if i < len(chosen) && chosen[i] >= 0 && chosen[i] < len(options) {
			at = chosen[i]
		}
		if at < 0 {
			continue
		}
		for _, u := range options[at].Uses {
			out = addUse(out, u)
		}
	}
	return out
}

// amounts are uses by name, sorted.
func (e *Engine) amounts(uses []quota.Use) []core.FlavorAmount {
	var out []core.FlavorAmount
	for _, u := range uses {
		if u.Amount > 0 {
			out = append(out, core.FlavorAmount{FlavorResource: e.forest.Name(u.Pair), Amount: u.Amount})
		}
	}
	slices.SortFunc(out, func(a, b core.FlavorAmount) int { return a.Compare(b.FlavorResource) })
	return out
}

// rank says which of two workloads of one queue stands first there, and why.
func (e *Engine) rank(w, o *workload, out *core.Comparison) {
	q := w.localQueue.queue
	if q == nil || o.localQueue.queue != q {
		return
	}
	out.Strict, out.OtherFirst = q.strict(), o.Before(w)
	a, b := w.localQueue.stands, o.localQueue.stands
	switch {
	case a != nil && b != nil && a != b && a.Compare(*b) != 0:
		out.Order = core.ByPastUsage
	case w.Priority != o.Priority:
		out.Order = core.ByPriority
	case w.Time != o.Time:
		out.Order = core.ByTime
	default:
		out.Order = core.ByName
	}
}

// standoff says what quotas two workloads have to do with, and why the other is not evicted.
func (q *question) standoff(w, o *workload, out *core.Comparison) {
	from := w.group.queue
	to := o.localQueue.queue
	holds := o.State() == running || o.State() == leaving
	if holds {
		to = q.byNode[o.Queue.ID]
	}
	plan, uses := q.judge.compile(w.group), q.asked(w)
	pairs := q.concerned(out.Waits.Reason, uses)
	out.Quotas = append(out.Quotas, q.quotas(from, pairs)...)
	if to == nil {
		out.Spared = core.SparedNotRunning
		return
	}
	if to != from {
		out.Quotas = append(out.Quotas, q.quotas(to, pairs)...)
		out.Cohort = commonCohort(from.node, to.node)
	}
	var against preempt.Standoff
	switch {
	case o.State() == running:
		r := q.judge.request(w, uses, possible(plan), nil)
		against = q.judge.search.Against(r, &o.Candidate)
		out.Spared, out.Policy = against.Rule, against.Policy
		if out.Spared == "" && plan.Barred(uses) {
			out.Spared = core.SparedByBorrowing
		}
		if gate := w.equivalence.gate; out.Spared == "" && gate != "" {
			out.Spared = core.SparedByGate
		}
	case to.node.Root() != from.node.Root():
		out.Spared = core.SparedApart
	default:
		out.Spared = core.SparedNotRunning
	}
	if q.opt.FairSharing != nil && against.Mine != nil {
		out.Shares = []core.SideShare{sideShare(against, 0), sideShare(against, 1)}
	}
}

func sideShare(x preempt.Standoff, i int) core.SideShare {
	n := []*quota.Node{x.Mine, x.Theirs}[i]
	return core.SideShare{Name: n.Name, IsCohort: !n.Queue, Weight: n.Weight(), Now: x.Before[i].Value(), Then: x.After[i].Value()}
}

// concerned are the pairs that a comparison shows: what is short or, if that is not quota, all
// that would be used.
func (q *question) concerned(why core.Reason, uses []quota.Use) []quota.FlavorResource {
	if why.Resource != "" && why.Flavor != "" && (why.LacksQuota() || why.Code == core.ExceedsMaxQuota) {
		return []quota.FlavorResource{q.forest.FlavorResource(why.Flavor, why.Resource)}
	}
	var out []quota.FlavorResource
	for _, u := range uses {
		if u.Amount > 0 {
			out = append(out, u.Pair)
		}
	}
	return out
}

// quotas are those of a queue that are not without meaning there.
func (q *question) quotas(of *queue, pairs []quota.FlavorResource) []core.QuotaUse {
	var out []core.QuotaUse
	for _, p := range pairs {
		u := core.QuotaUse{
			Queue: of.name, FlavorResource: q.forest.Name(p),
			Nominal: of.node.Nominal(p), Used: of.node.Usage(core.Current, p), Borrowed: of.node.Borrowed(core.Current, p),
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b core.QuotaUse) int { return a.Compare(b.FlavorResource) })
	return out
}

// possible are the pairs of all flavors that could ever serve a plan.
func possible(p *compiled) []quota.FlavorResource {
	var out []quota.FlavorResource
	for i := range p.Requests {
		for _, o := range p.Requests[i].Options {
			if o.Bad != "" {
				continue
			}
			for _, u := range o.Uses {
				if u.Amount > 0 && !slices.Contains(out, u.Pair) {
					out = append(out, u.Pair)
				}
			}
		}
	}
	return out
}

// commonCohort is the lowest cohort above both nodes, "" if there is none.
func commonCohort(a, b *quota.Node) string {
	for n := a.Parent(); n != nil; n = n.Parent() {
		for o := b.Parent(); o != nil; o = o.Parent() {
			if o == n {
				return n.Name
			}
		}
	}
	return ""
}

// without says what becomes of the workload that was asked about once another is gone, in the
// copy.
func (c *inquiry) without(other core.Key) (out core.WereGone) {
	if c.copied == nil {
		return out
	}
	e, err := Load(c.opt, c.copied.state)
	if err != nil || e.workloads[other] == nil || other == c.key {
		return out
	}
	t := trial{Engine: e, key: c.key, at: c.at, reserved: e.workloads[c.key].State() == reserved}
	if _, starts := t.starts(); starts {
		shown := !t.ranOut(c.copied, nil)
		return core.WereGone{Tried: shown, Anyway: shown}
	}
	before := t.holding()
	t.Apply(core.WorkloadGone{Key: other})
	out.Preempts, out.Starts = t.starts()
	out.Awaits = out.Starts && t.workloads[c.key].State() == reserved
	if t.ranOut(c.copied, nil) {
		return core.WereGone{}
	}
	out.Tried = true
	for k := range t.holding() { // they are counted, so order does not matter
		if !before[k] && k != c.key {
			out.Instead++
		}
	}
	if !out.Starts {
		out.Why, _ = t.Why(c.key)
		out.Why.Ahead, out.Why.Holders = core.Key{}, nil // they are of the copy
	}
	return out
}

// holding are the workloads that have quota, or a place reserved.
func (t *trial) holding() map[core.Key]bool {
	out := map[core.Key]bool{}
	for k, w := range t.workloads {
		if s := w.State(); s != ledger.Free && s != leaving {
			out[k] = true
		}
	}
	return out
}
