package gather

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Domains reads the domains that each Topology makes of the nodes and, unless there is one Topology alone, those that
// the labels of nodes tell. seen is false if pods on nodes could not be read, so that nobody knows what is free.
func Domains(ctx context.Context, c client.Reader) (out []view.Domain, seen bool, err error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, false, fmt.Errorf("list nodes: %w", err)
	}
	var topologies kueue.TopologyList
	if err := c.List(ctx, &topologies); err != nil {
		return nil, false, fmt.Errorf("list Topologies: %w", err)
	}
	all, seen, err := Nodes(ctx, c)
	if err != nil {
		return nil, false, err
	}
	stand := map[string]view.Node{}
	for i := range all {
		stand[all[i].Name] = all[i]
	}
	of := func(topology string, levels []string) {
		for _, d := range view.Domains(nodes.Items, levels, stand) {
			d.Topology = topology
			out = append(out, d)
		}
	}
	for i := range topologies.Items {
		of(topologies.Items[i].Name, convert.Topology(&topologies.Items[i]).Levels)
	}
	if len(topologies.Items) != 1 {
		of("", view.DetectLevels(nodes.Items))
	}
	return out, seen, nil
}

// NoteDomains notes where nodes are by the levels of the only Topology or, unless there is one alone, by those that the
// labels of nodes tell. Topologies that may not be read are none.
func NoteDomains(ctx context.Context, c client.Reader, all []view.Node) error {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var topologies kueue.TopologyList
	if err := Readable(c.List(ctx, &topologies)); err != nil {
		return fmt.Errorf("list Topologies: %w", err)
	}
	if len(topologies.Items) == 1 {
		view.NoteDomains(all, nodes.Items, convert.Topology(&topologies.Items[0]).Levels)
		return nil
	}
	view.NoteDomains(all, nodes.Items, view.DetectLevels(nodes.Items))
	return nil
}
