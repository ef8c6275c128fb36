package cli

import (
	"fmt"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// waiting tells what a job without quota waits for. The reason and its sentence
// are the engine's, from the condition QuotaReserved.
func waiting(p Picture, e *Explanation) {
	w := p.Workload
	e.State, e.Reason = Waiting, kueue.ReasonPendingEvaluation
	if w.Spec.QueueName == "" {
		e.State, e.Reason = Held, "NoQueue"
		e.say("%s waits in no queue: its Workload has no spec.queueName", e.Object)
		e.Helps = "set the label " + kueue.QueueNameLabel + " of the job to the name of a LocalQueue"
		return
	}
	e.say("%s has waited %s in queue %s", e.Object, p.ago(w.CreationTimestamp), p.queueInFull())

	reserved := find(w.Status.Conditions, kueue.WorkloadQuotaReserved)
	evicted := find(w.Status.Conditions, kueue.WorkloadEvicted)
	if evicted != nil && isTrue(w.Status.Conditions, kueue.WorkloadEvicted) {
		e.say("It ran before and was stopped %s ago: %s", p.ago(evicted.LastTransitionTime), evicted.Message)
	}
	switch {
	case reserved == nil:
		e.say("It was not looked at yet")
	case evicted != nil && reserved.Message == evicted.Message:
		e.say("It was not looked at again since")
	default:
		e.Reason = reserved.Reason
		e.say("%s", orElse(reserved.Message, reserved.Reason))
	}
	if r := w.Status.RequeueState; r != nil && r.RequeueAt != nil && r.RequeueAt.After(p.Now) {
		e.say("It comes back to the queue in %s", r.RequeueAt.Sub(p.Now).Round(1e9))
	}
	e.ahead(p)
	e.Helps = cure(p, e.Reason)
}

// queueInFull names the queue and whose quota it gives.
func (p *Picture) queueInFull() string {
	local := string(p.Workload.Spec.QueueName)
	detail := ""
	if p.LocalQueue != nil {
		detail = "ClusterQueue " + string(p.LocalQueue.Spec.ClusterQueue)
	}
	if p.Workload.Spec.Priority != nil {
		if detail != "" {
			detail += ", "
		}
		detail += fmt.Sprintf("priority %d", *p.Workload.Spec.Priority)
	}
	if detail == "" {
		return local
	}
	return local + " (" + detail + ")"
}

func (e *Explanation) ahead(p Picture) {
	if !p.Ahead.Known {
		return
	}
	where := "in this queue"
	if p.Ahead.Partial {
		where = "in this namespace"
	}
	if p.Ahead.Count == 0 {
		e.say("No other waiting job %s is ahead of it", where)
		return
	}
	e.say("%s %s %s ahead of it", count(p.Ahead.Count, "waiting job"), where, is(p.Ahead.Count))
}

// cure says what a user or an admin can do about a reason, "" if nothing.
func cure(p Picture, reason string) string {
	queue := "its ClusterQueue"
	if p.LocalQueue != nil {
		queue = "ClusterQueue " + string(p.LocalQueue.Spec.ClusterQueue)
	}
	switch reason {
	case kueue.ReasonWaitingForQuota:
		return "wait for those jobs to end, or ask for less; a priority class above theirs (priorityClassName) lets it go first within its own queue"
	case kueue.ReasonExceedsMaxQuota:
		return "waiting does not help: ask for less, or have an admin raise the quota of " + queue + " or its borrowing limit"
	case kueue.ReasonNoMatchingFlavor:
		return "change the job's node selector, affinity or tolerations, or have an admin add a fitting flavor to " + queue
	case kueue.ReasonTopologyPlacementFailed:
		return "fewer or smaller pods may fit; see what the nodes have and how they are with kubectl get nodes -L autopilot.ibm.com/gpuhealth"
	case kueue.ReasonMisconfigured, kueue.ReasonInadmissible:
		return "correct what the sentence above names; the job is looked at again at once"
	case kueue.ReasonSuspended:
		return "only an admin can let " + queue + " admit again (spec.stopPolicy: None)"
	}
	return ""
}
