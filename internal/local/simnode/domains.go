package simnode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Domain is a number of nodes, one after the other, with the same labels that say where they are.
type Domain struct {
	Labels map[string]string `json:"labels"`
	Nodes  int               `json:"nodes"`
}

// ReadDomains reads how nodes are nested: a file with levels, which are labels of nodes, the widest first, and domains,
// which are maps of names, one map within the other as there are levels, with the number of nodes of the narrowest.
func ReadDomains(text []byte) ([]Domain, error) {
	var file struct {
		Levels  []string       `json:"levels"`
		Domains map[string]any `json:"domains"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	if len(file.Levels) == 0 {
		return nil, errors.New("levels: is missing: list labels of nodes, the widest first, such as [example.com/block, example.com/rack]")
	}
	for i, level := range file.Levels {
		if errs := validation.IsQualifiedName(level); len(errs) > 0 {
			return nil, fmt.Errorf("levels[%d]: %q is no label: %s", i, level, errs[0])
		}
		if slices.Contains(file.Levels[:i], level) {
			return nil, fmt.Errorf("levels[%d]: %s is listed twice", i, level)
		}
	}
	var out []Domain
	if err := addDomains(&out, "domains", file.Domains, file.Levels, nil); err != nil {
		return nil, err
	}
	sum := 0
	for _, d := range out {
		sum += d.Nodes
	}
	if sum < 1 || sum > MostNodes {
		return nil, fmt.Errorf("domains: have %d nodes together: must be between 1 and %d", sum, MostNodes)
	}
	return out, nil
}

// addDomains adds what is in one of them, by name.
func addDomains(out *[]Domain, at string, in map[string]any, levels []string, labels map[string]string) error {
	for _, name := range slices.SortedFunc(maps.Keys(in), core.CompareNames) {
		here := at + "." + name
		if errs := validation.IsValidLabelValue(name); len(errs) > 0 || name == "" {
			return fmt.Errorf("%s: %q is no value of a label: use letters, digits, -, _ and .", here, name)
		}
		is := maps.Clone(labels)
		if is == nil {
			is = map[string]string{}
		}
		is[levels[0]] = name
		switch value := in[name].(type) {
		case map[string]any:
			if len(levels) == 1 {
				return fmt.Errorf("%s: %s is the last of the levels: give the number of its nodes", here, levels[0])
			}
			if err := addDomains(out, here, value, levels[1:], is); err != nil {
				return err
			}
		case float64:
			if value < 0 || value > MostNodes || value != float64(int(value)) {
				return fmt.Errorf("%s: %v is no number of nodes from 0 to %d", here, value, MostNodes)
			}
			// Of a narrower level these nodes have no domain, as happens.
			*out = append(*out, Domain{is, int(value)})
		default:
			return fmt.Errorf("%s: give a number of nodes or, of level %s, names with theirs", here, strings.Join(levels[1:], " and "))
		}
	}
	return nil
}

// domainLabels are those of the i-th node of a fleet by its domains.
func (f Fleet) domainLabels(i int) map[string]string {
	for _, d := range f.Domains {
		if i -= d.Nodes; i < 0 {
			return d.Labels
		}
	}
	return nil
}
