package quota

import (
	"math/bits"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Mode is how well a flavor suits a workload, worst first.
type Mode uint8

const (
	// NoFit means never, or not before other workloads end.
	NoFit Mode = iota
	// NoCandidates means evicting could help, but no workload may be evicted.
	NoCandidates
	// Preempt means evicting workloads of the own queue, and perhaps others, helps.
	Preempt
	// Reclaim means evicting workloads of other queues helps.
	Reclaim
	// Await means it fits once evictions under way are done.
	Await
	// Fit means it fits now.
	Fit
)

// Request is what one pod set takes from one resource group: all from one flavor.
type Request struct {
	Set     int    // index of the pod set
	PodSet  string // its name
	Options []Option
}

// Option is one flavor that could serve a Request.
type Option struct {
	Flavor string
	// Bad is set when the flavor can never serve the pod set: an untolerated
	// taint or a mismatch of affinity, with Detail.
	Bad    core.Cause
	Detail string
	// Uses are the amounts, one per requested resource of the group.
	Uses []Use
}

// CompiledRequests is a workload's requests, compiled for one queue.
type CompiledRequests struct {
	Queue       *Node
	Requests    []Request
	Fungibility core.Fungibility
	// Reclaims is true if the queue may evict while it borrows, so that flavors
	// above its nominal quota are worth a search for victims.
	Reclaims bool
}

// Oracle answers what the quota tree cannot: which workloads to evict and which nodes fit.
type Oracle interface {
	// Victims searches workloads whose eviction makes room for an amount of one
	// pair: NoCandidates, Preempt or Reclaim, and the borrowing level afterwards.
	Victims(p FlavorResource, need core.Amount) (Mode, int)
	// Nodes says whether nodes of the option's flavor hold the ask's pod set:
	// NoFit, NoCandidates, Preempt, Await or Fit. The reason is for all but Fit.
	Nodes(ask, option int) (Mode, core.Reason)
}

// Assignment is the outcome of Assign. It is reused from call to call.
type Assignment struct {
	// Mode is the worst over all asks; Level the highest borrowing level.
	Mode  Mode
	Level int
	// Chosen is the option per ask, up to the first that nothing serves, which has -1.
	Chosen []int
	// Uses is the sum over all asks, each pair once.
	Uses []Use
	// Short are the pairs that need an eviction.
	Short []FlavorResource
	// Why explains a Mode below Fit.
	Why core.Reason
}

// Advance excludes the combination of options that was chosen: the last ask that
// has another option takes it, and those after it begin anew. It reports whether
// there is one.
func (a *Assignment) Advance(p *CompiledRequests, tried []uint64) bool {
	last := len(a.Chosen) - 1
	if a.Mode == NoFit {
		last-- // nothing serves the last ask, whatever is left out
	}
	for i := last; i >= 0; i-- {
		if a.Chosen[i] >= 0 && a.Chosen[i] < 64 {
			tried[i] |= 1 << a.Chosen[i]
			if n := len(p.Requests[i].Options); bits.OnesCount64(tried[i]) < min(n, 64) {
				clear(tried[i+1:])
				return true
			}
		}
	}
	return false
}

// used returns what earlier asks take of a pair.
func (a *Assignment) used(p FlavorResource) core.Amount {
	for _, u := range a.Uses {
		if u.Pair == p {
			return u.Amount
		}
	}
	return 0
}

func (a *Assignment) use(u Use) {
	for i := range a.Uses {
		if a.Uses[i].Pair == u.Pair {
			a.Uses[i].Amount = a.Uses[i].Amount.Add(u.Amount)
			return
		}
	}
	a.Uses = append(a.Uses, u)
}

func (a *Assignment) short(p FlavorResource) {
	if slices.Contains(a.Short, p) {
		return
	}
	a.Short = append(a.Short, p)
}

// Assign chooses a flavor for every ask, one ask after the other. tried are the
// options per ask to leave out, as a set of bits; nil means none. It stops at the
// first ask that nothing serves; those after it count for the reason only.
func (f *Forest) Assign(p *CompiledRequests, tried []uint64, sc Oracle, a *Assignment) {
	a.Mode, a.Level = Fit, 0
	a.Chosen = a.Chosen[:0]
	a.Uses, a.Short = a.Uses[:0], a.Short[:0]
	a.Why = core.Reason{}
	for i := range p.Requests {
		var leave uint64
		if tried != nil {
			leave = tried[i]
		}
		best := f.pick(p, i, leave, sc, a)
		if best.mode == NoFit {
			best.option = -1 // the one that failed first is not what the reason is about
		}
		a.Chosen = append(a.Chosen, best.option)
		if best.mode < a.Mode || (best.mode == a.Mode && graver(best.why, a.Why)) {
			a.Mode, a.Why = best.mode, best.why
		}
		if best.mode == NoFit {
			f.lookAhead(p, i+1, sc, a)
			return
		}
		a.Level = max(a.Level, best.level)
		for _, u := range p.Requests[i].Options[best.option].Uses {
			if best.mode != Fit && a.Mode != Fit {
				f.markShort(p.Queue, u, a)
			}
			a.use(u)
		}
	}
}

// lookAhead makes it known if an ask that was not judged can never be served: asks
// are needed all, so the gravest of what stands in their way is told.
func (f *Forest) lookAhead(p *CompiledRequests, from int, sc Oracle, a *Assignment) {
	for i := from; i < len(p.Requests); i++ {
		if why, never := f.never(p, i, sc, a); never && graver(why, a.Why) {
			a.Why = why
		}
	}
}

// never reports that no flavor can ever serve an ask, and why the one that comes
// closest cannot.
func (f *Forest) never(p *CompiledRequests, ask int, sc Oracle, a *Assignment) (core.Reason, bool) {
	var mildest core.Reason
	k := &p.Requests[ask]
	for i := range k.Options {
		why, bad := k.unfit(i)
		for _, u := range k.Options[i].Uses {
			if exceeds, yes := f.exceeds(p.Queue, u, a); yes && !bad {
				why, bad = exceeds, true
				why.PodSet = k.PodSet
			}
		}
		if !bad {
			mode, nodes := sc.Nodes(ask, i)
			if mode != NoFit {
				return core.Reason{}, false
			}
			why = nodes
		}
		if i == 0 {
			mildest = why
		}
		mildest = milder(mildest, why)
	}
	return mildest, true
}

// markShort notes a pair that has no room for u on top of what a uses already,
// even after the evictions under way.
func (f *Forest) markShort(n *Node, u Use, a *Assignment) {
	val := u.Amount.Add(a.used(u.Pair))
	if val > n.Room(core.Projected, u.Pair) {
		a.short(u.Pair)
	}
}

// graded is one option, judged.
type graded struct {
	option int
	mode   Mode
	level  int
	why    core.Reason
}

// pick tries the options of one ask in order, but for those to leave out, until
// one is good enough to stop.
func (f *Forest) pick(p *CompiledRequests, ask int, leave uint64, sc Oracle, a *Assignment) graded {
	best := graded{option: -1, mode: NoFit}
	for i := range p.Requests[ask].Options {
		if i < 64 && leave&(1<<i) != 0 {
			continue
		}
		g := f.grade(p, ask, i, sc, a)
		if stop(g, p.Fungibility) {
			return g
		}
		switch {
		case best.option < 0:
			best = g
		case prefer(g, best, p.Fungibility):
			best = g
		case best.mode == NoFit:
			best.why = milder(best.why, g.why)
		}
	}
	return best
}

// Enough is the fungibility rule: whether an assignment with this outcome is taken
// without looking on.
func (p *CompiledRequests) Enough(m Mode, level int) bool {
	return stop(graded{mode: m, level: level}, p.Fungibility)
}

// Prefers reports whether one outcome is better than another.
func (p *CompiledRequests) Prefers(m Mode, level int, than Mode, thanLevel int) bool {
	return prefer(graded{mode: m, level: level}, graded{mode: than, level: thanLevel}, p.Fungibility)
}

// stop is the fungibility rule: whether to take the flavor without looking on.
func stop(g graded, f core.Fungibility) bool {
	switch {
	case g.mode <= NoCandidates:
		return false
	case g.mode < Fit && f.PreemptTriesNext:
		return false
	case g.level > 0 && f.BorrowTriesNext:
		return false
	}
	return true
}

// prefer reports whether a is better than b.
func prefer(a, b graded, f core.Fungibility) bool {
	if a.mode == NoFit || b.mode == NoFit {
		return a.mode > b.mode
	}
	if (a.mode == NoCandidates) != (b.mode == NoCandidates) {
		return a.mode > b.mode
	}
	if f.PreferPreemption {
		if a.level != b.level {
			return a.level < b.level
		}
		return a.mode > b.mode
	}
	if a.mode != b.mode {
		return a.mode > b.mode
	}
	return a.level < b.level
}

// milder returns the less severe of two reasons, the first if they are equal:
// flavors are alternatives, so the one closest to success explains best.
func milder(a, b core.Reason) core.Reason {
	if graver(a, b) {
		return b
	}
	return a
}

// graver reports whether a is more severe than b. Of what a workload needs all of,
// the gravest shortage is told.
func graver(a, b core.Reason) bool { return severity(a) > severity(b) }

// severity is higher the longer a reason stands, and the less comes of ending another first:
// what a pod must have, what the queue may have, what nodes hold, which come and go without
// anyone's doing, and last what others use.
func severity(r core.Reason) int {
	switch {
	case r.Code == core.NoMatchingFlavor:
		return 4
	case r.Code == core.ExceedsMaxQuota:
		return 3
	case Permanent(r):
		return 2
	case r.Code == core.WaitingForQuota:
		return 1
	}
	return 0
}

// Permanent reports whether a reason to wait stands as long as quotas, flavors and
// nodes are what they are: no end of another workload would help.
func Permanent(r core.Reason) bool {
	switch r.Code {
	case core.NoMatchingFlavor, core.ExceedsMaxQuota:
		return true
	case core.TopologyPlacementFailed:
		return !r.Cause.Passes()
	default:
		return false
	}
}

// grade judges one option: eligibility, then quota per resource, then nodes.
func (f *Forest) grade(p *CompiledRequests, ask, option int, sc Oracle, a *Assignment) graded {
	k := &p.Requests[ask]
	o := &k.Options[option]
	g := graded{option: option, mode: Fit}
	if why, bad := k.unfit(option); bad {
		g.mode, g.why = NoFit, why
		return g
	}
	for _, u := range o.Uses {
		mode, level, why := f.gradeUse(p, u, sc, a)
		if mode < g.mode || (mode == g.mode && graver(why, g.why)) {
			g.mode, g.why = mode, why
			g.why.PodSet = k.PodSet
		}
		if mode == NoFit && why.Code == core.ExceedsMaxQuota {
			return g
		}
		g.level = max(g.level, level)
	}
	// Nodes that could never hold it are worth saying even if quota is short too.
	if mode, why := sc.Nodes(ask, option); mode < g.mode || (mode == NoFit && g.mode == NoFit) {
		g.mode, g.why = mode, why
	}
	return g
}

// unfit says why a flavor does not suit the pods of an ask, whatever is free.
func (k *Request) unfit(option int) (core.Reason, bool) {
	o := &k.Options[option]
	return core.Reason{
		Code:   core.NoMatchingFlavor,
		Cause:  o.Bad,
		PodSet: k.PodSet,
		Flavor: o.Flavor,
		Detail: o.Detail,
	}, o.Bad != ""
}

// exceeds says that a use, with what earlier asks take, is more than the queue could
// ever have.
func (f *Forest) exceeds(n *Node, u Use, a *Assignment) (core.Reason, bool) {
	val := u.Amount.Add(a.used(u.Pair))
	if val <= n.Limit(u.Pair) {
		return core.Reason{}, false
	}
	why := f.shortage(n, u.Pair, val, 0)
	why.Code, why.Cause = core.ExceedsMaxQuota, ""
	return why, true
}

// gradeUse judges one resource of an option against the tree.
func (f *Forest) gradeUse(p *CompiledRequests, u Use, sc Oracle, a *Assignment) (Mode, int, core.Reason) {
	n := p.Queue
	val := u.Amount.Add(a.used(u.Pair))
	level, reclaim := n.Level(core.Projected, u.Pair, val)
	then := n.Room(core.Projected, u.Pair)
	now := n.Room(core.Current, u.Pair)
	if val <= then && val <= now {
		return Fit, level, core.Reason{}
	}
	if why, yes := f.exceeds(n, u, a); yes {
		return NoFit, level, why
	}
	why := f.shortage(n, u.Pair, val, min(then, now))
	if val <= then {
		return Await, level, why
	}
	if p.bars(u.Pair, val, reclaim) {
		return NoFit, level, why
	}
	mode, level := sc.Victims(u.Pair, val)
	return mode, level, why
}

// bars reports whether no workload may be evicted for so much of a pair, not even one of the own
// queue: it is more than the queue's nominal quota, no cohort below the root owns the rest
// (reclaim), and the queue may not evict while it borrows.
func (p *CompiledRequests) bars(pair FlavorResource, val core.Amount, reclaim bool) bool {
	return p.Queue.Nominal(pair) < val && !reclaim && !p.Reclaims
}

// Barred reports whether some of the uses do not fit, and no workload may be evicted for them
// because of what is above the nominal quota of the queue.
func (p *CompiledRequests) Barred(uses []Use) bool {
	return slices.ContainsFunc(uses, func(u Use) bool {
		_, reclaim := p.Queue.Level(core.Projected, u.Pair, u.Amount)
		return u.Amount > p.Queue.Room(core.Projected, u.Pair) && p.bars(u.Pair, u.Amount, reclaim)
	})
}

func (f *Forest) shortage(n *Node, p FlavorResource, need, have core.Amount) core.Reason {
	fr := f.names[p]
	return core.Reason{
		Code: core.WaitingForQuota, Cause: core.QuotaShort, Queue: n.Name, Tree: n.parentName,
		Flavor: fr.Flavor, Resource: fr.Resource, Need: need, Have: have, Limit: max(0, n.Limit(p)),
		Cut: n.Cut(p), TreeCut: n.root.Cut(p),
	}
}
