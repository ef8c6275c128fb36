package why

import (
	"cmp"
	"fmt"
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// queued tells what a job waits for. The reason and its sentence are the engine's,
// from the controller or, where none answers, from the condition QuotaReserved.
func queued(p JobObjects, j view.Standing, e *Explanation) {
	e.say("%s has waited %s in queue %s", e.Object, p.ago(j.Since), p.queueInFull())
	d := j.Decision
	if ev := j.Eviction; ev != nil {
		text := ": " + ev.Message
		if d != nil && d.Live && d.Code == core.Suspended && strings.HasSuffix(ev.Reason, "Stopped") {
			text = "" // the reason says it
		}
		e.say("%s %s ago%s", before(ev), p.ago(ev.At), text)
		if text != "" {
			e.stopped(p, ev)
		}
	}
	switch {
	case d == nil && j.Eviction != nil:
		e.say("It was not looked at again since")
	case d == nil:
		e.say("It was not looked at yet")
	case d.Live:
		e.answered(p.Answer)
	default:
		e.say("%s", cmp.Or(d.Message, string(d.Code)))
		e.say("So it was %s ago, when that was written; no controller says how it is now", p.ago(d.At))
	}
	if r := p.Workload.Status.RequeueState; r != nil && r.RequeueAt != nil && r.RequeueAt.After(p.Now) {
		e.say("It comes back to the queue in %s", r.RequeueAt.Sub(p.Now).Round(1e9))
	}
	switch {
	case d != nil && d.Live:
		if e.helps(p.Answer); len(e.Advice) == 0 {
			e.Helps = unhelped(p.Answer, d)
		}
	case p.Answer == nil:
		e.Helps = cure(e.Reason)
	}
}

// before says what an eviction ended: a plan whose nodes refuse the pods, and quota that waits for an
// AdmissionCheck, are no run.
func before(ev *view.Eviction) string {
	switch {
	case ev.Reason == kueue.ReasonNodesRefused:
		return "It was planned before, and that was withdrawn"
	case ev.Reason == kueue.ReasonAdmissionCheck && ev.RanSeconds == 0:
		return "It had quota before, did not run, and gave it back"
	}
	return "It ran before and was stopped"
}

// cure says what to do about a reason that no controller could look into; "" if that needs
// a controller.
func cure(reason string) string {
	switch reason {
	case kueue.ReasonMisconfigured, kueue.ReasonInadmissible:
		return "correct what the sentence above names; the job is looked at again at once"
	}
	return "that can be found out only while a controller runs: see mlbatch status"
}

// queueInFull names the queue and whose quota it gives.
func (p *JobObjects) queueInFull() string {
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
