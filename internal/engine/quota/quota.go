// Package quota is the tree of queues and cohorts: which queue may use how
// much of which flavor, what is lent and borrowed, and which flavors a workload gets.
//
// Quantities live in dense vectors indexed by FlavorResource, an interned (flavor,
// resource). Every change walks the path from a queue to its root and nothing
// else. The arithmetic of limits and the choice of flavors are Kueue's. The
// package knows nothing of nodes or of victims: Assign asks for both
// through the Oracle interface.
//
// Invariants, checked by Forest.Check:
//   - the usage of a cohort is the sum over its children of what they use above
//     what they keep for themselves;
//   - subtree quotas are sums of the quotas below, minus what is kept;
//   - nodes on a cycle of cohorts, and all below them, stand alone.
package quota

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// FlavorResource is an interned (flavor, resource).
type FlavorResource int32

// Seen is an account of quota alone: what workloads use whose admission was seen.
// It is kept with fair sharing only, to find the queues that have to give: a workload
// with a reservation, or admitted just now, cannot be evicted, and is no reason to
// evict others around it.
const Seen = core.Accounts

// accounts is the number of accounts of quota.
const accounts = core.Accounts + 1

// Use is an amount of one pair.
type Use struct {
	Pair   FlavorResource
	Amount core.Amount
}

// Node is a queue or a cohort in the tree.
type Node struct {
	Name string
	// Queue is false for cohorts.
	Queue bool
	// ID numbers queues densely, from zero, in the order they were first named.
	ID int

	defined    bool // an object exists; false for cohorts that are only named
	parentName string
	groups     []core.ResourceGroup
	weight     core.Weight

	parent   *Node
	children []*Node // by kind (cohorts first), then name
	root     *Node
	// height of the subtree: 0 for a queue, and for a cohort without any queue below,
	// which counts for nothing: no queue could borrow in it.
	height int
	cyclic bool
	cells  []cell
	stamp  uint64 // at the root: Forest.clock at the last change of which Stamp tells
	// borrowers, at the root, counts by pair the queues of the tree that use more
	// than their own quota in account Projected.
	borrowers []int32
	kinds     []kind // at the root: what the tree knows, by resource
	// lendable is, at a cohort, the most that its children could ever use, per
	// kind of the root.
	lendable []core.Amount
	noted    bool // in Forest.changed
	// top are the two largest shares among the children at topStamp, topNode whose
	// the first is.
	top      [2]DominantResourceShare
	topNode  *Node
	topStamp uint64
	// changes counts what may have changed the node's share, by account; shares are what
	// it was at the counts sharesAt.
	changes  [accounts]uint64
	sharesAt [accounts]uint64
	shares   [accounts]DominantResourceShare
}

// cell is what a node knows of one pair.
type cell struct {
	nominal core.Amount
	// cut is how much more was promised to the subtree than it has (core.Quota.Cut).
	cut    core.Amount
	borrow core.Amount // Unlimited: no limit
	lend   core.Amount // Unlimited: no limit
	// subtree is the quota of the whole subtree. lent is the part of it that can be
	// used from above, never more than the lending limit; kept the rest (the
	// guaranteed part). Of an unlimited quota with a lending limit kept is unlimited
	// and lent is not, so that neither follows from the other two.
	subtree, lent, kept core.Amount
	usage               [accounts]core.Amount
	set                 bool // the node's spec names the pair
}

// Forest is all trees. Edits are collected and take effect with Settle.
type Forest struct {
	queues  map[string]*Node
	cohorts map[string]*Node
	pairs   map[core.FlavorResource]FlavorResource
	names   []core.FlavorResource
	dirty   bool
	clock   uint64 // counts changes
	// changed are the queues whose usage in account Projected changed, if track is set.
	track   bool
	changed []*Node
	// pretending counts the calls of Pretend that were not undone yet.
	pretending int
	// overflown is set when a usage reached Unlimited: sums cannot be undone any
	// more and must be counted again.
	overflown bool
}

// New returns an empty forest.
func New() *Forest {
	return &Forest{
		queues:  map[string]*Node{},
		cohorts: map[string]*Node{},
		pairs:   map[core.FlavorResource]FlavorResource{},
	}
}

// FlavorResource interns a flavor and a resource.
func (f *Forest) FlavorResource(flavor, resource string) FlavorResource {
	fr := core.FlavorResource{Flavor: flavor, Resource: resource}
	if p, ok := f.pairs[fr]; ok {
		return p
	}
	p := FlavorResource(len(f.names)) //nolint:gosec // flavors times resources: few
	f.pairs[fr] = p
	f.names = append(f.names, fr)
	f.dirty = true
	return p
}

// Names lists all flavors and resources that were ever named together, by FlavorResource.
func (f *Forest) Names() []core.FlavorResource { return slices.Clone(f.names) }

// Name returns the flavor and resource of a pair.
func (f *Forest) Name(p FlavorResource) core.FlavorResource { return f.names[p] }

// Queue returns the node of the named queue; it is made if need be, without
// quota and parent until SetQueue defines it.
func (f *Forest) Queue(name string) *Node {
	n := f.queues[name]
	if n == nil {
		n = &Node{Name: name, Queue: true, ID: len(f.queues), weight: core.WeightOne}
		n.root = n
		f.queues[name] = n
		f.dirty = true
	}
	return n
}

// Queues lists all queues, in any order.
func (f *Forest) Queues() iter.Seq[*Node] { return maps.Values(f.queues) }

// SetQueue defines a queue's place and quotas.
func (f *Forest) SetQueue(name, cohort string, groups []core.ResourceGroup) *Node {
	f.intern(groups)
	n := f.Queue(name)
	n.defined, n.parentName, n.groups = true, cohort, groups
	f.dirty = true
	return n
}

// DropQueue takes a queue's definition away; its usage stays on record.
func (f *Forest) DropQueue(name string) {
	if n := f.queues[name]; n != nil {
		n.defined, n.parentName, n.groups, n.weight = false, "", nil, core.WeightOne
		f.dirty = true
	}
}

// SetCohort defines a cohort object.
func (f *Forest) SetCohort(c core.Cohort) {
	f.intern(c.Groups)
	n := f.cohort(c.Name)
	n.defined, n.parentName, n.groups = true, c.Parent, c.Groups
	n.Weigh(c.Weight)
	f.dirty = true
}

// DropCohort takes a cohort object away; while something names it, it lives on
// without quota and parent.
func (f *Forest) DropCohort(name string) {
	if n := f.cohorts[name]; n != nil {
		n.defined, n.parentName, n.groups, n.weight = false, "", nil, core.WeightOne
		f.dirty = true
	}
}

func (f *Forest) cohort(name string) *Node {
	n := f.cohorts[name]
	if n == nil {
		n = &Node{Name: name, weight: core.WeightOne}
		n.root = n
		f.cohorts[name] = n
	}
	return n
}

// Cohort returns the node of the named cohort, nil if nothing names it.
func (f *Forest) Cohort(name string) *Node { return f.cohorts[name] }

// Dirty reports whether edits wait for Settle.
func (f *Forest) Dirty() bool { return f.dirty }

// Overflown reports whether usage has to be counted again: call ClearUsage and
// Add everything once more.
func (f *Forest) Overflown() bool { return f.overflown }

// ClearUsage sets all usage to zero.
func (f *Forest) ClearUsage() {
	for _, n := range f.queues {
		for i := range n.cells {
			n.cells[i].usage = [accounts]core.Amount{}
		}
	}
	f.overflown, f.dirty = false, true
}

// Settle makes edits effective: links, cycles, quotas and sums of all trees.
func (f *Forest) Settle() {
	if !f.dirty {
		return
	}
	f.dirty = false
	f.link()
	all := f.ordered()
	for _, n := range all {
		n.root.borrowers = slices.Grow(n.root.borrowers[:0], len(f.names))[:len(f.names)]
		clear(n.root.borrowers)
	}
	for _, n := range all {
		f.sum(n)
	}
	f.lend(all)
}

// link connects children with parents and forgets cohorts that no queue names.
func (f *Forest) link() {
	for _, n := range f.cohorts {
		n.children = nil
	}
	for _, n := range f.queues {
		if n.parentName != "" {
			f.cohort(n.parentName)
		}
	}
	for _, n := range slices.Collect(maps.Values(f.cohorts)) {
		if n.parentName != "" {
			f.cohort(n.parentName)
		}
	}
	used := map[string]bool{}
	all := f.all()
	for _, n := range all {
		used[n.parentName] = true
	}
	for name, n := range f.cohorts {
		if !n.defined && !used[name] {
			delete(f.cohorts, name)
		}
	}
	for _, n := range all {
		n.cyclic = f.cycles(n)
		n.parent = nil
		if n.parentName != "" && !n.cyclic {
			n.parent = f.cohorts[n.parentName]
			n.parent.children = append(n.parent.children, n)
		}
	}
	for _, n := range f.cohorts {
		slices.SortFunc(n.children, compareNodes)
	}
}

// cycles reports whether the way up from n never ends.
func (f *Forest) cycles(n *Node) bool {
	steps := 0
	for name := n.parentName; name != ""; name = f.cohorts[name].parentName {
		if steps++; steps > len(f.cohorts) {
			return true
		}
	}
	return false
}

func (f *Forest) all() []*Node {
	all := make([]*Node, 0, len(f.queues)+len(f.cohorts))
	all = slices.AppendSeq(all, maps.Values(f.queues))
	all = slices.AppendSeq(all, maps.Values(f.cohorts))
	slices.SortFunc(all, compareNodes)
	return all
}

func compareNodes(a, b *Node) int {
	if a.Queue != b.Queue {
		if b.Queue {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// ordered returns all nodes, children before parents.
func (f *Forest) ordered() []*Node {
	out := make([]*Node, 0, len(f.queues)+len(f.cohorts))
	var down func(n, root *Node)
	down = func(n, root *Node) {
		n.root, n.height = root, 0
		for _, c := range n.children {
			down(c, root)
			if c.Queue || c.height > 0 {
				n.height = max(n.height, c.height+1)
			}
		}
		out = append(out, n)
	}
	for _, n := range f.all() {
		if n.parent == nil {
			down(n, n)
		}
	}
	return out
}

// sum computes a node's quotas from its spec, and its sums from its children.
func (f *Forest) sum(n *Node) {
	n.reshare()
	for len(n.cells) < len(f.names) {
		n.cells = append(n.cells, cell{})
	}
	for i := range n.cells {
		c := &n.cells[i]
		*c = cell{borrow: core.Unlimited, lend: core.Unlimited, usage: c.usage}
		if !n.Queue {
			c.usage = [accounts]core.Amount{}
		}
	}
	for _, g := range n.groups {
		for _, fl := range g.Flavors {
			for _, q := range fl.Quotas {
				n.limit(f.pairs[core.FlavorResource{Flavor: fl.Flavor, Resource: q.Resource}], q)
			}
		}
	}
	for i := range n.cells {
		c := &n.cells[i]
		c.subtree = c.nominal
		for _, child := range n.children {
			cc := &child.cells[i]
			c.subtree, c.cut = c.subtree.Add(cc.lent), c.cut.Add(cc.cut)
			for l := range c.usage {
				c.usage[l] = c.usage[l].Add(max(0, cc.usage[l].Sub(cc.kept)))
			}
		}
		c.lent, c.kept = c.subtree, 0
		if c.subtree > c.lend {
			c.lent, c.kept = c.lend, c.subtree.Sub(c.lend)
		}
		if n.Queue && c.usage[core.Projected] > c.subtree {
			n.root.borrowers[i]++
		}
	}
	f.tick(n)
}

func (n *Node) limit(p FlavorResource, q core.Quota) {
	c := &n.cells[p]
	c.set = true
	c.nominal, c.cut = q.Nominal, q.Cut
	if q.Borrowing != nil {
		c.borrow = *q.Borrowing
	}
	if q.Lending != nil {
		c.lend = *q.Lending
	}
}

// intern makes pairs for everything the groups mention.
func (f *Forest) intern(groups []core.ResourceGroup) {
	for _, g := range groups {
		for _, fl := range g.Flavors {
			for _, q := range fl.Quotas {
				f.FlavorResource(fl.Flavor, q.Resource)
			}
		}
	}
}
