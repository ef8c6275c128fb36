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

// askForTPUs are the containers of a pod that ask for TPUs, init containers last.
func askForTPUs(pod *corev1.PodSpec) (out []*corev1.Container) {
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			r := &list[i].Resources
			if limit, request := r.Limits[tpu], r.Requests[tpu]; !limit.IsZero() || !request.IsZero() {
				out = append(out, &list[i])
			}
		}
	}
	return out
}

// forTPUs are the variables by which the containers of a pod that ask for TPUs find the others of
// their slice, by container; nil for pods that ask for none, or whose author says who is there. A
// slice is a part of the group, where it has parts, else all of it. Of the other pods is known
// that they ask, and not with how many containers: it is taken to be as many as in this one.
func forTPUs(p *corev1.Pod, at place, domain string) map[string][]corev1.EnvVar {
	asking := askForTPUs(&p.Spec)
	size, err := strconv.Atoi(p.Annotations[api.SizeAnnotation])
	if err != nil || len(asking) == 0 || slices.ContainsFunc(asking, saysWhoIsThere) {
		return nil
	}
	index, pods := at.slice(p, size)
	ports := portsOf(asking)
	var hosts, addresses []string
	for _, name := range pods {
		for _, port := range ports {
			host := name + "." + domain
			hosts, addresses = append(hosts, host), append(addresses, host+":"+port)
		}
	}
	out := map[string][]corev1.EnvVar{}
	for i, c := range asking {
		env := []corev1.EnvVar{
			{Name: api.TPUHostsVariable, Value: strings.Join(hosts, ",")},
			{Name: api.TPUIndexVariable, Value: strconv.Itoa(index*len(asking) + i)},
			{Name: api.TPUNameVariable, Value: at.leader},
			{Name: api.TPUAddressesVariable, Value: strings.Join(addresses, ",")},
		}
		if variable(c, api.TPUPortVariable) == nil {
			env = append(env, corev1.EnvVar{Name: api.TPUPortVariable, Value: ports[i]})
		}
		out[c.Name] = env
	}
	return out
}

// saysWhoIsThere reports whether a container's author says which pods are in its slice.
func saysWhoIsThere(c *corev1.Container) bool {
	return variable(c, api.TPUHostsVariable) != nil || variable(c, api.TPUIndexVariable) != nil
}

// variable is that of a container, nil if it has none.
func variable(c *corev1.Container, name string) *corev1.EnvVar {
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Env[i]
}

// portsOf are where the processes of some containers listen to each other.
func portsOf(containers []*corev1.Container) (out []string) {
	for i, c := range containers {
		port := strconv.Itoa(api.TPUPort + i)
		if v := variable(c, api.TPUPortVariable); v != nil && v.Value != "" {
			port = v.Value
		}
		out = append(out, port)
	}
	return out
}

// slice are the names of the pods of the slice that a pod is in, and its index among them.
func (at place) slice(p *corev1.Pod, size int) (index int, pods []string) {
	first := 1
	if at.worker == 0 || p.Annotations[api.LeaderTPUsAnnotation] == "true" {
		first = 0
	}
	own, parted := subGroup(p, at.worker)
	for i := first; i < size; i++ {
		if part, is := subGroup(p, i); part != own || is != parted {
			continue
		}
		if i == at.worker {
			index = len(pods)
		}
		pods = append(pods, at.member(i))
	}
	return index, pods
}

// member is the name of a pod of the group.
func (at place) member(worker int) string {
	if worker == 0 {
		return at.leader
	}
	return at.leader + "-" + strconv.Itoa(worker)
}
