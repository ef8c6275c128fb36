package cli

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// admitted tells of a job that has quota.
func admitted(p Picture, e *Explanation) {
	w := p.Workload
	since := "some time"
	if c := find(w.Status.Conditions, kueue.WorkloadQuotaReserved); c != nil {
		since = p.ago(c.LastTransitionTime)
	}
	e.State, e.Reason = Starting, kueue.ReasonAdmitted
	e.say("%s was admitted %s ago with quota of ClusterQueue %s", e.Object, since, w.Status.Admission.ClusterQueue)
	if p.Moved != nil {
		e.say("Its pods got other nodes %s ago: %s", p.ago(when(p.Moved)), p.Moved.Message)
	}
	if p.AppWrapper != nil {
		e.wrapper(p)
	}
	e.pods(p)
}

// wrapper adds what an AppWrapper says about its own recovery.
func (e *Explanation) wrapper(p Picture) {
	aw := p.AppWrapper
	unhealthy := find(aw.Status.Conditions, appwrapper.Unhealthy)
	bad := unhealthy != nil && unhealthy.Status == metav1.ConditionTrue
	switch aw.Status.Phase {
	case appwrapper.AppWrapperResetting:
		e.State, e.Reason = Resetting, string(appwrapper.AppWrapperResetting)
		e.say("It is being reset: its pods are removed and made anew, and it keeps its quota")
	case appwrapper.AppWrapperSuspending:
		e.State, e.Reason = Stopping, string(appwrapper.AppWrapperSuspending)
		e.say("It is being suspended: its pods are removed")
	default:
		// What the other phases mean is told by the pods.
	}
	if bad {
		e.Reason = unhealthy.Reason
		e.say("It has been unhealthy for %s: %s", p.ago(unhealthy.LastTransitionTime), orElse(unhealthy.Message, unhealthy.Reason))
	}
	if n := aw.Status.Retries; n > 0 {
		e.say("It was reset %s for faults of its own", times(n))
	}
}

// pods adds where the pods are and what keeps those that do not run.
func (e *Explanation) pods(p Picture) {
	want, live := int(wanted(p.Workload)), unfinished(p.Pods)
	done := len(p.Pods) - len(live)
	var ready, rest, leaving []corev1.Pod
	for _, pod := range live {
		switch {
		case pod.DeletionTimestamp != nil:
			leaving = append(leaving, pod)
		case pod.Status.Phase == corev1.PodRunning:
			ready = append(ready, pod)
		default:
			rest = append(rest, pod)
		}
	}
	want = max(want, len(live))
	switch {
	case len(p.Pods) == 0 && e.State == Resetting:
		return
	case len(p.Pods) == 0:
		e.say("Its pods are not there yet")
		if p.Failed != nil {
			e.say("Kubernetes could not make them, %s ago: %s", p.ago(when(p.Failed)), eventText(p.Failed))
			e.Helps = "make what is missing there; Kubernetes tries again by itself"
		}
		return
	case len(ready) > 0 && len(rest)+len(leaving) == 0 && len(ready)+done >= want:
		if e.State == Starting {
			e.State = Running
		}
		e.say("%s on %s", runs(len(ready), want), nodes(ready))
	case len(ready) > 0:
		e.say("%d of %s %s, on %s", len(ready), count(want, "pod"), run(len(ready)), nodes(ready))
	}
	if done > 0 {
		e.say("%s ended already", count(done, "pod"))
	}
	if len(leaving) > 0 {
		e.say("%s on %s %s being removed", count(len(leaving), "pod"), nodes(leaving), is(len(leaving)))
	}
	e.blocked(p, rest)
}

// blocked names the first pod that does not run, and what keeps it.
func (e *Explanation) blocked(p Picture, rest []corev1.Pod) {
	if len(rest) == 0 {
		return
	}
	pod := rest[0]
	e.say("%s %s not run yet; %s %s", count(len(rest), "pod"), do(len(rest)), pod.Name, obstacle(&pod))
	if e.State == Starting {
		e.Helps = "see its events: kubectl describe pod -n " + p.Asked.Namespace + " " + pod.Name
	}
}

// obstacle says what keeps a pod from running.
func obstacle(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "has no node: " + orElse(c.Message, c.Reason)
		}
	}
	for _, s := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return fmt.Sprintf("waits on %s: %s", pod.Spec.NodeName, strings.TrimSuffix(s.State.Waiting.Reason+", "+s.State.Waiting.Message, ", "))
		}
	}
	if pod.Spec.NodeName != "" {
		return "is starting on " + pod.Spec.NodeName
	}
	return "waits for the scheduler"
}

// wanted is the number of pods that a workload was admitted with.
func wanted(w *kueue.Workload) int32 {
	if w == nil || w.Status.Admission == nil {
		return 0
	}
	var n int32
	for _, a := range w.Status.Admission.PodSetAssignments {
		if a.Count != nil {
			n += *a.Count
		}
	}
	return n
}

func unfinished(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// nodes lists the nodes of pods with their numbers: "node-0 (2), node-1 (1)".
func nodes(pods []corev1.Pod) string {
	n := map[string]int{}
	var names []string
	for _, p := range pods {
		if n[p.Spec.NodeName] == 0 {
			names = append(names, p.Spec.NodeName)
		}
		n[p.Spec.NodeName]++
	}
	slices.Sort(names)
	const most = 6
	var parts []string
	for i, name := range names {
		if i == most {
			parts = append(parts, count(len(names)-most, "more node"))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", name, n[name]))
	}
	return strings.Join(parts, ", ")
}
