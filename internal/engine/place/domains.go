package place

import "slices"

// Domain is one of the domains of the level that a pod set requires. It holds as long as no node comes, goes or
// changes.
type Domain int32

// OfDomain reports whether the pods of a set must share a domain of some level.
func (s Set) OfDomain() bool { return s.Class.near != nil && s.Class.near.required >= 0 }

// InOneDomain reports whether one of the domains of DomainsOf of the first set must hold all of several sets.
func InOneDomain(sets []Set) bool {
	if len(sets) == 0 {
		return false
	}
	first := sets[0].ties()
	if len(first) == 0 || len(sets) > 1 && first[0].name == "" {
		return false
	}
	label := sets[0].label(first[0])
	return !slices.ContainsFunc(sets[1:], func(set Set) bool { return !set.tied(first[0].name, label) })
}

// DomainsOf lists the domains that could hold a set, and what is tied to it, if they were empty and in service, by name:
// of the widest level of which one must; none if none must.
func (s *Nodes) DomainsOf(set Set) []Domain {
	if !set.OfDomain() {
		return nil
	}
	near := set.Class.near
	empty := s.emptied(set.Class)
	var out []Domain
	for i, d := range near.tree.domains {
		if at := int32(i); d.level == near.scope && empty.holding(set.Class).in(at) >= int64(set.Count) {
			out = append(out, Domain(at))
		}
	}
	slices.SortFunc(out, func(a, b Domain) int { return near.tree.compare(int32(a), int32(b)) })
	return out
}

// DomainOf is the one of the domains of DomainsOf in which a node is; false if it is in none.
func (s *Nodes) DomainOf(set Set, n *Node) (Domain, bool) {
	if !set.OfDomain() || !n.known {
		return 0, false
	}
	near := set.Class.near
	s.settle()
	d, in := near.tree.above(s.domainOf(near.tree, n.rank), near.scope)
	return Domain(d), in
}

// Packed is how much of the packed resource the pods of a hold have.
func (h Hold) Packed() int64 { return h.Class.pack * int64(h.Count) }

// Packed is how much of the packed resource each pod of a set has.
func (s Set) Packed() int64 { return s.Class.pack }

// RoomIn is how many pods of a set have room in one of the domains of DomainsOf, Room in all, and RoomOn on a
// node, once all are gone that leave.
func (s *Nodes) RoomIn(set Set, d Domain) int64 {
	return s.index(set.Class, After).domains.of(set.Class.near, int32(d))
}

// Room is RoomIn of all nodes.
func (s *Nodes) Room(set Set) int64 { return s.index(set.Class, After).total }

// RoomOn is RoomIn of one node.
func (s *Nodes) RoomOn(set Set, n *Node) int64 {
	ix := s.index(set.Class, After)
	if !n.known {
		return 0
	}
	return int64(ix.slots[n.rank])
}
