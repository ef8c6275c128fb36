package sakkara

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Group is what the ConfigMap of a group says.
type Group struct {
	Name string
	// Size is how many pods the group has, 1 at least.
	Size int32
	// Constraints are in the order in which they are written, which is that of levels: the widest first. Level
	// "node" is last wherever it is written.
	Constraints []Constraint
}

// Constraint is how the pods of a group are placed on the domains of one level.
type Constraint struct {
	Level string `json:"-"`
	// Type is pack or spread; "" is pack.
	Type string `json:"type"`
	// Hard: pods that pack are all in one domain, those that spread each in one of its own.
	Hard bool `json:"hard"`
	// Partitions is how many domains have pods, 0 for any number.
	Partitions int32 `json:"partitions"`
	// Min and Max are how many pods a domain has that has any; 0 for no bound.
	Min int32 `json:"min"`
	Max int32 `json:"max"`
	// Factor divides how many pods a domain has, 0 or 1 if any number does.
	Factor int32 `json:"factor"`
}

// Keys of the ConfigMap of a group.
const (
	nameKey        = "name"
	sizeKey        = "size"
	priorityKey    = "priority"
	constraintsKey = "constraints"
)

// mostPods bounds the size of a group: no cluster runs more pods. mostLevels bounds its constraints: no cluster is
// that deep.
const (
	mostPods   = 1_000_000
	mostLevels = 16
)

// ReadGroup reads the data of the ConfigMap of a group. An error names the key that is at fault.
func ReadGroup(data map[string]string) (Group, error) {
	g := Group{Name: data[nameKey], Size: 1}
	if text := strings.TrimSpace(data[sizeKey]); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 || n > mostPods {
			return g, fmt.Errorf("%s: %q is not a number of pods from 1 to %d", sizeKey, text, mostPods)
		}
		g.Size = int32(n)
	}
	if text := strings.TrimSpace(data[priorityKey]); text != "" {
		if _, err := strconv.Atoi(text); err != nil {
			return g, fmt.Errorf("%s: %q is not a whole number", priorityKey, text)
		}
	}
	var err error
	g.Constraints, err = readConstraints(data[constraintsKey])
	return g, err
}

// readConstraints reads an object of constraints by level, in the order in which they are written.
func readConstraints(text string) ([]Constraint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf(
			"%s: write a JSON object of levels, such as {\"rack\": {\"type\": \"pack\"}}",
			constraintsKey,
		)
	}
	var out, nodes []Constraint
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", constraintsKey, err)
		}
		level, _ := key.(string)
		at := constraintsKey + "." + level
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if len(seen) == mostLevels {
			return nil, fmt.Errorf("%s: there are more than %d levels", constraintsKey, mostLevels)
		}
		if seen[level] {
			return nil, fmt.Errorf("%s: it is there twice", at)
		}
		seen[level] = true
		c, err := readConstraint(raw, at)
		if err != nil {
			return nil, err
		}
		if c.Level = level; level == NodeLevel {
			nodes = append(nodes, c)
			continue
		}
		out = append(out, c)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", constraintsKey, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is something behind the object", constraintsKey)
	}
	return append(out, nodes...), nil
}

func readConstraint(raw json.RawMessage, at string) (Constraint, error) {
	var c Constraint
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		wrong := (*json.UnmarshalTypeError)(nil)
		if errors.As(err, &wrong) && wrong.Field != "" {
			return c, fmt.Errorf("%s.%s: it cannot be a %s", at, wrong.Field, wrong.Value)
		}
		return c, fmt.Errorf(
			"%s: %s; type, hard, partitions, min, max and factor are known",
			at,
			strings.TrimPrefix(err.Error(), "json: "),
		)
	}
	if c.Type != "" && c.Type != pack && c.Type != spread {
		return c, fmt.Errorf("%s.type: %q is neither pack nor spread", at, c.Type)
	}
	for _, n := range []struct {
		key   string
		value int32
	}{{"partitions", c.Partitions}, {"min", c.Min}, {"max", c.Max}, {"factor", c.Factor}} {
		if n.value < 0 {
			return c, fmt.Errorf("%s.%s: it is a number from 0, not %d", at, n.key, n.value)
		}
	}
	if c.Max > 0 && c.Min > c.Max {
		return c, fmt.Errorf("%s.min: %d is more than max, which is %d", at, c.Min, c.Max)
	}
	return c, nil
}

// Types of constraints.
const (
	pack   = "pack"
	spread = "spread"
)
