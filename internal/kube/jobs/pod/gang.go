package pod

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Gang is what a PodGroup says of the pods that name it.
type Gang struct {
	// Least is how many of them start together, at least 1.
	Least int32
	// Single: none waits for another.
	Single bool
	// Near is how near to each other all of them are.
	Near Near
	// Parts are the groups that it is made of, none if the pods are in no groups within it.
	Parts []Part
}

// Near is how near to each other pods have to be.
type Near struct {
	// Required and Preferred are labels of nodes of which those of all pods must, or should, have one value; "" if any
	// nodes will do.
	Required, Preferred string
	// Field of the PodGroup says so.
	Field string
}

// Part is a group within a PodGroup.
type Part struct {
	Name string
	// Parent is the part that it is within, "" for none.
	Parent string
	// Least is how many of its pods start with the others, 0 if it is made of parts itself and has no pods besides.
	Least int32
	Near  Near
}

// GangOf reads the spec of a PodGroup of an API group. levels are the labels that are levels of Topologies. An error names
// the field that cannot be meant here.
func GangOf(group string, spec map[string]any, levels []string) (Gang, error) {
	switch group {
	case podmeta.NativeGroup:
		return nativeGang(spec)
	case podmeta.KAIGroup:
		return kaiGang(spec, levels)
	}
	least, err := number(spec, "minMember")
	return Gang{Least: least}, err
}

// nativeField says how near pods are in a PodGroup of Kubernetes.
const nativeField = "spec.schedulingConstraints.topology"

// nativeGang reads the spec of a PodGroup of Kubernetes.
func nativeGang(spec map[string]any) (Gang, error) {
	least, err := number(spec, "schedulingPolicy", "gang", "minCount")
	if err != nil {
		return Gang{}, err
	}
	out := Gang{Least: least}
	_, out.Single, _ = unstructured.NestedMap(spec, "schedulingPolicy", "basic")
	topology, _, err := unstructured.NestedSlice(spec, "schedulingConstraints", "topology")
	if err != nil {
		return Gang{}, err
	}
	for _, t := range topology {
		constraint, _ := t.(map[string]any)
		out.Near.Required, _ = constraint["key"].(string)
		out.Near.Field = nativeField
	}
	claims, _, _ := unstructured.NestedSlice(spec, "resourceClaims")
	switch {
	case len(topology) > 1:
		return Gang{}, errors.New(
			nativeField + ": one constraint is understood: leave the others out",
		)
	case len(claims) > 0:
		return Gang{}, errors.New(
			"spec.resourceClaims: devices that are shared by a group are not understood: leave them out, and name the claims in the pods",
		)
	case out.Single && out.Near.Required != "":
		return Gang{}, errors.New(
			nativeField + ": with schedulingPolicy.basic the pods start one by one, and cannot be kept in one domain: use schedulingPolicy.gang, or leave it out",
		)
	}
	return out, nil
}

// number is how many pods a field of a spec says, 1 if it does not.
func number(spec map[string]any, fields ...string) (int32, error) {
	var at any = spec
	for _, f := range fields {
		m, _ := at.(map[string]any)
		at = m[f]
	}
	switch n := at.(type) {
	case nil:
		return 1, nil
	case int64:
		if n < 1<<31 {
			return int32(max(n, 1)), nil
		}
	case float64:
		return int32(max(n, 1)), nil
	}
	return 0, fmt.Errorf("%v is no number of pods", at)
}

// OfPodGroup is the API group of the PodGroup that the unit is taken from, "" if its pods
// say themselves how many they are.
func (u *Unit) OfPodGroup() string {
	for _, p := range u.Pods {
		if g := p.Annotations[podmeta.PodGroupKindAnnotation]; g != "" && !u.Alone() && !u.Owned {
			return g
		}
	}
	return ""
}

// AtLeast makes the unit one of so many pods or more: further ones are queued by themselves
// once it runs. wrong says why it cannot be one, "" if it can.
func (u *Unit) AtLeast(least int32, wrong string) {
	u.Total, u.Open = least, true
	if wrong != "" {
		u.Wrong = wrong
	}
}

// As makes the unit what its PodGroup says, unless a pod says otherwise.
func (u *Unit) As(g Gang) {
	u.AtLeast(g.Least, "")
	u.Single, u.gang = g.Single, g
	u.Early = u.Early && len(g.Parts) == 0 // one pod does not tell what those of other parts ask for
	if u.Wrong == "" {
		u.Wrong = cmp.Or(u.mixed(), u.blocked())
	}
	if u.Wrong != "" {
		u.Single = false
		return
	}
	u.Wrong = u.against()
}

// against says what pods say of themselves that contradicts what the PodGroup says of them; "" if nothing does.
func (u *Unit) against() string {
	for _, p := range u.Where(u.counts) {
		if wrong := u.gang.misplaced(p); wrong != "" {
			return wrong
		}
		for _, near := range u.gang.around(podmeta.Within(p, &p.Spec)) {
			if key := near.outer("").Against(p.Annotations); key != "" {
				return fmt.Sprintf(
					"pod %s has the annotation %s: %s, and %s asks for one domain of %s (%s): leave one of them out",
					p.Name,
					key,
					p.Annotations[key],
					u.described(),
					near.Required,
					near.Field,
				)
			}
		}
	}
	for _, ps := range u.PodSets() {
		notes := ps.Template.Annotations
		if key, fault := kueue.TopologyRequestFault(notes); key == kueue.TopologyGroupsAnnotation {
			return fmt.Sprintf(
				"the pods like those of pod set %s are in the groups %s, by %s and annotation %s together, and %s",
				ps.Name,
				notes[key],
				u.described(),
				key,
				fault,
			)
		}
	}
	return ""
}

// blocked says why Kubernetes' scheduler could never start a native group whose pods are admitted one by one; "" if it
// could, or is not who binds them. It takes no pod of a group that waits as long as another one of the group is held.
func (u *Unit) blocked() string {
	theirs := u.count(func(p *corev1.Pod) bool {
		return Active(p) && podmeta.Unplaced(p) && p.Spec.SchedulerName == corev1.DefaultSchedulerName
	})
	native := []string{podmeta.NativeGroup, podmeta.CompositeGroup}
	switch {
	case theirs == 0 || !slices.Contains(native, u.OfPodGroup()):
		return ""
	case u.Single:
		return fmt.Sprintf(
			"Kubernetes' scheduler, which binds the pods, starts none of a PodGroup while another is held: leave spec.schedulingGroup out of the pods, or use schedulingPolicy.gang in PodGroup %s",
			u.Name,
		)
	case theirs > u.Total:
		return fmt.Sprintf(
			"%d pods are there, and %d of them start together: Kubernetes' scheduler, which binds them, starts none of a PodGroup while another is held: raise schedulingPolicy.gang.minCount in %s, or delete pods",
			theirs,
			u.Total,
			u.minCounts(),
		)
	}
	return ""
}

// described is the object by which the pods are one unit.
func (u *Unit) described() string {
	if u.OfPodGroup() == podmeta.CompositeGroup {
		return compositeKind + " " + u.Name
	}
	return "PodGroup " + u.Name
}

// minCounts are the objects that say how many of the pods start together.
func (u *Unit) minCounts() string {
	if u.OfPodGroup() == podmeta.CompositeGroup {
		return "a PodGroup of " + u.described()
	}
	return u.described()
}

// mixed says that pods are in groups of one name that are not the same; "" if they are not.
func (u *Unit) mixed() string {
	group := u.OfPodGroup()
	for _, p := range u.Where(Active) {
		if other := p.Annotations[podmeta.PodGroupKindAnnotation]; other != "" && other != group {
			return fmt.Sprintf(
				"pod %s is in a group %s of %s, and others are in one of %s that is called so, too: give one of the groups another name",
				p.Name,
				u.Name,
				other,
				group,
			)
		}
	}
	return ""
}

// beyond are the pods that come on top of those which start together.
func (u *Unit) beyond() []*corev1.Pod {
	if !u.Open {
		return nil
	}
	return u.tooMany()
}
