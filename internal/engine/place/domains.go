package place

import "slices"

// Domain is one of the domains of the level that a pod set requires. It holds as long as no node comes, goes or
// changes.
type Domain int32

// DomainsOf lists the domains of the level that a set requires that could hold it if they were empty and in
// service, by name; none if it requires no level.
func (s *Nodes) DomainsOf(set Set) []Domain {
	near := set.Class.near
	if near == nil || near.required < 0 {
		return nil
	}
	empty := s.emptied(set.Class)
	var out []Domain
	for i, d := range near.tree.domains {
		if at := int32(i); d.level == near.required && empty.holding(set.Class).in(at) >= int64(set.Count) {
			out = append(out, Domain(at))
		}
	}
	slices.SortFunc(out, func(a, b Domain) int { return near.tree.compare(int32(a), int32(b)) })
	return out
}

// DomainOf is the domain of the level that a set requires in which a node is; false if it is in none.
func (s *Nodes) DomainOf(set Set, n *Node) (Domain, bool) {
	near := set.Class.near
	if near == nil || near.required < 0 || !n.known {
		return 0, false
	}
	s.settle()
	d, in := near.tree.above(s.domainOf(near.tree, n.rank), near.required)
	return Domain(d), in
}

// Packed is how much of the packed resource the pods of a hold have, or how many they are if they have none.
func (h Hold) Packed() int64 { return max(1, h.Class.pack) * int64(h.Count) }
