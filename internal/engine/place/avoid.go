package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// elsewhere is a request whose sets may not use the nodes that they avoid; some is false if none avoids any. Its classes
// are of this one request: what avoids nodes is rare, and lapses.
func elsewhere(r Request) (out Request, some bool) {
	for i := range r.Sets {
		c := r.Sets[i].Class
		if len(c.filter.Avoided) == 0 {
			continue
		}
		if !some {
			out, some = r, true
			out.Sets = slices.Clone(r.Sets)
		}
		out.Sets[i].Class = c.away()
	}
	return out, some
}

// away is the class on the nodes that it does not avoid.
func (c *Class) away() *Class {
	filter := c.filter
	filter.Avoided = nil
	filter.Refused = slices.DeleteFunc(
		slices.Clone(filter.Refused),
		func(r core.NodeRefusal) bool { return slices.Contains(c.filter.Avoided, r.Node) },
	)
	for _, name := range c.filter.Avoided {
		filter.Refused = append(filter.Refused, core.NodeRefusal{Node: name})
	}
	slices.SortFunc(filter.Refused, func(a, b core.NodeRefusal) int { return cmp.Compare(a.Node, b.Node) })
	return &Class{
		key: c.key, needs: c.needs, pack: c.pack, size: c.size, filter: filter, limits: c.limits, near: c.near,
	}
}
