package pod

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Gang is what a PodGroup says of the pods that name it.
type Gang struct {
	// Least is how many of them start together, at least 1.
	Least int32
	// Single: none waits for another.
	Single bool
	// Level is the label of nodes of which those of all pods have one value, "" if any nodes will do.
	Level string
}

// GangOf reads the spec of a PodGroup of an API group. An error names the field that cannot be meant here.
func GangOf(group string, spec map[string]any) (Gang, error) {
	if group == podmeta.NativeGroup {
		return nativeGang(spec)
	}
	least, err := number(spec, "minMember")
	return Gang{Least: least}, err
}

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
		out.Level, _ = constraint["key"].(string)
	}
	parent, _, _ := unstructured.NestedString(spec, "parentCompositePodGroupName")
	claims, _, _ := unstructured.NestedSlice(spec, "resourceClaims")
	switch {
	case len(topology) > 1:
		return Gang{}, errors.New(
			"spec.schedulingConstraints.topology: one constraint is understood: leave the others out",
		)
	case parent != "":
		return Gang{}, fmt.Errorf(
			"spec.parentCompositePodGroupName: groups of groups are not understood, so that the rules of %s would be broken: leave it out",
			parent,
		)
	case len(claims) > 0:
		return Gang{}, errors.New(
			"spec.resourceClaims: devices that are shared by a group are not understood: leave them out, and name the claims in the pods",
		)
	case out.Single && out.Level != "":
		return Gang{}, errors.New(
			"spec.schedulingConstraints.topology: with schedulingPolicy.basic the pods start one by one, and cannot be kept in one domain: use schedulingPolicy.gang, or leave it out",
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
	u.Single, u.Level = g.Single, g.Level
	if u.Wrong == "" {
		u.Wrong = u.blocked()
	}
	if u.Wrong != "" {
		u.Single = false
		return
	}
	if u.Level == "" {
		return
	}
	for _, p := range u.Where(u.counts) {
		if key := jobs.NotWithin(p.Annotations, u.Level); key != "" {
			u.Wrong = fmt.Sprintf(
				"pod %s has the annotation %s: %s, and PodGroup %s asks for one domain of %s (spec.schedulingConstraints.topology): leave one of them out",
				p.Name,
				key,
				p.Annotations[key],
				u.Name,
				u.Level,
			)
			return
		}
	}
}

// blocked says why Kubernetes' scheduler could never start a native group whose pods are admitted one by one; "" if it
// could, or is not who binds them. It takes no pod of a group that waits as long as another one of the group is held.
func (u *Unit) blocked() string {
	theirs := u.count(func(p *corev1.Pod) bool {
		return Active(p) && podmeta.Unplaced(p) && p.Spec.SchedulerName == corev1.DefaultSchedulerName
	})
	switch {
	case theirs == 0 || u.OfPodGroup() != podmeta.NativeGroup:
		return ""
	case u.Single:
		return fmt.Sprintf(
			"Kubernetes' scheduler, which binds the pods, starts none of a PodGroup while another is held: leave spec.schedulingGroup out of the pods, or use schedulingPolicy.gang in PodGroup %s",
			u.Name,
		)
	case theirs > u.Total:
		return fmt.Sprintf(
			"%d pods are there, and %d of them start together: Kubernetes' scheduler, which binds them, starts none of a PodGroup while another is held: raise schedulingPolicy.gang.minCount in PodGroup %s, or delete pods",
			theirs,
			u.Total,
			u.Name,
		)
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
