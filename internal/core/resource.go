package core

import (
	"cmp"
	"slices"
)

// Names of the resources that the engine itself knows.
const (
	// CPU is counted in thousandths of a core.
	CPU = "cpu"
	// Memory is counted in bytes.
	Memory = "memory"
	// Pods counts pods; it is filled in by the engine wherever it is covered.
	Pods = "pods"
	// GPU is the extended resource of NVIDIA devices.
	GPU = "nvidia.com/gpu"
)

// Quantity is an amount of one named resource.
type Quantity struct {
	Resource string
	Amount   Amount
}

// Resources is a list of quantities, sorted by resource name, each name once.
// The zero value is empty and ready for use. Treat values as read-only.
type Resources []Quantity

// MakeResources returns the sorted form of m.
func MakeResources(m map[string]Amount) Resources {
	r := make(Resources, 0, len(m))
	for name, a := range m {
		r = append(r, Quantity{name, a})
	}
	slices.SortFunc(r, func(a, b Quantity) int { return cmp.Compare(a.Resource, b.Resource) })
	return r
}

// Of returns the amount of the named resource, 0 if it is absent.
func (r Resources) Of(name string) Amount {
	a, _ := r.Lookup(name)
	return a
}

// Lookup returns the amount of the named resource and whether it is listed.
func (r Resources) Lookup(name string) (Amount, bool) {
	i, ok := slices.BinarySearchFunc(
		r,
		name,
		func(q Quantity, n string) int { return cmp.Compare(q.Resource, n) },
	)
	if !ok {
		return 0, false
	}
	return r[i].Amount, true
}

// With returns a copy of r in which the named resource has the given amount.
func (r Resources) With(name string, a Amount) Resources {
	i, ok := slices.BinarySearchFunc(
		r,
		name,
		func(q Quantity, n string) int { return cmp.Compare(q.Resource, n) },
	)
	out := slices.Clone(r)
	if ok {
		out[i].Amount = a
		return out
	}
	return slices.Insert(out, i, Quantity{name, a})
}

// Plus returns the sum of r and o, resource by resource.
func (r Resources) Plus(o Resources) Resources {
	out := make(Resources, 0, len(r)+len(o))
	i, j := 0, 0
	for i < len(r) && j < len(o) {
		switch cmp.Compare(r[i].Resource, o[j].Resource) {
		case -1:
			out = append(out, r[i])
			i++
		case 1:
			out = append(out, o[j])
			j++
		default:
			out = append(out, Quantity{r[i].Resource, r[i].Amount.Add(o[j].Amount)})
			i++
			j++
		}
	}
	out = append(out, r[i:]...)
	return append(out, o[j:]...)
}

// Times returns r with every amount multiplied by n.
func (r Resources) Times(n int64) Resources {
	out := make(Resources, len(r))
	for i, q := range r {
		out[i] = Quantity{q.Resource, q.Amount.Mul(n)}
	}
	return out
}

// FlavorResource names one counted thing: a resource in a flavor.
type FlavorResource struct {
	Flavor   string
	Resource string
}

// Compare orders by flavor, then by resource.
func (f FlavorResource) Compare(o FlavorResource) int {
	return cmp.Or(cmp.Compare(f.Flavor, o.Flavor), cmp.Compare(f.Resource, o.Resource))
}
