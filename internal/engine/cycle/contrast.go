package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Contrast says how a workload that waits stands to another one, and not what would become of it
// were that one not there. It is false as Facts is.
func (v View) Contrast(k, other core.Key) (out core.Comparison, waits bool) {
	q := v.engine.ask()
	defer q.end()
	w := q.waits(k)
	if w == nil {
		return core.Comparison{}, false
	}
	o := q.workloads[other]
	out.Waits = q.facts(w).Explanation
	var asked, others []core.FlavorAmount
	if !q.unsettled() {
		asked = q.amounts(q.asked(w))
		if o != nil {
			others = q.amounts(q.asked(o))
			if w.group != nil {
				q.standoff(w, o, &out)
			}
		}
	}
	out.Self, out.Other = q.contestant(w, asked), core.Contestant{Key: other}
	if o != nil {
		out.Other = q.contestant(o, others)
		q.rank(w, o, &out)
	}
	return out, true
}

// contestant is a workload that is compared, and asks for so much if it holds nothing.
func (q *question) contestant(w *workload, asks []core.FlavorAmount) core.Contestant {
	out := core.Contestant{
		Key:      w.Key,
		UID:      w.UID,
		Queue:    q.queueOf(w),
		Priority: w.Priority,
		Time:     time.Unix(0, w.Time),
		Stage:    w.stage(),
	}
	if out.Stage == core.StageWaiting {
		out.Uses = asks
		return out
	}
	if out.Stage != core.StagePromised && w.Reserved > 0 {
		out.Reserved = time.Unix(w.Reserved, 0)
	}
	out.Queue, out.Uses = q.byNode[w.Queue.ID].name, q.amounts(w.Uses)
	return out
}

// asked is what a workload that waits in a queue would use with the flavors that look best or,
// where none does, with the first that could ever serve it.
func (q *question) asked(w *workload) []quota.Use {
	if w.group == nil {
		return nil
	}
	q.judge.verdict(w)
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
func (q *question) amounts(uses []quota.Use) []core.FlavorAmount {
	var out []core.FlavorAmount
	for _, u := range uses {
		if u.Amount > 0 {
			out = append(out, core.FlavorAmount{FlavorResource: q.forest.Name(u.Pair), Amount: u.Amount})
		}
	}
	slices.SortFunc(out, func(a, b core.FlavorAmount) int { return a.Compare(b.FlavorResource) })
	return out
}

// rank says which of two workloads of one queue stands first there, and why.
func (q *question) rank(w, o *workload, out *core.Comparison) {
	its := w.localQueue.queue
	if its == nil || o.localQueue.queue != its {
		return
	}
	out.Strict, out.OtherFirst = its.strict(), o.Before(w)
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
	pairs := concerned(uses)
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
	return core.SideShare{
		Name:     n.Name,
		IsCohort: !n.Queue,
		Weight:   n.Weight(),
		Now:      x.Before[i].Value(),
		Then:     x.After[i].Value(),
	}
}

// concerned are the pairs that a comparison shows: all that would be used.
func concerned(uses []quota.Use) []quota.FlavorResource {
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
			Queue:          of.name,
			FlavorResource: q.forest.Name(p),
			Nominal: of.node.Nominal(
				p,
			),
			Used:     of.node.Usage(core.Current, p),
			Borrowed: of.node.Borrowed(core.Current, p),
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
