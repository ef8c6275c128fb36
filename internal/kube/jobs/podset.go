package jobs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
