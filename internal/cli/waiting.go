package cli

import (
	"fmt"
	"strings"

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
	e.say("%s has waited %s in queue %s", e.Object, p.ago(p.waitsSince()), p.queueInFull())

	reserved := find(w.Status.Conditions, kueue.WorkloadQuotaReserved)
	evicted := find(w.Status.Conditions, kueue.WorkloadEvicted)
	if evicted != nil && isTrue(w.Status.Conditions, kueue.WorkloadEvicted) {
		text := ": " + evicted.Message
		if p.Answer != nil && p.Answer.Reason == kueue.ReasonSuspended && strings.HasSuffix(evicted.Reason, "Stopped") {
			text = "" // the reason says it
		}
		e.say("It ran before and was stopped %s ago%s", p.ago(evicted.LastTransitionTime), text)
	}
	switch {
	case p.Answer != nil && p.Answer.Waiting:
		e.answered(p.Answer)
	case reserved == nil:
		e.say("It was not looked at yet")
	case evicted != nil && reserved.Message == evicted.Message:
		e.say("It was not looked at again since")
	default:
		e.Reason = reserved.Reason
		e.say("%s", orElse(reserved.Message, reserved.Reason))
		e.say("So it was %s ago, when that was written; no controller says how it is now", p.ago(reserved.LastTransitionTime))
	}
	if r := w.Status.RequeueState; r != nil && r.RequeueAt != nil && r.RequeueAt.After(p.Now) {
		e.say("It comes back to the queue in %s", r.RequeueAt.Sub(p.Now).Round(1e9))
	}
	if p.Answer != nil {
		if e.helps(p.Answer); len(e.Advice) == 0 {
			e.Helps = unhelped(p.Answer)
		}
		return
	}
	e.Helps = cure(e.Reason)
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

// cure says what to do about a reason that nobody could look into; "" if that needs
// a controller.
func cure(reason string) string {
	switch reason {
	case kueue.ReasonMisconfigured, kueue.ReasonInadmissible:
		return "correct what the sentence above names; the job is looked at again at once"
	}
	return "that can be found out only while a controller runs: see mlbatch status"
}
