package cycle_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// reference is the engine written to be read: no sums are kept, nothing is
// cached or parked, every question is answered from the list of workloads.
// It follows "The quota of a tree", "Which flavor" and "Whom a job may stop" of
// docs/queueing.md line by line. It knows no broken
// queues: in its worlds every name exists and no cohorts form cycles.
type reference struct {
	flavors      map[string]core.Flavor
	queues       map[string]core.Queue
	cohorts      map[string]core.Cohort
	nodes        map[string]core.Node
	workloads    map[core.Key]*refWorkload
	reservations []*refWorkload
	now          int64
	out          []string
	refused      map[core.Key]bool
	block        bool // admission waits for pods
	fit          bool // the last judgement admits
	localQueues  map[string]*refLocalQueue
	sampled      time.Time
	tied         bool              // floating point cannot tell which of two LocalQueues used more
	byPlace      bool              // victims whose nodes make room may be others than those in order
	held         map[core.Key]bool // refused for head reservations
	moving       *refWorkload      // it gets other places for some pods
	staying      []podsOnNode      // its other pods

	order            refCounting // how what is lost counts in the order of victims
	grading          bool        // flavors, for which it does not
	ignoreUndeclared bool
	quotaOnly        bool // to nodes: levels count quota alone
	bare             bool // nodes are thought to be empty and in service
	// fair is fair sharing; nil is off. extra is usage that is thought to be there
	// in account Projected, of one queue.
	fair       *core.FairSharing
	extra      map[fr]core.Amount
	extraQueue string
}

type refPhase int

const (
	refWaiting refPhase = iota
	refReserved
	refRunning
	refLeaving
)

type refWorkload struct {
	core.Workload
	queue    string
	phase    refPhase
	adm      *core.Admission
	reserved int64
	unseen   bool
	accepted bool               // unseen, and the API took it
	moved    bool               // it was given other places while unseen
	costs    map[string]float64 // to its LocalQueue, until it is seen as admitted
	spare    map[core.Key]bool
	counts   map[fr]core.Amount // what it asks for, when it was judged last
	deps     map[core.Key]bool
	evicts   bool // others had to make way for what is reserved for it
}

type fr = core.FlavorResource

// gone are running workloads to be thought away.
type gone map[core.Key]bool

func (r *reference) sorted() []*refWorkload {
	return slices.SortedFunc(maps.Values(r.workloads), refOrder)
}

func refOrder(a, b *refWorkload) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.QueueTime.Compare(b.QueueTime),
		cmp.Compare(a.UID, b.UID),
	)
}

// hidden reports whether the workload may not be evicted yet.
func (w *refWorkload) hidden() bool { return w.unseen && !w.accepted }

// seenLedger is what those use whose admission was seen.
const seenLedger = core.Accounts

func (w *refWorkload) countsIn(l core.Account) bool {
	if l == seenLedger {
		return w.phase == refRunning && !w.hidden()
	}
	return w.phase == refRunning || (w.phase == refLeaving && l == core.Current) ||
		(w.phase == refReserved && l == core.Projected)
}

func (w *refWorkload) uses() map[fr]core.Amount {
	u := map[fr]core.Amount{}
	for _, p := range w.adm.PodSets {
		for _, q := range p.Usage {
			u[fr{Flavor: p.FlavorOf(q.Resource), Resource: q.Resource}] += q.Amount
		}
	}
	return u
}

// A tree node is a queue or a cohort.
type refNode struct {
	name  string
	queue bool
}

func (r *reference) parent(n refNode) (refNode, bool) {
	p := r.cohorts[n.name].Parent
	if n.queue {
		p = r.queues[n.name].Cohort
	}
	return refNode{name: p}, p != ""
}

func (r *reference) children(n refNode) (out []refNode) {
	for name, q := range r.queues {
		if !n.queue && q.Cohort == n.name {
			out = append(out, refNode{name, true})
		}
	}
	for name, c := range r.cohorts {
		if !n.queue && c.Parent == n.name {
			out = append(out, refNode{name, false})
		}
	}
	return out
}

func (r *reference) quota(n refNode, x fr) (nominal core.Amount, borrow, lend *core.Amount) {
	groups := r.cohorts[n.name].Groups
	if n.queue {
		groups = r.queues[n.name].Groups
	}
	for _, g := range groups {
		for _, f := range g.Flavors {
			for _, q := range f.Quotas {
				if f.Flavor == x.Flavor && q.Resource == x.Resource {
					return q.Nominal, q.Borrowing, q.Lending
				}
			}
		}
	}
	return 0, nil, nil
}

func (r *reference) subtree(n refNode, x fr) core.Amount {
	sum, _, _ := r.quota(n, x)
	for _, c := range r.children(n) {
		sum += r.subtree(c, x) - r.local(c, x)
	}
	return sum
}

func (r *reference) local(n refNode, x fr) core.Amount {
	_, _, lend := r.quota(n, x)
	if lend == nil {
		return 0
	}
	return max(0, r.subtree(n, x)-*lend)
}

func (r *reference) usage(n refNode, x fr, l core.Account, g gone) (sum core.Amount) {
	if !n.queue {
		for _, c := range r.children(n) {
			sum += max(0, r.usage(c, x, l, g)-r.local(c, x))
		}
		return sum
	}
	for _, w := range r.workloads {
		if w.countsIn(l) && w.adm.Queue == n.name && !g[w.Key] {
			sum += w.uses()[x]
		}
	}
	if l == core.Projected && r.extraQueue == n.name {
		sum += r.extra[x]
	}
	return sum
}

func (r *reference) available(n refNode, x fr, l core.Account, g gone) core.Amount {
	p, ok := r.parent(n)
	if !ok {
		return r.subtree(n, x) - r.usage(n, x, l, g)
	}
	above := r.available(p, x, l, g)
	if _, borrow, _ := r.quota(n, x); borrow != nil {
		above = min(above, r.subtree(n, x)-r.local(n, x)-max(0, r.usage(n, x, l, g)-r.local(n, x))+*borrow)
	}
	return max(0, r.local(n, x)-r.usage(n, x, l, g)) + above
}

func (r *reference) room(q string, x fr, l core.Account, g gone) core.Amount {
	return max(0, r.available(refNode{q, true}, x, l, g))
}

func (r *reference) limit(n refNode, x fr) core.Amount {
	p, ok := r.parent(n)
	if !ok {
		return r.subtree(n, x)
	}
	most := r.local(n, x) + r.limit(p, x)
	if _, borrow, _ := r.quota(n, x); borrow != nil {
		most = min(most, r.subtree(n, x)+*borrow)
	}
	return most
}

func (r *reference) height(n refNode) int {
	h := 0
	for _, c := range r.children(n) {
		if below := r.height(c); c.queue || below > 0 {
			h = max(h, below+1)
		}
	}
	return h
}

func (r *reference) borrows(n refNode, x fr, v core.Amount, g gone) bool {
	return r.subtree(n, x) < r.usage(n, x, core.Projected, g)+v
}

func (r *reference) level(q string, x fr, v core.Amount, g gone) (int, bool) {
	n := refNode{q, true}
	p, ok := r.parent(n)
	if !ok || !r.borrows(n, x, v, g) {
		return 0, ok
	}
	rest := v - max(0, r.local(n, x)-r.usage(n, x, core.Projected, g))
	for {
		up, more := r.parent(p)
		if !r.borrows(p, x, rest, g) || !more {
			return r.height(p), more && !r.borrows(p, x, rest, g)
		}
		rest -= max(0, r.local(p, x)-r.usage(p, x, core.Projected, g))
		p = up
	}
}

// Nodes.

func (r *reference) free(node, resource string, l core.Account, g gone) core.Amount {
	n := r.nodes[node]
	f := n.Allocatable.Of(resource) - n.Foreign.Of(resource)
	if r.bare {
		return n.Allocatable.Of(resource)
	}
	for _, w := range r.workloads {
		if !w.countsIn(l) || g[w.Key] {
			continue
		}
		for i, p := range w.adm.PodSets {
			for _, pl := range p.Places {
				if pl.Node == node {
					f -= w.PodSets[i].Requests.With(core.Pods, 1).Of(resource) * core.Amount(pl.Count)
				}
			}
		}
	}
	return f
}

// refSet is a pod set that needs nodes.
type refSet struct {
	index  int
	count  int32
	pod    core.Resources // with pods
	filter core.Filter
	limits []core.Limit
}

// podsOnNode is a number of pods of one set on one node.
type podsOnNode struct {
	set   int
	node  string
	count int32
}

// slots is how many pods of a set fit on a node beside what is assigned already.
func (r *reference) slots(
	s refSet,
	node string,
	views []core.Account,
	g gone,
	sets []refSet,
	assigned []podsOnNode,
) int32 {
	n := r.nodes[node]
	if !n.State.TakesWork() && !r.bare || !s.filter.Admits(&n) {
		return 0
	}
	most := core.Amount(1 << 20)
	for _, q := range s.pod {
		if q.Amount > 0 {
			most = min(most, max(0, r.left(node, q.Resource, views, g, sets, assigned))/q.Amount)
		}
	}
	return int32(max(0, min(most, r.within(s, node, views, g, sets, assigned))))
}

// within is how many pods limits and the answers of nodes let be there.
func (r *reference) within(
	s refSet,
	node string,
	views []core.Account,
	g gone,
	sets []refSet,
	assigned []podsOnNode,
) core.Amount {
	most := core.Amount(1 << 20)
	for _, l := range s.limits {
		taken := core.Amount(0)
		for _, account := range views {
			taken = max(taken, r.taken(node, l, account, g))
		}
		for _, x := range assigned {
			for _, o := range sets[x.set].limits {
				if x.node == node && o.Name == l.Name {
					taken += core.Amount(o.Count) * core.Amount(x.count)
				}
			}
		}
		most = min(most, (core.Amount(l.Most)-taken)/core.Amount(l.Count))
	}
	for _, refusal := range s.filter.Refused {
		if refusal.Node == node {
			most = min(most, core.Amount(refusal.Most-r.stays(node, func(set int) int32 {
				if set == s.index {
					return 1
				}
				return 0
			})))
		}
	}
	return most
}

// taken is what is taken of a limit by others.
func (r *reference) taken(node string, l core.Limit, account core.Account, g gone) core.Amount {
	switch {
	case r.bare:
		return 0
	case l.Own:
		return core.Amount(r.stays(node, func(set int) int32 {
			for _, o := range r.moving.PodSets[set].Limits {
				if o.Name == l.Name {
					return o.Count
				}
			}
			return 0
		}))
	}
	taken := core.Amount(0)
	for _, f := range r.nodes[node].ForeignLimits {
		if f.Name == l.Name {
			taken += core.Amount(f.Count)
		}
	}
	for _, w := range r.workloads {
		if !w.countsIn(account) || g[w.Key] {
			continue
		}
		for i, p := range w.adm.PodSets {
			if i >= len(w.PodSets) {
				break // it was written anew since, with fewer
			}
			for _, o := range w.PodSets[i].Limits {
				if o.Name == l.Name {
					taken += core.Amount(o.Count) * core.Amount(core.PodsOn(p.Places, node))
				}
			}
		}
	}
	return taken
}

// stays counts the pods that stay on a node while others of their workload move.
func (r *reference) stays(node string, counts func(set int) int32) int32 {
	sum := int32(0)
	for _, x := range r.staying {
		if x.node == node {
			sum += x.count * counts(x.set)
		}
	}
	return sum
}

func (r *reference) left(
	node, resource string,
	views []core.Account,
	g gone,
	sets []refSet,
	assigned []podsOnNode,
) core.Amount {
	f := core.Unlimited
	for _, l := range views {
		f = min(f, r.free(node, resource, l, g))
	}
	for _, x := range assigned {
		if x.node == node {
			f -= sets[x.set].pod.Of(resource) * core.Amount(x.count)
		}
	}
	return f
}

// place finds nodes for every pod, or for none: sets in order of GPUs, then cpu; nodes with
// the fewest GPUs left first; as many pods as fit. It tries everything.
func (r *reference) place(sets []refSet, views []core.Account, g gone) ([]podsOnNode, bool) {
	turn := make([]int, len(sets))
	for i := range turn {
		turn[i] = i
	}
	slices.SortStableFunc(turn, func(a, b int) int {
		return cmp.Or(cmp.Compare(sets[b].pod.Of(core.GPU), sets[a].pod.Of(core.GPU)),
			cmp.Compare(sets[b].pod.Of(core.CPU), sets[a].pod.Of(core.CPU)))
	})
	return r.distribute(sets, turn, views, g, nil)
}

func (r *reference) distribute(
	sets []refSet,
	turn []int,
	views []core.Account,
	g gone,
	assigned []podsOnNode,
) ([]podsOnNode, bool) {
	if len(turn) == 0 {
		return assigned, true
	}
	s := sets[turn[0]]
	type cand struct {
		node  string
		tier  int
		gpus  core.Amount
		slots int32
	}
	var cands []cand
	for name, n := range r.nodes {
		if k := r.slots(s, name, views, g, sets, assigned); k > 0 {
			tier := 0
			if n.State != core.NodeReady {
				tier = 1
			}
			cands = append(cands, cand{name, tier, max(0, r.left(name, core.GPU, views, g, sets, assigned)), k})
		}
	}
	slices.SortFunc(cands, func(a, b cand) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.gpus, b.gpus), core.CompareNames(a.node, b.node))
	})
	var deal func(i int, left int32, assigned []podsOnNode) ([]podsOnNode, bool)
	deal = func(i int, left int32, assigned []podsOnNode) ([]podsOnNode, bool) {
		if left == 0 {
			return r.distribute(sets, turn[1:], views, g, assigned)
		}
		if i == len(cands) {
			return nil, false
		}
		for n := min(left, cands[i].slots); n >= 0; n-- {
			next := assigned
			if n > 0 {
				next = append(slices.Clone(assigned), podsOnNode{turn[0], cands[i].node, n})
			}
			if out, ok := deal(i+1, left-n, next); ok {
				return out, true
			}
			rest := int32(0)
			for _, c := range cands[i+1:] {
				rest += c.slots
			}
			if rest < left-n+1 {
				return nil, false
			}
		}
		return nil, false
	}
	return deal(0, s.count, assigned)
}
