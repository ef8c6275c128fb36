// Package place chooses nodes for gangs: which nodes a pod may use, how many
// fit, and which ones to take so that whole nodes stay free.
//
// Nodes keep two accounts of what is held on them (core.Account). Equal requests
// share a Class, which keeps the number of pods that fit per node up to date in
// time proportional to the nodes that changed. A node is never given more than
// it has; the only exception is what was observed and not decided here.
//
// Where pods must be near to each other, a tree of domains (racks in blocks, say) stands above the
// nodes, and a class keeps for how many pods each domain has room, up to date in time
// proportional to the depth of the tree.
package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// maxRequest bounds what one pod may ask of one resource, so that sums per node
// stay far from overflow. No machine is that large.
const maxRequest = core.Amount(1) << 50

// Node is a machine and what is held on it.
type Node struct {
	spec  core.Node
	known bool // false: only holds of a node that is not there (yet)
	rank  int  // position in the order of faults, and of names where these are equal
	// free is allocatable less foreign less held, per account and resource; it may
	// be negative.
	free [core.Accounts][]int64
	held [core.Accounts][]int64
	cap  []int64 // allocatable
	// shares is what holds take of limits, per account, foreign what others do.
	shares  [core.Accounts]shares
	foreign shares
	// version grows with changes that may change which classes match.
	version uint32
	users   []int32
}

// Name returns the node's name.
func (n *Node) Name() string { return n.spec.Name }

// Spec returns the node as told; nil if it is not there.
func (n *Node) Spec() *core.Node {
	if !n.known {
		return nil
	}
	return &n.spec
}

// TakesWork reports whether new work may be placed on the node.
func (n *Node) TakesWork() bool { return n.known && n.spec.State.TakesWork() }

// Users returns the owners of what is held here now, in no particular order.
func (n *Node) Users() []int32 { return n.users }

// Over reports whether more is promised than the node has.
func (n *Node) Over(l core.Account) bool {
	for _, f := range n.free[l] {
		if f < 0 {
			return true
		}
	}
	return n.shares[l].over(n.foreign)
}

// Hold is a number of equal pods on a node.
type Hold struct {
	Node  *Node
	Class *Class
	Count int32
}

// Nodes is all machines.
type Nodes struct {
	pack      string
	packID    int
	byName    map[string]*Node
	order     []*Node // known nodes, those with the fewest faults first, and in order of names then
	unordered bool
	resources map[string]int
	classes   map[string]*Class
	trees     map[string]*tree
	// log lists ranks of nodes that changed, for classes to catch up; base is the
	// position of its first entry. epoch changes with the order of nodes.
	log   []int32
	base  uint64
	epoch uint32
	// specs grows with every change of which nodes exist and what they are like.
	specs uint64
	// losses grows with those after which some pods may fit on no node, empty, that did before.
	losses uint64
	// apart counts the holds that are in one account only.
	apart int
	// supposed counts the nodes that are thought of in another state.
	supposed int
	// merges is maxMerges.
	merges int
}

// PackedResource is the resource of which whole nodes are kept free.
func (s *Nodes) PackedResource() string { return s.pack }

// New returns an empty set of nodes that keeps whole nodes of the named
// resource free.
func New(pack string) *Nodes {
	s := &Nodes{
		pack:      pack,
		byName:    map[string]*Node{},
		resources: map[string]int{},
		classes:   map[string]*Class{},
		trees:     map[string]*tree{},
		merges:    maxMerges,
	}
	s.packID = s.resource(pack)
	return s
}

func (s *Nodes) resource(name string) int {
	id, ok := s.resources[name]
	if !ok {
		id = len(s.resources)
		s.resources[name] = id
	}
	return id
}

// Version grows with every change of which nodes exist and what they are like,
// but not with what is held on them.
func (s *Nodes) Version() uint64 { return s.specs }

// Losses grows with every change after which pods that empty nodes held before may fit on none:
// a node is gone, or is of another kind. A node out of service counts as one that comes back.
func (s *Nodes) Losses() uint64 { return s.losses }

// Get returns the named node; nil if nothing is known of it.
func (s *Nodes) Get(name string) *Node { return s.byName[name] }

// Specs lists the nodes that are there, sorted by name.
func (s *Nodes) Specs() []core.Node {
	var out []core.Node
	for _, n := range s.byName {
		if n.known {
			out = append(out, n.spec)
		}
	}
	slices.SortFunc(out, func(a, b core.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Node returns the named node, made up if it is not there, so that what was
// observed on it can be held.
func (s *Nodes) Node(name string) *Node {
	n := s.byName[name]
	if n == nil {
		n = &Node{spec: core.Node{Name: name}}
		s.byName[name] = n
	}
	return n
}

// Set takes in a node. It reports what changed for waiting workloads: better is
// true if more might fit than before, lost if the node stopped taking work.
func (s *Nodes) Set(spec core.Node) (better, lost bool) {
	n := s.Node(spec.Name)
	old, was := n.spec, n.known
	n.spec, n.known = spec, true
	crowd := n.foreign
	before := append([]int64(nil), n.free[core.Current]...)
	s.measure(n)
	switch {
	case !was:
		s.unordered = true
		s.specs++
		n.version++
	case !sameKind(&old, &spec):
		s.specs++
		n.version++
		if !sameShape(&old, &spec) {
			s.losses++
		}
	}
	s.unordered = s.unordered || old.Faults != spec.Faults
	s.touch(n)
	lost = was && old.State.TakesWork() && !spec.State.TakesWork()
	better = !was || old.State != spec.State || !sameKind(&old, &spec)
	for i, f := range n.free[core.Current] {
		was := int64(0) // of a resource that had not been asked for yet
		if i < len(before) {
			was = before[i]
		}
		better = better || f > was
	}
	for name, is := range crowd {
		better = better || n.foreign[name].taken < is.taken
	}
	return better && spec.State.TakesWork(), lost
}

// Gone forgets a node; what is held on it stays on record.
func (s *Nodes) Gone(name string) {
	n := s.byName[name]
	if n == nil || !n.known {
		return
	}
	n.known = false
	n.spec = core.Node{Name: name}
	s.measure(n)
	s.unordered = true
	s.specs++
	s.losses++
}

// Sweep drops records of nodes that are gone and hold nothing any more.
func (s *Nodes) Sweep() {
	for name, n := range s.byName {
		if !n.known && len(n.users) == 0 && allZero(n.held[core.Current]) && allZero(n.held[core.Projected]) &&
			len(n.shares[core.Current])+len(n.shares[core.Projected]) == 0 {
			delete(s.byName, name)
		}
	}
}

func allZero(v []int64) bool {
	return !slices.ContainsFunc(v, func(x int64) bool { return x != 0 })
}

// sameKind reports whether a node serves the same pods, empty, as before.
func sameKind(a, b *core.Node) bool { return a.State == b.State && sameShape(a, b) }

// sameShape is sameKind of nodes in service.
func sameShape(a, b *core.Node) bool {
	if len(a.Labels) != len(b.Labels) || !slices.Equal(a.Taints, b.Taints) ||
		!slices.Equal(a.Allocatable, b.Allocatable) {
		return false
	}
	for k, v := range a.Labels {
		if w, ok := b.Labels[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// measure recomputes a node's vectors from its spec and holds.
func (s *Nodes) measure(n *Node) {
	n.measureLimits()
	for _, q := range n.spec.Allocatable {
		s.resource(q.Resource)
	}
	n.cap = make([]int64, len(s.resources))
	for _, q := range n.spec.Allocatable {
		n.cap[s.resources[q.Resource]] = int64(q.Amount)
	}
	for l := range n.free {
		free := slices.Clone(n.cap)
		for _, q := range n.spec.Foreign {
			if id, ok := s.resources[q.Resource]; ok && id < len(free) {
				free[id] -= int64(q.Amount)
			}
		}
		for i, h := range n.held[l] {
			free[i] -= h
		}
		n.free[l] = free
	}
}

// touch notes that what fits on a node changed.
func (s *Nodes) touch(n *Node) {
	if s.unordered || !n.known {
		return
	}
	if len(s.log) > 4*len(s.order)+1024 {
		half := len(s.log) / 2
		s.log = append(s.log[:0], s.log[half:]...)
		s.base += uint64(half)
	}
	s.log = append(s.log, int32(n.rank)) //nolint:gosec // ranks are lengths of slices
}

// settle puts new nodes in order.
func (s *Nodes) settle() {
	if !s.unordered {
		return
	}
	s.unordered = false
	s.order = s.order[:0]
	for _, n := range s.byName {
		if n.known {
			s.order = append(s.order, n)
		}
	}
	slices.SortFunc(s.order, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.spec.Faults, b.spec.Faults), core.CompareNames(a.spec.Name, b.spec.Name))
	})
	for i, n := range s.order {
		n.rank = i
	}
	s.epoch++
	s.base += uint64(len(s.log))
	s.log = s.log[:0]
}

// Take books holds in an account. In account Current the owner is noted on the nodes.
func (s *Nodes) Take(l core.Account, holds []Hold, owner int32) {
	for _, h := range holds {
		s.book(l, h, 1)
		if l == core.Current {
			h.Node.users = append(h.Node.users, owner)
		}
	}
}

// Give takes holds off an account again.
func (s *Nodes) Give(l core.Account, holds []Hold, owner int32) {
	for _, h := range holds {
		s.book(l, h, -1)
		u := h.Node.users
		if i := slices.Index(u, owner); i >= 0 && l == core.Current {
			u[i] = u[len(u)-1]
			h.Node.users = u[:len(u)-1]
		}
	}
}

// Split says that n holds more (or, negative, fewer) are in one account only.
func (s *Nodes) Split(n int) { s.apart += n }

func (s *Nodes) book(l core.Account, h Hold, sign int64) {
	n := h.Node
	for len(n.held[l]) < len(s.resources) {
		n.held[l] = append(n.held[l], 0)
	}
	for len(n.free[l]) < len(s.resources) {
		n.free[l] = append(n.free[l], 0)
	}
	for _, r := range h.Class.needs {
		d := sign * r.amount * int64(h.Count)
		n.held[l][r.resource] += d
		n.free[l][r.resource] -= d
	}
	n.takeLimits(l, h, sign)
	s.touch(n)
}
