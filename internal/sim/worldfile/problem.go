package worldfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong with a file.
type Problem struct { //nolint:errname // that is what people read
	// Where is the field, as people would name it: jobs[0] (train).duration.
	Where string
	Text  string
	// Line of the file, 0 if it is not known.
	Line int
}

// Error names line, field and cure.
func (f *Problem) Error() string {
	text := f.Text
	if f.Where != "" {
		text = f.Where + ": " + text
	}
	if f.Line > 0 {
		return fmt.Sprintf("line %d: %s", f.Line, text)
	}
	return text
}

// Problems are all that is wrong with a file, in the order of its lines.
type Problems []*Problem //nolint:errname // that is what people read

// Error lists the problems, one a line.
func (f Problems) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// wrong is a problem of a field.
func wrong(where, format string, args ...any) error {
	return &Problem{Where: where, Text: fmt.Sprintf(format, args...)}
}

// because is a problem of a field, in the words of another error.
func because(where string, err error) error { return &Problem{Where: where, Text: err.Error()} }

// collect lists the problems that an error is made of, with their lines.
func (f *File) collect(err error) Problems {
	var out Problems
	var walk func(error)
	walk = func(err error) {
		var one *Problem
		joined, many := err.(interface{ Unwrap() []error })
		switch {
		case err == nil:
		case many:
			for _, e := range joined.Unwrap() {
				walk(e)
			}
		case errors.As(err, &one):
			fault := *one
			if fault.Line == 0 {
				fault.Line = f.line(fault.Where)
			}
			out = append(out, &fault)
		default:
			out = append(out, &Problem{Text: err.Error()})
		}
	}
	walk(err)
	slices.SortStableFunc(out, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

var (
	// called are the names that people read beside an index.
	called   = regexp.MustCompile(` \([^)]*\)`)
	pathStep = regexp.MustCompile(`^\.?([^.\[\]]+)|^\[([^\]]*)\]`)
)

// line is where a field stands in the file, or what is around it if it is not given;
// 0 if the file was made by a program.
func (f *File) line(where string) int {
	n, line := f.root, 0
	path := called.ReplaceAllString(where, "")
	for n != nil {
		m := pathStep.FindStringSubmatch(path)
		if m == nil {
			break
		}
		path = path[len(m[0]):]
		if n = member(n, m[1]+m[2], &line); n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
	}
	return line
}

// member is a field of an object, or an entry of a list; nil if it is not given.
func member(n *yaml.Node, name string, line *int) *yaml.Node {
	switch n.Kind { //nolint:exhaustive // others have no members
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				*line = n.Content[i].Line
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			*line = n.Content[i].Line
			return n.Content[i]
		}
	}
	return nil
}

// Unmatched lists labels that jobs or flavors ask for and no node has: what asks for
// them waits for ever. Without nodes quota alone decides, and nothing is asked.
func (f *File) Unmatched() Problems {
	var errs []error
	find := func(where string, labels map[string]string) {
		if len(f.Nodes) > 0 &&
			!slices.ContainsFunc(f.Nodes, func(n Nodes) bool { return n.have(labels) }) {
			errs = append(
				errs,
				wrong(where, "no node has the labels %s: what asks for them waits for ever", pairs(labels)),
			)
		}
	}
	level := func(where string, names []string) {
		for _, name := range names {
			if len(f.Nodes) > 0 && !slices.ContainsFunc(f.Nodes, func(n Nodes) bool {
				_, has := n.labelsOf(0)[name]
				return has
			}) {
				errs = append(
					errs,
					wrong(where, "no node has the label %s: what asks for one domain of it waits for ever", name),
				)
			}
		}
	}
	for i, x := range f.Flavors {
		level(fmt.Sprintf("flavors[%d] (%s).topology", i, x.Name), x.Topology)
		if !x.OnDemand {
			find(fmt.Sprintf("flavors[%d] (%s).nodeLabels", i, x.Name), x.NodeLabels)
		}
	}
	for i, j := range f.Jobs {
		find(fmt.Sprintf("jobs[%d] (%s).nodeSelector", i, j.Name), j.NodeSelector)
		level(fmt.Sprintf("jobs[%d] (%s).topology", i, j.Name), j.Topology.levels())
	}
	if f.Trace != nil {
		level("trace.topology", f.Trace.Topology.levels())
	}
	return f.collect(errors.Join(errs...))
}

// have reports whether one of the nodes has labels.
func (n *Nodes) have(labels map[string]string) bool {
	numbers := 1 // all have the same
	for label := range labels {
		if _, differ := n.Domains[label]; differ {
			numbers = n.Count
		}
	}
	for number := range numbers {
		if subset(labels, n.labelsOf(number)) {
			return true
		}
	}
	return false
}

func subset(some, of map[string]string) bool {
	for k, v := range some {
		if w, ok := of[k]; !ok || w != v {
			return false
		}
	}
	return true
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range sortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}
