package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
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
	found := kueue.LevelsNamed(levels, word)
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

// SakkaraTree reads the ConfigMap of a topology of Sakkara's: the one that is named, or the only one.
func SakkaraTree(ctx context.Context, c client.Reader, namespace, name string) (*sakkara.Tree, error) {
	var all corev1.ConfigMapList
	if err := c.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.HasLabels{sakkara.TopologyLabel},
	); err != nil {
		return nil, fmt.Errorf("list ConfigMaps with label %s: %w", sakkara.TopologyLabel, err)
	}
	found := slices.DeleteFunc(all.Items, func(m corev1.ConfigMap) bool { return name != "" && m.Name != name })
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf(
			"there is no ConfigMap %s with label %s: Sakkara's own are in the namespace of its argument "+
				"topologyConfigMapNameSpace",
			cmp.Or(name, "of a topology"),
			sakkara.TopologyLabel,
		)
	case len(found) > 1:
		names := make([]string, len(found))
		for i := range found {
			names[i] = found[i].Namespace + "/" + found[i].Name
		}
		slices.Sort(names)
		return nil, fmt.Errorf(
			"there are several: name one of %s, and its namespace by -n",
			strings.Join(names, ", "),
		)
	}
	tree, err := sakkara.ReadTree(found[0].Data)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", found[0].Namespace, found[0].Name, err)
	}
	return tree, nil
}

// TreeManifests are the objects that stand for a tree, in YAML: a Topology, if it has levels, and the labels of those
// of its nodes that there are. What is only in the tree or only among the nodes is told in comments.
func TreeManifests(t *sakkara.Tree, nodes []corev1.Node) (string, error) {
	var objects []string
	add := func(text string, err error) error {
		objects = append(objects, text)
		return err
	}
	if len(t.Levels) > 0 {
		if err := add(TopologyManifest(t.Name, t.Levels)); err != nil {
			return "", err
		}
	}
	var untold, gone []string
	there := map[string]bool{}
	for i := range nodes {
		name := nodes[i].Name
		there[name] = true
		if _, told := t.Nodes[name]; !told {
			untold = append(untold, name)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.Nodes), core.CompareNames) {
		switch {
		case !there[name]:
			gone = append(gone, name)
		case len(t.Nodes[name]) > 0:
			if err := add(manifestOf(map[string]any{
				"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": t.Nodes[name]},
			})); err != nil {
				return "", err
			}
		}
	}
	slices.SortFunc(untold, core.CompareNames)
	var b strings.Builder
	for _, part := range []struct {
		names []string
		text  string
	}{
		{untold, "not in the tree, so that no pod that must be in one of its domains can be there"},
		{gone, "in the tree, and not among the nodes"},
	} {
		if len(part.names) > 0 {
			fmt.Fprintf(&b, "# %s: %s\n", part.text, strings.Join(part.names, ", "))
		}
	}
	b.WriteString(strings.Join(objects, "---\n"))
	return b.String(), nil
}

// TopologyManifest is a Topology of some levels, in YAML.
func TopologyManifest(name string, levels []string) (string, error) {
	all := make([]any, len(levels))
	for i, level := range levels {
		all[i] = map[string]any{"nodeLabel": level}
	}
	return manifestOf(map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Topology",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"levels": all},
	})
}

func manifestOf(o map[string]any) (string, error) {
	text, err := yaml.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("write %v: %w", o["kind"], err)
	}
	return string(text), nil
}
