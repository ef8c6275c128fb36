package nodehealth

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Pool is what is said of a flavor's nodes.
type Pool struct {
	// OnDemand says that nodes are made when jobs ask for them: those that are not there are not lost.
	OnDemand bool
	// Planned is what the nodes should have together, of the resources that it names; of others it is what the
	// inventory remembers.
	Planned core.Resources
	// Spares are how many of the nodes are kept for recovery.
	Spares Spares
}

// Spares are how many nodes of a flavor are kept for recovery: a number, or a share of those that exist.
type Spares struct{ Nodes, Percent int }

// Of is how many that are of so many nodes.
func (s Spares) Of(nodes int) int { return max(0, min(nodes, max(s.Nodes, (nodes*s.Percent+99)/100))) }

// Keep chooses which nodes of a flavor are kept, of all by name: of those that are free, which take any work and have
// none, the last, since jobs are packed on the first. Nodes that are taken are none, so that fewer are kept while fewer
// are free.
func (s Spares) Keep(nodes []string, free func(node string) bool) (kept []string) {
	left := s.Of(len(nodes))
	for _, name := range slices.Backward(nodes) {
		if left == 0 {
			break
		}
		if free(name) {
			kept = append(kept, name)
			left--
		}
	}
	return kept
}

// Promises are what queues were promised of a flavor's resource.
type Promises struct {
	// Teams is the sum of the quotas of queues and cohorts, Slack the quota of the slack queue.
	Teams, Slack core.Amount
}

// Capacity is how a resource of a flavor stands.
type Capacity struct {
	Resource string
	// Planned is what should be there, Present what nodes that exist have, Healthy what of that takes jobs, and
	// Promised what queues and cohorts, the slack queue left out, have for their own.
	Planned, Present, Healthy, Promised core.Amount
	// OnDemand says that what is planned and not present is made when jobs ask for it.
	OnDemand bool
	// LostSince is since when something that was planned is not healthy, ShortSince since when some of what is promised
	// is missing for that; zero if it is not so.
	LostSince, ShortSince time.Time
	// Cut says that quotas are cut in proportion while more is promised than healthy.
	Cut bool
	// Spares is how many of the flavor's nodes are kept for recovery, as long as so many are free.
	Spares int
}

// Lost is what is planned and neither healthy nor made on demand.
func (c Capacity) Lost() core.Amount {
	if c.OnDemand {
		return max(0, c.Present.Sub(c.Healthy))
	}
	return max(0, c.Planned.Sub(c.Healthy))
}

// Slack is what is healthy and not promised; below 0 more is promised.
func (c Capacity) Slack() core.Amount {
	if c.OnDemand {
		return max(c.Healthy, c.Planned.Sub(c.Lost())).Sub(c.Promised)
	}
	return c.Healthy.Sub(c.Promised)
}

// Left is what is left of so much that is promised: what is healthy or, where more was promised on purpose than there
// ever was, that without what is lost.
func (c Capacity) Left(promised core.Amount) core.Amount {
	if c.Lost() == 0 {
		return promised
	}
	return min(promised, max(0, c.Healthy, promised.Sub(c.Lost())))
}

// Short is how much of what is promised is missing since nodes are lost.
func (c Capacity) Short() core.Amount { return c.Promised.Sub(c.Left(c.Promised)) }

// Equal reports whether both say the same.
func (c Capacity) Equal(o Capacity) bool {
	same := c.LostSince.Equal(o.LostSince) && c.ShortSince.Equal(o.ShortSince)
	c.LostSince, c.ShortSince, o.LostSince, o.ShortSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && c == o
}

// Forget strikes nodes that are gone from the pools that are made on demand: they come back when they are needed, mostly
// by other names.
func (l Inventory) Forget(onDemand func(flavor string) bool, machines []Machine) Inventory {
	out := maps.Clone(l)
	there := map[string]bool{}
	for _, m := range machines {
		there[m.Name] = true
	}
	for name, e := range l {
		if there[name] || !slices.ContainsFunc(e.Flavors, onDemand) {
			continue
		}
		e.Flavors = slices.DeleteFunc(slices.Clone(e.Flavors), onDemand)
		out[name] = e
		if len(e.Flavors) == 0 {
			delete(out, name)
		}
	}
	return out
}

// Supply is what is known of a flavor's nodes, and what was promised of them.
type Supply struct {
	Flavor    string
	Pool      Pool
	Machines  []Machine
	Inventory Inventory
	Promised  map[core.FlavorResource]Promises
	// Cut says that quotas are cut while more is promised than healthy.
	Cut bool
}

// Capacities are how the resources stand of which the flavor's nodes have some, sorted by name. before is what was said
// last: since when it is so follows from it.
func (f *Supply) Capacities(before []Capacity, now time.Time) []Capacity {
	flavor, pool, inventory := f.Flavor, f.Pool, f.Inventory
	present := make(map[string]Signals, len(f.Machines))
	for _, m := range f.Machines {
		present[m.Name] = m.Signals
	}
	all := map[string]*Capacity{}
	of := func(resource string) *Capacity {
		if all[resource] == nil {
			all[resource] = &Capacity{Resource: resource, OnDemand: pool.OnDemand, Cut: f.Cut && !pool.OnDemand}
		}
		return all[resource]
	}
	nodes := 0
	for name, e := range inventory { // sums, so order does not matter
		if !slices.Contains(e.Flavors, flavor) {
			continue
		}
		signals, there := present[name]
		if there {
			nodes++
		}
		lost, _ := unavailable(signals, e.Capacity)
		for _, q := range e.Capacity {
			c := of(q.Resource)
			c.Planned = c.Planned.Add(q.Amount)
			if there {
				c.Present = c.Present.Add(q.Amount)
				c.Healthy = c.Healthy.Add(q.Amount.Sub(lost.Of(q.Resource)))
			}
		}
	}
	for _, q := range pool.Planned {
		of(q.Resource) // also where no node of it ever came
	}
	for fr, p := range f.Promised {
		if fr.Flavor != flavor {
			continue
		}
		c := all[fr.Resource]
		if c == nil && pool.OnDemand {
			c = of(fr.Resource)
		}
		if c == nil { // no node has it: it is no matter of nodes
			continue
		}
		c.Promised = p.Teams
		if pool.OnDemand {
			c.Planned = max(c.Planned, p.Teams.Add(p.Slack))
		}
	}
	for _, q := range pool.Planned {
		of(q.Resource).Planned = q.Amount
	}
	out := make([]Capacity, 0, len(all))
	for _, c := range all {
		date(c, before, now)
		c.Spares = pool.Spares.Of(nodes)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Capacity) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// date finds out since when something is lost, and since when it is more than is left over.
func date(c *Capacity, before []Capacity, now time.Time) {
	was := Capacity{}
	if i := slices.IndexFunc(before, func(b Capacity) bool { return b.Resource == c.Resource }); i >= 0 {
		was = before[i]
	}
	if c.Lost() > 0 {
		c.LostSince = was.LostSince
		if c.LostSince.IsZero() {
			c.LostSince = now
		}
	}
	if c.Short() > 0 && c.Slack() < 0 {
		c.ShortSince = was.ShortSince
		if c.ShortSince.IsZero() {
			c.ShortSince = now
		}
	}
}

// Missing are losses with what was planned and never seen, or is there beyond the plan, of the flavors that say what is
// planned.
func Missing(losses []Loss, flavor string, pool Pool, is []Capacity) []Loss {
	for _, q := range pool.Planned {
		i := slices.IndexFunc(is, func(c Capacity) bool { return c.Resource == q.Resource })
		if i < 0 {
			continue
		}
		fr := core.FlavorResource{Flavor: flavor, Resource: q.Resource}
		at, found := slices.BinarySearchFunc(
			losses,
			fr,
			func(l Loss, fr core.FlavorResource) int { return l.Compare(fr) },
		)
		if !found {
			losses = slices.Insert(losses, at, Loss{FlavorResource: fr})
		}
		losses[at].Amount = is[i].Lost()
	}
	return losses
}
