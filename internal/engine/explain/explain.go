// Package explain turns reasons into sentences. It is the only place where the
// text of a refusal is made; status conditions, events and the command line all
// print it.
package explain

import (
	"fmt"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Sentence says why a workload waits, in one plain sentence.
func Sentence(r core.Reason) string {
	switch r.Code {
	case core.Misconfigured:
		return misconfigured(r)
	case core.Suspended:
		return suspended(r)
	case core.OnHold:
		if r.Cause == core.BackingOff {
			return "the workload waits for its back-off to end"
		}
		return "the workload is on hold: " + r.Detail
	case core.NoMatchingFlavor:
		return couldNot(r) + noFlavor(r)
	case core.ExceedsMaxQuota:
		return couldNot(
			r,
		) + fmt.Sprintf(
			"insufficient quota for %s in flavor %s, request %s > maximum capacity (%s)",
			r.Resource,
			r.Flavor,
			Amount(r.Resource, r.Need),
			Amount(r.Resource, r.Limit),
		) + cut(
			r,
		)
	case core.WaitingForQuota:
		if r.Cause == core.BehindStrict {
			return behind(r)
		}
		if r.Cause == core.QuotaClaimed {
			return couldNot(r) + claimed(r)
		}
		return couldNot(r) + quota(r)
	case core.TopologyPlacementFailed:
		return couldNot(r) + nodes(r)
	case core.WaitingForPreempted:
		return waitingForPreempted(r)
	case core.AdmissionGated:
		switch {
		case r.Cause == core.PreemptionGated && r.LacksNodes():
			return couldNot(r) + nodes(r) + gated(r)
		case r.Cause == core.PreemptionGated:
			return couldNot(r) + quota(r) + gated(r)
		}
		return "the workload is held back by the admission gate " + r.Detail
	case core.WaitingForPodsReady:
		return podsReady(r)
	case core.PendingEvaluation:
		if r.Cause == core.AdmissionLost {
			return "an admission to ClusterQueue " + r.Queue + " was decided and never took effect; it was taken back"
		}
		return "the workload has not been considered yet"
	}
	return "the workload waits: " + string(r.Code)
}

// Paragraph is Sentence followed by what holds what is short and what is ahead,
// for people who ask.
func Paragraph(r core.Reason) string {
	s := Sentence(r)
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") { // what was said elsewhere may end as a sentence
		s += "."
	}
	if r.Tree != "" && (r.LacksQuota() || r.Code == core.ExceedsMaxQuota) && r.Cause != core.BehindStrict {
		s += fmt.Sprintf(
			" Queue %s in cohort %s could use %s of %s at most.",
			r.Queue,
			r.Tree,
			Amount(r.Resource, r.Limit),
			r.Resource,
		)
	}
	if len(r.Holders) == 0 {
		return s
	}
	if r.Code == core.WaitingForPreempted {
		return s + " Being stopped: " + list(r.Holders) + "."
	}
	return s + " Held by: " + list(r.Holders) + "."
}

func list(keys []core.Key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

func couldNot(r core.Reason) string {
	if r.PodSet == "" {
		return "couldn't assign flavors: "
	}
	return "couldn't assign flavors to pod set " + r.PodSet + ": "
}

func quota(r core.Reason) string {
	return fmt.Sprintf("insufficient unused quota for %s in flavor %s, %s more needed",
		r.Resource, r.Flavor, Amount(r.Resource, r.Need.Sub(r.Have))) + cut(r)
}

// cut says that the queue has less than was promised, since nodes are lost.
func cut(r core.Reason) string {
	switch {
	case r.Cut <= 0 && r.TreeCut <= 0:
		return ""
	case r.Cut <= 0: // from which it could borrow
		return fmt.Sprintf(
			" (%s of the quotas around ClusterQueue %s are cut while nodes are out of service)",
			Amount(r.Resource, r.TreeCut),
			r.Queue,
		)
	}
	return fmt.Sprintf(
		" (%s of the quota of ClusterQueue %s are cut while nodes are out of service)",
		Amount(r.Resource, r.Cut),
		r.Queue,
	)
}

// gated says that a workload could evict and may not.
func gated(r core.Reason) string {
	return fmt.Sprintf(
		". Preempting %d workload(s) would do, and the preemption gate %s is closed",
		r.Victims,
		r.Detail,
	)
}

func podsReady(r core.Reason) string {
	if r.Ahead == (core.Key{}) {
		return "waiting for all admitted workloads to have their pods ready"
	}
	return "waiting for all admitted workloads to have their pods ready; those of " + r.Ahead.String() + " are not"
}

func claimed(r core.Reason) string {
	s := fmt.Sprintf(
		"the unused quota for %s in flavor %s would have to be borrowed, and its owner keeps it for ",
		r.Resource,
		r.Flavor,
	)
	if r.Ahead == (core.Key{}) {
		return s + "the first workload of a StrictFIFO queue"
	}
	return s + "workload " + r.Ahead.String()
}

func noFlavor(r core.Reason) string {
	switch r.Cause {
	case core.UntoleratedTaint:
		return fmt.Sprintf("untolerated taint {%s} in flavor %s", r.Detail, r.Flavor)
	case core.LevelMissing:
		return fmt.Sprintf("the topology of flavor %s has no level %s", r.Flavor, r.Detail)
	case core.LevelsReversed:
		return fmt.Sprintf(
			"it asks for one %s, and by the topology of flavor %s these nest the other way round", r.Detail, r.Flavor,
		)
	case core.AffinityMismatch:
		return fmt.Sprintf("flavor %s doesn't match node affinity", r.Flavor)
	default:
		return fmt.Sprintf("flavor %s not found", r.Flavor)
	}
}

func nodes(r core.Reason) string {
	if r.NodesKept > 0 {
		kept := r.NodesKept
		r.NodesKept = 0
		return nodes(r) + fmt.Sprintf("; kept for recovery: %d node(s)", kept)
	}
	on := ""
	if r.Flavor != "" {
		on = " of flavor " + r.Flavor
	}
	switch r.Cause {
	case core.NoSuchNode:
		if r.Level != "" {
			return fmt.Sprintf("no node%s has the label %s, which its pods require", on, r.Level)
		}
		s := fmt.Sprintf("no node%s satisfies the node selector, affinity and tolerations", on)
		if r.Detail != "" {
			s += " and reaches " + r.Detail
		}
		return s
	case core.FlavorEmpty:
		return fmt.Sprintf("no node has the labels of flavor %s (%s)", r.Flavor, r.Detail)
	case core.PodTooLarge:
		s := fmt.Sprintf("a pod is larger than any of the %d node(s)%s", r.Nodes, on)
		if r.Resource != "" {
			s += fmt.Sprintf(
				": it asks for %s of %s, and the largest has %s",
				Amount(r.Resource, r.Need),
				r.Resource,
				Amount(r.Resource, r.Limit),
			)
		}
		return s
	case core.GangTooLarge:
		return fmt.Sprintf(
			"all %d node(s)%s together hold only %d out of %d pod(s), even if empty%s",
			r.Nodes,
			on,
			r.PodsFit,
			r.PodsWanted,
			because(r.Detail),
		)
	case core.DomainTooSmall:
		return fmt.Sprintf(
			"no %s%s could hold its %d pod(s), which must be in one, even if empty: %s, the largest, would hold %d%s",
			r.Level,
			on,
			r.PodsWanted,
			r.Domain,
			r.PodsUsable,
			because(r.Detail),
		)
	case core.PodSetsTooLarge:
		if r.Level != "" {
			return fmt.Sprintf(
				"no %s%s could hold its %d pod(s) beside those of the other pod sets, which must be in the same, even if empty%s",
				r.Level,
				on,
				r.PodsWanted,
				because(r.Detail),
			)
		}
		return fmt.Sprintf(
			"all %d node(s)%s together could not hold its %d pod(s) beside those of the other pod sets, even if empty%s",
			r.Nodes,
			on,
			r.PodsWanted,
			because(r.Detail),
		)
	case core.NodesRefused:
		return fmt.Sprintf(
			"%d node(s)%s refused its pods (%s), and nodes take only %d out of %d pod(s)",
			r.NodesRefused,
			on,
			r.Detail,
			r.PodsFit,
			r.PodsWanted,
		)
	default:
		if r.Level != "" {
			return domains(r, on)
		}
		s := fmt.Sprintf(
			"nodes%s have room for only %d out of %d pod(s). Total nodes: %d",
			on,
			r.PodsFit,
			r.PodsWanted,
			r.Nodes,
		)
		if r.NodesDown > 0 {
			s += fmt.Sprintf("; out of service: %d", r.NodesDown)
		}
		if r.NodesRefused > 0 {
			return s + fmt.Sprintf("; refused its pods: %d (%s)", r.NodesRefused, r.Detail)
		}
		if r.Cause.Passes() && r.Detail != "" { // of PreemptionGated it is the gate
			s += "; in the way: " + r.Detail
		}
		return s
	}
}

// domains says which domain comes nearest to holding pods that must be in one.
func domains(r core.Reason, on string) string {
	around := ""
	if r.Around != "" && r.AroundLevel == r.Level {
		return fmt.Sprintf(
			"%s %s%s, where its other pod sets have room, has room for only %d of its %d pod(s); all nodes together have room for %d",
			r.Level,
			r.Around,
			on,
			r.PodsFit,
			r.PodsWanted,
			r.PodsFree,
		)
	}
	if r.Around != "" {
		around = fmt.Sprintf(" in %s %s, where its other pod sets have room,", r.AroundLevel, r.Around)
	}
	s := fmt.Sprintf(
		"no %s%s%s has room for its %d pod(s), which must be in one: %s comes nearest, with room for %d",
		r.Level,
		on,
		around,
		r.PodsWanted,
		r.Domain,
		r.PodsFit,
	)
	if r.PodsUsable < r.PodsWanted {
		s += fmt.Sprintf(" (%d if empty)", r.PodsUsable)
	}
	return s + fmt.Sprintf("; all nodes together have room for %d", r.PodsFree)
}

func because(limit string) string {
	if limit == "" {
		return ""
	}
	return ", because of " + limit
}

func behind(r core.Reason) string {
	if r.Ahead == (core.Key{}) {
		return fmt.Sprintf("an earlier workload of StrictFIFO queue %s waits", r.Queue)
	}
	return fmt.Sprintf("workload %s is ahead in StrictFIFO queue %s and waits", r.Ahead, r.Queue)
}

func waitingForPreempted(r core.Reason) string {
	pending := fmt.Sprintf("Pending the preemption of %d workload(s)", r.Victims)
	switch {
	case r.Resource != "":
		return couldNot(r) + quota(r) + ". " + pending
	case r.PodsWanted > 0:
		return couldNot(r) + nodes(r) + ". " + pending
	}
	return pending
}

func misconfigured(r core.Reason) string {
	switch r.Cause {
	case core.QueueMissing:
		if r.Queue == "" {
			return "the job names no queue: set its label kueue.x-k8s.io/queue-name to the name of a LocalQueue"
		}
		return fmt.Sprintf("%s %s doesn't exist", r.Detail, r.Queue)
	case core.NamespaceMismatch:
		return fmt.Sprintf("namespace %s doesn't match the namespaceSelector of ClusterQueue %s", r.Detail, r.Queue)
	case core.ResourceUncovered:
		return couldNot(r) + fmt.Sprintf("resource %s unavailable in ClusterQueue", r.Resource)
	case core.CohortCycle:
		return fmt.Sprintf("ClusterQueue %s is inactive: the cohorts above it (%s) form a cycle", r.Queue, r.Tree)
	case core.FlavorMissing:
		return fmt.Sprintf("ClusterQueue %s is inactive: flavor %s not found", r.Queue, r.Flavor)
	case core.PodsInvalid:
		return "it would be rejected: " + r.Detail
	default:
		return "misconfigured: " + r.Detail
	}
}

func suspended(r core.Reason) string {
	if r.Cause == core.QueueStopped {
		return fmt.Sprintf("%s %s is stopped", r.Detail, r.Queue)
	}
	return fmt.Sprintf("ClusterQueue %s is inactive: %s", r.Queue, r.Detail)
}
