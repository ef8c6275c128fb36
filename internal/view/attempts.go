package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Attempts are those of a job, that under way included, with what they come to. Its JSON is stable.
type Attempts struct {
	history.Attempts `json:",inline"`
	// Total sums up all of them.
	Total history.AttemptSum `json:"attemptsTotal"`
	// ETTR is the effective training time ratio: of the time since the first attempt began, until the job
	// ended or until now, the share that was neither waiting nor starting nor lost (Kokolis et al.,
	// arXiv 2410.21680: productive time over wall time; here without the wait before the first start). What
	// an attempt under way has done counts as not lost yet. nil if no time has passed.
	ETTR *float64 `json:"ettr,omitempty"`
}

// BeginAttempt is the attempt of a Workload that is admitted: since when, on which nodes, with how many
// GPUs; nil if it is not.
func BeginAttempt(w *kueue.Workload) *history.Attempt {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	if !isTrue(c) || w.Status.Admission == nil {
		return nil
	}
	a := &history.Attempt{Start: c.LastTransitionTime}
	if r := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadPodsReady); isTrue(r) {
		a.Ready = new(r.LastTransitionTime)
	}
	_, a.GPUs = Size(w)
	var nodes []string
	for i := range w.Status.Admission.PodSetAssignments {
		for _, p := range convert.Places(w.Status.Admission.PodSetAssignments[i].TopologyAssignment) {
			nodes = append(nodes, p.Node)
		}
	}
	OnNodes(a, nodes)
	return a
}

// OnNodes says on which nodes an attempt ran.
func OnNodes(a *history.Attempt, nodes []string) {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	a.NodeCount = int32(min(len(nodes), 1<<30))
	a.Nodes = SomeNodes(nodes)
}

// SomeNodes are the first of several, as many as there is room to tell of.
func SomeNodes(nodes []string) []string {
	const most = 512 // bytes
	var out []string
	for _, n := range nodes {
		if len(out) == history.MaxAttemptNodes || len(strings.Join(out, ","))+len(n) >= most {
			break
		}
		out = append(out, n)
	}
	return out
}

// EndAttempt says when an attempt ended, and why; "" is that it ended well.
func EndAttempt(a *history.Attempt, at time.Time, category core.Category, reason, message string) {
	a.End = new(metav1.NewTime(at.UTC().Truncate(time.Second)))
	a.Category = string(category)
	a.Reason = code(reason)
	a.Message = convert.Cut(oneLine(message), history.MaxAttemptMessage)
	account(a, at)
}

// NoteCheckpoint says of an attempt that ended by then what its job, or a pod of it, says of its last checkpoint. One
// before the attempt began, or of the future, saves nothing of it; of several the last one counts.
func NoteCheckpoint(a *history.Attempt, job metav1.Object, now time.Time) {
	t := readMoment(job.GetAnnotations()[history.CheckpointAnnotation])
	if t == nil || a.End == nil || !t.After(a.Start.Time) || t.After(now) ||
		a.Checkpoint != nil && !t.After(a.Checkpoint.Time) {
		return
	}
	a.Checkpoint = t
	account(a, now)
}

// Adopt makes a run of pods whose failure is known from one of them its cause.
func Adopt(a *history.Attempt, pod *corev1.Pod, rank *int32) {
	a.Pod, a.Rank = pod.Name, rank
	if pod.Spec.NodeName != "" {
		a.FailedNodes = []string{pod.Spec.NodeName}
	}
	if _, t := Culprit(pod); t != nil {
		a.ExitCode = new(t.ExitCode)
	}
}

// account computes what an attempt used and lost; now ends one that is under way, which has lost nothing yet.
func account(a *history.Attempt, now time.Time) {
	end := now
	if a.End != nil {
		end = a.End.Time
	}
	a.GPUSeconds = gpuSeconds(a.GPUs, end.Sub(a.Start.Time))
	a.LostGPUSeconds = 0
	if a.End != nil && a.Category != "" {
		a.LostGPUSeconds = gpuSeconds(a.GPUs, end.Sub(saved(a, end)))
	}
}

// saved is until when what an attempt has done is saved: its last checkpoint, or nothing is.
func saved(a *history.Attempt, end time.Time) time.Time {
	if c := a.Checkpoint; c != nil && c.After(a.Start.Time) {
		if c.After(end) {
			return end
		}
		return c.Time
	}
	return a.Start.Time
}

// productive is how much of an attempt was no start and was not lost.
func productive(a *history.Attempt, now time.Time) time.Duration {
	begun, end := a.Start.Time, now
	if a.Ready != nil && a.Ready.After(begun) {
		begun = a.Ready.Time
	}
	if a.End != nil {
		if end = a.End.Time; a.Category != "" {
			end = saved(a, end)
		}
	}
	return max(end.Sub(begun), 0)
}

func gpuSeconds(gpus int64, d time.Duration) int64 {
	return int64(core.Amount(max(gpus, 0)).Mul(int64(max(d, 0) / time.Second)))
}

// AddAttempt adds one that ended. Those that there is no room for any more are summed up, and pods that one fault takes one
// by one, while others run on, are told of as one: the last of them once it is known that the whole job was not stopped for
// it, and so with the next attempt. Who counts faults goes by merged.
func AddAttempt(all history.Attempts, a history.Attempt) history.Attempts {
	all.Attempts = append(merged(all.Attempts, a), a)
	return shortenAttempts(all)
}

// merged are attempts of which pods that one fault took one by one are told of as one, but for those for which the whole job
// was stopped: it has their time. next are those that come after.
func merged(all []history.Attempt, next ...history.Attempt) (out []history.Attempt) {
	for _, a := range all {
		i := len(out) - 1
		for i >= 0 && out[i].ReplacedPods > 0 && !sameFault(&out[i], &a) {
			i--
		}
		if i >= 0 && out[i].ReplacedPods > 0 && !followed(&a, all) && !followed(&a, next) {
			out[i] = together(out[i], a)
			continue
		}
		out = append(out, a)
	}
	return out
}

// oneFault is within what time disruptions of pods that are replaced one by one are one: a rack or a switch that fails
// takes its nodes in no one moment. It is counted from the first, so that what flaps for ever is not one.
const oneFault = time.Minute

// sameFault reports whether pods that were replaced were taken by what took others before.
func sameFault(first, a *history.Attempt) bool {
	if a.ReplacedPods == 0 || a.End == nil || first.End == nil || a.Category != first.Category {
		return false
	}
	after := a.End.Sub(first.End.Time)
	one, another := failure(first), failure(a)
	return after >= 0 && after <= oneFault && one.Disrupts() && another.Disrupts()
}

// together are pods that were replaced and others that the same fault took: it ended when it first did, and as that says.
// It began so long before that its GPUs have the GPU seconds of both, and saved so long before that they lost as much.
func together(first, a history.Attempt) history.Attempt {
	out := *first.DeepCopy()
	out.ReplacedPods = min(first.ReplacedPods, 1<<30) + min(a.ReplacedPods, 1<<30-1)
	out.GPUs = add(first.GPUs, a.GPUs)
	out.Start = metav1.NewTime(minTime(first.Start.Time, a.Start.Time))
	if out.GPUs > 0 {
		ran := time.Duration(add(first.GPUSeconds, a.GPUSeconds)/out.GPUs) * time.Second
		out.Start = metav1.NewTime(first.End.Add(-ran))
	}
	if out.Ready == nil || a.Ready != nil && a.Ready.Before(out.Ready) {
		out.Ready = a.Ready
	}
	if (first.Checkpoint != nil || a.Checkpoint != nil) && out.GPUs > 0 {
		lost := time.Duration(add(first.LostGPUSeconds, a.LostGPUSeconds)/out.GPUs) * time.Second
		out.Checkpoint = new(metav1.NewTime(first.End.Add(-lost)))
	}
	nodes := union(first.Nodes, a.Nodes)
	twice := len(first.Nodes) + len(a.Nodes) - len(nodes)
	out.NodeCount = min(first.NodeCount, 1<<30) + min(a.NodeCount, 1<<30-1) -
		int32(twice) //nolint:gosec // the nodes of an attempt that are listed are few
	out.Nodes, out.FailedNodes = SomeNodes(nodes), SomeNodes(union(first.FailedNodes, a.FailedNodes))
	if out.Message != "" {
		out.Message = convert.Cut(ReplacedText(out.ReplacedPods, out.FailedNodes), history.MaxAttemptMessage)
	}
	account(&out, first.End.Time)
	return out
}

// ReplacedText says that pods leave nodes while others run on.
func ReplacedText(pods int32, nodes []string) string {
	return strconv.Itoa(int(pods)) + " of its pods get other nodes in place of " + strings.Join(nodes, ", ")
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func shortenAttempts(all history.Attempts) history.Attempts {
	for len(all.Attempts) > history.MaxAttempts {
		sum := history.AttemptSum{}
		if all.Earlier != nil {
			sum = *all.Earlier.DeepCopy()
		}
		sumUp(&sum, &all.Attempts[0], time.Time{})
		all.Earlier, all.Attempts = &sum, all.Attempts[1:]
	}
	return all
}

// sumUp adds an attempt to a sum. Pods that were replaced ran within another attempt, which has their time.
func sumUp(s *history.AttemptSum, a *history.Attempt, now time.Time) {
	if a.Category != "" {
		if s.Categories == nil {
			s.Categories = map[string]int32{}
		}
		s.Categories[a.Category]++
	}
	if a.ReplacedPods > 0 {
		s.Replacements++
		s.LostGPUSeconds = add(s.LostGPUSeconds, a.LostGPUSeconds)
		return
	}
	s.Attempts++
	if s.Start == nil || a.Start.Before(s.Start) {
		s.Start = new(a.Start)
	}
	end := now
	if a.End != nil {
		end = a.End.Time
	}
	s.RanSeconds = add(s.RanSeconds, int64(max(end.Sub(a.Start.Time), 0)/time.Second))
	s.ProductiveSeconds = add(s.ProductiveSeconds, int64(productive(a, now)/time.Second))
	s.GPUSeconds = add(s.GPUSeconds, a.GPUSeconds)
	s.LostGPUSeconds = add(s.LostGPUSeconds, a.LostGPUSeconds)
}

// AttemptsOf are the attempts of a job: those that its Workload tells of, and those that ended within an
// admission and cost no quota, which others remember. last is how the one under way ended, nil if it did
// not; without it and without an admission there is none.
func AttemptsOf(w *kueue.Workload, within history.Attempts, last *history.Attempt, now time.Time) *Attempts {
	told := StoppedAttempts(w)
	out := history.Attempts{Earlier: told.Earlier, Attempts: slices.Clone(told.Attempts)}
	if last == nil {
		last = BeginAttempt(w)
	}
	if evicted := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadEvicted,
	); last != nil &&
		isTrue(evicted) {
		last = nil // that is told already, its pods still end
	}
	if last != nil {
		out.Attempts = append(out.Attempts, *last)
	}
	out.Attempts = divided(out.Attempts, within.Attempts, now)
	out.Earlier = joined(out.Earlier, within.Earlier, last)
	out = shortenAttempts(out)
	if out.Earlier == nil && len(out.Attempts) == 0 {
		return nil
	}
	all := &Attempts{Attempts: out}
	if out.Earlier != nil {
		all.Total = *out.Earlier.DeepCopy()
	}
	until := now
	for i := range out.Attempts {
		sumUp(&all.Total, &out.Attempts[i], now)
	}
	if apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished) {
		until = apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished).LastTransitionTime.Time
	}
	all.ETTR = ETTR(&all.Total, until)
	return all
}

// ETTR is the effective training time ratio of attempts until a moment; nil if no time has passed. It is of whole seconds,
// as all that is known of attempts.
func ETTR(s *history.AttemptSum, until time.Time) *float64 {
	if s == nil || s.Start == nil || until.Sub(s.Start.Time) < time.Second {
		return nil
	}
	wall := until.Sub(s.Start.Time) / time.Second
	return new(min(float64(s.ProductiveSeconds)/float64(wall), 1))
}

// divided puts attempts that ended within others in their places: what was one admission is as many
// attempts as began in it.
func divided(whole, within []history.Attempt, now time.Time) []history.Attempt {
	end := func(a *history.Attempt) time.Time {
		if a.End == nil {
			return now.Add(time.Hour) // it is the last
		}
		return a.End.Time
	}
	type told struct {
		history.Attempt
		within bool
	}
	var all []told
	for i, a := range slices.Concat(whole, within) {
		all = append(all, told{a, i >= len(whole)})
	}
	slices.SortStableFunc(all, func(a, b told) int { // times are kept in seconds, and what ended well ended last
		last := 0
		switch {
		case a.Category == "" && b.Category != "":
			last = 1
		case a.Category != "" && b.Category == "":
			last = -1
		}
		return cmp.Or(end(&a.Attempt).Compare(end(&b.Attempt)), last)
	})
	var before time.Time // when the last one ended that left no pod
	var out []history.Attempt
	for i := range all {
		a := all[i].Attempt
		if a.ReplacedPods == 0 {
			if in := admission(whole, &a, end); in != nil {
				if a.Start.Before(&in.Start) {
					a.Start = in.Start
				}
				if a.GPUs == 0 { // who restarts pods need not know
					a.GPUs = in.GPUs
				}
				if a.NodeCount < in.NodeCount { // nor see those that are gone
					a.Nodes, a.NodeCount = in.Nodes, in.NodeCount
				}
				if a.Ready == nil && in.Ready != nil && in.Ready.Time.Before(end(&a)) {
					a.Ready = in.Ready
				}
			}
			overlaps := a.Start.Time.Before(before)
			if overlaps {
				a.Start = metav1.NewTime(before)
			}
			if a.Ready != nil && a.Ready.Before(&a.Start) {
				a.Ready = nil
			}
			if overlaps && all[i].within && !a.Start.Time.Before(end(&a)) {
				continue // what stopped the whole job was found by who restarts it, too
			}
			before = minTime(end(&a), now)
		}
		account(&a, now)
		out = append(out, a)
	}
	return merged(slices.DeleteFunc(
		out,
		func(a history.Attempt) bool { return a.ReplacedPods > 0 && followed(&a, out) },
	))
}

// followed reports whether the whole job was stopped or begun anew for what some of its pods were to be
// replaced for. Those that restart in place wait for pods that are made anew, whichever of them their entry names.
func followed(part *history.Attempt, all []history.Attempt) bool {
	const soon, waited = 5 * time.Second, 10 * time.Minute
	return slices.ContainsFunc(all, func(a history.Attempt) bool {
		if part.End == nil || a.ReplacedPods > 0 || a.End == nil || len(a.FailedNodes) == 0 {
			return false
		}
		after := a.End.Sub(part.End.Time)
		return a.RestartedPods > 0 && after > 0 && after <= waited ||
			after.Abs() <= soon && slices.Equal(a.FailedNodes, part.FailedNodes)
	})
}

// admission is the one in which an attempt ended; nil if none is known.
func admission(
	whole []history.Attempt,
	a *history.Attempt,
	end func(*history.Attempt) time.Time,
) *history.Attempt {
	i := slices.IndexFunc(whole, func(x history.Attempt) bool {
		return !end(&x).Before(end(a)) && !x.Start.After(end(a)) && x.ReplacedPods == 0
	})
	if i < 0 {
		return nil
	}
	return &whole[i]
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// joined is the sum of two. The time of attempts that ended within an admission that is over is the
// admission's, and counted with it.
func joined(stopped, within *history.AttemptSum, last *history.Attempt) *history.AttemptSum {
	if within == nil {
		return stopped
	}
	out := history.AttemptSum{}
	if stopped != nil {
		out = *stopped.DeepCopy()
	}
	out.Attempts += within.Attempts
	out.Replacements += within.Replacements
	for c, n := range within.Categories { // each by itself
		if out.Categories == nil {
			out.Categories = map[string]int32{}
		}
		out.Categories[c] += n
	}
	if last != nil && within.Start != nil && !within.Start.Before(&last.Start) {
		out.RanSeconds = add(out.RanSeconds, within.RanSeconds)
		out.ProductiveSeconds = add(out.ProductiveSeconds, within.ProductiveSeconds)
		out.GPUSeconds = add(out.GPUSeconds, within.GPUSeconds)
		out.LostGPUSeconds = add(out.LostGPUSeconds, within.LostGPUSeconds)
		if out.Start == nil {
			out.Start = within.Start
		}
	}
	return &out
}

// StoppedAttempts are the attempts of a Workload that ended by evictions, and pods of it that were
// replaced, as far as its status says.
func StoppedAttempts(w *kueue.Workload) history.Attempts {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAttempts)
	if c == nil {
		return history.Attempts{}
	}
	return ReadAttempts(c.Message)
}

// EvidenceOf is what is known of how a pod failed, on a node in such a state.
func EvidenceOf(pod *corev1.Pod, node core.NodeTrouble) core.Evidence {
	e := core.Evidence{PodReason: pod.Status.Reason, PodMessage: pod.Status.Message, Node: node}
	if _, t := Culprit(pod); t != nil {
		e.Container, e.ExitCode = t.Reason, t.ExitCode
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			e.Disruption = c.Reason
			e.PodMessage = cmp.Or(e.PodMessage, c.Message)
		}
	}
	if unhealthyDevice(pod) && e.Node == core.NodeFine {
		e.Node = core.NodeBad
	}
	return e
}

// unhealthyDevice reports whether the kubelet says of a device of a pod that it failed (KEP-4680).
func unhealthyDevice(pod *corev1.Pod) bool {
	for range convert.UnhealthyDevices(pod) {
		return true
	}
	return false
}

// TroubleAt is what is wrong with the node of a pod that failed, as far as it can be read: one that is gone is bad, and of
// none, or one that cannot be read, nothing is known. leave says whether health checks say that the pod has to leave it;
// nil is that they say nothing.
func TroubleAt(
	name string,
	read func(name string) (*corev1.Node, error),
	leave func(*corev1.Node) bool,
) (core.NodeTrouble, error) {
	if name == "" {
		return core.NodeFine, nil
	}
	node, err := read(name)
	switch {
	case apierrors.IsNotFound(err):
		return core.NodeBad, nil
	case err != nil:
		return core.NodeFine, fmt.Errorf("read the node of a pod that failed: %w", err)
	}
	return troubleOf(node, leave != nil && leave(node)), nil
}

func troubleOf(node *corev1.Node, leave bool) core.NodeTrouble { //nolint:revive // what they say
	if node.Annotations[DrainAnnotation] != "" {
		return core.NodeDrained
	}
	trouble := core.NodeFine
	for i := range node.Status.Conditions {
		switch c := &node.Status.Conditions[i]; {
		case c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue:
			return core.NodeCutOff
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			trouble = core.NodeBad
		}
	}
	if leave {
		trouble = core.NodeBad
	}
	return trouble
}

// reasonOf is the code of how a pod failed.
func reasonOf(e core.Evidence) string {
	if e.Pressure() {
		return nodePressure
	}
	if e.Container != "" && e.Container != "Error" {
		return e.Container
	}
	return cmp.Or(e.Disruption, e.PodReason) // Error is every exit code
}

// FailPods ends a run of pods that failed, the first of which is known, on a node in such a state.
func FailPods(
	a *history.Attempt,
	at time.Time,
	pod *corev1.Pod,
	rank *int32,
	node core.NodeTrouble,
	message string,
) {
	e := EvidenceOf(pod, node)
	Adopt(a, pod, rank)
	if started := StartedAt(pod); a.Ready == nil && !started.IsZero() {
		a.Ready = new(a.Start) // it may run on from before
		if started.After(a.Start.Time) {
			a.Ready = new(metav1.NewTime(started))
		}
	}
	EndAttempt(a, at, core.CategoryOf(e), reasonOf(e), message)
}

// LastAttempt is how the attempt ended in which a job ended, by its Workload and the pods that are left of
// it; nil if the job has not ended, or had no quota when it did. trouble is the state of a pod's node; nil
// knows of none.
func LastAttempt(
	w *kueue.Workload,
	pods []corev1.Pod,
	trouble func(*corev1.Pod) core.NodeTrouble,
) *history.Attempt {
	a := BeginAttempt(w)
	finished := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished)
	if a == nil || isTrue(apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)) {
		return nil // it has none, or that is told already
	}
	if !isTrue(finished) {
		if w.DeletionTimestamp == nil {
			return nil
		}
		EndAttempt(a, w.DeletionTimestamp.Time, core.CategoryStopped, "Deleted", "it was deleted")
		return a
	}
	at := finished.LastTransitionTime.Time
	if finished.Reason == kueue.ReasonSucceeded {
		EndAttempt(a, at, "", "", "")
		return a
	}
	if p := FirstFailed(pods); p != nil {
		state := core.NodeFine
		if trouble != nil {
			state = trouble(p)
		}
		FailPods(a, at, p, nil, state, finished.Message)
		return a
	}
	e := core.Evidence{PodReason: finished.Reason}
	if pod, node, exit, said := FailedPod(finished.Message); said {
		a.Pod, a.ExitCode, e.ExitCode = pod, &exit, exit
		if node != "" {
			a.FailedNodes = []string{node}
		}
	}
	if finished.Reason == kueue.ReasonOwnerNotFound {
		e = core.Evidence{Evicted: kueue.ReasonDeactivated} // somebody deleted the job
	}
	EndAttempt(a, at, core.CategoryOf(e), finished.Reason, finished.Message)
	return a
}

// FirstFailed is the pod that failed first; nil if none failed by itself.
func FirstFailed(pods []corev1.Pod) (first *corev1.Pod) {
	for i := range pods {
		p := &pods[i]
		if _, t := Culprit(p); p.Status.Phase != corev1.PodFailed || t == nil {
			continue
		}
		if first == nil || cmp.Or(FailedAt(p).Compare(FailedAt(first)), cmp.Compare(p.Name, first.Name)) < 0 {
			first = p
		}
	}
	return first
}

// RestartedAttempts are those of an AppWrapper that cost it no quota.
func RestartedAttempts(aw *appwrapper.AppWrapper) history.Attempts {
	c := apimeta.FindStatusCondition(aw.Status.Conditions, kueue.WorkloadAttempts)
	if c == nil {
		return history.Attempts{}
	}
	return ReadAttempts(c.Message)
}
