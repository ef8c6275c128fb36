package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Amounts are of flavors and resources.
type Amounts map[core.FlavorResource]core.Amount

// Capacity is what the nodes of flavors have, in service or not. A node that serves several
// flavors counts for each.
func Capacity(flavors []kueue.ResourceFlavor, nodes []corev1.Node) Amounts {
	known := make([]core.Flavor, len(flavors))
	for i := range flavors {
		known[i] = convert.Flavor(&flavors[i])
	}
	out := Amounts{}
	for i := range nodes {
		n := &nodes[i]
		for _, flavor := range nodehealth.Pools(known, convert.NodeSignals(n)) {
			for _, r := range convert.Resources(n.Status.Allocatable) {
				at := core.FlavorResource{Flavor: flavor, Resource: r.Resource}
				out[at] = out[at].Add(r.Amount)
			}
		}
	}
	return out
}

// Promised is the sum of the quotas of all queues and cohorts.
func Promised(queues []kueue.ClusterQueue, cohorts []kueue.Cohort) Amounts {
	out := Amounts{}
	add := func(flavors []core.FlavorQuotas) {
		for _, f := range flavors {
			for _, q := range f.Quotas {
				at := core.FlavorResource{Flavor: f.Flavor, Resource: q.Resource}
				out[at] = out[at].Add(q.Nominal)
			}
		}
	}
	for i := range queues {
		add(view.Flavors(&queues[i]))
	}
	for i := range cohorts {
		add(
			view.Flavors(
				&kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{ResourceGroups: cohorts[i].Spec.ResourceGroups}},
			),
		)
	}
	return out
}

// Beyond are the GPUs, cores and memory that were promised and that the nodes do not have, in
// order. Flavors that have no node are left out: their nodes may come when they are needed.
func Beyond(promised, has Amounts) []core.FlavorResource {
	var out []core.FlavorResource
	for at, amount := range promised { // sorted below
		_, there := has[core.FlavorResource{Flavor: at.Flavor, Resource: core.Pods}]
		if there && at.Resource != core.Pods && amount > has[at] {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b core.FlavorResource) int { return a.Compare(b) })
	return out
}

// gpuOf is the resource by which nodes of a flavor offer GPUs, the usual one if they have none.
func gpuOf(flavor string, has Amounts) corev1.ResourceName {
	var found []string
	for at, amount := range has { // sorted below
		if at.Flavor == flavor && amount > 0 && view.IsGPU(at.Resource) {
			found = append(found, at.Resource)
		}
	}
	if len(found) == 0 || slices.Contains(found, core.GPU) {
		return core.GPU
	}
	return corev1.ResourceName(slices.Min(found))
}

// share is what belongs to a number of GPUs of a flavor, if all that its nodes have is divided
// evenly by GPUs: whole cores, whole Gi, pods, and extended resources. It is empty if the nodes
// have no GPUs of that name.
func share(flavor string, gpu corev1.ResourceName, gpus resource.Quantity, has Amounts) []Setting {
	all := has[core.FlavorResource{Flavor: flavor, Resource: string(gpu)}]
	wanted := convert.Amount(gpu, gpus)
	if all <= 0 {
		return nil
	}
	var out []Setting
	for _, at := range slices.SortedFunc(maps.Keys(has), core.FlavorResource.Compare) {
		extended := strings.Contains(at.Resource, "/") && at.Resource != string(gpu)
		if at.Flavor != flavor ||
			!extended && !slices.Contains([]string{core.CPU, core.Memory, core.Pods}, at.Resource) {
			continue
		}
		// Whole first, so that no product overflows.
		part := core.Amount(int64(float64(has[at]) / float64(all) * float64(wanted)))
		switch at.Resource {
		case core.CPU:
			part -= part % 1000
		case core.Memory:
			part -= part % (1 << 30)
		}
		q := convert.Quantity(at.Resource, part)
		out = append(out, Setting{Flavor: flavor, Resource: corev1.ResourceName(at.Resource), Amount: &q})
	}
	return out
}

// pickFlavor is the flavor that is meant if none is named: the only one, or that of the usual
// name.
func pickFlavor(flavors []kueue.ResourceFlavor) (string, error) {
	names := make([]string, len(flavors))
	for i := range flavors {
		names[i] = flavors[i].Name
	}
	slices.Sort(names)
	switch {
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, DefaultFlavor):
		return DefaultFlavor, nil
	case len(names) == 0:
		return "", fmt.Errorf(
			"there is no ResourceFlavor yet, the kind of node that quota is counted in: mlbatch flavor create %s makes one of all nodes, or --create-flavor does it here",
			DefaultFlavor,
		)
	}
	return "", fmt.Errorf(
		"there are several flavors: say which with --flavor, one of %s",
		strings.Join(names, ", "),
	)
}

// Names that are used where none is said, those of the tutorial.
const (
	DefaultFlavor     = "default-flavor"
	DefaultCohort     = "default-cohort"
	DefaultLocalQueue = gather.DefaultLocalQueue
	// EditRole is the role of the people of a team.
	EditRole = gather.EditRole
)

// Hardware are the flavors, nodes and quotas that there are.
type Hardware struct {
	Flavors []kueue.ResourceFlavor
	// Nodes are nil if the user may not read them.
	Nodes   []corev1.Node
	Queues  []kueue.ClusterQueue
	Cohorts []kueue.Cohort
}

// TakeHardware reads them.
func TakeHardware(ctx context.Context, c client.Reader) (Hardware, error) {
	var flavors kueue.ResourceFlavorList
	var queues kueue.ClusterQueueList
	var cohorts kueue.CohortList
	var nodes corev1.NodeList
	if err := c.List(ctx, &flavors); err != nil {
		return Hardware{}, fmt.Errorf("list ResourceFlavors: %w", err)
	}
	if err := c.List(ctx, &queues); err != nil {
		return Hardware{}, fmt.Errorf("list ClusterQueues: %w", err)
	}
	if err := gather.Readable(c.List(ctx, &cohorts)); err != nil {
		return Hardware{}, fmt.Errorf("list Cohorts: %w", err)
	}
	if err := gather.Readable(c.List(ctx, &nodes)); err != nil {
		return Hardware{}, fmt.Errorf("list nodes: %w", err)
	}
	return Hardware{flavors.Items, nodes.Items, queues.Items, cohorts.Items}, nil
}

// Overbooked says which quotas are more than the nodes have, once extra is promised as well.
func (h Hardware) Overbooked(extra ...kueue.ClusterQueue) []string {
	queues := slices.Clone(h.Queues)
	for i := range extra {
		at := slices.IndexFunc(queues, func(q kueue.ClusterQueue) bool { return q.Name == extra[i].Name })
		if at < 0 {
			queues, at = append(queues, kueue.ClusterQueue{}), len(queues)
		}
		queues[at] = extra[i]
	}
	promised, has := Promised(queues, h.Cohorts), Capacity(h.Flavors, h.Nodes)
	var out []string
	for _, at := range Beyond(promised, has) {
		if !view.IsGPU(at.Resource) {
			continue
		}
		told := view.Amounts(
			at.Resource,
			view.AmountText(at.Resource, promised[at]),
			view.AmountText(at.Resource, has[at]),
		)
		out = append(
			out,
			fmt.Sprintf(
				"the quotas of all queues add up to %s %s of flavor %s, and its nodes have %s: not all can be used at once",
				told[0],
				at.Resource,
				at.Flavor,
				told[1],
			),
		)
	}
	return out
}
