package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Asker asks a controller why a workload waits.
type Asker interface {
	// Explanation fails if no controller answers, or the user may not ask.
	Explanation(ctx context.Context, namespace, name string) (*visibility.Explanation, error)
}

// NoWorkloadError says that there is no workload that a question names.
type NoWorkloadError struct{ Status string }

// Error is the status of the answer.
func (e *NoWorkloadError) Error() string { return e.Status }

func downNodes(list []visibility.DownNode) string {
	parts := make([]string, len(list))
	for i, d := range list {
		parts[i] = fmt.Sprintf("%s (%s)", d.Name, d.Why)
	}
	return strings.Join(parts, ", ")
}

// refer names a workload as people know it: by its job, or where that is not theirs to
// know by queue and UID.
func refer(r visibility.WorkloadReference) string {
	switch kind, job, _ := strings.Cut(r.Job, "/"); {
	case r.Job != "":
		return kind + " " + r.Namespace + "/" + job
	case r.Name != "":
		return string(view.KindWorkload) + " " + r.Namespace + "/" + r.Name
	case r.ClusterQueue != "":
		return fmt.Sprintf("a job of ClusterQueue %s (UID %s)", r.ClusterQueue, r.UID)
	}
	return fmt.Sprintf("a job that is not yours to see (UID %s)", r.UID)
}

// Plain leaves out what a message begins with for those who know Kueue's.
func Plain(message string) string {
	message = view.ShortAmounts(message)
	rest, found := strings.CutPrefix(message, "couldn't assign flavors")
	if !found { // as a sentence
		rest, found = strings.CutPrefix(message, "Couldn't assign flavors")
	}
	if !found {
		return message
	}
	set, rest, found := strings.Cut(rest, ": ")
	if !found {
		return message
	}
	if set = strings.TrimPrefix(set, " to pod set "); set != "" && set != "main" {
		return "for pod set " + set + ": " + rest
	}
	return rest
}

// answered tells what a controller said just now.
func (e *Explanation) answered(x *visibility.Explanation) {
	e.Answer = x
	e.say("%s", Plain(x.Message))
	// Where nodes are short the limit is that of one of them, which is told with them.
	if s := x.Shortage; s != nil && s.Limit != nil && x.Reason != string(core.TopologyPlacementFailed) {
		e.say(
			"ClusterQueue %s could use %s %s of flavor %s at most",
			x.ClusterQueue,
			view.AmountOf(s.Resource, s.Limit),
			s.Resource,
			s.Flavor,
		)
	}
	e.flavors(x)
	if x.Nodes != nil {
		e.nodeFacts(x.Nodes)
	}
	e.holders(x)
	for i, next := range x.Next {
		if len(x.Advice) > 0 {
			break // each piece of advice clears all of that away
		}
		once := "If that were out of its way, it would wait for something else"
		if i > 0 {
			once = "And after that"
		}
		e.say("%s: %s", once, Plain(next.Message))
	}
	for _, l := range x.Lenders {
		amounts := view.Amounts(l.Resource, l.Lends.String(), l.Nominal.String())
		text := fmt.Sprintf(
			"ClusterQueue %s lends %s of its %s %s",
			l.ClusterQueue,
			amounts[0],
			amounts[1],
			l.Resource,
		)
		if len(l.Because) > 0 {
			text += ", because of " + downNodes(l.Because)
		}
		e.say("%s", text)
	}
	if x.Blocker != nil {
		e.say("It waits for %s", refer(*x.Blocker))
	}
	e.line(x)
	if x.Reason != string(core.Misconfigured) { // what was estimated before does not hold any more
		e.starts(x.Start, x.At.Time)
	}
}

// line says where it stands in its queue.
func (e *Explanation) line(x *visibility.Explanation) {
	switch {
	case x.PositionInClusterQueue == nil:
	case *x.PositionInClusterQueue == 0:
		e.say("No other waiting job in this queue is ahead of it")
	default:
		n := int(*x.PositionInClusterQueue)
		text := fmt.Sprintf("%s in this queue %s ahead of it", words.Count(n, "waiting job"), words.Is(n))
		if len(x.Ahead) > 0 {
			text += "; first " + refer(x.Ahead[0])
		}
		e.say("%s", text)
	}
}

// flavors says what each flavor lacks where there are several.
func (e *Explanation) flavors(x *visibility.Explanation) {
	names := map[string]bool{}
	for _, t := range x.Tried {
		names[t.Flavor] = true
	}
	if len(names) < 2 {
		return
	}
	var parts []string
	for _, t := range x.Tried {
		if t.Message != "" {
			parts = append(parts, fmt.Sprintf("%s: %s", t.Flavor, Plain(t.Message)))
		}
	}
	slices.Sort(parts)
	if parts = slices.Compact(parts); len(parts) > 0 {
		e.say("Flavors that were tried: %s", strings.Join(parts, "; "))
	}
}

// nodeFacts says how the nodes stand.
func (e *Explanation) nodeFacts(f *visibility.NodeFacts) {
	var not []string
	for _, c := range []struct {
		n    int32
		what string
	}{{f.Cordoned, "cordoned"}, {f.Evicted, nodehealth.Evict}, {f.Lost, "not ready"}, {f.Closed, "out of service"}} {
		if c.n > 0 {
			not = append(not, fmt.Sprintf("%d %s %s", c.n, words.Is(int(c.n)), c.what))
		}
	}
	if f.Full > 0 {
		not = append(not, fmt.Sprintf("%d %s no room for one", f.Full, words.Verb(int(f.Full), "has", "have")))
	}
	text := fmt.Sprintf("Its pods may use %d of the cluster's %s", f.Matching, words.Count(int(f.Total), "node"))
	if len(not) > 0 {
		text += "; of these " + strings.Join(not, ", ")
	}
	e.say("%s", text)
	if len(f.Down) > 0 {
		e.say("Out of service: %s", downNodes(f.Down))
	}
	if f.EvictionInVain {
		e.say("%s", inVain(f))
	}
	for i, o := range f.InTheWay {
		kind := "the requirement"
		if o.Taint {
			kind = "the taint"
		}
		if i < 3 {
			e.say("%s would match without %s %s", words.Count(int(o.Nodes), "more node"), kind, o.Text)
		}
	}
	if f.Resource != "" && f.Matching > 0 && f.Free != nil && f.Free.Sign() > 0 && f.Largest != nil &&
		f.Need != nil {
		amounts := view.Amounts(f.Resource, f.Free.String(), f.Largest.String(), f.Need.String())
		e.say(
			"%s %s are free there, %s at most on one node; a pod asks for %s",
			amounts[0],
			f.Resource,
			amounts[1],
			amounts[2],
		)
	}
}

// inVain says that no preemption helps, and why.
func inVain(f *visibility.NodeFacts) string {
	jobs := words.Count(int(f.Evictable), "running job")
	switch n := f.Nearest; {
	case f.Evictable == 0:
		text := "No running job may be preempted for it"
		var because []string
		for _, s := range f.Spared {
			because = append(because, spared(s))
		}
		if len(because) > 0 {
			text += ": " + strings.Join(because, "; ")
		}
		return text
	case n != nil:
		text := fmt.Sprintf(
			"Nothing that may be preempted would make room for its %s in one %s: without the %s that may be, %s would come nearest, with room for %d",
			words.Count(int(f.Wanted), "pod"),
			n.Level,
			jobs,
			n.Domain,
			n.Fit,
		)
		if n.Usable != n.Fit {
			text += fmt.Sprintf(" (%d if empty)", n.Usable)
		}
		return text
	}
	return fmt.Sprintf("Its pods would have no place even without the %s that may be preempted for it", jobs)
}

// spared says why some running jobs may not be preempted.
func spared(s visibility.SparedCount) string {
	where, field := "in other ClusterQueues", "reclaimWithinCohort"
	if s.Own {
		where, field = "in its ClusterQueue", "withinClusterQueue"
	}
	n := int(s.Workloads)
	of := fmt.Sprintf("of the %s %s ", words.Count(n, "job"), where)
	switch core.SpareRule(s.Rule) {
	case core.SparedByPolicy:
		return fmt.Sprintf("%sspec.preemption.%s lets it stop none", of, field)
	case core.SparedByPriority:
		return fmt.Sprintf("%snone has a priority low enough for spec.preemption.%s", of, field)
	case core.SparedWithinNominal:
		return of + "none is beyond what its ClusterQueue owns"
	case core.SparedByBorrowing:
		return of + "none may be stopped by one that would borrow (spec.preemption.borrowWithinCohort)"
	case core.SparedByShare:
		return of + "none is of a side with the larger share (fairSharing.preemptionStrategies)"
	case core.SparedAsBenefactor:
		return of + "none may be stopped by one that was stopped for it"
	case core.SparedUnseen:
		return of + "each was admitted only just now"
	case core.SparedByRuntime:
		return of + "none has run for its minimum runtime"
	case core.SparedOtherQuota,
		core.SparedApart,
		core.SparedNotRunning,
		core.SparedByGate: // they hold nothing for it
	}
	return of + "none may be stopped (" + s.Rule + ")"
}

// holders says which workloads hold what is short.
func (e *Explanation) holders(x *visibility.Explanation) {
	var held, leaving, promised []string
	for _, h := range x.Holders {
		text := refer(h.WorkloadReference)
		if h.Node != "" {
			text = "pods on " + h.Node + " that no queue knows"
			if len(h.Pods) > 0 {
				text = fmt.Sprintf("pods on %s that no queue knows, %s", h.Node, strings.Join(h.Pods, ", "))
			}
		}
		if h.Amount != nil {
			text += fmt.Sprintf(" (%s %s)", view.AmountOf(h.Resource, h.Amount), h.Resource)
		}
		if h.Endless && !h.Leaving && !h.Promised {
			text += ", which does not end by itself"
		}
		switch {
		case h.Leaving:
			if h.StopsAt != nil {
				text += ", which has until " + h.StopsAt.UTC().Format(time.RFC3339) + " to save what it has done"
			}
			leaving = append(leaving, text)
		case h.Promised:
			promised = append(promised, text)
		default:
			held = append(held, text)
		}
	}
	if len(held) > 0 {
		e.say("Held by: %s", strings.Join(held, "; "))
	}
	if len(leaving) > 0 {
		e.say("Being stopped: %s", strings.Join(leaving, "; "))
	}
	if len(promised) > 0 {
		e.say("Promised to, and kept for: %s", strings.Join(promised, "; "))
	}
}
