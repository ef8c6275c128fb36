package cli

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// State is where a job stands, in one word.
type State string

// The states of a job.
const (
	Held      State = "Held"      // it must not run, until somebody changes it
	Waiting   State = "Waiting"   // for quota or nodes
	Starting  State = "Starting"  // admitted, not all pods run yet
	Running   State = "Running"   // all pods run
	Resetting State = "Resetting" // its pods are made anew
	Stopping  State = "Stopping"  // evicted or suspended, its pods still end
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
	Unmanaged State = "Unmanaged" // not ours to run
)

// Explanation says why a job is where it is.
type Explanation struct {
	// Object asked about: KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Workload is the NAMESPACE/NAME of its Workload, "" if it has none.
	Workload string `json:"workload,omitempty"`
	// State in one word.
	State State `json:"state"`
	// Reason is the code of why it is in that state, stable for scripts.
	Reason string `json:"reason,omitempty"`
	// Sentences are the paragraph.
	Sentences []string `json:"sentences"`
	// Helps says what would help, "" if nothing is needed.
	Helps string `json:"helps,omitempty"`
	// Advice is what would let a waiting job start, each line alone: it was tried.
	Advice []string `json:"advice,omitempty"`
	// Answer is what a controller said at the moment of the question, with all facts;
	// nil if none was asked, or none answered.
	Answer *visibility.Explanation `json:"explanation,omitempty"`
}

// Explain turns a picture into an explanation. It is pure. The first case that
// matches tells the story.
func Explain(p Picture) Explanation {
	e := Explanation{Object: p.Asked.String()}
	if p.Workload != nil {
		e.Workload = p.Workload.Namespace + "/" + p.Workload.Name
	}
	if p.Through != (Ref{}) {
		e.say("%s belongs to %s", p.Through, p.Asked)
	}
	said := len(e.Sentences)
	switch w := p.Workload; {
	case ended(p, &e):
	case foreign(p, &e):
	case w == nil:
		withoutWorkload(p, &e)
	case isTrue(w.Status.Conditions, kueue.WorkloadFinished):
		finished(p, &e)
	case w.Status.Admission != nil && isTrue(w.Status.Conditions, kueue.WorkloadEvicted):
		stopping(p, &e)
	case w.Status.Admission != nil && !isTrue(w.Status.Conditions, kueue.WorkloadAdmitted):
		checking(p, &e)
	case w.Status.Admission != nil:
		admitted(p, &e)
	case w.Spec.Active != nil && !*w.Spec.Active:
		deactivated(p, &e)
	default:
		waiting(p, &e)
	}
	for i, s := range e.Sentences[said:] {
		e.Sentences[said+i] = p.withJobNames(s)
	}
	return e
}

// withJobNames puts the names of jobs where the names of their workloads stand.
func (p *Picture) withJobNames(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		name := strings.TrimRight(word, ".,:;")
		if job, ok := p.Jobs[name]; ok {
			words[i] = job + word[len(name):]
		}
	}
	return strings.Join(words, " ")
}

func (e *Explanation) say(format string, args ...any) {
	e.Sentences = append(e.Sentences, sentence(fmt.Sprintf(format, args...)))
}

// ended tells of jobs that ended for good and have no Workload to say so.
func ended(p Picture, e *Explanation) bool {
	switch {
	case p.AppWrapper != nil && p.AppWrapper.Status.Phase == appwrapper.AppWrapperFailed:
		e.State, e.Reason = Failed, string(appwrapper.AppWrapperFailed)
		e.say("%s failed", e.Object)
		if c := find(p.AppWrapper.Status.Conditions, appwrapper.Unhealthy); c != nil && c.Message != "" {
			e.Reason = c.Reason
			e.say("Its last trouble: %s", c.Message)
		}
		if n := p.AppWrapper.Status.Retries; n > 0 {
			e.say("It was reset %s before that", times(n))
		}
		if stays(p.AppWrapper) {
			e.say("Its pods are kept for a while, so that their logs can be read; until then it keeps its quota")
		}
		e.Helps = "mend the cause, and submit it again"
		if p.Failed != nil && !p.ran() {
			e.say("Its pods could not be made: %s", eventText(p.Failed))
		} else if p.ran() || stays(p.AppWrapper) {
			e.Helps = "read the logs of its pods, mend the cause, and submit it again"
		}
		return true
	case p.AppWrapper != nil && p.AppWrapper.Status.Phase == appwrapper.AppWrapperSucceeded:
		e.State, e.Reason = Succeeded, string(appwrapper.AppWrapperSucceeded)
		e.say("%s succeeded", e.Object)
		return true
	case p.Job != nil && p.Workload == nil:
		return jobEnded(p, e)
	}
	return false
}

// stays reports whether a failed AppWrapper still has its resources.
func stays(aw *appwrapper.AppWrapper) bool {
	c := find(aw.Status.Conditions, appwrapper.DeletingResources)
	return c != nil && c.Reason == appwrapper.ReasonDeletionPaused
}

func jobEnded(p Picture, e *Explanation) bool {
	for _, c := range p.Job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == batchv1.JobComplete {
			e.State, e.Reason = Succeeded, string(batchv1.JobComplete)
			e.say("%s completed %s ago", e.Object, p.ago(c.LastTransitionTime))
			return true
		}
		if c.Type == batchv1.JobFailed {
			e.State, e.Reason = Failed, c.Reason
			e.say("%s failed %s ago: %s", e.Object, p.ago(c.LastTransitionTime), c.Message)
			e.failures(p)
			return true
		}
	}
	return false
}

// foreign tells of jobs that somebody else manages.
func foreign(p Picture, e *Explanation) bool {
	by := ""
	if aw := p.AppWrapper; aw != nil && aw.Spec.ManagedBy != nil && *aw.Spec.ManagedBy != appwrapper.AppWrapperControllerName {
		by = *aw.Spec.ManagedBy
	}
	if j := p.Job; j != nil && j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName {
		by = *j.Spec.ManagedBy
	}
	if by == "" {
		return false
	}
	e.State, e.Reason = Unmanaged, "ManagedBy"
	e.say("%s names %s in spec.managedBy, so mlbatch leaves it alone", e.Object, by)
	return true
}

// withoutWorkload tells of jobs that no Workload stands for.
func withoutWorkload(p Picture, e *Explanation) {
	queue := p.queueLabel()
	switch {
	case p.Pod != nil || p.PodGroup != nil || p.Deployment != nil:
		unqueued(p, e)
	case queue == "" && (p.Team || p.AppWrapper != nil):
		e.State, e.Reason = Held, "NoQueue"
		e.say("%s is held, because it has no label %s", e.Object, kueue.QueueNameLabel)
		if p.Team {
			e.say("Namespace %s belongs to a team, and there only queued jobs may run", p.Asked.Namespace)
		}
		e.Helps = fmt.Sprintf("give it one: kubectl label %s -n %s %s %s=default-queue", lower(p.Asked.Kind), p.Asked.Namespace, p.Asked.Name, kueue.QueueNameLabel)
	case queue == "":
		e.State, e.Reason = Unmanaged, "NoQueue"
		e.say("%s has no label %s, and namespace %s does not ask for one, so Kubernetes runs it without mlbatch", e.Object, kueue.QueueNameLabel, p.Asked.Namespace)
		e.pods(p)
	case p.Refused != nil:
		e.State, e.Reason = Held, refused
		e.say("%s is meant for queue %s", e.Object, queue)
		e.say("%s", p.Refused.Message)
		e.Helps = "delete jobs of the namespace that have ended, or ask an administrator to let it have more"
	default:
		e.State, e.Reason = Waiting, "NoWorkload"
		e.say("%s is meant for queue %s, but has no Workload yet; the controller makes one within a second", e.Object, queue)
		if w := invalid(p); w != "" {
			e.say("%s", w)
		}
		e.Helps = "if this stays so, see whether the controller runs (mlbatch status) and what the object's events say (kubectl describe)"
	}
}

// unqueued tells of objects that run pods outside the queues.
func unqueued(p Picture, e *Explanation) {
	e.State, e.Reason = Unmanaged, "NotQueued"
	e.say("%s belongs to no job that waits in a queue, so no quota holds it back", e.Object)
	if g := p.PodGroup; g != nil {
		e.say("Its pods start together, %d at least; it is %s", g.Spec.MinMember, orElse(string(g.Status.Phase), "not looked at yet"))
	}
	e.pods(p)
}

// invalid is what an AppWrapper says of itself when it can never run.
func invalid(p Picture) string {
	if p.AppWrapper == nil {
		return ""
	}
	if c := find(p.AppWrapper.Status.Conditions, appwrapper.Unhealthy); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

func finished(p Picture, e *Explanation) {
	c := find(p.Workload.Status.Conditions, kueue.WorkloadFinished)
	e.State, e.Reason = Failed, c.Reason
	if c.Reason == kueue.ReasonSucceeded {
		e.State = Succeeded
	}
	e.say("%s finished %s ago: %s", e.Object, p.ago(c.LastTransitionTime), orElse(c.Message, c.Reason))
	if e.State == Failed && p.AppWrapper == nil { // an AppWrapper names its pods itself
		e.failures(p)
	}
}

func stopping(p Picture, e *Explanation) {
	c := find(p.Workload.Status.Conditions, kueue.WorkloadEvicted)
	e.State, e.Reason = Stopping, c.Reason
	e.say("%s has been stopping for %s: %s", e.Object, p.ago(c.LastTransitionTime), c.Message)
	if n := len(unfinished(p.Pods)); n > 0 {
		e.say("%s still %s to end; only then its quota is free for others", count(n, "pod"), has(n))
	}
	e.say("After that it waits in its queue again")
}

// checking tells of jobs that have quota and wait for admission checks.
func checking(p Picture, e *Explanation) {
	w := p.Workload
	e.State, e.Reason = Waiting, kueue.ReasonUnsatisfiedAdmissionChecks
	since := w.CreationTimestamp
	if c := find(w.Status.Conditions, kueue.WorkloadQuotaReserved); c != nil {
		since = c.LastTransitionTime
	}
	e.say("%s has had quota in ClusterQueue %s for %s and waits for admission checks", e.Object, w.Status.Admission.ClusterQueue, p.ago(since))
	var open []string
	for _, c := range w.Status.AdmissionChecks {
		if c.State == kueue.CheckStateReady {
			continue
		}
		open = append(open, string(c.Name))
		e.say("check %s is %s%s", c.Name, c.State, colon(c.Message))
	}
	if len(open) > 0 {
		e.Helps = "see who answers them: kubectl get admissionchecks.kueue.x-k8s.io " + strings.Join(open, " ")
	}
}

func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func deactivated(p Picture, e *Explanation) {
	e.State, e.Reason = Held, kueue.ReasonDeactivated
	e.say("%s is held: its Workload is deactivated (spec.active is false)", e.Object)
	if c := find(p.Workload.Status.Conditions, kueue.WorkloadEvicted); c != nil && strings.HasPrefix(c.Reason, kueue.ReasonDeactivatedDueTo) {
		e.Reason = c.Reason
		e.say("%s", orElse(c.Message, c.Reason))
	}
	e.Helps = fmt.Sprintf(`activate it: kubectl patch workload -n %s %s --type merge -p '{"spec":{"active":true}}'`, p.Workload.Namespace, p.Workload.Name)
}

// ago prints how long ago t was.
func (p *Picture) ago(t metav1.Time) string {
	return duration.HumanDuration(max(p.Now.Sub(t.Time), 0).Round(time.Second))
}

func (p *Picture) queueLabel() string {
	switch {
	case p.AppWrapper != nil:
		return p.AppWrapper.Labels[kueue.QueueNameLabel]
	case p.Job != nil:
		return p.Job.Labels[kueue.QueueNameLabel]
	}
	return ""
}

func find(cs []metav1.Condition, kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(cs, kind)
}

func isTrue(cs []metav1.Condition, kind string) bool {
	return apimeta.IsStatusConditionTrue(cs, kind)
}
