package sakkara

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Tree is what the ConfigMap of a topology says: in which domains nodes are.
type Tree struct {
	// Name is a name of an object.
	Name string
	// Levels are the labels of nodes that say so, the widest first; nodes are none of them.
	Levels []string
	// Nodes have their labels, by name.
	Nodes map[string]map[string]string
}

// ReadTree reads the data of the ConfigMap of a topology. An error names the key that is at fault.
func ReadTree(data map[string]string) (*Tree, error) {
	names := []string{"rack", NodeLevel}
	if text := data["level-names"]; text != "" {
		if err := json.Unmarshal([]byte(text), &names); err != nil {
			return nil, fmt.Errorf("level-names: write a JSON list of names, the widest level first: %w", err)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("level-names: name one level at least, that of nodes")
	}
	t := &Tree{Name: GroupName(strings.TrimSpace(data["name"])), Nodes: map[string]map[string]string{}}
	if data["name"] == "" {
		t.Name = "default-tree"
	}
	for i, name := range names {
		label := LevelLabel(name)
		if errs := validation.IsQualifiedName(label); len(errs) > 0 || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("level-names: %q is no name of a level of its own", name)
		}
		if i < len(names)-1 {
			t.Levels = append(t.Levels, label)
		}
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data["tree"]), &tree); err != nil {
		return nil, fmt.Errorf("tree: write a JSON object of domains, with nodes as {} in the narrowest: %w", err)
	}
	r := reader{tree: t, labels: append(slices.Clone(t.Levels), LevelLabel(names[len(names)-1]))}
	return t, r.read(tree, nil)
}

// reader walks through the text of a tree.
type reader struct {
	tree   *Tree
	labels []string // of all levels, that of nodes too
}

// read reads the domains in another one, whose path from the widest on is given.
func (r *reader) read(in map[string]json.RawMessage, path []string) error {
	for _, name := range slices.SortedFunc(maps.Keys(in), core.CompareNames) {
		at := append(slices.Clip(path), name)
		where := "tree." + strings.Join(at, ".")
		var inside map[string]json.RawMessage
		if err := json.Unmarshal(in[name], &inside); err != nil {
			return fmt.Errorf("%s: it is an object: %w", where, err)
		}
		switch {
		case len(inside) > 0 && len(at) == len(r.labels):
			return fmt.Errorf("%s: it is a node by level-names, and there is something in it", where)
		case len(at) < len(r.labels):
			if errs := validation.IsValidLabelValue(name); len(errs) > 0 || name == "" {
				return fmt.Errorf("%s: %q cannot be the value of a label", where, name)
			}
			if err := r.read(inside, at); err != nil {
				return err
			}
			continue
		}
		if _, twice := r.tree.Nodes[name]; twice {
			return fmt.Errorf("%s: node %s is in the tree twice", where, name)
		}
		labels := map[string]string{}
		for i, label := range r.labels {
			if label != core.HostnameLabel {
				labels[label] = at[i]
			}
		}
		r.tree.Nodes[name] = labels
	}
	return nil
}
