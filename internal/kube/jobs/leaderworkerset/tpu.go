package leaderworkerset

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// tpu is what a container asks for that has some.
const tpu = "google.com/tpu"

// asksForTPUs is the container of a pod that asks for TPUs, nil if none does.
func asksForTPUs(pod *corev1.PodSpec) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			r := &list[i].Resources
			for _, asks := range []corev1.ResourceList{r.Limits, r.Requests} {
				if q := asks[tpu]; !q.IsZero() {
					return &list[i]
				}
			}
		}
	}
	return nil
}

// forTPUs are the variables by which a pod finds the others of its slice, and the container
// that gets them; nil for pods that ask for no TPUs, or whose author says who is there. A
// slice is a part of the group, where it has parts, else all of it.
func forTPUs(p *corev1.Pod, at place, domain string) (container string, env []corev1.EnvVar) {
	c := asksForTPUs(&p.Spec)
	if c == nil || slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == api.TPUHostsVariable || v.Name == api.TPUIndexVariable }) {
		return "", nil
	}
	size, err := strconv.Atoi(p.Annotations[api.SizeAnnotation])
	if err != nil {
		return "", nil
	}
	first := 1
	if at.worker == 0 || p.Annotations[api.LeaderTPUsAnnotation] == "true" {
		first = 0
	}
	own, parted := subGroup(p, at.worker)
	var hosts []string
	index := 0
	for i := first; i < size; i++ {
		if part, is := subGroup(p, i); part != own || is != parted {
			continue
		}
		if i == at.worker {
			index = len(hosts)
		}
		hosts = append(hosts, at.member(i)+"."+domain)
	}
	return c.Name, []corev1.EnvVar{
		{Name: api.TPUHostsVariable, Value: strings.Join(hosts, ",")},
		{Name: api.TPUIndexVariable, Value: strconv.Itoa(index)},
		{Name: api.TPUNameVariable, Value: p.Name},
	}
}

// member is the name of a pod of the group.
func (at place) member(worker int) string {
	if worker == 0 {
		return at.leader
	}
	return at.leader + "-" + strconv.Itoa(worker)
}
