package leaderworkerset

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Where each part of a group (subGroupPolicy) has to be in one domain (subgroup-exclusive-topology), its nodes are planned
// so: parts of equal size are slices of a pod set. The first part has the leader, which may be another pod than its
// workers, and may have one pod more: it is pod sets of its own, in one domain together.

// Parted is "true" on pods of groups that are planned in parts: an annotation. Pods of templates that an earlier program
// wrote have none, and their groups stay one.
const Parted = "mlbatch.dev/subgroups-placed"

// PartIndexLabel is the number of a pod in its pod set where a group has several for its workers.
const PartIndexLabel = "mlbatch.dev/pod-set-index"

// roleFirst is the pod set of the workers in the leader's part.
const roleFirst = "worker-0"

// parted reports whether groups of the template are planned in parts.
func (t *Template) parted() bool {
	return t.SubGroupExclusive != "" && t.SubGroup != nil && ptr.Deref(t.SubGroup.SubGroupSize, 0) > 0 &&
		!t.part()
}

// isParted reports whether a pod is of a group that is.
func isParted(p *corev1.Pod) bool { return p != nil && p.Annotations[Parted] == "true" }

// cut is how a group is parted.
type cut struct {
	// size of the group, and of its parts.
	size, of int
	// excluded: the leader is in no part.
	excluded bool
}

// first is how many pods there are before those that are in parts of equal size: the leader's part, or the leader alone.
func (c cut) first() int {
	switch {
	case c.excluded:
		return 1
	case (c.size-1)%c.of == 0: // the leader is one more in the first
		return c.of + 1
	}
	return c.of
}

// even reports whether all parts have the same size, and each pod is in one.
func (c cut) even() bool { return !c.excluded && (c.size-1)%c.of != 0 }

// role is the pod set of a pod of a group with so many templates, and its number in it.
func (c cut) role(worker int, own bool) (role string, index int) {
	switch first := c.first(); {
	case !own && c.even():
		return roleMain, worker
	case !own && worker < first:
		return roleMain, worker
	case worker == 0:
		return roleLeader, 0
	case worker < first:
		return roleFirst, worker - 1
	default:
		return roleWorker, worker - first
	}
}

func (t *Template) cut() cut {
	return cut{int(t.Size), int(ptr.Deref(t.SubGroup.SubGroupSize, 1)), t.SubGroup.Type == api.LeaderExcluded}
}

// cutOf reads how the group of a pod is parted; false if it is not planned so.
func cutOf(p *corev1.Pod) (cut, bool) {
	size, sizeErr := strconv.Atoi(p.Annotations[api.SizeAnnotation])
	of, ofErr := strconv.Atoi(p.Annotations[api.SubGroupSizeAnnotation])
	excluded := p.Annotations[api.SubGroupPolicyAnnotation] == string(api.LeaderExcluded)
	return cut{size, of, excluded}, isParted(p) && sizeErr == nil && ofErr == nil && of > 0
}

// partedSets are what one group asks for that is planned in parts; set makes a pod set of a role.
func (t *Template) partedSets(
	set func(role string, like *corev1.PodTemplateSpec, count int32) kueue.PodSet,
) []kueue.PodSet {
	c, own := t.cut(), t.Leader != nil
	first := min(c.first(), c.size)
	var out []kueue.PodSet
	add := func(role string, like *corev1.PodTemplateSpec, count int) {
		if count > 0 {
			out = append(out, set(role, like, int32(count))) //nolint:gosec // a part of 32 bits
		}
	}
	switch {
	case !own && c.even():
		add(roleMain, &t.Worker, c.size)
	case !own:
		add(roleMain, &t.Worker, first)
		add(roleWorker, &t.Worker, c.size-first)
	default:
		add(roleLeader, t.Leader, 1)
		add(roleFirst, &t.Worker, first-1)
		add(roleWorker, &t.Worker, c.size-first)
	}
	for i := range out {
		if out[i].Name == roleWorker || out[i].Name == roleMain && c.even() {
			t.slice(&out[i].Template, c.of)
		}
	}
	jobs.Near(out, PartIndexLabel)
	together := jobs.Outer{Required: t.SubGroupExclusive, Group: roleFirst, Index: PartIndexLabel}
	together.AroundSome(out, func(ps *kueue.PodSet) bool {
		return ps.Name != roleWorker && !c.excluded && (own || !c.even())
	})
	jobs.Outer{Required: t.Exclusive, Group: jobs.AllSets, Index: PartIndexLabel}.Around(out)
	return out
}

// slice has each run of so many pods be in one domain, unless they say themselves how they are cut.
func (t *Template) slice(pods *corev1.PodTemplateSpec, size int) {
	says := map[string]string{
		kueue.PodSetSliceRequiredTopologyAnnotation: t.SubGroupExclusive,
		kueue.PodSetSliceSizeAnnotation:             strconv.Itoa(size),
	}
	if said := kueue.TopologyRequestOf(pods.Annotations); said != nil {
		if said.PodSetSliceRequiredTopology != nil || len(said.PodsetSliceRequiredTopologyConstraints) > 0 {
			return
		}
		// Beside these words those of KAI Scheduler are not read.
		for key, level := range map[string]*string{
			kueue.PodSetRequiredTopologyAnnotation: said.Required, kueue.PodSetPreferredTopologyAnnotation: said.Preferred,
		} {
			if level != nil {
				says[key] = *level
			}
		}
	}
	pods.Annotations = merged(pods.Annotations, says)
}
