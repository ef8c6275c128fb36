package simnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Domain is a number of nodes, one after the other, with the same labels that say where they are.
type Domain struct {
	Labels map[string]string `json:"labels"`
	Nodes  int               `json:"nodes"`
}

// ReadDomains reads how nodes are nested: a file with levels, which are labels of nodes, the widest first, and domains,
// which are maps of names, one map within the other as there are levels, with the number of nodes of the narrowest.
// Nodes follow each other as the file has them.
func ReadDomains(text []byte) ([]Domain, error) {
	var file struct {
		Levels  []string  `yaml:"levels"`
		Domains yaml.Node `yaml:"domains"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read it as YAML: %w", err)
	}
	if len(file.Levels) == 0 {
		return nil, errors.New(
			"levels: is missing: list labels of nodes, the widest first, such as [example.com/block, example.com/rack]",
		)
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
	if err := addDomains(&out, "domains", &file.Domains, file.Levels, nil); err != nil {
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

// addDomains adds what is in a map of domains.
func addDomains(out *[]Domain, at string, in *yaml.Node, levels []string, labels map[string]string) error {
	if in.Kind == 0 {
		return nil // it is not there
	}
	if in.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: give names of level %s, each with what is in it", at, levels[0])
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(in.Content); i += 2 {
		name, value := in.Content[i].Value, in.Content[i+1]
		here := at + "." + name
		if errs := validation.IsValidLabelValue(name); len(errs) > 0 || name == "" {
			return fmt.Errorf("%s: %q is no value of a label: use letters, digits, dots, _ and -", here, name)
		}
		if seen[name] {
			return fmt.Errorf("%s: is listed twice", here)
		}
		seen[name] = true
		is := map[string]string{levels[0]: name}
		maps.Copy(is, labels)
		if value.Kind == yaml.MappingNode {
			if len(levels) == 1 {
				return fmt.Errorf("%s: %s is the last of the levels: give the number of its nodes", here, levels[0])
			}
			if err := addDomains(out, here, value, levels[1:], is); err != nil {
				return err
			}
			continue
		}
		n, err := strconv.Atoi(value.Value)
		if value.Kind != yaml.ScalarNode || err != nil || n < 0 || n > MostNodes {
			return fmt.Errorf(
				"%s: %s is no number of nodes from 0 to %d%s",
				here,
				strconv.Quote(value.Value),
				MostNodes,
				within(levels[1:]),
			)
		}
		// Of a narrower level these nodes have no domain, as happens.
		*out = append(*out, Domain{is, n})
	}
	return nil
}

// within says what else could be there.
func within(levels []string) string {
	if len(levels) == 0 {
		return ""
	}
	return ", nor names of " + strings.Join(levels, " and ")
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
