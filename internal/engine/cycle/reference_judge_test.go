package cycle_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Modes of a flavor, worst first, as in docs/queueing.md, "Which flavor", and "await" for what
// fits once evictions under way are done.
const (
	mNoFit = iota
	mNoCandidates
	mPreempt
	mReclaim
	mAwait
	mFit
)

// refAsk is a pod set's share of a resource group.
type refAsk struct {
	set     int
	flavors []string
	need    []map[fr]core.Amount // per flavor
	bad     []bool
}

type refAssign struct {
	mode, level int
	chosen      []int
	uses        map[fr]core.Amount
	short       map[fr]bool
}

func (r *reference) asks(w *refWorkload) (asks []refAsk, ok bool) {
	q := r.queues[w.queue]
	for i, p := range w.PodSets {
		req := p.Counted().Times(int64(p.Count))
		for _, g := range q.Groups {
			if slices.Contains(g.Covered, core.Pods) {
				req = req.With(core.Pods, core.Amount(p.Count))
			}
		}
		seen := map[int]bool{}
		for _, x := range req {
			gi := slices.IndexFunc(
				q.Groups,
				func(g core.ResourceGroup) bool { return slices.Contains(g.Covered, x.Resource) },
			)
			if gi < 0 && x.Amount > 0 && !r.ignoreUndeclared {
				return nil, false
			}
			if gi < 0 || seen[gi] {
				continue
			}
			seen[gi] = true
			a := refAsk{set: i}
			for _, f := range q.Groups[gi].Flavors {
				need := map[fr]core.Amount{}
				for _, y := range req {
					if slices.Contains(q.Groups[gi].Covered, y.Resource) {
						need[fr{Flavor: f.Flavor, Resource: y.Resource}] = y.Amount
					}
				}
				_, bad := core.Untolerated(r.flavors[f.Flavor].Taints, p.Filter.Tolerations)
				a.flavors, a.need, a.bad = append(a.flavors, f.Flavor), append(a.need, need), append(a.bad, bad)
			}
			asks = append(asks, a)
		}
	}
	return asks, true
}

func (r *reference) assign(w *refWorkload, asks []refAsk, tried []map[int]bool) refAssign {
	a := refAssign{mode: mFit, uses: map[fr]core.Amount{}, short: map[fr]bool{}}
	f := r.queues[w.queue].Fungibility
	for k, ask := range asks {
		best, bestMode, bestLevel := -1, mNoFit, 0
		for o := range ask.flavors {
			if tried[k][o] {
				continue
			}
			mode, level := r.grade(w, ask, o, a.uses)
			if best < 0 || better(mode, level, bestMode, bestLevel, f.PreferPreemption) {
				best, bestMode, bestLevel = o, mode, level
			}
			goOn := mode <= mNoCandidates || (mode < mFit && f.PreemptTriesNext) || (level > 0 && f.BorrowTriesNext)
			if !goOn {
				best, bestMode, bestLevel = o, mode, level
				break
			}
		}
		a.chosen = append(a.chosen, best)
		a.mode = min(a.mode, bestMode)
		if bestMode == mNoFit {
			return a
		}
		a.level = max(a.level, bestLevel)
		for x, v := range ask.need[best] {
			if v+a.uses[x] > r.room(w.queue, x, core.Projected, nil) {
				a.short[x] = true
			}
		}
		for x, v := range ask.need[best] {
			a.uses[x] += v
		}
	}
	return a
}

func better(m1, l1, m2, l2 int, preferPreemption bool) bool {
	switch {
	case m1 == mNoFit || m2 == mNoFit:
		return m1 > m2
	case (m1 == mNoCandidates) != (m2 == mNoCandidates):
		return m1 > m2
	case preferPreemption && l1 != l2:
		return l1 < l2
	case m1 != m2:
		return m1 > m2
	}
	return l1 < l2
}

func (r *reference) grade(w *refWorkload, ask refAsk, o int, used map[fr]core.Amount) (mode, level int) {
	if ask.bad[o] {
		return mNoFit, 0
	}
	q := r.queues[w.queue]
	mode = mFit
	for x, v := range ask.need[o] {
		v += used[x]
		lv, reclaim := r.level(w.queue, x, v, nil)
		m := mFit
		then, now := r.room(w.queue, x, core.Projected, nil), r.room(w.queue, x, core.Current, nil)
		nominal, _, _ := r.quota(refNode{w.queue, true}, x)
		switch {
		case v <= then && v <= now:
		case v > r.limit(refNode{w.queue, true}, x):
			m = mNoFit
		case v <= then:
			m = mAwait
		case nominal >= v || reclaim || allowsPolicy(q.Preemption.WhileBorrow) || r.fair != nil && allowsPolicy(q.Preemption.Reclaim):
			r.grading = true
			victims := r.search(w, map[fr]core.Amount{x: v}, map[fr]bool{x: true}, nil)
			r.grading = false
			m = mNoCandidates
			if len(victims) > 0 {
				m = mReclaim
				g := gone{}
				for _, c := range victims {
					g[c.Key] = true
					if c.adm.Queue == w.queue {
						m = mPreempt
					}
				}
				lv, _ = r.level(w.queue, x, v, g)
			}
		default:
			m = mNoFit
		}
		mode, level = min(mode, m), max(level, lv)
	}
	if s, ok := r.set(w, ask.set, ask.flavors[o:o+1]); ok && !r.quotaOnly {
		mode = min(mode, r.gradeNodes(q, s))
	}
	return mode, level
}

func (r *reference) gradeNodes(q core.Queue, s refSet) int {
	ideal, free, after := int32(0), int32(0), int32(0)
	for name, n := range r.nodes {
		free += r.slots(s, name, []core.Account{core.Current, core.Projected}, nil, nil, nil)
		after += r.slots(s, name, []core.Account{core.Projected}, nil, nil, nil)
		if s.filter.Admits(&n) {
			most := core.Amount(1 << 20)
			for _, x := range s.pod {
				if x.Amount > 0 {
					most = min(most, n.Allocatable.Of(x.Resource)/x.Amount)
				}
			}
			ideal += int32(most)
		}
	}
	switch {
	case free >= s.count:
		return mFit
	case ideal < s.count:
		return mNoFit
	case after >= s.count:
		return mAwait
	case !allowsPolicy(q.Preemption.WithinQueue) && !allowsPolicy(q.Preemption.Reclaim):
		return mNoCandidates
	}
	return mPreempt
}

// set is a pod set that needs nodes when it gets these flavors.
func (r *reference) set(w *refWorkload, i int, flavors []string) (refSet, bool) {
	p := w.PodSets[i]
	s := refSet{index: i, count: p.Count, pod: p.Requests.With(core.Pods, 1), filter: p.Filter, limits: p.Limits}
	s.filter.Must = slices.Clone(s.filter.Must)
	for _, f := range flavors {
		for k, v := range r.flavors[f].NodeLabels {
			s.filter.Must = append(s.filter.Must, core.Requirement{Key: k, Operator: core.In, Values: []string{v}})
		}
	}
	return s, p.Count > 0 && len(r.nodes) > 0
}

func allowsPolicy(p core.PreemptionPolicy) bool { return p != "" && p != core.PreemptNever }

// protected reports whether a workload has not run for its minimum runtime.
func (r *reference) protected(w *refWorkload) bool {
	minimum := r.queues[w.adm.Queue].MinimumRuntime
	if w.MinimumRuntime != nil {
		minimum = *w.MinimumRuntime
	}
	return w.reserved+int64(minimum/time.Second) > r.now
}

// seen leaves out candidates that have not run for long enough, those of a queue that were not seen admitted, and those that
// would go after one of them and are not less important than w.
func (r *reference) seen(w *refWorkload, candidates []*refWorkload) []*refWorkload {
	passed := false
	candidates = slices.DeleteFunc(r.merge(candidates), r.protected)
	return slices.DeleteFunc(candidates, func(c *refWorkload) bool {
		passed = passed || c.hidden()
		return c.hidden() || passed && c.Priority >= w.Priority
	})
}

// search is docs/queueing.md, "Whom a job may stop", on copies: candidate lists,
// attempts, fill-back. Where the engine may find others whose nodes make room, which it does not know of, it notes so.
func (r *reference) search(
	w *refWorkload,
	uses map[fr]core.Amount,
	short map[fr]bool,
	sets []refSet,
) (victims []*refWorkload) {
	inOrder := r.inOrder
	if r.fair != nil {
		inOrder = r.fairSearch
	}
	victims = inOrder(w, uses, short, sets)
	if k := r.counting(w); len(victims) > 0 && k.most > 0 && k.price(w, victims).counts() && !r.grading {
		for _, bySecond := range []bool{false, true} {
			k.bySecond = bySecond
			r.order = k
			if others := inOrder(w, uses, short, sets); len(others) > 0 &&
				k.price(w, others).compare(k.price(w, victims)) < 0 {
				victims = others
			}
		}
		r.order = refCounting{}
	}
	if len(sets) == 0 {
		return victims
	}
	g, more := gone{}, core.Amount(0)
	for _, set := range sets {
		more -= set.pod.Of(core.GPU) * core.Amount(set.count)
	}
	for _, v := range victims {
		for x, n := range v.uses() {
			if x.Resource == core.GPU {
				more += n
			}
		}
	}
	for _, c := range r.workloads {
		if c.phase == refRunning && r.root(c.adm.Queue) == r.root(w.queue) {
			g[c.Key] = true
		}
	}
	_, could := r.place(sets, []core.Account{core.Projected}, g)
	r.byPlace = r.byPlace || len(victims) == 0 && could || len(victims) > 1 && more > 0
	return victims
}

// inOrder is search without fair sharing.
func (r *reference) inOrder(
	w *refWorkload,
	uses map[fr]core.Amount,
	short map[fr]bool,
	sets []refSet,
) []*refWorkload {
	q := r.queues[w.queue]
	me := refNode{w.queue, true}
	var own, hierarchy, priority []*refWorkload
	common, advantaged := map[core.Key]refNode{}, map[core.Key]bool{}
	candidates := func(queue string, policy core.PreemptionPolicy, spare map[core.Key]bool) (out []*refWorkload) {
		for _, c := range r.workloads {
			if c.phase != refRunning || c.adm.Queue != queue || spare[c.Key] || !r.permits(policy, w, c) {
				continue
			}
			for x, v := range c.uses() {
				if short[x] && v > 0 {
					out = append(out, c)
					break
				}
			}
		}
		return r.seen(w, out)
	}
	if allowsPolicy(q.Preemption.WithinQueue) {
		own = candidates(w.queue, q.Preemption.WithinQueue, w.spare)
	}
	within := func(n refNode, g gone) bool {
		for x := range short {
			if r.subtree(n, x) < r.usage(n, x, core.Projected, g) {
				return false
			}
		}
		return true
	}
	if top, ok := r.parent(me); ok && allowsPolicy(q.Preemption.Reclaim) {
		rest := map[fr]core.Amount{}
		maps.Copy(rest, uses)
		absorb := func(n refNode) bool {
			fits := true
			for x, v := range rest {
				fits = fits && r.subtree(n, x) >= r.usage(n, x, core.Projected, nil)+v
				rest[x] = max(0, v-max(0, r.local(n, x)-r.usage(n, x, core.Projected, nil)))
			}
			return fits
		}
		advantage, visited := absorb(me), me
		for ; ok; top, ok = r.parent(top) {
			var below func(n refNode)
			below = func(n refNode) {
				for _, c := range r.children(n) {
					if c == visited || within(c, nil) {
						continue
					}
					if !c.queue {
						below(c)
						continue
					}
					spare := w.spare
					if advantage {
						spare = nil
					}
					for _, x := range candidates(c.name, q.Preemption.Reclaim, spare) {
						common[x.Key], advantaged[x.Key] = top, advantage
						if advantage {
							hierarchy = append(hierarchy, x)
						} else {
							priority = append(priority, x)
						}
					}
				}
			}
			below(top)
			advantage = absorb(top) || advantage
			visited = top
		}
	}
	all := slices.Concat(r.merge(hierarchy), r.merge(priority), r.merge(own))
	if len(all) == 0 {
		return nil
	}
	fits := func(g gone, borrow bool) bool {
		for x, v := range uses {
			if !borrow && r.borrows(me, x, v, g) || v > r.room(w.queue, x, core.Projected, g) {
				return false
			}
		}
		_, ok := r.place(sets, []core.Account{core.Projected}, g)
		return ok
	}
	forbidden := !allowsPolicy(q.Preemption.WhileBorrow)
	under := true
	for x := range short {
		nominal, _, _ := r.quota(me, x)
		under = under && r.usage(me, x, core.Projected, nil) < nominal
	}
	attempts := []bool{true, false}
	if len(hierarchy)+len(priority) == 0 || (forbidden && !under) {
		attempts = []bool{true}
	} else if forbidden && len(hierarchy) == 0 {
		attempts = []bool{false, true}
	}
	for _, borrow := range attempts {
		g, taken := gone{}, []*refWorkload{}
		for _, c := range all {
			if top, cross := common[c.Key]; cross {
				without := !advantaged[c.Key] && (forbidden || c.Priority >= w.Priority ||
					(q.Preemption.MaxPriority != nil && c.Priority > int64(*q.Preemption.MaxPriority)))
				if borrow && without {
					continue
				}
				spared := false
				for n := (refNode{c.adm.Queue, true}); n != top; n, _ = r.parent(n) {
					spared = spared || within(n, g)
				}
				if spared {
					continue
				}
			}
			g[c.Key] = true
			taken = append(taken, c)
			if !fits(g, borrow) {
				continue
			}
			for i := len(taken) - 2; i >= 0; i-- {
				delete(g, taken[i].Key)
				if fits(g, borrow) {
					taken[i] = taken[len(taken)-1]
					taken = taken[:len(taken)-1]
				} else {
					g[taken[i].Key] = true
				}
			}
			return taken
		}
	}
	return nil
}

func (*reference) permits(p core.PreemptionPolicy, w, c *refWorkload) bool {
	switch p {
	case core.PreemptAny:
		return true
	case core.PreemptLowerPriority:
		return c.Priority < w.Priority
	case core.PreemptLowerOrNewerEqualPrio:
		return c.Priority < w.Priority || c.Priority == w.Priority && w.QueueTime.Before(c.QueueTime)
	default:
		return false
	}
}

func (r *reference) say(format string, args ...any) {
	r.out = append(r.out, fmt.Sprintf(format, args...))
}
