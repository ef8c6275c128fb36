package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// LevelNamed is the node label that a word means: itself, or the level of a Topology or of what labels tell that has
// it as its last part, as rack is for cloud.provider.com/topology-rack. It is an error if several levels have.
func LevelNamed(ctx context.Context, c client.Reader, word string) (string, error) {
	if word == "" || strings.Contains(word, "/") {
		return word, nil
	}
	levels, err := levelsOf(ctx, c)
	if err != nil {
		return "", err
	}
	var found []string
	for _, level := range levels {
		switch last := level[strings.LastIndexAny(level, "/.-")+1:]; {
		case level == word:
			return level, nil
		case last == word:
			found = append(found, level)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("--level %s: is %s: give the whole label", word, strings.Join(found, " or "))
	case len(levels) == 0:
		return "", fmt.Errorf(
			"--level %s: no Topology and no known label says in which racks the nodes are: give the whole label",
			word,
		)
	}
	return "", fmt.Errorf("--level %s: there is no such level: there are %s", word, strings.Join(levels, ", "))
}

// levelsOf are the levels of all Topologies and, for those who may list nodes, what labels tell.
func levelsOf(ctx context.Context, c client.Reader) ([]string, error) {
	var all kueue.TopologyList
	if err := c.List(ctx, &all); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list Topologies: %w", err)
	}
	var levels []string
	for i := range all.Items {
		levels = append(levels, convert.Topology(&all.Items[i]).Levels...)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	levels = append(levels, view.DetectLevels(nodes.Items)...)
	slices.Sort(levels)
	return slices.Compact(levels), nil
}
