package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Bounds of a search. Whether nodes as they are hold a gang is asked again for every
// workload that could be evicted for it, whether empty ones do once for each plan.
const (
	searchTries = 4000    // of a number of pods on a node, on nodes as they are
	maxTries    = 1 << 16 // on empty nodes
	maxLooks    = 1 << 16 // at a node when it is a set's turn
)

// packing searches places for several pod sets at the same time, where placing one after
// the other by simple orders has failed: set by set, the hardest first, and node by node,
// the fullest first, the most pods first.
//
// For example: node a has 2 free GPUs and 4 CPUs, node b 3 GPUs and 1 CPU. A pod of 2
// GPUs and 1 CPU would go to a, the fuller one, where a pod of 1 GPU and 4 CPUs has to go.
// The search moves the first to b.
type packing struct {
	sets []Set
	bins []bin
	columns
	// pack is the resource of which whole nodes are kept free.
	pack int
	// tries and looks are how many of each the search may still make; below 0 it gave up.
	tries, looks int
	// room is how many pods of each set have a place, as long as it was not its turn.
	room []int64
	// given are the pods of each set on each bin.
	given [][]int32
	// whole reports whether the pods of a set are in whole slices; nil where there are none.
	whole func(set int) bool
	// view is what nodes are looked at by.
	view View
}

// bin is what is left of a node.
type bin struct {
	rank int
	left []int64
	late bool    // used only if others do not do
	most []int32 // of each set that it may have
	// domains are, by set, the narrowest in which the set counts it; nil where none does.
	domains []int32
}

// outcome is what a search came to.
type outcome uint8

const (
	impossible outcome = iota
	found
	gaveUp
)

// newPacking begins a search for sets, which are given in some turn.
func (s *Nodes) newPacking(sets []Set, turn []int, tries int) *packing {
	x := &packing{
		sets: make([]Set, len(sets)), pack: s.packID, tries: tries, looks: maxLooks,
		room: make([]int64, len(sets)), given: make([][]int32, len(sets)),
	}
	for k, i := range turn {
		x.sets[k] = sets[i]
	}
	x.columns = s.columns(x.sets)
	return x
}

// add lets the search use what is left of a node for the sets that may use it.
func (x *packing) add(b bin) {
	if slices.Max(b.most) > 0 {
		x.bins = append(x.bins, b)
	}
}

// run searches.
func (x *packing) run() outcome {
	if x.exceeded() {
		return impossible
	}
	for k := range x.given {
		x.given[k] = make([]int32, len(x.bins))
		for i := range x.bins {
			x.room[k] += int64(x.slots(k, i))
		}
	}
	return x.set(0)
}

// exceeded reports whether the sets ask for more of some resource than there is: a proof
// that needs no search.
func (x *packing) exceeded() bool {
	for _, needs := range x.needs {
		for _, r := range needs {
			if x.demand(r.resource) > x.supply(r.resource) {
				return true
			}
		}
	}
	return false
}

func (x *packing) demand(resource int) core.Amount {
	sum := core.Amount(0)
	for k, set := range x.sets {
		for _, r := range x.needs[k] {
			if r.resource == resource {
				sum = sum.Add(core.Amount(r.amount).Mul(int64(set.Count)))
			}
		}
	}
	return sum
}

func (x *packing) supply(resource int) core.Amount {
	sum := core.Amount(0)
	for _, b := range x.bins {
		if resource < len(b.left) {
			sum = sum.Add(core.Amount(max(0, b.left[resource])))
		}
	}
	return sum
}

func (x *packing) slots(k, bin int) int32 {
	b := &x.bins[bin]
	if b.most[k] == 0 {
		return 0
	}
	return min(b.most[k], count(x.needs[k], b.left, b.left))
}

// tier is one set's turn: its bins, those first that it should go to.
type tier struct {
	index int
	bins  []int
	slots []int32 // by place in bins
	rest  []int64 // slots from a place on
	alike []int   // the last place before that is alike, -1 if none is
}

// set places the sets from one on.
func (x *packing) set(k int) outcome {
	if k == len(x.sets) {
		return found
	}
	for i, set := range x.sets[k:] {
		if x.room[k+i] < int64(set.Count) {
			return impossible
		}
	}
	if x.looks -= len(x.bins); x.looks < 0 {
		return gaveUp
	}
	return x.node(x.tier(k), 0, x.sets[k].Count)
}

func (x *packing) tier(k int) *tier {
	n := len(x.bins)
	t := &tier{
		index: k,
		bins:  make([]int, n),
		slots: make([]int32, n),
		rest:  make([]int64, n+1),
		alike: slices.Repeat([]int{-1}, n),
	}
	for i := range t.bins {
		t.bins[i] = i
	}
	slices.SortFunc(t.bins, func(a, b int) int {
		p, q := &x.bins[a], &x.bins[b]
		return cmp.Or(order(p.late, q.late), cmp.Compare(x.packed(p), x.packed(q)), cmp.Compare(p.rank, q.rank))
	})
	for i := n - 1; i >= 0; i-- {
		t.slots[i] = x.slots(k, t.bins[i])
		t.rest[i] = t.rest[i+1] + int64(t.slots[i])
	}
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	compare := func(a, b int) int { return x.bins[t.bins[a]].compare(&x.bins[t.bins[b]]) }
	slices.SortStableFunc(places, compare)
	for i := 1; i < n; i++ {
		if compare(places[i-1], places[i]) == 0 {
			t.alike[places[i]] = places[i-1]
		}
	}
	return t
}

// packed is how much is left of the packed resource, as far as it matters.
func (x *packing) packed(b *bin) int64 {
	if x.pack >= len(b.left) {
		return 0
	}
	return max(0, min(b.left[x.pack], maxPack))
}

// compare orders bins by what distinguishes them.
func (b *bin) compare(o *bin) int {
	return cmp.Or(
		slices.Compare(b.most, o.most), order(b.late, o.late), slices.Compare(b.left, o.left),
		slices.Compare(b.domains, o.domains),
	)
}

// node places the rest of a set on the bins from a place on. Of bins that are alike none
// gets more than the one before it: any other distribution is the same but for names.
func (x *packing) node(t *tier, i int, want int32) outcome {
	if want == 0 {
		if x.whole != nil && !x.whole(t.index) {
			return impossible
		}
		return x.set(t.index + 1)
	}
	if i == len(t.bins) {
		return impossible
	}
	bin, given := t.bins[i], x.given[t.index]
	most := min(want, t.slots[i])
	if before := t.alike[i]; before >= 0 {
		most = min(most, given[t.bins[before]])
	}
	for n := most; n >= 0; n-- {
		if x.tries--; x.tries < 0 {
			return gaveUp
		}
		if t.rest[i+1] < int64(want-n) {
			break
		}
		given[bin] = n
		x.take(t.index, bin, n)
		is := x.node(t, i+1, want-n)
		x.take(t.index, bin, -n)
		if is != impossible {
			return is
		}
	}
	given[bin] = 0
	return impossible
}

// take takes n pods of a set off what is left of a bin, and keeps the room of later sets.
func (x *packing) take(k, bin int, n int32) {
	if n == 0 {
		return
	}
	for later := k + 1; later < len(x.sets); later++ {
		x.room[later] -= int64(x.slots(later, bin))
	}
	take(x.needs[k], x.bins[bin].left, n)
	for later := k + 1; later < len(x.sets); later++ {
		x.room[later] += int64(x.slots(later, bin))
	}
}
