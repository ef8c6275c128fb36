package core

import (
	"slices"
	"strconv"
	"strings"
)

// Constraints say where the pods of a set may be, beside the room that their requests take.
type Constraints struct {
	// Filter says which nodes one of the pods may run on.
	Filter Filter
	// Limits bound how many pods share a node or a domain, sorted by name.
	Limits []Limit
	// Topology says how near to each other the pods must be.
	Topology TopologyRequest
}

// Constraints of the pods, without what a flavor adds.
func (p *PodSet) Constraints() Constraints {
	return Constraints{Filter: p.Filter, Limits: p.Limits, Topology: p.Topology}
}

// Equal reports whether both constrain pods alike.
func (c *Constraints) Equal(o *Constraints) bool {
	return slices.Equal(c.Limits, o.Limits) && c.Topology.Equal(o.Topology) && c.Filter.Equal(o.Filter)
}

// Key appends a text that is equal for equal constraints, and differs for others.
func (c *Constraints) Key(b *strings.Builder) {
	c.Filter.key(b)
	for _, l := range c.Limits {
		b.WriteString("%" + strconv.Quote(l.Name) + strconv.Itoa(int(l.Count)) + "/" + strconv.Itoa(int(l.Most)))
		if l.Own {
			b.WriteByte('!')
		}
		if !l.PerNode() {
			b.WriteString("@" + strconv.Quote(l.Level) + strconv.Itoa(int(l.Skew)))
			b.WriteString("<" + strconv.Itoa(int(l.MinDomains)))
			if l.Unselected {
				b.WriteByte('u')
			}
			if l.Tolerated {
				b.WriteByte('t')
			}
		}
	}
	c.Topology.Key(b)
}

// Equal reports whether two filters are written alike, but for empty lists.
func (f Filter) Equal(o Filter) bool {
	if f.onlyTolerates() && o.onlyTolerates() && slices.Equal(f.Tolerations, o.Tolerations) {
		return true // as it is for most
	}
	var x, y strings.Builder
	f.key(&x)
	o.key(&y)
	return x.String() == y.String()
}

func (f Filter) onlyTolerates() bool {
	return len(f.Terms)+len(f.Must)+len(f.Volumes)+len(f.Refused)+len(f.Avoided) == 0
}

func (f Filter) key(b *strings.Builder) {
	for _, t := range f.Terms {
		b.WriteByte('(')
		t.key(b)
		b.WriteByte(')')
	}
	b.WriteByte('&')
	f.Must.key(b)
	for _, v := range f.Volumes {
		b.WriteString("%" + strconv.Quote(v.Claim))
		for _, t := range v.Terms {
			b.WriteByte('(')
			t.key(b)
			b.WriteByte(')')
		}
	}
	for _, t := range f.Tolerations {
		b.WriteString("~" + strconv.Quote(t.Key) + strconv.Quote(t.Value) + strconv.Quote(string(t.Effect)))
		if t.Exists {
			b.WriteByte('*')
		}
	}
	for _, r := range f.Refused {
		b.WriteString("^" + strconv.Quote(r.Node) + strconv.Itoa(int(r.Most)) + strconv.Quote(r.Why))
	}
	for _, name := range f.Avoided {
		b.WriteString("-" + strconv.Quote(name))
	}
}

func (s Selector) key(b *strings.Builder) {
	for _, r := range s {
		b.WriteString(strconv.Quote(r.Key) + string(r.Operator))
		for _, v := range r.Values {
			b.WriteString(strconv.Quote(v))
		}
		b.WriteByte(';')
	}
}
