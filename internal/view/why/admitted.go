package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// admitted tells of a job that has quota.
func admitted(p JobObjects, j view.Standing, e *Explanation) {
	since := "some time"
	if !j.Since.IsZero() {
		since = p.ago(j.Since)
	}
	e.say("%s was admitted %s ago with quota of ClusterQueue %s", e.Object, since, j.ClusterQueue)
	if n, text := view.Evictions(p.Workload); n > 0 {
		e.say("It was stopped %s before that%s", text, LostText(view.LostBy(p.Workload)))
	}
	if p.Moved != nil {
		e.say("Its pods got other nodes %s ago: %s", p.ago(gather.When(p.Moved)), p.Moved.Message)
	}
	switch j.Reason {
	case view.ReasonDeleted:
		e.say("It was deleted, and what is left of it still ends")
	case view.ReasonCompleted:
		e.say("It has ended, and pods of it that are not waited for still end; it keeps their quota until then")
	}
	if p.AppWrapper != nil {
		e.wrapper(p, j)
	}
	e.recovered(p)
	e.retried(&p)
	e.pastAttempts(p.attempts(nil))
	e.pods(p, j)
	e.progressed(p)
	if p.Stays != nil {
		e.say("It should have left its node, %s ago: %s", p.ago(gather.When(p.Stays)), p.Stays.Message)
	}
	e.part(p) // a set that grew
}

// remadeText says how often pods were made anew.
func remadeText(r *recovery.Recovery) string {
	text := "Pods of it failed " + words.Times(r.Failures+r.FreeFailures) + " and were made anew"
	if r.Failures+r.FreeFailures == 0 {
		text = "All its pods were made anew " + words.Times(r.Attempt)
	} else if r.Attempt > 0 {
		text += ", all of them " + words.Times(r.Attempt)
	}
	return text
}

// Pauses of a Job between the tries of a pod: each is twice as long as the one before.
const (
	firstPause   = 10 * time.Second
	longestPause = 6 * time.Minute
)

// endedAt is when the last container of a pod ended; zero if none says so.
func endedAt(pod *corev1.Pod) (at time.Time) {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// silentSince is when the node of a running pod was given up: Kubernetes then takes the pod's
// readiness away, and leaves what the node said of its containers. Zero if it was not.
func silentSince(pod *corev1.Pod) time.Time {
	if len(pod.Spec.ReadinessGates) > 0 {
		return time.Time{} // others decide there
	}
	is := map[corev1.PodConditionType]*corev1.PodCondition{}
	for i := range pod.Status.Conditions {
		is[pod.Status.Conditions[i].Type] = &pod.Status.Conditions[i]
	}
	ready, containers := is[corev1.PodReady], is[corev1.ContainersReady]
	if ready == nil || containers == nil || ready.Status != corev1.ConditionFalse ||
		containers.Status != corev1.ConditionTrue {
		return time.Time{}
	}
	return ready.LastTransitionTime.Time
}

// unplaced is what the scheduler says of a pod that it has no node for, "" if it says nothing.
func unplaced(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// obstacle says what keeps a pod from running.
func obstacle(pod *corev1.Pod) string {
	if gated(pod) {
		return "is held in its queue until it is admitted"
	}
	for _, g := range pod.Spec.SchedulingGates {
		if g.Name != kueue.TopologyGate {
			return "is held by the scheduling gate " + g.Name + ", until whoever set it takes it out"
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			len(pod.Spec.SchedulingGates) > 0 &&
			strings.Contains(c.Message, "scheduling gates") {
			return "is told its node when all pods that start with it are there" // nobody has said more
		}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "has no node: " + cmp.Or(unscheduled(c.Message), c.Reason)
		}
	}
	for _, s := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return fmt.Sprintf(
				"waits on %s: %s",
				pod.Spec.NodeName,
				strings.TrimSuffix(s.State.Waiting.Reason+", "+s.State.Waiting.Message, ", "),
			)
		}
	}
	if pod.Spec.NodeName != "" {
		return "is starting on " + pod.Spec.NodeName
	}
	if name := pod.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		return "waits for the scheduler " + name
	}
	return "waits for the scheduler"
}

// unscheduled is what a scheduler says of a pod without a node, without what it has to say of
// evictions that would not help.
func unscheduled(message string) string {
	for _, rest := range []string{" no new claims to deallocate", " preemption: "} {
		message, _, _ = strings.Cut(message, rest)
	}
	return strings.TrimSuffix(message, ",")
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
			parts = append(parts, words.Count(len(names)-most, "more node"))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", name, n[name]))
	}
	return strings.Join(parts, ", ")
}

// recovered tells how often pods of a job of which mlbatch makes the pods failed and were made anew.
func (e *Explanation) recovered(p JobObjects) {
	e.inPlace(p)
	r := p.recovery()
	if r == nil {
		return
	}
	text := remadeText(r)
	if at := r.LastFailureTime; at != nil {
		text += ", the last time " + p.ago(at.Time) + " ago"
	}
	e.say("%s", text)
}

// inPlace tells of restarts in place, and why no more followed.
func (e *Explanation) inPlace(p JobObjects) {
	if p.Recovery == nil || p.Recovery.InPlace == nil {
		return
	}
	r := p.Recovery.InPlace
	if n := r.Failures + r.FreeFailures; n > 0 {
		text := "Its pods restarted together in place " + words.Times(n) +
			": no Job had failed, so that they kept their nodes and nothing was made anew but pods that were lost"
		if r.FreeFailures > 0 {
			text += fmt.Sprintf("; %d of %d counted against no limit", r.FreeFailures, n)
		}
		e.say("%s", text)
	}
	if r.Since != nil {
		e.say(
			"They have been at it for %s: if one does not come back in time, all are made anew",
			p.ago(r.Since.Time),
		)
	}
}

// wrapper adds what an AppWrapper says about its own recovery.
func (e *Explanation) wrapper(p JobObjects, j view.Standing) {
	aw := p.AppWrapper
	switch j.State {
	case view.Resetting:
		if j.Pods.None() {
			e.say("It is being reset: its pods are gone, they are made anew after a pause, and it keeps its quota")
		} else {
			e.say("It is being reset: its pods are removed and made anew, and it keeps its quota")
		}
	case view.Stopping:
		if aw.Status.Phase == appwrapper.AppWrapperSuspending {
			e.say("It is being suspended: its pods are removed")
		}
	default:
		// What the others mean is told by the pods.
	}
	if c := find(aw.Status.Conditions, appwrapper.Unhealthy); c != nil && c.Status == metav1.ConditionTrue {
		e.say("It has been unhealthy for %s: %s", p.ago(c.LastTransitionTime.Time), cmp.Or(c.Message, c.Reason))
	}
	if n := aw.Status.Retries; n > 0 {
		e.say("It was reset %s for faults of its own", words.Times(n))
	}
}

// pods adds where the pods are and what keeps pods that do not run.
func (e *Explanation) pods(p JobObjects, j view.Standing) {
	pods := &j.Pods
	switch n := len(pods.Running); {
	case pods.None() && j.State == view.Resetting:
		return
	case pods.None() && p.Job != nil && p.Job.Spec.Parallelism != nil && *p.Job.Spec.Parallelism == 0:
		e.say("It has no pods, and gets none: spec.parallelism is 0")
		return
	case pods.None():
		e.say("Its pods are not there yet")
		if p.elsewhere() {
			e.say("Another operator makes them: mlbatch only queues %ss here", p.Asked.Kind)
			e.Helps = "ask an administrator whether the operator of " + string(p.Asked.Kind) + "s runs"
		}
		if p.Failed != nil {
			e.say("They could not be made, %s ago: %s", p.ago(gather.When(p.Failed)), eventText(p.Failed))
			e.Helps = "mend or make what that names; it is tried again by itself"
		}
		return
	case pods.AllRun():
		e.say("%s on %s", runs(n, pods.Wanted), nodes(pods.Running))
	case n > 0:
		e.say("%d of %s %s, on %s", n, words.Count(pods.Wanted, "pod"), words.Run(n), nodes(pods.Running))
	}
	switch {
	case pods.Ended == 0:
	case pods.Failed == 0:
		e.say("%s ended already", words.Count(pods.Ended, "pod"))
	case pods.Failed == pods.Ended:
		e.say("%s failed already", words.Count(pods.Ended, "pod"))
	default:
		e.say("%s ended already, %d of them failed", words.Count(pods.Ended, "pod"), pods.Failed)
	}
	if pods.Failed > 0 && p.AppWrapper == nil && j.Stage == view.Admitted {
		e.tries(p)
	}
	e.crashing(p, pods.Running)
	e.unheard(p, pods.Running)
	if n := len(pods.Leaving); n > 0 {
		e.say("%s on %s %s being removed", words.Count(n, "pod"), nodes(pods.Leaving), words.Is(n))
	}
	e.blocked(p, pods.Waiting)
}

// tries tells how the last pod failed of a job that goes on, how often it is tried again, and
// when.
func (e *Explanation) tries(p JobObjects) {
	last, at := (*corev1.Pod)(nil), time.Time{}
	for i := range p.Pods {
		if pod := &p.Pods[i]; pod.Status.Phase == corev1.PodFailed && (last == nil || endedAt(pod).After(at)) {
			last, at = pod, endedAt(pod)
		}
	}
	if last == nil {
		return
	}
	ago := ""
	if !at.IsZero() {
		ago = fmt.Sprintf(" %s ago", p.ago(at))
	}
	e.say("The last one that failed is %s%s%s", last.Name, ago, howFailed(last))
	e.Helps = fmt.Sprintf("read its log: mlbatch logs %s/%s", p.Asked.Namespace, last.Name)
	if notStarted(culprit(last)) {
		e.Helps = neverStarted
	}
	job := p.Job
	if job == nil || job.Spec.BackoffLimit == nil || job.Spec.BackoffLimitPerIndex != nil {
		return
	}
	failed := job.Status.Failed
	e.say("It is tried again until more than %d pods have failed (spec.backoffLimit)", *job.Spec.BackoffLimit)
	if next := at.Add(
		min(firstPause<<min(max(failed-1, 0), 10), longestPause),
	); job.Status.Active == 0 && !at.IsZero() &&
		next.After(p.Now) {
		e.say("The next try is in about %s", duration.HumanDuration(next.Sub(p.Now).Round(time.Second)))
	}
}

// crashing names the first pod that has started and does not stay up.
func (e *Explanation) crashing(p JobObjects, running []corev1.Pod) {
	for i := range running {
		pod := &running[i]
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.State.Waiting == nil || s.State.Waiting.Reason == "" {
				continue
			}
			text := fmt.Sprintf(
				"Pod %s does not stay up on %s: container %s is in %s",
				pod.Name,
				pod.Spec.NodeName,
				s.Name,
				s.State.Waiting.Reason,
			)
			if s.RestartCount > 0 {
				text += ", restarted " + words.Times(s.RestartCount)
			}
			if last := s.LastTerminationState.Terminated; last != nil {
				text += ", and ended last" + howEnded(last)
			}
			if m := s.State.Waiting.Message; m != "" && s.LastTerminationState.Terminated == nil {
				text += ": " + m
			}
			e.say("%s", text)
			e.Helps = fmt.Sprintf(
				"read what it said before it ended: mlbatch logs %s/%s -c %s --previous",
				p.Asked.Namespace,
				pod.Name,
				s.Name,
			)
			if notStarted(s.LastTerminationState.Terminated) {
				e.Helps = neverStarted
			}
			return
		}
	}
}

// unheard names the first pod of which nothing is known, since its node does not answer: what
// Kubernetes says of its containers is what the node said last.
func (e *Explanation) unheard(p JobObjects, running []corev1.Pod) {
	for i := range running {
		pod := &running[i]
		silent := silentSince(pod)
		if silent.IsZero() {
			continue
		}
		removed := ""
		for _, t := range pod.Spec.Tolerations {
			if t.Key == corev1.TaintNodeUnreachable && t.TolerationSeconds != nil {
				removed = fmt.Sprintf(
					"; it is removed after %s of that",
					duration.HumanDuration(time.Duration(*t.TolerationSeconds)*time.Second),
				)
			}
		}
		e.say(
			"Node %s has not answered for %s: whether pod %s still runs is not known%s",
			pod.Spec.NodeName,
			p.ago(silent),
			pod.Name,
			removed,
		)
		e.Helps = "ask an administrator what is with the node: mlbatch nodes"
		return
	}
}

// blocked names the first pod that does not run, and what keeps it.
func (e *Explanation) blocked(p JobObjects, rest []corev1.Pod) {
	if len(rest) == 0 {
		return
	}
	pod := rest[0]
	e.say(
		"%s %s not run yet; %s %s",
		words.Count(len(rest), "pod"),
		words.Do(len(rest)),
		pod.Name,
		obstacle(&pod),
	)
	switch {
	case e.State == view.Unmanaged && pod.Spec.NodeName == "":
		e.Helps = "it is tried again when nodes change; compare what it asks for with what they have: mlbatch nodes -o wide"
		switch message := unplaced(&pod); {
		case strings.Contains(message, "Insufficient "):
			e.Helps = "it is tried again when others end; see who has what of the nodes: mlbatch top nodes"
		case message == "" && pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0:
			e.Helps = "see whether a scheduler " + pod.Spec.SchedulerName + " runs, which spec.schedulerName of its pods names: no other looks at them"
		}
	case e.State == view.Starting || e.State == view.Unmanaged:
		e.Helps = "see its events: kubectl describe pod -n " + p.Asked.Namespace + " " + pod.Name
	}
}

// recovery is what is remembered of a job of which mlbatch makes the pods, and made some anew; nil
// of others.
func (p *JobObjects) recovery() *recovery.Recovery {
	r := p.Recovery
	if r == nil || r.Failures+r.FreeFailures+r.Attempt == 0 {
		return nil
	}
	return r
}
