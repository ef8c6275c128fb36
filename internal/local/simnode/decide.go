package simnode

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Facts is what Decide looks at.
type Facts struct {
	Pod *corev1.Pod
	// Began is when containers were started, by name, more exactly than the
	// status can say (it counts in seconds). It may lack any of them.
	Began map[string]time.Time
	// Hosts are other pods that this one needs: what it runs begins when they are up.
	Hosts Hosts
	Now   time.Time
	// Scale divides how long containers run.
	Scale float64
	// Refusal, if set, is why the node cannot take the pod.
	Refusal string
	// BadGPUs has containers with GPUs fail.
	BadGPUs bool
}

// PodAction is what is to be done about a pod.
type PodAction struct {
	// Status is what to write; nil if nothing changes.
	Status *corev1.PodStatus
	// Remove says to delete the pod for good, after writing.
	Remove bool
	// Wake is when to decide again; zero means when the pod changes.
	Wake time.Time
}

// Decide says what happens next to a pod that is bound to a living node. It is
// pure: the same facts give the same step.
func Decide(f Facts) PodAction {
	pod := f.Pod
	if ended(pod) {
		return PodAction{Remove: removable(pod)}
	}
	next := pod.Status.DeepCopy()
	s, err := read(pod, f.Scale)
	if f.BadGPUs {
		s.spoil(pod)
	}
	var wake time.Time
	switch {
	case err != nil:
		fail(next, "BadSimulation", err.Error())
	case f.Refusal != "" && !Started(pod):
		fail(next, "UnexpectedAdmissionError", f.Refusal)
	case pod.DeletionTimestamp != nil:
		if at := stopAt(pod, s.stop); f.Now.Before(at) {
			return PodAction{Wake: at}
		}
		terminate(pod, next, f.Now)
	case overdue(pod, f.Now):
		fail(next, "DeadlineExceeded", "the pod was active longer than its activeDeadlineSeconds")
		terminate(pod, next, f.Now)
	default:
		begin(pod, next, f.Now)
		wake = earlier(advance(f, s, next), deadline(pod, f.Now))
	}
	deriveStatus(pod, next, f.Now)
	v := PodAction{Wake: wake}
	if !equality.Semantic.DeepEqual(&pod.Status, next) {
		v.Status = next
	}
	v.Remove = isTerminal(next.Phase) && removable(pod)
	return v
}

// Started says whether a node has taken the pod in.
func Started(pod *corev1.Pod) bool { return pod.Status.StartTime != nil }

func ended(pod *corev1.Pod) bool { return isTerminal(pod.Status.Phase) }

func isTerminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// removable says whether the API server waits for the node to confirm that the
// pod is gone. Once the grace is 0 only finalizers hold it.
func removable(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil &&
		*pod.DeletionGracePeriodSeconds > 0
}

// stopAt is when a deleted pod's containers have stopped. The deletion
// timestamp is the end of the grace period.
func stopAt(pod *corev1.Pod, need time.Duration) time.Time {
	var grace time.Duration
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	if !Started(pod) {
		need = 0
	}
	return pod.DeletionTimestamp.Add(min(need, grace) - grace)
}

// begin fills in what a node says of a pod when it takes it in.
func begin(pod *corev1.Pod, st *corev1.PodStatus, now time.Time) {
	if st.StartTime != nil {
		return
	}
	t := metav1.NewTime(now)
	host, ip := hostIP(pod.Spec.NodeName), podIP(pod)
	st.StartTime = &t
	st.HostIP, st.HostIPs = host, []corev1.HostIP{{IP: host}}
	st.PodIP, st.PodIPs = ip, []corev1.PodIP{{IP: ip}}
}

// advance moves all containers on to the present and returns when the next
// one changes.
func advance(f Facts, s script, st *corev1.PodStatus) time.Time {
	inits := f
	inits.Hosts = Hosts{} // only what the pod is for needs them
	wake, initialized := advanceInit(inits, s, st)
	if isTerminal(st.Phase) {
		return time.Time{}
	}
	st.Phase = corev1.PodPending
	waits := slices.ContainsFunc(
		f.Pod.Spec.Containers,
		func(c corev1.Container) bool { return s.acts[c.Name].waits != nil },
	)
	if initialized && !waits {
		st.Phase = corev1.PodRunning
	}
	for _, c := range f.Pod.Spec.Containers {
		cs := statusOf(f.Pod, c, &st.ContainerStatuses)
		if !initialized {
			cs.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: initializing}}
			continue
		}
		wake = earlier(wake, advanceContainer(f, s.acts[c.Name], f.Pod.Spec.RestartPolicy, cs))
	}
	return wake
}

// initializing is why containers wait while init containers run.
const initializing = "PodInitializing"

// statusOf finds a container's status, or appends a new one.
func statusOf(pod *corev1.Pod, c corev1.Container, all *[]corev1.ContainerStatus) *corev1.ContainerStatus {
	i := slices.IndexFunc(*all, func(cs corev1.ContainerStatus) bool { return cs.Name == c.Name })
	if i < 0 {
		i = len(*all)
		*all = append(*all, newContainerStatus(pod, c))
	}
	return &(*all)[i]
}

// advanceInit runs the init containers one after the other; sidecars among them
// start and stay. It returns when the one that runs ends, and whether all are done.
func advanceInit(f Facts, s script, st *corev1.PodStatus) (wake time.Time, done bool) {
	done = true
	for _, c := range f.Pod.Spec.InitContainers {
		cs := statusOf(f.Pod, c, &st.InitContainerStatuses)
		switch {
		case !done: // an earlier one still runs
			cs.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: initializing}}
		case sidecar(c):
			if cs.State.Running == nil {
				cs.Ready, cs.Started = true, new(true)
				cs.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Now)}}
			}
		default:
			wake, done = advanceOneInit(f, s.acts[c.Name], st, cs)
		}
	}
	return wake, done
}

// advanceOneInit moves an init container on. One that fails is run again, or fails
// the pod if nothing of it may be restarted.
func advanceOneInit(
	f Facts,
	a act,
	st *corev1.PodStatus,
	cs *corev1.ContainerStatus,
) (wake time.Time, done bool) {
	again := corev1.RestartPolicyOnFailure
	if f.Pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		again = corev1.RestartPolicyNever
	}
	for cs.State.Terminated == nil {
		if wake = advanceContainer(f, a, again, cs); wake.IsZero() || wake.After(f.Now) {
			break
		}
	}
	t := cs.State.Terminated
	cs.Started = new(cs.State.Running != nil)
	switch {
	case t == nil:
		cs.Ready = false
		return wake, false
	case t.ExitCode != 0:
		st.Phase = corev1.PodFailed
		return time.Time{}, false
	}
	cs.Ready = true
	return time.Time{}, true
}

func sidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// earlier is the first of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// deadline is when the pod's activeDeadlineSeconds are over; they are real
// time. Zero means never.
func deadline(pod *corev1.Pod, now time.Time) time.Time {
	s := pod.Spec.ActiveDeadlineSeconds
	if s == nil {
		return time.Time{}
	}
	if t := pod.Status.StartTime; t != nil {
		now = t.Time
	}
	return now.Add(time.Duration(*s) * time.Second)
}

func overdue(pod *corev1.Pod, now time.Time) bool {
	d := deadline(pod, now)
	return Started(pod) && !d.IsZero() && !now.Before(d)
}

// advanceContainer moves one container on: started, ended, waiting to be
// restarted, started again.
func advanceContainer(
	f Facts,
	a act,
	restart corev1.RestartPolicy,
	cs *corev1.ContainerStatus,
) (wake time.Time) {
	if a.waits != nil {
		cs.State = corev1.ContainerState{Waiting: a.waits}
		return time.Time{}
	}
	if r := cs.State.Running; r != nil {
		end, endless := endOf(f, a, cs)
		if endless {
			return time.Time{}
		}
		if f.Now.Before(end) {
			return end
		}
		code := a.code(cs.RestartCount)
		cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: a.reason(code), Message: a.broken,
			StartedAt: r.StartedAt, FinishedAt: metav1.NewTime(end), ContainerID: cs.ContainerID,
		}}
		if restarts(restart, code) {
			cs.LastTerminationState = cs.State
			cs.State = corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: crashLoop, Message: "waiting to be restarted"},
			}
		}
	}
	last := cs.LastTerminationState.Terminated
	switch {
	case cs.State.Terminated != nil:
		return time.Time{}
	case cs.State.Waiting != nil && last != nil:
		if at := last.FinishedAt.Add(restartPause(cs.RestartCount)); f.Now.Before(at) {
			return at
		}
		cs.RestartCount++
	}
	cs.ContainerID = containerID(f.Pod, cs.Name, cs.RestartCount)
	cs.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Now)}}
	if a.runs != forever && !f.Hosts.Missing {
		return f.Now.Add(a.runs)
	}
	return time.Time{}
}

const crashLoop = "CrashLoopBackOff"

// endOf is when a running container ends. It does not while hosts are missing that it needs.
func endOf(f Facts, a act, cs *corev1.ContainerStatus) (end time.Time, endless bool) {
	if a.runs == forever || f.Hosts.Missing {
		return time.Time{}, true
	}
	start := startOf(f.Began, cs)
	if f.Hosts.Since.After(start) {
		start = f.Hosts.Since
	}
	return start.Add(a.runs), false
}

// startOf is when a container was started that runs or has ended; zero if it was not. Of the
// two times known of that, the exact one counts if it is the same start.
func startOf(began map[string]time.Time, cs *corev1.ContainerStatus) (start time.Time) {
	switch {
	case cs.State.Running != nil:
		start = cs.State.Running.StartedAt.Time
	case cs.State.Terminated != nil:
		start = cs.State.Terminated.StartedAt.Time
	}
	if b, ok := began[cs.Name]; ok && b.Truncate(time.Second).Equal(start.Truncate(time.Second)) {
		return b
	}
	return start
}

func restarts(p corev1.RestartPolicy, exit int32) bool {
	switch p {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exit != 0
	default:
		return true
	}
}

// restartPause is a kubelet's: at once the first time, then 10 s, doubled each
// time up to 5 minutes.
func restartPause(restarts int32) time.Duration {
	const first, longest = 10 * time.Second, 5 * time.Minute
	if restarts == 0 {
		return 0
	}
	return min(first<<min(restarts-1, 5), longest)
}

// terminate ends what still runs of a pod that was deleted.
func terminate(pod *corev1.Pod, st *corev1.PodStatus, now time.Time) {
	const exitTerminated = 128 + 15
	t := metav1.NewTime(now)
	st.Phase = corev1.PodFailed
	for i := range st.ContainerStatuses {
		cs := &st.ContainerStatuses[i]
		if cs.State.Terminated != nil {
			continue
		}
		start := t
		if r := cs.State.Running; r != nil {
			start = r.StartedAt
		}
		cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode:    exitTerminated,
			Reason:      exitReason(exitTerminated),
			StartedAt:   start,
			FinishedAt:  t,
			ContainerID: cs.ContainerID,
		}}
	}
	if len(st.ContainerStatuses) == 0 {
		for _, c := range pod.Spec.Containers {
			cs := newContainerStatus(pod, c)
			cs.State.Terminated = &corev1.ContainerStateTerminated{
				ExitCode:   exitTerminated,
				Reason:     "ContainerStatusUnknown",
				FinishedAt: t,
			}
			st.ContainerStatuses = append(st.ContainerStatuses, cs)
		}
	}
}

// fail refuses a pod before it runs.
func fail(st *corev1.PodStatus, reason, message string) {
	st.Phase, st.Reason, st.Message = corev1.PodFailed, reason, message
}

// deriveStatus derives phase, readiness and conditions from the containers.
func deriveStatus(pod *corev1.Pod, st *corev1.PodStatus, now time.Time) {
	st.ObservedGeneration = pod.Generation
	done, failed, ready := 0, false, true
	for i := range st.ContainerStatuses {
		cs := &st.ContainerStatuses[i]
		running := cs.State.Running != nil
		cs.Ready, cs.Started = running, new(running)
		ready = ready && running
		if t := cs.State.Terminated; t != nil {
			done++
			failed = failed || t.ExitCode != 0
		}
	}
	if st.Phase == corev1.PodRunning && done == len(pod.Spec.Containers) {
		st.Phase = corev1.PodSucceeded
		if failed {
			st.Phase = corev1.PodFailed
		}
	}
	reason := ""
	over := isTerminal(st.Phase)
	switch {
	case over && st.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case over:
		reason = "PodFailed"
	case !ready:
		reason = "ContainersNotReady"
	}
	if over {
		for i := range st.InitContainerStatuses {
			endSidecar(&st.InitContainerStatuses[i], now)
		}
	}
	initialized := st.StartTime != nil &&
		!slices.ContainsFunc(st.ContainerStatuses, func(cs corev1.ContainerStatus) bool {
			return cs.State.Waiting != nil && cs.State.Waiting.Reason == initializing
		})
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}
	for _, c := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: status[!over]},
		{Type: corev1.PodInitialized, Status: status[initialized]},
		{Type: corev1.PodReady, Status: status[ready && !over], Reason: reason},
		{Type: corev1.ContainersReady, Status: status[ready && !over], Reason: reason},
	} {
		c.LastTransitionTime, c.ObservedGeneration = metav1.NewTime(now), pod.Generation
		set(st, c)
	}
}

func endSidecar(cs *corev1.ContainerStatus, now time.Time) {
	if r := cs.State.Running; r != nil {
		cs.Ready, cs.Started = false, new(false)
		cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: r.StartedAt, FinishedAt: metav1.NewTime(now), ContainerID: cs.ContainerID,
		}}
	}
}

// set changes one condition, and its time only if its status changes.
func set(st *corev1.PodStatus, want corev1.PodCondition) {
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		*c = want
		return
	}
	st.Conditions = append(st.Conditions, want)
}

func newContainerStatus(pod *corev1.Pod, c corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image,
		ContainerID: containerID(pod, c.Name, 0),
	}
}

func containerID(pod *corev1.Pod, name string, restart int32) string {
	return fmt.Sprintf("simulated://%s/%s/%d", pod.UID, name, restart)
}

// reason is what the runtime calls such an end.
func (a act) reason(code int32) string {
	if a.broken != "" {
		return "StartError"
	}
	return exitReason(code)
}

func exitReason(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// podIP is made from the pod's UID: addresses of simulated pods reach nothing,
// but should differ.
func podIP(pod *corev1.Pod) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID)) // never fails
	n := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>16&0x7f, n>>8&0xff, 1+n%254)
}
