package actions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// Pick is the pod of a job that a command is run in: of the running ones, that of rank 0, or the
// first one of what was chosen.
func Pick(t *Target, role string, ranks Ranks) (*why.Member, error) {
	members := why.Members(t.Workload, t.Pods)
	if len(members) == 0 {
		return nil, fmt.Errorf("%s has no pods: it is %s", t.title(), t.stands())
	}
	chosen, err := Choose(members, role, ranks)
	if err != nil {
		return nil, err
	}
	if t.Through.Kind == view.KindPod {
		chosen = slices.DeleteFunc(chosen, func(m why.Member) bool { return m.Pod.Name != t.Through.Name })
	}
	if role == "" && ranks.All() && !t.serves() && t.Through.Kind != view.KindPod {
		first := chosen[0].Rank
		chosen = slices.DeleteFunc(chosen, func(m why.Member) bool { return m.Rank != first })
	}
	for i := range chosen {
		if p := chosen[i].Pod; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return &chosen[i], nil
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s has no such pod", t.title())
	}
	last := &chosen[len(chosen)-1]
	state := strings.ToLower(whyQuiet(last.Pod, statusOf(last.Pod, containerOf(last.Pod, ""))))
	return nil, fmt.Errorf(
		"pod %s of %s does not run (%s): choose another one with --rank, of %s",
		Label(last),
		t.title(),
		state,
		running(members),
	)
}

// Container is the container that is meant in a pod; the error says which there are.
func Container(p *corev1.Pod, name string) (string, error) {
	chosen := containerOf(p, name)
	var all []string
	for i := range p.Spec.Containers {
		all = append(all, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.InitContainers {
		all = append(all, p.Spec.InitContainers[i].Name)
	}
	if !slices.Contains(all, chosen) {
		return "", fmt.Errorf(
			"-c %s: pod %s/%s has the containers %s",
			chosen,
			p.Namespace,
			p.Name,
			strings.Join(all, ", "),
		)
	}
	return chosen, nil
}

// running names the members that run.
func running(members []why.Member) string {
	const most = 8
	var names []string
	for i := range members {
		if p := members[i].Pod; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			names = append(names, Label(&members[i]))
		}
	}
	switch {
	case len(names) == 0:
		return "which none runs"
	case len(names) > most:
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// Ports checks what is forwarded: [LOCAL:]REMOTE, where REMOTE may be the name of a port of the
// pod. Without any, the error says which ports the pod declares.
func Ports(p *corev1.Pod, wanted []string) ([]string, error) {
	named := map[string]string{}
	var declared []string
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			number := strconv.Itoa(int(port.ContainerPort))
			if named[port.Name] = number; port.Name != "" {
				number += " (" + port.Name + ")"
			}
			declared = append(declared, number)
		}
	}
	if len(wanted) == 0 && len(declared) == 0 {
		return nil, fmt.Errorf("say which port is forwarded: pod %s declares none", p.Name)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf(
			"say which port is forwarded: pod %s declares %s",
			p.Name,
			strings.Join(declared, ", "),
		)
	}
	var out []string
	for _, w := range wanted {
		local, remote, both := strings.Cut(w, ":")
		if !both {
			remote = local
		}
		if number := named[remote]; number != "" {
			remote = number
		}
		if !both {
			local = remote
		}
		if !isPort(remote, 1) || local != "" && !isPort(local, 0) {
			return nil, fmt.Errorf(
				"%s is not [LOCAL:]REMOTE, such as 8265 or 9000:8265, or the name of a port: pod %s declares %s",
				w,
				p.Name,
				cmp.Or(strings.Join(declared, ", "), "none"),
			)
		}
		out = append(out, local+":"+remote)
	}
	return out, nil
}

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && least <= n && n <= 65535
}
