package cli

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// DomainColumns are those of a tree of domains.
func DomainColumns() []Column[view.Domain] {
	return []Column[view.Domain]{
		{Title: "DOMAIN", Text: func(d view.Domain) string { return strings.Repeat("  ", len(d.Path)) + d.Name }},
		{Title: "LEVEL", Rank: 2, Text: func(d view.Domain) string { return d.Level }},
		NumberColumn(Column[view.Domain]{Title: "NODES"}, func(d view.Domain) int { return d.Nodes }),
		NumberColumn(Column[view.Domain]{Title: "READY"}, func(d view.Domain) int { return d.Ready }),
		NumberColumn(Column[view.Domain]{Title: "GPUS", Rank: 1}, func(d view.Domain) int64 { return d.GPUs }),
		KnownNumberColumn(Column[view.Domain]{Title: "FREE"}, func(d view.Domain) *int {
			if d.Free == nil {
				return nil
			}
			return new(int(*d.Free))
		}),
		KnownNumberColumn(Column[view.Domain]{Title: "WHOLE NODES"}, func(d view.Domain) *int { return d.Whole }),
	}
}

// TopologyOf is the levels of a Topology or, where none is named and there is one alone, of that; else those that
// the labels of nodes tell.
func TopologyOf(
	ctx context.Context,
	c client.Reader,
	name string,
) (levels []string, nodes []corev1.Node, err error) {
	var list corev1.NodeList
	if err := c.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	var all kueue.TopologyList
	if err := c.List(ctx, &all); err != nil {
		return nil, nil, fmt.Errorf("list Topologies: %w", err)
	}
	var names []string
	for i := range all.Items {
		t := &all.Items[i]
		if t.Name == name || name == "" && len(all.Items) == 1 {
			return convert.Topology(t).Levels, list.Items, nil
		}
		names = append(names, t.Name)
	}
	if name != "" {
		there := "there is none"
		if len(names) > 0 {
			there = "there are " + strings.Join(names, ", ")
		}
		return nil, nil, fmt.Errorf("there is no Topology %s: %s", name, there)
	}
	return view.DetectLevels(list.Items), list.Items, nil
}
