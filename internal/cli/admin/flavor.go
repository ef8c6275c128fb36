package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// NewFlavor is a ResourceFlavor that is to be made, as it was typed.
type NewFlavor struct {
	Name string
	// Labels are those of its nodes as KEY=VALUE, Taints as KEY=VALUE:EFFECT or KEY:EFFECT,
	// Tolerations as taints, or KEY for any value and effect.
	Labels, Taints, Tolerations []string
	Topology                    string
	// OnDemand says that its nodes are made when pods ask for them.
	OnDemand bool
}

// Object is the ResourceFlavor.
func (n NewFlavor) Object() (*kueue.ResourceFlavor, error) {
	labels, err := ParseLabels("node-labels", n.Labels)
	if err != nil {
		return nil, err
	}
	f := newFlavor(n.Name)
	if len(labels) > 0 {
		f.Spec.NodeLabels = labels
	}
	for _, text := range n.Taints {
		t, err := parseTaint(text)
		if err != nil {
			return nil, err
		}
		f.Spec.NodeTaints = append(f.Spec.NodeTaints, t)
	}
	for _, text := range n.Tolerations {
		t, err := parseToleration(text)
		if err != nil {
			return nil, err
		}
		f.Spec.Tolerations = append(f.Spec.Tolerations, t)
	}
	if n.Topology != "" {
		f.Spec.TopologyName = new(kueue.TopologyReference(n.Topology))
	}
	if n.OnDemand {
		f.Annotations = map[string]string{kueue.NodesOnDemandAnnotation: "true"}
	}
	if errs := kueue.ValidateResourceFlavor(f); len(errs) > 0 {
		return nil, errs.ToAggregate() //nolint:wrapcheck // it names the field
	}
	return f, nil
}

// effects are the effects that taints may have.
func effects() []string {
	return []string{
		string(corev1.TaintEffectNoSchedule),
		string(corev1.TaintEffectPreferNoSchedule),
		string(corev1.TaintEffectNoExecute),
	}
}

func parseTaint(text string) (corev1.Taint, error) {
	what, effect, has := strings.Cut(text, ":")
	if !has || !slices.Contains(effects(), effect) {
		return corev1.Taint{}, fmt.Errorf(
			"--node-taints %s: write KEY=VALUE:EFFECT, with an effect of %s",
			text,
			strings.Join(effects(), ", "),
		)
	}
	key, value, _ := strings.Cut(what, "=")
	if key == "" {
		return corev1.Taint{}, fmt.Errorf("--node-taints %s: the key is missing", text)
	}
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}

func parseToleration(text string) (corev1.Toleration, error) {
	what, effect, has := strings.Cut(text, ":")
	if has && !slices.Contains(effects(), effect) {
		return corev1.Toleration{}, fmt.Errorf(
			"--tolerations %s: there is no effect %q: use %s",
			text,
			effect,
			strings.Join(effects(), ", "),
		)
	}
	key, value, equal := strings.Cut(what, "=")
	if key == "" {
		return corev1.Toleration{}, fmt.Errorf("--tolerations %s: the key is missing", text)
	}
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if equal {
		t.Operator, t.Value = corev1.TolerationOpEqual, value
	}
	return t, nil
}

// FlavorRow is a ResourceFlavor in a line.
type FlavorRow struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"nodeLabels,omitempty"`
	// Nodes is how many serve it, GPUs how many those have; both are nil if the user may not
	// read nodes.
	Nodes *int `json:"nodes,omitempty"`
	GPUs  *int `json:"gpus,omitempty"`
	// Queues have quotas of it.
	Queues []string `json:"clusterQueues,omitempty"`
}

// FlavorRows are the flavors with what is theirs.
func (h Hardware) FlavorRows() []FlavorRow {
	known := make([]core.Flavor, len(h.Flavors))
	for i := range h.Flavors {
		known[i] = convert.Flavor(&h.Flavors[i])
	}
	nodes, gpus := map[string]int{}, map[string]int{}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		for _, flavor := range nodehealth.Pools(known, convert.NodeSignals(n)) {
			nodes[flavor]++
			for _, r := range convert.Resources(n.Status.Allocatable) {
				if view.IsGPU(r.Resource) {
					gpus[flavor] += int(r.Amount)
				}
			}
		}
	}
	out := make([]FlavorRow, 0, len(h.Flavors))
	for i := range h.Flavors {
		f := &h.Flavors[i]
		row := FlavorRow{Name: f.Name, Labels: f.Spec.NodeLabels, Queues: h.using(f.Name)}
		if h.Nodes != nil {
			row.Nodes, row.GPUs = new(nodes[f.Name]), new(gpus[f.Name])
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b FlavorRow) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// using are the queues with quotas of a flavor.
func (h Hardware) using(flavor string) (out []string) {
	for i := range h.Queues {
		q := &h.Queues[i]
		if slices.ContainsFunc(view.Flavors(q), func(f core.FlavorQuotas) bool { return f.Flavor == flavor }) {
			out = append(out, q.Name)
		}
	}
	slices.Sort(out)
	return out
}

// FlavorColumns are those of a list of flavors.
func FlavorColumns() []cli.Column[FlavorRow] {
	return []cli.Column[FlavorRow]{
		{Title: "NAME", Text: func(r FlavorRow) string { return r.Name }},
		cli.KnownNumberColumn(cli.Column[FlavorRow]{Title: "NODES"}, func(r FlavorRow) *int { return r.Nodes }),
		cli.KnownNumberColumn(cli.Column[FlavorRow]{Title: "GPUS"}, func(r FlavorRow) *int { return r.GPUs }),
		{Title: "NODE LABELS", Rank: 1, Text: func(r FlavorRow) string {
			var out []string
			for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
				out = append(out, k+"="+r.Labels[k])
			}
			return strings.Join(out, ",")
		}},
		{Title: "CLUSTERQUEUES", Text: func(r FlavorRow) string { return strings.Join(r.Queues, ", ") }},
	}
}

// Removable says why a flavor has to stay; nil if it need not.
func (r FlavorRow) Removable() error {
	if len(r.Queues) > 0 {
		return fmt.Errorf(
			"flavor %s is in use: %s %s quota of it",
			r.Name,
			some(r.Queues),
			choose(len(r.Queues), "has", "have"),
		)
	}
	return nil
}

// DeleteFlavor removes a ResourceFlavor.
func DeleteFlavor(ctx context.Context, c client.Client, name string) error {
	if err := c.Delete(ctx, newFlavor(name)); err != nil {
		return fmt.Errorf("delete resourceflavor/%s: %w", name, err)
	}
	return nil
}

// FlavorHints are what will keep a new flavor from doing what is expected of it.
func (h Hardware) FlavorHints(f *kueue.ResourceFlavor) []string {
	if h.Nodes == nil || len(f.Spec.NodeLabels) == 0 || convert.NodesOnDemand(f) {
		return nil
	}
	rows := Hardware{Flavors: []kueue.ResourceFlavor{*f}, Nodes: h.Nodes}.FlavorRows()
	if *rows[0].Nodes > 0 {
		return nil
	}
	return []string{"no node has its labels: it admits nothing before one has"}
}
