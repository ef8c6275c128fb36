package nodehealth

import (
	"maps"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Entry is what is remembered of a node.
type Entry struct {
	// Flavors that the node serves, sorted; one at least.
	Flavors []string
	// Capacity is what the node had when it was last in service, without pods
	// and without amounts of 0.
	Capacity core.Resources
}

// Inventory remembers the nodes on which promises were built, by name. A node that
// is deleted stays in it, so that its capacity stays missing until the node
// comes back or is struck out. Treat values as read-only.
type Inventory map[string]Entry

// Learn returns the inventory after a look at all nodes that exist:
//
//   - a node in service is noted as it is;
//   - a node out of service keeps the capacity it was known for and may only
//     gain, because broken devices and restarting daemons report less than
//     there is;
//   - a node that has none of a kind of devices that it had, and no devices that it had not, as after a restart
//     before their plugin came, keeps them: they are lost;
//   - a node that serves no flavor any more is struck out;
//   - a node that is gone stays as it was.
func (l Inventory) Learn(flavors []core.Flavor, machines []Machine) Inventory {
	out := maps.Clone(l)
	if out == nil {
		out = Inventory{}
	}
	for _, m := range machines {
		pools := Pools(flavors, m.Signals)
		if len(pools) == 0 {
			delete(out, m.Name)
			continue
		}
		capacity := hardware(m.Signals.Capacity)
		before := l[m.Name].Capacity
		if outOfService(m.Signals) {
			capacity = greater(capacity, before)
		} else if !newDevices(before, capacity) {
			for _, q := range before {
				if isDevice(q.Resource) && capacity.Of(q.Resource) == 0 {
					capacity = capacity.With(q.Resource, q.Amount)
				}
			}
		}
		out[m.Name] = Entry{Flavors: pools, Capacity: capacity}
	}
	return out
}

// Equal reports whether both inventories remember the same.
func (l Inventory) Equal(o Inventory) bool {
	return maps.EqualFunc(l, o, Entry.Equal)
}

// Equal reports whether both entries say the same.
func (e Entry) Equal(o Entry) bool {
	return slices.Equal(e.Flavors, o.Flavors) && slices.Equal(e.Capacity, o.Capacity)
}

func (l Inventory) names() []string { return slices.Sorted(maps.Keys(l)) }

// outOfService reports whether any part of the node takes no work.
func outOfService(f Signals) bool {
	return slices.ContainsFunc(findings(f), func(x finding) bool { return !x.state.TakesWork() })
}

// isDevice reports whether a resource is one of those that device plugins tell of.
func isDevice(resource string) bool { return strings.Contains(resource, "/") }

// newDevices reports whether a node has devices that it had not, as one whose GPUs were divided.
func newDevices(was, is core.Resources) bool {
	return slices.ContainsFunc(is, func(q core.Quantity) bool {
		return isDevice(q.Resource) && q.Amount > 0 && was.Of(q.Resource) == 0
	})
}

// greater returns the greater amount of each resource.
func greater(a, b core.Resources) core.Resources {
	out := a
	for _, q := range b {
		if q.Amount > out.Of(q.Resource) {
			out = out.With(q.Resource, q.Amount)
		}
	}
	return out
}
