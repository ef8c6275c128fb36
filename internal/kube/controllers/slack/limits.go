package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// change is one lending limit that has to become another.
type change struct {
	core.FlavorResource
	// group, flavor and resource are positions in the spec.
	group, flavor, resource int
	nominal                 core.Amount
	// old and limit are what may be lent before and after; nil means all.
	old, limit *core.Amount
	// nodes that lack some of the resource, sorted by name.
	nodes []nodehealth.LostNode
}

// lending compares the limits of the slack queue with what the losses leave,
// in the order of the spec.
func lending(queue *kueue.ClusterQueue, losses []nodehealth.Loss) []change {
	var changes []change
	for gi, g := range queue.Spec.ResourceGroups {
		for fi, f := range g.Flavors {
			for ri, r := range f.Resources {
				fr := core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}
				loss := nodehealth.Find(losses, fr)
				c := change{
					FlavorResource: fr, group: gi, flavor: fi, resource: ri, nodes: loss.Nodes,
					nominal: convert.Amount(r.Name, r.NominalQuota),
				}
				if r.LendingLimit != nil {
					c.old = new(convert.Amount(r.Name, *r.LendingLimit))
				}
				c.limit = nodehealth.Lending(c.nominal, loss.Amount)
				if !ptr.Equal(c.old, c.limit) {
					changes = append(changes, c)
				}
			}
		}
	}
	return changes
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// limitsPatch is a JSON patch that sets or removes the changed limits and
// nothing else. It fails if the spec was rearranged meanwhile, because it tests
// the names on its way.
func limitsPatch(changes []change) ([]byte, error) {
	ops := make([]operation, 0, 3*len(changes))
	for _, c := range changes {
		flavor := fmt.Sprintf("/spec/resourceGroups/%d/flavors/%d", c.group, c.flavor)
		quota := fmt.Sprintf("%s/resources/%d", flavor, c.resource)
		ops = append(
			ops,
			operation{"test", flavor + "/name", c.Flavor},
			operation{"test", quota + "/name", c.Resource},
		)
		if c.limit == nil {
			ops = append(ops, operation{Op: "remove", Path: quota + "/lendingLimit"})
			continue
		}
		ops = append(ops, operation{"add", quota + "/lendingLimit", convert.Quantity(c.Resource, *c.limit)})
	}
	return json.Marshal(ops)
}

// lent is how much may be lent under a limit.
func (c change) lent(limit *core.Amount) core.Amount { return ptr.Deref(limit, c.nominal) }

// limitedNote tells which resources the queue lends less of, "" if none.
func limitedNote(changes []change) string {
	less := slices.DeleteFunc(
		slices.Clone(changes),
		func(c change) bool { return c.lent(c.limit) >= c.lent(c.old) },
	)
	if len(less) == 0 {
		return ""
	}
	return fit("Lends less: " + amounts(less) + ". Out of service: " + nodes(less))
}

// restoredNote tells which resources the queue lends more of, "" if none.
func restoredNote(changes []change) string {
	more := slices.DeleteFunc(
		slices.Clone(changes),
		func(c change) bool { return c.lent(c.limit) < c.lent(c.old) },
	)
	if len(more) == 0 {
		return ""
	}
	note := "Lends more: " + amounts(more)
	if down := nodes(more); down != "" {
		note += ". Still out of service: " + down
	}
	return fit(note)
}

// amounts is like "2 of 6 nvidia.com/gpu (default-flavor), ...".
func amounts(changes []change) string {
	parts := make([]string, len(changes))
	for i, c := range changes {
		lent, nominal := convert.Quantity(c.Resource, c.lent(c.limit)), convert.Quantity(c.Resource, c.nominal)
		parts[i] = fmt.Sprintf("%s of %s %s (%s)", lent.String(), nominal.String(), c.Resource, c.Flavor)
	}
	return strings.Join(parts, ", ")
}

// nodes is like "node-1 (cordoned), node-2 (deleted)": five at most.
func nodes(changes []change) string {
	const most = 5
	var all []string
	for _, c := range changes {
		for _, n := range c.nodes {
			all = append(all, fmt.Sprintf("%s (%s)", n.Name, n.Why))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if rest := len(all) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), rest)
	}
	return strings.Join(all, ", ")
}

// fit shortens a note to what an event can hold.
func fit(note string) string {
	const longest = 1000
	if len(note) <= longest {
		return note
	}
	return strings.ToValidUTF8(note[:longest], "") + "..."
}
