package sakkara

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// allOfGroup joins the pod sets of a job that are of its group: no other group of pod sets is called so.
const allOfGroup = "sakkara-group"

// OfJob is the group that pods of a job are of by the labels of their templates; "" if none is of any.
func OfJob(sets []kueue.PodSet) (string, error) {
	group, by := "", kueue.PodSetReference("")
	for i := range sets {
		name := sets[i].Template.Labels[MemberLabel]
		switch {
		case name == "":
		case group == "":
			group, by = name, sets[i].Name
		case name != group:
			return "", fmt.Errorf(
				"%s: pods %s are of group %q, and pods %s of group %q: the pods of a job are of one group",
				MemberLabel, by, group, sets[i].Name, name,
			)
		}
	}
	return group, nil
}

// Around has those pods of a job that are of the group be placed as it says, besides what they say themselves, which
// holds within: see jobs.Outer. indexes are the labels by which pods of sets tell their numbers, known the levels of all
// Topologies. It reports whether the group says anything of where they are. An error names what does not go together, and
// nothing is changed then.
func (g *Group) Around(
	sets []kueue.PodSet,
	indexes map[kueue.PodSetReference]string,
	known []string,
) (says bool, err error) {
	near, err := g.Near(known)
	if err != nil {
		return false, err
	}
	if err := g.goesWith(sets, near); err != nil {
		return false, err
	}
	says = len(near) > 0
	together := jobs.Outer{Required: near[kueue.PodSetRequiredTopologyAnnotation], Group: allOfGroup}
	delete(near, kueue.PodSetRequiredTopologyAnnotation)
	asks := kueue.TopologyRequestOf(near)
	for i := range sets {
		ps := &sets[i]
		if !g.has(ps) {
			continue
		}
		if len(near) > 0 {
			notes := maps.Clone(ps.Template.Annotations)
			if notes == nil {
				notes = map[string]string{}
			}
			maps.Copy(notes, near)
			ps.Template.Annotations = notes
		}
		t, index := ps.TopologyRequest.DeepCopy(), indexes[ps.Name]
		if t == nil && (asks != nil || together.Required != "" || index != "") {
			t = &kueue.PodSetTopologyRequest{}
			if index != "" {
				t.PodIndexLabel = &index
			}
		}
		if asks != nil {
			t.Preferred = asks.Preferred
			t.PodsetSliceRequiredTopologyConstraints = slices.Clone(asks.PodsetSliceRequiredTopologyConstraints)
		}
		ps.TopologyRequest = t
	}
	together.AroundSome(sets, g.has)
	return says, nil
}

// has reports whether the pods of a set are of the group.
func (g *Group) has(ps *kueue.PodSet) bool { return ps.Template.Labels[MemberLabel] == g.Name }

// goesWith says what of the pods of a job does not go with the group, whose constraints are near.
func (g *Group) goesWith(sets []kueue.PodSet, near map[string]string) error {
	var total int64
	var names []string
	for i := range sets {
		ps := &sets[i]
		if !g.has(ps) {
			continue
		}
		total += int64(ps.Count)
		names = append(names, string(ps.Name))
		if ps.MinCount != nil {
			return fmt.Errorf(
				"%s: the group starts with all of its %d pods, and the job may start with %d of its pods %s: let it ask for one number",
				sizeKey,
				g.Size,
				*ps.MinCount,
				ps.Name,
			)
		}
		if err := alone(ps, near); err != nil {
			return err
		}
	}
	if total != int64(g.Size) {
		return fmt.Errorf(
			"%s: it is %d, and the job has %d pods with the label %s: %s: make both the same",
			sizeKey, g.Size, total, MemberLabel, g.Name,
		)
	}
	if key := g.Alike(); key != "" && len(names) > 1 && cuts(near) {
		return fmt.Errorf(
			"%s counts pods of one template, and those of the group are of %s: leave it out, or use one template",
			key, strings.Join(names, ", "),
		)
	}
	return nil
}

// alone says what pods, or their job, say of how near they are that cannot hold within constraints.
func alone(ps *kueue.PodSet, near map[string]string) error {
	if len(near) == 0 {
		return nil
	}
	const cure = "leave one of them out"
	for _, key := range slices.Concat(kueue.NearAnnotations(), kueue.KAIAnnotations()) {
		if ps.Template.Annotations[key] != "" && !slices.Contains(Nests(), key) {
			return fmt.Errorf("%s: pods %s say by annotation %s how near they have to be: %s",
				constraintsKey, ps.Name, key, cure)
		}
	}
	t := ps.TopologyRequest
	switch {
	case t == nil:
	case t.Preferred != nil:
		return fmt.Errorf("%s: the job says that its pods %s should be in one domain of %s: %s",
			constraintsKey, ps.Name, *t.Preferred, cure)
	case t.PodSetSliceRequiredTopology != nil:
		return fmt.Errorf("%s: the job says which of its pods %s are in one domain of %s: %s",
			constraintsKey, ps.Name, *t.PodSetSliceRequiredTopology, cure)
	case len(t.PodsetSliceRequiredTopologyConstraints) > 0:
		return fmt.Errorf("%s: the job says which of its pods %s are in one domain of %s: %s",
			constraintsKey, ps.Name, t.PodsetSliceRequiredTopologyConstraints[0].Topology, cure)
	}
	return nil
}

// cuts reports whether constraints ask for more than one pod at a time of each domain.
func cuts(near map[string]string) bool {
	t := kueue.TopologyRequestOf(near)
	return t != nil && slices.ContainsFunc(
		t.PodsetSliceRequiredTopologyConstraints,
		func(s kueue.PodsetSliceRequiredTopologyConstraint) bool { return s.Size > 1 },
	)
}

// Nests are the annotations of pods that hold within what the constraints of their group say.
func Nests() []string {
	return []string{kueue.PodSetRequiredTopologyAnnotation, kueue.TopologyGroupsAnnotation}
}

// Authored are the pod sets of a Workload as the author of its job wrote them: without what Around wrote into their
// templates.
func Authored(w *kueue.Workload) []kueue.PodSet {
	g := Group{Name: w.Annotations[kueue.SakkaraGroupAnnotation]}
	if g.Name == "" || w.Annotations[kueue.SakkaraPlacedAnnotation] == "" {
		return w.Spec.PodSets
	}
	out := slices.Clone(w.Spec.PodSets)
	for i := range out {
		if !g.has(&out[i]) || len(out[i].Template.Annotations) == 0 {
			continue
		}
		notes := maps.Clone(out[i].Template.Annotations)
		for _, key := range kueue.NearAnnotations() {
			if !slices.Contains(Nests(), key) {
				delete(notes, key)
			}
		}
		words := slices.DeleteFunc(
			strings.Split(notes[kueue.TopologyGroupsAnnotation], ","),
			func(word string) bool {
				return strings.HasSuffix(strings.TrimSpace(word), "="+allOfGroup)
			},
		)
		if notes[kueue.TopologyGroupsAnnotation] = strings.Join(words, ","); len(words) == 0 || words[0] == "" {
			delete(notes, kueue.TopologyGroupsAnnotation)
		}
		if out[i].Template.Annotations = notes; len(notes) == 0 {
			out[i].Template.Annotations = nil
		}
	}
	return out
}
