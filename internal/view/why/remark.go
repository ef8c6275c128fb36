package why

import (
	"fmt"
	"slices"
	"strings"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// unhelped says what there is to do, or that there is nothing, where nothing that was
// tried helps.
func unhelped(x *visibility.Explanation, d *view.Decision) string {
	switch d.Code {
	case core.Misconfigured:
		return "correct what the sentence above names; the job is looked at again at once"
	case core.OnHold:
		if d.Cause == core.BackingOff {
			return "wait: it comes back to its queue by itself"
		}
		return "end the hold that the sentence above names"
	case core.AdmissionGated:
		if d.Cause == core.PreemptionGated {
			return nothingHelps(x, d)
		}
		return "ask whoever set that gate to open it"
	case core.PendingEvaluation:
		return "nothing is needed: it is being looked at"
	case core.WaitingForPodsReady:
		return "wait until the pods of those who were admitted before are ready"
	case core.WaitingForPreempted:
		return "nothing is needed: it starts when the pods of those who are being stopped have ended"
	case core.Suspended:
		if d.Cause == core.QueueStopped && len(x.Next) > 0 {
			return "no single thing: what comes after that must be solved as well, and whoever manages the queue must resume it" + resume(
				x,
			)
		}
		if d.Cause == core.QueueStopped {
			return "whoever manages the queue must resume it" + resume(x)
		}
		return fmt.Sprintf(
			"whoever manages ClusterQueue %s must mend what the sentence above names",
			x.ClusterQueue,
		)
	case core.ExceedsMaxQuota, core.WaitingForQuota, core.NoMatchingFlavor, core.TopologyPlacementFailed:
		return nothingHelps(x, d)
	}
	return ""
}

// resume is the command that lets a stopped queue go on.
func resume(x *visibility.Explanation) string {
	if strings.HasPrefix(x.Message, "LocalQueue ") {
		return fmt.Sprintf(": mlbatch queue resume -n %s %s", x.Namespace, x.LocalQueue)
	}
	return ": mlbatch queue resume " + x.ClusterQueue
}

func nothingHelps(x *visibility.Explanation, d *view.Decision) string {
	if x.Blocker != nil && (d.Cause == core.BehindStrict || d.Cause == core.QuotaClaimed) {
		text := "nobody may pass it there"
		if d.Cause == core.QuotaClaimed {
			text = "its queue keeps the quota for it"
		}
		if x.Blocker.Name == "" {
			return text + "; whoever manages ClusterQueue " + x.Blocker.ClusterQueue + " knows more"
		}
		name := x.Blocker.Name
		if _, job, found := strings.Cut(x.Blocker.Job, "/"); found {
			name = job
		}
		return fmt.Sprintf("%s; see why that job waits: mlbatch why %s/%s", text, x.Blocker.Namespace, name)
	}
	text := "nothing that can be tried lets it start now"
	if x.Incomplete {
		text = "nothing that was tried lets it start now, and there was more than one question may try"
	}
	switch d.Code {
	case core.ExceedsMaxQuota:
		return text + "; waiting does not help either: ask whoever manages ClusterQueue " + x.ClusterQueue + " for more quota"
	case core.NoMatchingFlavor:
		return text + "; ask whoever manages ClusterQueue " + x.ClusterQueue + " for a flavor that suits it"
	case core.TopologyPlacementFailed:
		if d.Cause.Passes() {
			return text + ": it waits until nodes come free"
		}
		return text + "; waiting does not help either: ask an administrator for nodes that suit it"
	default:
		if len(x.Holders) > 0 &&
			!slices.ContainsFunc(x.Holders, func(h visibility.Holder) bool { return !h.Endless }) {
			return text + ", and what holds the quota does not end by itself: ask who runs it to make it smaller, or whoever manages ClusterQueue " + x.ClusterQueue + " for more quota"
		}
		return text + ": it waits until others end"
	}
}
