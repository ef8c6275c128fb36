package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Relocation: a gang that has quota, and for which no nodes come free by evicting others, may get them if others go
// elsewhere. A workload is relocated where its queue allows it (core.Queue.RelocationsPerHour), once in its life, for
// none of lower priority, and only if all of it runs at once when it is done: the gang on the nodes that come free, and
// each that is relocated on others. Those are held for it before it is stopped, as what is reserved for any workload
// whose victims leave: booked in account Projected. Once its pods have ended that is its reservation, with which it
// is admitted again. What is held for either is written down with the decision, and read by a process that begins anew
// (resumeRelocations).

// Bounds of one search.
const (
	// mostMovable is how many workloads are looked at in a domain.
	mostMovable = 64
	// mostStarts is how often it is begun with another of a domain.
	mostStarts = 4
	// mostMoves is how many are relocated for one.
	mostMoves = 8
	// mostDomains is in how many domains of the level that the gang must share others are looked for.
	mostDomains = 8
)

// relocationPeriod is the time in which relocations of a queue are limited, in seconds.
const relocationPeriod = 60 * 60

// move is a workload that is relocated, and what it is given then.
type move struct {
	workload  *workload
	admission *core.Admission
}

// relocation is what is held for a workload that was evicted to go elsewhere.
type relocation struct {
	ledger.Allocation
	admission *core.Admission
}

// noteRelocated notes that a workload was relocated, in the API or here; the first time counts.
func (m *model) noteRelocated(w *workload, at int64) {
	if w.relocated != 0 || at == 0 {
		return
	}
	w.relocated = at
	d := w.localQueue
	d.relocations = append(m.lately(d), at)
	slices.Sort(d.relocations)
}

// unnoteRelocated takes that back: the API did not accept it.
func (m *model) unnoteRelocated(w *workload) {
	d := w.localQueue
	if i := slices.Index(d.relocations, w.relocated); i >= 0 {
		d.relocations = slices.Delete(d.relocations, i, i+1)
	}
	w.relocated = 0
}

// lately are the relocations of a local queue that count.
func (m *model) lately(d *localQueue) []int64 {
	i := slices.IndexFunc(d.relocations, func(at int64) bool { return at+relocationPeriod > m.now.Unix() })
	if i < 0 {
		return nil
	}
	return slices.Clone(d.relocations[i:])
}

// relocatable is how many workloads of a queue may be relocated now, and, if that is none and was some, from when on
// one may, in seconds.
func (m *model) relocatable(q *queue) (n int, from int64) {
	var lately []int64
	for _, d := range q.localQueues {
		lately = append(lately, m.lately(d)...)
	}
	slices.Sort(lately)
	if n = int(q.spec.RelocationsPerHour) - len(lately); n > 0 {
		return n, 0
	}
	return 0, lately[-n] + relocationPeriod
}

// mayRelocate is a bound that costs next to nothing: whether workloads of the tree of a queue may be relocated.
func (j *judge) mayRelocate(q *queue) bool {
	return len(j.relocating[q.node.Root()]) > 0
}

// settleRelocating notes which queues let workloads be relocated.
func (j *judge) settleRelocating() {
	clear(j.relocating)
	for _, q := range j.sortedQueues() {
		if q.spec != nil && q.spec.RelocationsPerHour > 0 {
			root := q.node.Root()
			j.relocating[root] = append(j.relocating[root], q)
		}
	}
}

// relocate looks for workloads that make room for one that has quota by going elsewhere.
func (j *judge) relocate(w *workload, sets []place.Set, why core.Reason) (verdict, bool) {
	if len(sets) == 0 || !j.mayRelocate(w.group.queue) {
		return verdict{}, false
	}
	s := &relocationSearch{judge: j, sets: sets, most: leastLost(w.group.queue)}
	s.collect(w)
	spots, moves := s.best()
	if moves == nil {
		return verdict{}, false
	}
	why.Code = core.WaitingForPreempted
	return verdict{kind: reserve, assigned: &j.assigned, sets: sets, spots: spots, moves: moves, why: &why}, true
}

// relocationSearch is the search for workloads that make room by going elsewhere. It works on copies of what is on
// nodes, in both accounts; quota stays as it is.
type relocationSearch struct {
	*judge
	sets    []place.Set // of the gang
	movable []*workload
	left    map[*queue]int // how many may be relocated
	most    int64          // how many seconds of lost work count, 0 for none
}

// collect lists the workloads that may be relocated for another, the least important first and of these the newest, and
// notes those whose time has not come. What each has computed is not looked at here: with the time only that changes, and
// nobody looks again for that.
func (s *relocationSearch) collect(w *workload) {
	s.left = map[*queue]int{}
	for _, q := range s.relocating[w.group.queue.node.Root()] {
		n, from := s.relocatable(q)
		if n == 0 {
			s.met.skipped = s.met.skipped.And(preempt.Skipped{Until: from})
			continue
		}
		s.left[q] = n
		for _, c := range s.search.Running(q.node) {
			x := s.byID[c.ID]
			if c.Priority > w.Priority || !s.movableWorkload(x) || slices.Contains(w.spare, x.Key) {
				continue
			}
			if c.Unseen || c.Until > s.now.Unix() {
				s.met.skipped = s.met.skipped.And(preempt.Skipped{Unseen: c.Unseen, Until: max(0, c.Until)})
				continue
			}
			s.movable = append(s.movable, x)
		}
	}
	slices.SortFunc(s.movable, func(a, b *workload) int {
		return cmp.Or(
			cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(b.Reserved, a.Reserved),
			compareWorkloads(a, b),
		)
	})
}

// movableWorkload reports whether a workload that runs could be given the same again elsewhere. One that may start with
// fewer pods may have been, and asks for all of them once it has stopped.
func (s *relocationSearch) movableWorkload(w *workload) bool {
	d := w.obs.details()
	if w.relocated != 0 || w.Interrupted || w.resumed || len(w.Holds) == 0 || w.localQueue.closed != nil ||
		d.bars() ||
		w.localQueue.queue != s.byNode[w.Queue.ID] ||
		len(w.admission.PodSets) != len(w.equivalence.podSets) {
		return false
	}
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		k := w.equivalence.podSet(p.Name)
		if k < 0 || len(p.Places) == 0 && p.Count > 0 {
			return false
		}
		if told := &w.equivalence.podSets[k]; told.Count != p.Count || told.MinCount > 0 {
			return false
		}
	}
	return true
}

// hasRoomAgain reports whether the queue of a workload that holds something has quota for the same, were that free: it
// may have been cut meanwhile.
func (m *model) hasRoomAgain(w *workload) bool { return len(m.shortAgain(w)) == 0 }

// shortAgain are the pairs of which the queue has not.
func (m *model) shortAgain(w *workload) (short []quota.FlavorResource) {
	defer m.ledger.Suppose(&w.Allocation, ledger.Free)()
	for _, u := range w.Uses {
		if u.Amount > min(w.Queue.Room(core.Current, u.Pair), w.Queue.Room(core.Projected, u.Pair)) {
			short = append(short, u.Pair)
		}
	}
	return short
}

// lost is what a workload has computed since it was admitted, which is lost if it is stopped: the packed resource that
// it holds, or the pods that have none of it, times seconds.
func (s *relocationSearch) lost(w *workload) int64 {
	return s.size([]*workload{w}) * max(0, s.now.Unix()-w.Reserved)
}

// counted is how much of that counts where victims are chosen by least lost work.
func (s *relocationSearch) counted(w *workload) int64 {
	return s.size([]*workload{w}) * w.Counted(s.now.Unix(), s.most)
}

// leastLost are workloads of a list with those first, of the same priority, that lose the least that counts.
func (s *relocationSearch) leastLost(list []*workload) []*workload {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(s.counted(a), s.counted(b)))
	})
	return out
}

// best is where the gang goes and who makes room for it, at the least cost of all domains that were tried; no moves if
// there is no such thing.
func (s *relocationSearch) best() (spots [][]place.Spot, moves []move) {
	least, leastCounted := int64(0), int64(0)
	try := func(at [][]place.Spot, is []move) {
		lost, counted := int64(0), int64(0)
		for _, m := range is {
			lost += s.lost(m.workload)
			counted += s.counted(m.workload)
		}
		if moves == nil || cmp.Or(cmp.Compare(counted, leastCounted), cmp.Compare(lost, least)) < 0 {
			spots, moves, least, leastCounted = at, is, lost, counted
		}
	}
	for _, in := range s.options() {
		at, is := s.within(in)
		// Those that are in the way may find no other place where others would: it is tried without the first ones.
		for k := 1; is == nil && k < min(mostStarts, len(in)); k++ {
			at, is = s.within(in[k:])
		}
		if is == nil {
			continue
		}
		try(at, is)
		if s.most > 0 { // only once some will do, so that whether any do does not depend on the time
			if at, is = s.within(s.leastLost(in)); is != nil {
				try(at, is)
			}
		}
	}
	return spots, moves
}

// options are the lists of workloads to try: in each of the most promising domains that all of the gang must share, those
// that hold nodes of it; or all.
func (s *relocationSearch) options() [][]*workload {
	out := [][]*workload{s.movable}
	if place.InOneDomain(s.sets) {
		out = s.byDomain(s.sets[0])
	}
	for i, list := range out {
		out[i] = list[:min(len(list), mostMovable)]
	}
	return out
}

// byDomain lists those that hold nodes of each domain that could hold a set.
func (s *relocationSearch) byDomain(set place.Set) [][]*workload {
	in := map[place.Domain][]*workload{}
	for _, w := range s.movable {
		for _, h := range w.Holds {
			d, is := s.nodes.DomainOf(set, h.Node)
			if list := in[d]; is && (len(list) == 0 || list[len(list)-1] != w) {
				in[d] = append(list, w)
			}
		}
	}
	var out [][]*workload
	for _, d := range s.nodes.DomainsOf(set) {
		if len(in[d]) > 0 {
			out = append(out, in[d])
		}
	}
	// Many small ones are as likely to find room elsewhere as one that is large; the domain in which the fewest nodes
	// are used by them is the one that is nearest to being free.
	slices.SortStableFunc(out, func(a, b []*workload) int { return cmp.Compare(s.size(a), s.size(b)) })
	return out[:min(len(out), mostDomains)]
}

func (s *relocationSearch) size(list []*workload) (n int64) {
	for _, w := range list {
		for _, h := range w.Holds {
			n += max(h.Packed(), int64(h.Count))
		}
	}
	return n
}

// within looks for workloads of a list without which the gang fits, and for other places for them; no moves if that
// does not work out.
func (s *relocationSearch) within(list []*workload) (spots [][]place.Spot, moves []move) {
	picked, spots := s.makeRoom(list)
	if spots == nil || len(picked) > mostMoves {
		return nil, nil
	}
	var booked []place.Hold
	defer func() { s.imagine(booked, -1) }()
	book := func(sets []place.Set, spots [][]place.Spot) {
		for k, list := range spots {
			for _, sp := range list {
				h := place.Hold{Node: sp.Node, Class: sets[k].Class, Count: sp.Count}
				s.imagine([]place.Hold{h}, 1)
				booked = append(booked, h)
			}
		}
	}
	book(s.sets, spots)
	// Those that are hardest to place first. None gets what another leaves: it would have to wait for the end of that.
	slices.SortStableFunc(picked, func(a, b *workload) int {
		return cmp.Compare(s.size([]*workload{b}), s.size([]*workload{a}))
	})
	for _, w := range picked {
		sets := s.setsOf(w)
		s.imagine(w.Holds, -1)
		at, _, ok := s.nodes.Place(place.Request{View: place.Free, Sets: sets})
		s.imagine(w.Holds, 1)
		if !ok {
			return nil, nil
		}
		book(sets, at)
		moves = append(moves, move{w, elsewhere(w, sets, at)})
	}
	return spots, moves
}

// makeRoom takes workloads of a list off their nodes until the gang fits, keeps of them those without which it does not,
// and tells where it goes then; nowhere if it does not fit, or if more are left of a queue than it allows.
func (s *relocationSearch) makeRoom(list []*workload) (picked []*workload, spots [][]place.Spot) {
	defer func() {
		for _, w := range picked {
			s.imagine(w.Holds, 1)
		}
	}()
	fits := false
	for _, w := range list {
		if len(picked) == 4*mostMoves {
			break
		}
		if !s.hasRoomAgain(w) {
			continue
		}
		s.imagine(w.Holds, -1)
		picked = append(picked, w)
		if fits = s.nodes.Fits(place.Request{View: place.Free, Sets: s.sets}); fits {
			break
		}
	}
	if !fits {
		return picked, nil
	}
	for i := len(picked) - 2; i >= 0; i-- {
		w := picked[i]
		s.imagine(w.Holds, 1)
		if s.nodes.Fits(place.Request{View: place.Free, Sets: s.sets}) {
			picked = slices.Delete(picked, i, i+1)
			continue
		}
		s.imagine(w.Holds, -1)
	}
	used := map[*queue]int{}
	for _, w := range picked {
		q := s.byNode[w.Queue.ID]
		if used[q]++; used[q] > s.left[q] {
			return picked, nil
		}
	}
	spots, _, _ = s.nodes.Place(place.Request{View: place.Free, Sets: s.sets})
	return picked, spots
}

// imagine puts pods on nodes, or takes them off, in both accounts: what is free at this moment is what neither uses.
func (s *relocationSearch) imagine(holds []place.Hold, sign int64) {
	for account := range core.Accounts {
		s.nodes.Imagine(account, holds, sign)
	}
}

// setsOf are the pods of a workload that has places, to be placed again with the flavors that it has.
func (m *model) setsOf(w *workload) []place.Set {
	var sets []place.Set
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		if len(p.Places) == 0 {
			continue
		}
		s := w.equivalence.podSet(p.Name)
		sets = append(sets, place.Set{
			Index: i, Class: m.class(w.equivalence, s, p.FlavorNames()), Count: p.Count,
			Group: w.equivalence.podSets[s].Group, Parents: w.equivalence.podSets[s].Parents,
		})
	}
	return sets
}

// elsewhere is what a workload has, with other places for some pod sets.
func elsewhere(w *workload, sets []place.Set, spots [][]place.Spot) *core.Admission {
	a := &core.Admission{Queue: w.admission.Queue, PodSets: slices.Clone(w.admission.PodSets)}
	for k, set := range sets {
		a.PodSets[set.Index].Places = places(spots[k])
	}
	return a
}

// relocate evicts a workload for another, and holds for it what it is given when its pods have ended.
func (ad *admissions) relocate(w *workload, to *core.Admission, beneficiary *workload) {
	ad.holdElsewhere(w, to)
	ad.evict(w, core.Relocated, beneficiary)
	ad.noteRelocated(w, ad.now.Unix())
}

// holdElsewhere holds for a workload that leaves, or is about to, what it is given when it has.
func (ad *admissions) holdElsewhere(w *workload, to *core.Admission) {
	at := &workload{equivalence: w.equivalence, grant: grant{admission: to}}
	r := &relocation{admission: to}
	r.ID, r.Queue, r.Uses, r.Holds = w.ID, w.Queue, slices.Clone(w.Uses), ad.holdsOf(at)
	w.relocation = r
	ad.ledger.Promise(&r.Allocation)
}

// elsewhere is what is held for a workload that leaves; nil if nothing is.
func (w *workload) elsewhere() *core.Admission {
	if w.relocation == nil {
		return nil
	}
	return w.relocation.admission
}

// dropRelocation gives back what is held elsewhere for a workload that was to go there.
func (ad *admissions) dropRelocation(w *workload) {
	if r := w.relocation; r != nil {
		w.relocation = nil
		ad.pending.free(r.Queue, true)
		ad.ledger.Release(&r.Allocation)
	}
}

// checkRelocations drops what is held elsewhere and does not fit any more, as for reservations.
func (ad *admissions) checkRelocations() {
	for _, w := range slices.Clone(ad.leaving) {
		r := w.relocation
		if r == nil {
			continue
		}
		if ad.nodes.Uneven(r.Holds) || !ad.ledger.StillFits(core.Projected, &r.Allocation) {
			ad.dropRelocation(w)
		}
	}
}

// arrive reserves for a workload that has stopped, or waits for others to, what was held for it, if anything, and reports
// whether it may have it still.
func (ad *admissions) arrive(w *workload, a *core.Admission) bool {
	if a == nil || !ad.suits(w, a) {
		return false
	}
	w.plan(a)
	w.reservation = &reservation{workload: w, evicted: true, relocates: true}
	ad.bookReservation(w)
	ad.count(w, waiting)
	if !ad.fitsNow(w) { // meanwhile another was given what is free, since others leave that have not yet
		for _, x := range ad.leaving {
			if ad.related(w.reservation, x) {
				ad.await(w.reservation, x)
			}
		}
	}
	q := w.localQueue.queue
	ad.reservations = append(ad.reservations, w.reservation)
	q.reserved = append(q.reserved, w)
	ad.turns.rehead(q)
	return true
}

// inherit notes what an engine before this one held for a workload. What it belongs to may not be known yet.
func (m *model) inherit(w *workload, a *core.Admission) {
	if a != nil {
		w.inherited = a
		m.inherited = append(m.inherited, w)
	}
}

// disinherit forgets that.
func (m *model) disinherit() {
	for _, w := range m.inherited {
		w.inherited = nil
	}
	m.inherited = nil
}

// resumeRelocations holds again what an engine before this one held: first for the workloads that leave, then for those
// that wait. What does not fit any more, or not the workload as it is now, is dropped, and the workload waits as any.
func (ad *admissions) resumeRelocations() {
	list := slices.DeleteFunc(
		slices.Clone(ad.inherited),
		func(w *workload) bool { return ad.workloads[w.Key] != w },
	)
	slices.SortFunc(list, func(a, b *workload) int {
		return cmp.Or(-cmp.Compare(a.State(), b.State()), compareWorkloads(a, b)) // leaving is the last state
	})
	for _, w := range list {
		switch {
		case w.State() == leaving && w.relocated != 0 && w.relocation == nil && ad.suits(w, w.inherited):
			ad.holdElsewhere(w, w.inherited)
		case w.State() == waiting && ad.suits(w, w.inherited):
			ad.withdraw(w)
			ad.arrive(w, w.inherited)
		}
	}
	ad.disinherit()
	ad.checkRelocations()
}

// suits reports whether a workload that stops or waits may be given an admission: it is for all its pods as they are
// now, in the queue that it is in.
func (m *model) suits(w *workload, a *core.Admission) bool {
	d := w.obs.details()
	if d.bars() || d.notBefore.After(m.now) || w.localQueue.closed != nil || w.localQueue.queue == nil ||
		w.localQueue.queue.name != a.Queue || len(a.PodSets) != len(w.equivalence.podSets) {
		return false
	}
	for i := range a.PodSets {
		got, asks := &a.PodSets[i], &w.equivalence.podSets[i]
		fewer := asks.MinCount > 0 && got.Count < asks.Count && got.Count >= asks.MinCount
		if got.Name != asks.Name || got.Count != asks.Count && !fewer {
			return false
		}
		for _, u := range got.Usage {
			if !offers(w.localQueue.queue.spec, u.Resource, got.FlavorOf(u.Resource)) ||
				u.Resource != core.Pods && u.Amount != asks.Counted().Of(u.Resource).Mul(int64(got.Count)) {
				return false // the queue changed since, or how requests are counted
			}
		}
	}
	return true
}

// offers reports whether a queue has quota for a resource in a flavor.
func offers(q *core.Queue, resource, flavor string) bool {
	g := groupOf(q, resource)
	return g >= 0 &&
		slices.ContainsFunc(q.Groups[g].Flavors, func(f core.FlavorQuotas) bool { return f.Flavor == flavor })
}
