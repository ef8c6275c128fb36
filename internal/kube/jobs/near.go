package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Near fills in how near to each other the pods of sets want to be, as their annotations say it; what a kind
// has said stays. index is the label that the pods have their index in its set in, "" if they have none.
func Near(sets []kueue.PodSet, index string) {
	for i := range sets {
		if sets[i].TopologyRequest != nil {
			continue
		}
		t := kueue.TopologyRequestOf(sets[i].Template.Annotations)
		if t != nil && index != "" {
			t.PodIndexLabel = &index
		}
		sets[i].TopologyRequest = t
	}
}

// Outer is what is said of all pods of several sets together: by their job, by the part of it that they are, by the
// PodGroup that they name.
type Outer struct {
	// Required and Preferred are labels of nodes of which those of all pods must, or should, have one value; "" for none.
	Required, Preferred string
	// Group joins the sets: a name that no others of the job have, AllSets if it is left out.
	Group string
	// Index is that of Near.
	Index string
}

// Around has sets be as near as is said of them together, besides what they say of themselves (Near). Sets that say
// nothing, or require the same level, are in one domain; sets that require another level are so within that domain: a rack
// for each, in a block for all. The other way round it is a contradiction, which only shows where it is known how levels
// nest (core.Topology.Reversed); one that shows in the sets is told by Against.
func (o Outer) Around(sets []kueue.PodSet) {
	o.AroundSome(sets, func(*kueue.PodSet) bool { return true })
}

// AroundSome is Around for those of the sets for which a condition holds.
func (o Outer) AroundSome(sets []kueue.PodSet, of func(*kueue.PodSet) bool) {
	var in []int
	for i := range sets {
		if of(&sets[i]) {
			in = append(in, i)
		}
	}
	several := len(in) > 1
	for _, i := range in {
		t := sets[i].TopologyRequest.DeepCopy()
		said := t != nil
		if !said {
			t = &kueue.PodSetTopologyRequest{}
			if o.Index != "" {
				t.PodIndexLabel = &o.Index
			}
		}
		alone := t.PodSetGroupName == nil
		if o.Preferred != "" && t.Preferred == nil && t.Required == nil && alone {
			t.Preferred = &o.Preferred
			said = true
		}
		switch {
		case o.Required == "":
		case alone && (t.Required == nil || *t.Required == o.Required):
			if t.Required = &o.Required; several {
				t.PodSetGroupName = &o.Group
			}
			said = true
		case several || t.Required == nil || *t.Required != o.Required:
			sets[i].Template.Annotations = kueue.InTopologyGroup(sets[i].Template.Annotations, o.group())
		}
		if said {
			sets[i].TopologyRequest = t
		}
	}
}

func (o Outer) group() kueue.TopologyGroup {
	return kueue.TopologyGroup{Level: o.Required, Name: cmp.Or(o.Group, AllSets)}
}

// Against is the annotation of pods that contradicts what is said of them together; "" if none does.
func (o Outer) Against(annotations map[string]string) string {
	if o.Required == "" {
		return ""
	}
	const free, groups = kueue.PodSetUnconstrainedTopologyAnnotation, kueue.TopologyGroupsAnnotation
	if says, err := strconv.ParseBool(annotations[free]); err == nil && says {
		return free
	}
	inner := kueue.TopologyGroupsOf(annotations)
	if len(inner) > 0 && kueue.TopologyGroupsOf(kueue.InTopologyGroup(annotations, o.group())) == nil {
		return groups // there are too many
	}
	return ""
}

// Contradicted refuses a pod template that contradicts what is said of its pods together with others, by what.
func (o Outer) Contradicted(t PodTemplate, by string) field.ErrorList {
	key := o.Against(t.Template.Annotations)
	if key == "" {
		return nil
	}
	return field.ErrorList{
		field.Invalid(
			field.NewPath(t.Path, "metadata", "annotations").Key(key),
			t.Template.Annotations[key],
			fmt.Sprintf(
				"%s asks for one domain of %s, which holds these pods, too: leave one of them out",
				by,
				o.Required,
			),
		),
	}
}

// AllSets is the name of the group of all pod sets of a job.
const AllSets = "all"

// OuterOf is what annotations of an object say of all of its pods, in the words of KAI Scheduler. group, a name that no
// other object of the job has, joins them.
func OuterOf(annotations map[string]string, group string) Outer {
	out := Outer{Group: group}
	if says := kueue.KAITopologyRequestOf(annotations); says != nil {
		if says.Required != nil {
			out.Required = *says.Required
		}
		if says.Preferred != nil {
			out.Preferred = *says.Preferred
		}
	}
	return out
}

// NearAsJobSays fills in how near to each other all pods of a job must be, as its own annotations say it: in the words of
// KAI Scheduler, or by asking for a ComputeDomain.
func NearAsJobSays(annotations map[string]string, sets []kueue.PodSet) {
	NearAsPartSays(annotations, sets, AllSets)
}

// NearAsPartSays is NearAsJobSays for the pods of one part of a job; group is that of OuterOf.
func NearAsPartSays(annotations map[string]string, sets []kueue.PodSet, group string) {
	InOneClique(sets, AsksComputeDomain(annotations, sets), "compute-domain-of-"+group)
	OuterOf(annotations, group).Around(sets)
}

// InOneClique has the pods of these sets be in one clique of NVLink, all of them together: beyond it a
// ComputeDomain lets nobody share memory. Sets that say themselves which domain they require, or are cut into
// slices, stay as they are: a ComputeDomain may have more cliques than one. group, a name that no others have, joins them.
func InOneClique(sets []kueue.PodSet, of []kueue.PodSetReference, group string) {
	Outer{Required: core.CliqueLabel, Group: group}.AroundSome(sets, func(ps *kueue.PodSet) bool {
		return slices.Contains(of, ps.Name) && !ownDomain(ps.TopologyRequest)
	})
}

// ownDomain reports whether pods say themselves which domain they require.
func ownDomain(t *kueue.PodSetTopologyRequest) bool {
	return t != nil &&
		(t.Required != nil || t.PodSetSliceRequiredTopology != nil || len(t.PodsetSliceRequiredTopologyConstraints) > 0)
}
