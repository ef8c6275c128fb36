package jobs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// roleLabels are the labels by which controllers of others say which role of a job a pod has.
func roleLabels() []string {
	return []string{
		"training.kubeflow.org/replica-type",
		"ray.io/group",
		"ray.io/node-type",
		"jobset.sigs.k8s.io/replicatedjob-name",
		"mpi-operator.x-k8s.io/job-role",
		"leaderworkerset.sigs.k8s.io/role",
	}
}

// PodSetOf says of which pod set a pod of a Workload is that carries no label which does, because
// the program that started its job sets none. It goes by the role that the pod's controller gives
// it, and by what its containers run and ask for. room is how many pods each pod set lacks, for
// pods that several would fit; nil counts none. "" is none that fits.
func PodSetOf(
	sets []kueue.PodSet,
	pod *corev1.Pod,
	room map[kueue.PodSetReference]int32,
) kueue.PodSetReference {
	if len(sets) == 1 {
		return sets[0].Name
	}
	fit := slices.Clone(sets)
	narrow := func(keeps func(*kueue.PodSet) bool) {
		some := slices.DeleteFunc(slices.Clone(fit), func(ps kueue.PodSet) bool { return !keeps(&ps) })
		if len(some) > 0 {
			fit = some
		}
	}
	before := len(fit)
	fit = slices.DeleteFunc(
		fit,
		func(ps kueue.PodSet) bool { return !sameContainers(&ps.Template.Spec, &pod.Spec) },
	)
	if len(fit) == 0 {
		fit = slices.Clone(sets)
	}
	unlike := len(fit) == before && !sameContainers(&fit[0].Template.Spec, &pod.Spec)
	for _, key := range roleLabels() {
		role := strings.ToLower(pod.Labels[key])
		if role == "" {
			continue
		}
		of := func(ps *kueue.PodSet) bool { return strings.ToLower(string(ps.Name)) == role }
		unlike = unlike && !slices.ContainsFunc(fit, func(ps kueue.PodSet) bool { return of(&ps) })
		narrow(of)
	}
	if unlike {
		return ""
	}
	if room != nil {
		narrow(func(ps *kueue.PodSet) bool { return room[ps.Name] > 0 })
	}
	return fit[0].Name
}

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

// NearAsJobSays fills in how near to each other all pods of a job must be, as its own annotations say it: in the words of
// KAI Scheduler, or by asking for a ComputeDomain. What its pods ask for holds as well: a rack for those of each part
// within a block for all.
func NearAsJobSays(annotations map[string]string, sets []kueue.PodSet) {
	NearAsPartSays(annotations, sets, allSets)
}

// allSets is the name of the group of all pod sets of a job.
const allSets = "all"

// NearAsPartSays is NearAsJobSays for the pods of one part of a job; group, a name that no other part has, joins them.
func NearAsPartSays(annotations map[string]string, sets []kueue.PodSet, group string) {
	InOneClique(sets, AsksComputeDomain(annotations, sets), "compute-domain-of-"+group)
	says := kueue.KAITopologyRequestOf(annotations)
	if says == nil {
		return
	}
	for i := range sets {
		t := sets[i].TopologyRequest
		if t == nil {
			t = &kueue.PodSetTopologyRequest{}
		}
		grouped := t.PodSetGroupName != nil
		if t.Preferred == nil && t.Required == nil && !grouped {
			t.Preferred = says.Preferred
		}
		switch {
		case says.Required == nil:
		case t.Required == nil && !grouped:
			if t.Required = says.Required; len(sets) > 1 {
				t.PodSetGroupName = &group // one domain for the pods of all sets
			}
		case len(sets) > 1 || t.Required == nil:
			sets[i].Template.Annotations = kueue.InTopologyGroup(
				sets[i].Template.Annotations,
				kueue.TopologyGroup{Level: *says.Required, Name: group},
			)
		}
		if t.Required != nil || t.Preferred != nil || sets[i].TopologyRequest != nil {
			sets[i].TopologyRequest = t
		}
	}
}

// Within has the pods of all sets be in one domain of a level, a label of nodes, besides what they say of themselves.
// index is that of Near.
func Within(sets []kueue.PodSet, level, index string) {
	for i := range sets {
		t := sets[i].TopologyRequest.DeepCopy()
		if t == nil {
			t = &kueue.PodSetTopologyRequest{}
			if index != "" {
				t.PodIndexLabel = &index
			}
		}
		t.Required, t.PodSetGroupName = &level, nil
		if len(sets) > 1 {
			t.PodSetGroupName = new(allSets)
		}
		sets[i].TopologyRequest = t
	}
}

// NotWithin is the annotation of pods that contradicts that all of them are in one domain of a level; "" if none does.
func NotWithin(annotations map[string]string, level string) string {
	switch t := kueue.TopologyRequestOf(annotations); {
	case t == nil:
	case ptr.Deref(t.Unconstrained, false):
		return kueue.PodSetUnconstrainedTopologyAnnotation
	case ptr.Deref(t.Required, level) == level:
	case annotations[kueue.PodSetRequiredTopologyAnnotation] != "":
		return kueue.PodSetRequiredTopologyAnnotation
	default:
		return kueue.KAIRequiredAnnotation
	}
	return ""
}

// sameContainers reports whether a pod runs what a template says. The API server and webhooks
// of others may have added containers and defaults.
func sameContainers(template, pod *corev1.PodSpec) bool {
	for i := range template.Containers {
		want := &template.Containers[i]
		at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
		if at < 0 || pod.Containers[at].Image != want.Image ||
			!slices.Equal(pod.Containers[at].Command, want.Command) ||
			!slices.Equal(pod.Containers[at].Args, want.Args) {
			return false
		}
		for name, q := range want.Resources.Requests {
			if has := pod.Containers[at].Resources.Requests[name]; has.Cmp(q) != 0 {
				return false
			}
		}
	}
	return true
}
