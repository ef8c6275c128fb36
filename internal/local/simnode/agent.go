package simnode

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What JobSets and the agents of their pods call things (https://jobset.sigs.k8s.io, KEP-467). The agent is a container
// of the pod that its author adds, known by its variables.
const (
	// attemptKey is the annotation in which an agent says in which attempt its pod is, jobSetKey the label of pods that
	// has the name of their JobSet, bypassKey the annotation of a JobSet whose agents let workers run at once.
	attemptKey = "jobset.sigs.k8s.io/in-place-restart-attempt"
	jobSetKey  = "jobset.sigs.k8s.io/jobset-name"
	bypassKey  = "jobset.sigs.k8s.io/disable-in-place-restart" //nolint:gosec // an annotation

	agentJobSet = "JOBSET_NAME"
	agentExit   = "IN_PLACE_RESTART_EXIT_CODE"
	agentWorker = "WORKER_COMMAND"
)

// agentAct is what an agent does: it ends with a code to have its pod restart. As the pod's own container it runs the
// worker, as a sidecar it keeps the pod's containers from starting.
type agentAct struct {
	exit   int32
	worker string
}

// agentOf is what a container does as an agent; nil if it is none.
func agentOf(c corev1.Container) *agentAct {
	is, a := false, agentAct{exit: 1}
	for _, e := range c.Env {
		switch e.Name {
		case agentJobSet:
			is = true
		case agentWorker:
			a.worker = e.Value
		case agentExit:
			if n, err := strconv.ParseUint(e.Value, 10, 8); err == nil {
				a.exit = int32(n)
			}
		}
	}
	if !is || a.worker == "" && !sidecar(c) {
		return nil
	}
	return &a
}

// hasAgent reports whether a container of a pod is an agent.
func hasAgent(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers),
		func(c corev1.Container) bool { return agentOf(c) != nil })
}

// AgentFacts are what the agent of a pod knows.
type AgentFacts struct {
	// Known: its JobSet is seen, and Bypass that it does not restart in place.
	Known, Bypass bool
	// Current and Previous are the attempts of the JobSet's status; nil are absent.
	Current, Previous *int32
	// Run is the run of the agent that Claimed is of, as a number of restarts; Claimed is the attempt that it said; nil if
	// it said none yet. Lifted is since when it lets the worker run; zero if it does not.
	Run     int32
	Claimed *int32
	Lifted  time.Time
}

// agentRun is an agent while a pod is decided about, and what it does.
type agentRun struct {
	AgentFacts
	claim             *int32
	lifted, restarted bool
	// ended: it has, to have its pod restart, so that nothing else happens to that.
	ended bool
}

// step has the agent of a container that runs say in which attempt it is, and reports whether it ends to have its pod
// restart, and whether it lets the worker run.
func (r *agentRun) step(f Facts, cs *corev1.ContainerStatus) (ends, lets bool) {
	if r.restarted || r.Run != cs.RestartCount {
		r.Claimed, r.Lifted, r.Run = nil, time.Time{}, cs.RestartCount
	}
	switch {
	case !r.Known:
		return false, false
	case r.Bypass:
	case r.Claimed == nil:
		r.claim = new(int32(0))
		if r.Current != nil {
			*r.claim = *r.Current + 1
		}
		r.Claimed = r.claim
	case r.Previous != nil && *r.Claimed <= *r.Previous:
		return true, false
	}
	if !r.Bypass && (r.Current == nil || *r.Claimed != *r.Current) {
		return false, !r.Lifted.IsZero()
	}
	if r.Lifted.IsZero() {
		r.Lifted, r.lifted = f.Now, true
	}
	return false, true
}

// watch moves an agent on that is a sidecar. The pod goes on once its startup probe has found that it lets the worker
// run: probes come at intervals.
func (r *agentRun) watch(
	f Facts,
	a act,
	c corev1.Container,
	cs *corev1.ContainerStatus,
) (wake time.Time, done bool) {
	if cs.State.Terminated != nil {
		r.ended = true
		return time.Time{}, false
	}
	if cs.State.Running == nil {
		cs.Ready, cs.Started = false, new(false)
		cs.ContainerID = containerID(f.Pod, cs.Name, cs.RestartCount)
		cs.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Now)}}
	}
	ends, lets := r.step(f, cs)
	if r.ended = ends; ends {
		end(f, a, a.agent.exit, cs)
		return time.Time{}, false
	}
	if cs.Started != nil && *cs.Started {
		return time.Time{}, true
	}
	if p := c.StartupProbe; p != nil {
		if !lets {
			return time.Time{}, false
		}
		if at := nextProbe(startOf(f.Began, cs), r.Lifted, p); f.Now.Before(at) {
			return at, false
		}
	}
	cs.Ready, cs.Started = true, new(true)
	return time.Time{}, true
}

// nextProbe is when a probe of a container first comes after a moment.
func nextProbe(started, after time.Time, p *corev1.Probe) time.Time {
	every := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	at := started.Add(time.Duration(p.InitialDelaySeconds) * time.Second)
	if behind := after.Sub(at); behind > 0 {
		at = after.Add((every - behind%every) % every)
	}
	return at
}

// work moves an agent on that runs the worker itself: it ends as the worker does.
func (r *agentRun) work(f Facts, a act, c corev1.Container, cs *corev1.ContainerStatus) (wake time.Time) {
	waits := a
	waits.runs = forever
	if cs.State.Running == nil {
		wake = advanceContainer(f, waits, restarting(f.Pod, c), cs)
		if cs.State.Running == nil {
			return wake
		}
	}
	ends, lets := r.step(f, cs)
	switch {
	case ends:
		a.runs, a.exit, a.fails = 0, a.agent.exit, fails{}
		f.Agent.Lifted = time.Time{}
	case !lets:
		return time.Time{}
	default:
		f.Agent.Lifted = r.Lifted
	}
	return advanceContainer(f, a, restarting(f.Pod, c), cs)
}

// end ends a container.
func end(f Facts, a act, code int32, cs *corev1.ContainerStatus) {
	cs.Ready, cs.Started = false, new(false)
	cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: a.reason(code), StartedAt: cs.State.Running.StartedAt,
		FinishedAt: metav1.NewTime(f.Now), ContainerID: cs.ContainerID,
	}}
}

// restarts reports whether a container that ended with a code is started again by itself.
type restarts func(code int32) bool

func restartsAlways(always, onFailure bool) restarts {
	return func(code int32) bool { return always || onFailure && code != 0 }
}

// restarting is what a kubelet goes by: the container's rules, its own policy, the pod's. A rule that has all containers
// restart is not about one alone.
func restarting(pod *corev1.Pod, c corev1.Container) restarts {
	always := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	onFailure := pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	if p := c.RestartPolicy; p != nil {
		always = *p == corev1.ContainerRestartPolicyAlways
		onFailure = *p == corev1.ContainerRestartPolicyOnFailure
	}
	otherwise := restartsAlways(always, onFailure)
	return func(code int32) bool {
		if action := ruleOf(c, code); action != "" {
			return action == corev1.ContainerRestartRuleActionRestart
		}
		return otherwise(code)
	}
}

// ruleOf is what the first rule of a container says that fits an exit code; "" if none does.
func ruleOf(c corev1.Container, code int32) corev1.ContainerRestartRuleAction {
	for _, r := range c.RestartPolicyRules {
		if on := r.ExitCodes; on != nil &&
			slices.Contains(on.Values, code) == (on.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action
		}
	}
	return ""
}

// What a kubelet says of pods whose containers all restart (KEP-5532).
const (
	restartsStarted = "RestartAllContainersStarted"
	restartingAll   = "RestartingAllContainers"
	restartingWhy   = "The container is removed because RestartAllContainers in place"
	killed          = 128 + 9
)

// restartsAll reports whether all containers of a pod are about to restart.
func restartsAll(st *corev1.PodStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue
	})
}

// markRestart says that all containers of a pod restart, once one has ended with a code of which a rule says so.
func markRestart(pod *corev1.Pod, st *corev1.PodStatus, now time.Time) bool {
	if isTerminal(st.Phase) && !rulesRestart(pod.Spec.InitContainers, st.InitContainerStatuses) {
		return false
	}
	if !rulesRestart(pod.Spec.InitContainers, st.InitContainerStatuses) &&
		!rulesRestart(pod.Spec.Containers, st.ContainerStatuses) {
		return false
	}
	st.Phase = corev1.PodRunning
	set(st, corev1.PodCondition{
		Type: corev1.AllContainersRestarting, Status: corev1.ConditionTrue, Reason: restartsStarted,
		Message: "container exited with restart policy rule", LastTransitionTime: metav1.NewTime(now),
		ObservedGeneration: pod.Generation,
	})
	return true
}

func rulesRestart(containers []corev1.Container, all []corev1.ContainerStatus) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(all, func(cs corev1.ContainerStatus) bool {
			t := cs.State.Terminated
			return cs.Name == c.Name && t != nil &&
				ruleOf(c, t.ExitCode) == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// restartAll removes all containers of a pod of which it was said that they restart: they start again in their order, at
// once. How those ended that did is not told any more, as a kubelet does not.
func restartAll(st *corev1.PodStatus, now time.Time) bool {
	if !restartsAll(st) {
		return false
	}
	set(st, corev1.PodCondition{
		Type:               corev1.AllContainersRestarting,
		Status:             corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now),
	})
	for _, all := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range all {
			cs := &all[i]
			if w := cs.State.Waiting; w != nil { // it had not started
				continue
			}
			cs.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: killed, Reason: restartingAll, Message: restartingWhy,
			}}
			cs.State = corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: restartingAll, Message: restartingWhy},
			}
			cs.RestartCount++
			cs.Ready, cs.Started = false, new(false)
		}
	}
	return true
}

func parseAttempt(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err
}
