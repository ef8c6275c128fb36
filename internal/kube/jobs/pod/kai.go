package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// PodGroups of KAI Scheduler (scheduling.run.ai) may consist of groups, which may consist of groups. Pods are in the
// innermost ones, each of which says how many of them start; all start together.

// kaiGang reads the spec of a PodGroup of KAI Scheduler.
func kaiGang(spec map[string]any, levels []string) (Gang, error) {
	least, err := number(spec, "minMember")
	if err != nil {
		return Gang{}, fmt.Errorf("spec.minMember: %w", err)
	}
	out := Gang{Least: least}
	all, _, err := unstructured.NestedSlice(spec, "subGroups")
	if err != nil {
		return Gang{}, fmt.Errorf("spec.subGroups: %w", err)
	}
	root := kaiConstraint{}
	if root, err = root.read(spec, "spec", levels); err != nil {
		return Gang{}, err
	}
	out.Near = root.near
	if len(all) > mostSubGroups {
		return Gang{}, fmt.Errorf(
			"spec.subGroups: there are %d, and %d at most are understood",
			len(all),
			mostSubGroups,
		)
	}
	k := kaiGroups{fields: map[string]map[string]any{}, constraints: map[string]kaiConstraint{"": root}}
	for i, one := range all {
		fields, _ := one.(map[string]any)
		name := jobs.Text(fields, "name")
		at := fmt.Sprintf("spec.subGroups[%d]", i)
		if errs := validation.IsValidLabelValue(name); name == "" || len(errs) > 0 {
			return Gang{}, fmt.Errorf(
				"%s.name: %q cannot be a value of the label %s: use lower case letters, digits and dashes",
				at, name, podmeta.SubGroupLabel,
			)
		}
		if k.fields[name] != nil {
			return Gang{}, fmt.Errorf("%s.name: there are two called %s: give each a name of its own", at, name)
		}
		k.fields[name] = fields
		out.Parts = append(out.Parts, Part{Name: name, Parent: jobs.Text(fields, "parent")})
	}
	if len(out.Parts) == 0 {
		return out, kaiAll(spec, "spec", 0)
	}
	return out, k.fill(&out, spec, levels)
}

// mostSubGroups bounds the groups of a PodGroup: a Workload has far fewer pod sets.
const mostSubGroups = 64

// kaiGroups are the groups of a PodGroup as they are read.
type kaiGroups struct {
	fields      map[string]map[string]any
	constraints map[string]kaiConstraint
}

// fill reads what the groups say, the outer ones first.
func (k *kaiGroups) fill(g *Gang, spec map[string]any, levels []string) error {
	within := map[string]int{}
	for i := range g.Parts {
		p := &g.Parts[i]
		if within[p.Parent]++; p.Parent != "" && k.fields[p.Parent] == nil {
			return fmt.Errorf("spec.subGroups[%s].parent: there is no group %s", p.Name, p.Parent)
		}
	}
	for done := 0; done < len(g.Parts); {
		before := done
		for i := range g.Parts {
			p := &g.Parts[i]
			around, known := k.constraints[p.Parent]
			if _, read := k.constraints[p.Name]; read || !known {
				continue
			}
			if err := k.part(p, around, within[p.Name], levels); err != nil {
				return err
			}
			done++
		}
		if done == before {
			return errors.New("spec.subGroups: the parents of some go round in a circle: leave one of them out")
		}
	}
	for i := range g.Parts {
		p := &g.Parts[i]
		if _, says := k.fields[p.Name]["minMember"]; says && p.Least == 0 {
			if err := k.few(k.fields[p.Name], "spec.subGroups["+p.Name+"]", g.startsOf(p.Name)); err != nil {
				return err
			}
		}
	}
	total := g.startsOf("")
	if err := k.few(spec, "spec", total); err != nil {
		return err
	}
	g.Least = int32(total) //nolint:gosec // few refuses more
	return kaiAll(spec, "spec", within[""])
}

// few refuses what wants more pods to start together than the groups that it consists of have.
func (*kaiGroups) few(fields map[string]any, at string, of int64) error {
	if of > math.MaxInt32 {
		return fmt.Errorf("spec.subGroups: %d are no number of pods", of)
	}
	if n, err := number(fields, "minMember"); err != nil || int64(n) > of {
		return fmt.Errorf(
			"%s.minMember: so many pods cannot start together, because the groups that it consists of have %d by their minMember: use %d at most",
			at,
			of,
			of,
		)
	}
	return nil
}

// startsOf is how many pods of a part start together; "" is all.
func (g *Gang) startsOf(part string) (n int64) {
	for _, p := range g.Parts {
		if part == "" || g.within(p.Name, part) {
			n += int64(p.Least)
		}
	}
	return n
}

// part reads what one group says, which consists of so many others.
func (k *kaiGroups) part(p *Part, around kaiConstraint, of int, levels []string) error {
	at, fields := "spec.subGroups["+p.Name+"]", k.fields[p.Name]
	is, err := around.read(fields, at, levels)
	if err != nil {
		return err
	}
	k.constraints[p.Name], p.Near = is, is.near
	if p.Least, err = number(fields, "minMember"); err != nil {
		return fmt.Errorf("%s.minMember: %w", at, err)
	}
	if of > 0 {
		p.Least = 0
	}
	return kaiAll(fields, at, of)
}

// kaiAll refuses groups that start before all that they consist of do.
func kaiAll(fields map[string]any, at string, of int) error {
	_, says := fields["minSubGroup"]
	if n, err := number(fields, "minSubGroup"); says && (err != nil || int(n) != of) {
		return fmt.Errorf(
			"%s.minSubGroup: it consists of %d groups, and all that a PodGroup consists of starts together: leave it out",
			at,
			of,
		)
	}
	return nil
}

// kaiConstraint is a topologyConstraint.
type kaiConstraint struct {
	// topology is the name of the Topology that its levels are of, and field the one that says so.
	topology, field string
	near            Near
}

// read reads the topologyConstraint of a group within the one that has this one.
func (c kaiConstraint) read(fields map[string]any, at string, levels []string) (kaiConstraint, error) {
	said, _, err := unstructured.NestedMap(fields, "topologyConstraint")
	if err != nil {
		return c, fmt.Errorf("%s.topologyConstraint: %w", at, err)
	}
	at += ".topologyConstraint"
	out := kaiConstraint{topology: c.topology, field: c.field}
	if name := jobs.Text(said, "topology"); name != "" {
		if c.topology != "" && name != c.topology {
			return c, fmt.Errorf(
				"%s.topology: it names Topology %s, and %s, around it, names %s: name one, by which nodes are nested",
				at, name, c.field, c.topology,
			)
		}
		out.topology, out.field = name, at+".topology"
	}
	out.near.Field = at + ".requiredTopologyLevel"
	if out.near.Required, err = levelOf(jobs.Text(said, "requiredTopologyLevel"), levels); err != nil {
		return c, fmt.Errorf("%s: %w", out.near.Field, err)
	}
	if out.near.Preferred, err = levelOf(jobs.Text(said, "preferredTopologyLevel"), levels); err != nil {
		return c, fmt.Errorf("%s.preferredTopologyLevel: %w", at, err)
	}
	return out, nil
}

// levelOf is the label of nodes that a level means: one of those that are known or, if it is none, itself.
func levelOf(level string, known []string) (string, error) {
	if level == "" {
		return "", nil
	}
	named := kueue.LevelsNamed(known, level)
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return "", fmt.Errorf("%q may be %s: use the label itself", level, strings.Join(named, " or "))
	}
	if errs := validation.IsQualifiedName(level); len(errs) > 0 {
		return "", fmt.Errorf("%q is no label of nodes: %s", level, strings.Join(errs, "; "))
	}
	return level, nil
}

// part is the part of a name, nil if there is none.
func (g *Gang) part(name string) *Part {
	at := slices.IndexFunc(g.Parts, func(p Part) bool { return p.Name == name })
	if at < 0 {
		return nil
	}
	return &g.Parts[at]
}

// misplaced says why a pod is in no part of a PodGroup that has parts; "" if it is in one.
func (g *Gang) misplaced(p *corev1.Pod) string {
	if len(g.Parts) == 0 {
		return ""
	}
	name := podmeta.Within(p, &p.Spec)
	is := g.part(name)
	switch {
	case is == nil && p.Annotations[podmeta.PodGroupKindAnnotation] == podmeta.CompositeGroup:
		return fmt.Sprintf("pod %s names PodGroup %s, which is in none of the groups: create it anew", p.Name, name)
	case name == "":
		return fmt.Sprintf(
			"pod %s does not say in which group of spec.subGroups it is: create it anew with the label %s",
			p.Name, podmeta.SubGroupLabel,
		)
	case is == nil:
		return fmt.Sprintf(
			"pod %s is in group %s by its label %s, and spec.subGroups has no such group",
			p.Name, name, podmeta.SubGroupLabel,
		)
	case is.Least == 0:
		return fmt.Sprintf(
			"pod %s is in group %s by its label %s, and that group of spec.subGroups consists of others: name one of them",
			p.Name,
			name,
			podmeta.SubGroupLabel,
		)
	}
	return ""
}

// around is what is said of how near pods of a part are, by it and by all that it is within, the narrowest first.
func (g *Gang) around(part string) []Near {
	var out []Near
	for is := g.part(part); is != nil; is = g.part(is.Parent) {
		out = append(out, is.Near)
	}
	return append(out, g.Near)
}

// within reports whether a part is another one, or within it.
func (g *Gang) within(name, outer string) bool {
	for is := g.part(name); is != nil; is = g.part(is.Parent) {
		if is.Name == outer {
			return true
		}
	}
	return false
}

// nearTo fills in how near to each other the pods of sets have to be, as their PodGroup says it: the innermost parts first.
func (g *Gang) nearTo(sets []kueue.PodSet, index string) {
	parts := slices.Clone(g.Parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return len(g.around(b.Name)) - len(g.around(a.Name)) })
	for i := range parts {
		o := parts[i].Near.outer(parts[i].group())
		o.Index = index
		o.AroundSome(sets, func(ps *kueue.PodSet) bool {
			return g.within(podmeta.Within(&ps.Template, &ps.Template.Spec), parts[i].Name)
		})
	}
	o := g.Near.outer(jobs.AllSets)
	o.Index = index
	o.Around(sets)
}

// group is the name by which the pods of a part are joined.
func (p *Part) group() string {
	name := "subgroup-" + p.Name
	if len(name) <= longestGroup {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "subgroup-" + hex.EncodeToString(sum[:])[:hashLength]
}

// Lengths of names of groups of pod sets.
const (
	longestGroup = 63
	hashLength   = 16
)

// outer is what holds around the pods that it is said of, which have a name together.
func (n Near) outer(group string) jobs.Outer {
	return jobs.Outer{Required: n.Required, Preferred: n.Preferred, Group: group}
}
