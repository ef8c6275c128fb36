package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// assessment is what the components and pods of a running job amount to.
type assessment struct {
	// done is true if every component with pods has ended well.
	done bool
	// missing names a component that should exist and does not.
	missing string
	// leave says why the job has to leave a node; "" if it may stay. nodeGone
	// is true if there is no such node any more.
	leave    string
	nodeGone bool
	// leaving is until when deleted pods may take to end whose places others wait
	// for; zero if there are none.
	leaving time.Time
	// broken is the message of a component that failed as a whole, nonRetryable that it forbids another
	// attempt.
	broken       string
	nonRetryable bool
	// failed pods that are not replaced, described; "" if there are none.
	failed string
	// terminal describes an exit code that forbids another attempt.
	terminal string
	// ready, existing and expected count pods; ready ones run or have
	// succeeded, existing ones may also be pending.
	ready, existing, expected int32
	// allReady and allExist hold for every single pod set.
	allReady, allExist bool
}

// podCounts counts the pods of one pod set.
type podCounts struct {
	pending, running, succeeded, unfinished int32
	// failed pods, and their number.
	failed    []Pod
	failCount int32
	// leaving pods were deleted and keep their place, until then at most.
	leaving int32
	until   time.Time
}

func assess(f Facts) assessment {
	a := assessment{done: true, allReady: true, allExist: true}
	counts := countPods(f.Pods)
	withPods := false
	for _, c := range f.Components {
		if !c.Exists && a.missing == "" {
			a.missing = c.Name
		}
		if !c.Exists && c.NodeGone != "" && a.leave == "" {
			a.leave, a.nodeGone = c.Name+": "+c.NodeGone, true
		}
		if c.Outcome == Broken || c.Outcome == NonRetryable {
			a.addBroken(c, counts)
		}
		if len(c.PodSets) > 0 {
			withPods = true
			a.done = a.done && ended(c, counts)
		}
		for _, ps := range c.PodSets {
			a.addPodSet(c, ps, counts[ps.Name])
		}
	}
	a.done = a.done && withPods && a.missing == ""
	a.addPods(f)
	return a
}

func countPods(pods []Pod) map[string]*podCounts {
	all := map[string]*podCounts{}
	for _, p := range pods {
		t := all[p.PodSet]
		if t == nil {
			t = &podCounts{}
			all[p.PodSet] = t
		}
		if !p.Finished() {
			t.unfinished++
		}
		switch {
		case p.Phase == PodSucceeded:
			t.succeeded++
		case p.Phase == PodFailed:
			t.failed = append(t.failed, p)
			t.failCount++
		case p.State().HoldsPlace() && p.Deleting:
			t.leaving++
			if p.Until.After(t.until) {
				t.until = p.Until
			}
		case p.Deleting:
			// It is going and will be replaced: it stands for nothing.
		case p.Phase == PodRunning:
			t.running++
		case p.Phase == PodPending:
			t.pending++
		}
	}
	return all
}

// ended reports whether a component with pods ended well. A kind that reports
// its own end is believed: counting succeeded pods calls a Job with more
// completions than parallelism done after its first wave.
func ended(c Component, counts map[string]*podCounts) bool {
	if c.Reports {
		return c.Outcome == Completed
	}
	for _, ps := range c.PodSets {
		t := counts[ps.Name]
		if t == nil {
			if ps.Expected > 0 {
				return false
			}
			continue
		}
		if t.succeeded < ps.Expected || t.unfinished > 0 {
			return false
		}
	}
	return true
}

// addBroken notes a component that failed. If one of its failed pods was on a
// node that has to be left, the node is blamed and not the job.
func (a *assessment) addBroken(c Component, counts map[string]*podCounts) {
	if a.broken != "" {
		a.nonRetryable = a.nonRetryable || c.Outcome == NonRetryable
		return
	}
	a.broken = fmt.Sprintf("%s failed", c.Name)
	if c.Message != "" {
		a.broken += ": " + c.Message
	}
	a.nonRetryable = c.Outcome == NonRetryable
	var failed []Pod
	for _, ps := range c.PodSets {
		if t := counts[ps.Name]; t != nil {
			a.blameNode(t.failed)
			failed = append(failed, t.failed...)
		}
	}
	if len(failed) > 0 {
		a.broken += " (" + describeFailed(failed) + ")"
	}
}

func (a *assessment) blameNode(pods []Pod) {
	for _, p := range pods {
		if p.OnBadNode != "" && a.leave == "" {
			a.leave, a.nodeGone = fmt.Sprintf("pod %s: %s", p.Name, p.OnBadNode), p.NodeGone
		}
	}
}

// addPodSet compares one pod set with what is expected of it. Pod sets are
// judged one by one: pods too many in one do not make up for another.
func (a *assessment) addPodSet(c Component, ps PodSet, t *podCounts) {
	if t == nil {
		t = &podCounts{}
	}
	ready := min(ps.Expected, t.running+t.succeeded)
	existing := min(ps.Expected, ready+t.pending)
	if ready < ps.Expected && t.leaving > 0 && t.until.After(a.leaving) {
		a.leaving = t.until
	}
	short := ps.Expected - existing
	switch {
	case ps.HeldBack:
		// An ordered JobSet starts these pods later: none of them is late.
		existing = ps.Expected
	case c.Reports && c.Outcome == Completed:
		// What a finished component left out it did not need.
		ready, existing = ps.Expected, ps.Expected
	case c.Reports:
		// Its controller is going to replace a failed pod after a back-off, or to
		// report failure: until then the pod counts as pending.
		existing += min(short, t.failCount)
	case short > 0 && t.failCount > 0:
		// No controller replaced these.
		a.blameNode(t.failed)
		if a.failed == "" {
			a.failed = describeFailed(t.failed)
		}
	}
	a.expected += ps.Expected
	a.ready += ready
	a.existing += existing
	a.allReady = a.allReady && ready == ps.Expected
	a.allExist = a.allExist && existing == ps.Expected
}

// addPods looks at pods one by one: nodes to be left and exit codes.
func (a *assessment) addPods(f Facts) {
	for _, p := range f.Pods {
		if !p.Finished() && (!p.Deleting || p.NodeGone) {
			a.blameNode([]Pod{p})
		}
		// What a pod says on being deleted is not its own doing.
		if p.Phase != PodFailed || p.Deleting || a.terminal != "" {
			continue
		}
		i := slices.IndexFunc(p.ExitCodes, f.Policy.Terminal)
		if i >= 0 {
			a.terminal = fmt.Sprintf(
				"pod %s ended%s with exit code %d, which rules out another attempt",
				p.Name,
				onNode(p),
				p.ExitCodes[i],
			)
		}
	}
}

// describeFailed names at most three pods, with their nodes and exit codes.
func describeFailed(pods []Pod) string {
	const most = 3
	var parts []string
	for _, p := range pods[:min(most, len(pods))] {
		s := "pod " + p.Name + " failed" + onNode(p)
		if len(p.ExitCodes) > 0 {
			s += fmt.Sprintf(" with exit code %d", p.ExitCodes[0])
		}
		parts = append(parts, s)
	}
	if more := len(pods) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

func onNode(p Pod) string {
	if p.Node == "" {
		return ""
	}
	return " on " + p.Node
}
