package nodehealth

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// lifecyclePrefix starts the keys of taints that Kubernetes itself sets while a
// node is in trouble. They pass, and do not say which pods the node is for.
const lifecyclePrefix = "node.kubernetes.io/"

// Machine is a node that exists.
type Machine struct {
	Name    string
	Signals Signals
}

// Pools returns the names of the flavors that the node serves, sorted. It
// serves a flavor when it carries the flavor's node labels and a pod of the
// flavor would stand its taints: each taint that keeps pods away is one of the
// flavor's own, or tolerated by the flavor, or set by Kubernetes because of
// trouble. Control-plane nodes, for example, serve no ordinary flavor.
func Pools(flavors []core.Flavor, f Signals) []string {
	var names []string
	for i := range flavors {
		if serves(&flavors[i], f) {
			names = append(names, flavors[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func serves(flavor *core.Flavor, f Signals) bool {
	for k, v := range flavor.NodeLabels {
		if got, ok := f.Labels[k]; !ok || got != v {
			return false
		}
	}
	lasting := slices.DeleteFunc(slices.Clone(f.Taints), func(t core.Taint) bool {
		return strings.HasPrefix(t.Key, lifecyclePrefix) || IsPassing(t.Key) || slices.Contains(flavor.Taints, t)
	})
	_, bad := core.Untolerated(lasting, flavor.Tolerations)
	return !bad
}

// Loss is how much of one resource of one flavor is out of service, and where.
type Loss struct {
	core.FlavorResource
	// Amount is above 0.
	Amount core.Amount
	// Nodes that lack it, sorted by name.
	Nodes []LostNode
}

// LostNode names a node that is out of service and says in a few words why.
type LostNode struct {
	Name string
	Why  string
}

// Account sums what is out of service, sorted by flavor and resource, and
// returns it with the inventory brought up to date by Learn. Nodes outside the
// pools of the flavors do not count. Of a node with a bad health label the
// GPUs are lost; of a node that is cordoned, not ready or being deleted, and of
// a remembered node that is gone, everything is. A node with label WARN has
// lost nothing.
func Account(flavors []core.Flavor, machines []Machine, known Inventory) ([]Loss, Inventory) {
	inventory := known.Learn(flavors, machines)
	present := make(map[string]Signals, len(machines))
	for _, m := range machines {
		present[m.Name] = m.Signals
	}
	sums := map[core.FlavorResource]*Loss{}
	for _, name := range inventory.names() {
		entry := inventory[name]
		lost, why := entry.Capacity, "deleted"
		if f, ok := present[name]; ok {
			lost, why = unavailable(f, entry.Capacity)
		}
		charge(sums, entry.Flavors, lost, LostNode{name, why})
	}
	losses := make([]Loss, 0, len(sums))
	for _, l := range sums {
		losses = append(losses, *l)
	}
	slices.SortFunc(losses, func(a, b Loss) int { return a.Compare(b.FlavorResource) })
	return losses, inventory
}

// charge counts what a node lost on each of its flavors.
func charge(sums map[core.FlavorResource]*Loss, flavors []string, lost core.Resources, node LostNode) {
	for _, flavor := range flavors {
		for _, q := range lost {
			if q.Amount <= 0 {
				continue
			}
			fr := core.FlavorResource{Flavor: flavor, Resource: q.Resource}
			l := sums[fr]
			if l == nil {
				l = &Loss{FlavorResource: fr}
				sums[fr] = l
			}
			l.Amount = l.Amount.Add(q.Amount)
			l.Nodes = append(l.Nodes, node)
		}
	}
}

// unavailable returns the part of a node's capacity that is out of service and
// why it is.
func unavailable(f Signals, capacity core.Resources) (core.Resources, string) {
	var words []string
	whole, gpus := false, false
	for _, x := range findings(f) {
		if x.state.TakesWork() {
			continue
		}
		words = append(words, x.why)
		switch x.scope {
		case wholeNode:
			whole = true
		case gpusOnly:
			gpus = true
		}
	}
	why := strings.Join(words, ", ")
	switch {
	case whole:
		return capacity, why
	case gpus:
		lost := core.Resources{{Resource: core.GPU, Amount: capacity.Of(core.GPU)}}
		return greater(lost, missing(f, capacity)), why
	}
	if lost := missing(f, capacity); len(lost) > 0 {
		return lost, "devices that cannot be allocated"
	}
	return nil, ""
}

// missing are devices that cannot be allocated, and those that a node had and does not tell of any more.
func missing(f Signals, capacity core.Resources) core.Resources {
	lost := f.Broken
	for _, q := range capacity {
		if gone := q.Amount.Sub(f.Capacity.Of(q.Resource)); isDevice(q.Resource) && gone > 0 {
			lost = lost.With(q.Resource, gone.Add(f.Broken.Of(q.Resource)))
		}
	}
	return lost
}

// Find returns the loss of one resource of one flavor in the sorted losses; it
// is zero if nothing is lost.
func Find(losses []Loss, fr core.FlavorResource) Loss {
	i, ok := slices.BinarySearchFunc(losses, fr, func(l Loss, fr core.FlavorResource) int {
		return l.Compare(fr)
	})
	if !ok {
		return Loss{FlavorResource: fr}
	}
	return losses[i]
}

// Lending returns how much of its nominal quota the slack queue may lend while
// some capacity is unavailable: nil, which means all, if nothing is
// unavailable, else what the nominal quota leaves, at least 0.
func Lending(nominal, unavailable core.Amount) *core.Amount {
	if unavailable <= 0 || nominal == core.Unlimited {
		return nil
	}
	return new(max(0, nominal.Sub(unavailable)))
}

// hardware returns what of r is lost with a machine: all amounts above 0, sorted,
// except pods, which are slots and not hardware.
func hardware(r core.Resources) core.Resources {
	out := make(core.Resources, 0, len(r))
	for _, q := range r {
		if q.Resource != core.Pods && q.Amount > 0 {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b core.Quantity) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}
