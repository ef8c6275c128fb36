package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Explanation says why a job is where it is.
type Explanation struct {
	// Object asked about: KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Workload is the NAMESPACE/NAME of its Workload, "" if it has none.
	Workload string `json:"workload,omitempty"`
	// State in one word.
	State view.State `json:"state"`
	// Reason is the code of why it is in that state, stable for scripts.
	Reason string `json:"reason,omitempty"`
	// Sentences are the paragraph.
	Sentences []string `json:"sentences"`
	// Helps says what would help, "" if nothing is needed.
	Helps string `json:"helps,omitempty"`
	// Advice is what would let a waiting job start, each line alone: it was tried.
	Advice []string `json:"advice,omitempty"`
	// Eviction is why it was stopped that is to run again; nil if it was not, or runs again.
	Eviction *view.Eviction `json:"eviction,omitempty"`
	// Answer is what a controller said at the moment of the question, with all facts;
	// nil if none was asked, or none answered.
	Answer *visibility.Explanation `json:"explanation,omitempty"`
	// release is how a job that is held is let back into its queue, holder who holds it if that
	// is an administrator; "" for others.
	release, holder string
}

// Explain turns the objects of a job into an explanation. It is pure. What there is to tell are
// facts; here is how they are worded, and what more the objects say about them.
func Explain(p JobObjects) Explanation {
	e := Explanation{Object: p.Asked.String()}
	if p.Workload != nil {
		e.Workload = p.Workload.Namespace + "/" + p.Workload.Name
	}
	if p.Through != (view.Ref{}) {
		e.say("%s belongs to %s", p.Through, p.Asked)
	}
	said := len(e.Sentences)
	j := view.StandingOf(p.objects())
	e.State, e.Reason, e.Eviction = j.State, j.Reason, j.Eviction
	switch j.Stage {
	case view.Ended:
		ended(p, j, &e)
	case view.Foreign:
		e.say("%s names %s in managedBy, so mlbatch leaves it alone", e.Object, j.Manager)
	case view.Loose:
		loose(p, j, &e)
	case view.Unqueued:
		unqueued(p, j, &e)
	case view.Refused:
		e.say("%s is meant for queue %s", e.Object, j.LocalQueue)
		e.say("%s", j.Message)
		e.Helps = unqueuedHelps()[j.Reason]
	case view.NotRecorded:
		notRecorded(p, j, &e)
	case view.Finished:
		finished(p, j, &e)
	case view.Evicted:
		evicted(p, j, &e)
	case view.Checking:
		checking(p, j, &e)
	case view.Admitted:
		admitted(p, j, &e)
	case view.Deactivated:
		deactivated(p, j, &e)
	case view.Queued:
		queued(p, j, &e)
	}
	for i, s := range e.Sentences[said:] {
		e.Sentences[said+i] = p.withJobNames(s)
	}
	return e
}

func (e *Explanation) say(format string, args ...any) {
	e.Sentences = append(e.Sentences, words.Sentence(fmt.Sprintf(format, args...)))
}

// ended tells of jobs that ended for good and say so themselves.
func ended(p JobObjects, j view.Standing, e *Explanation) {
	switch {
	case p.AppWrapper != nil && j.State == view.Failed:
		e.say("%s failed", e.Object)
		if j.Message != "" {
			e.say("Its last trouble: %s", j.Message)
		}
		if n := p.AppWrapper.Status.Retries; n > 0 {
			e.say("It was reset %s before that", words.Times(n))
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
	case p.AppWrapper != nil:
		e.say("%s succeeded", e.Object)
	case j.State == view.Succeeded:
		e.say("%s completed %s ago", e.Object, p.ago(j.Since))
	default:
		e.say("%s failed %s ago: %s", e.Object, p.ago(j.Since), j.Message)
		e.failures(p)
	}
}

// stays reports whether a failed AppWrapper still has its resources.
func stays(aw *appwrapper.AppWrapper) bool {
	c := find(aw.Status.Conditions, appwrapper.DeletingResources)
	return c != nil && c.Reason == appwrapper.ReasonDeletionPaused
}

// loose tells of objects that run pods outside the queues.
func loose(p JobObjects, j view.Standing, e *Explanation) {
	if p.Asked.Kind == view.KindGroup {
		incompleteGroup(p, e)
		return
	}
	if p.Pod != nil && gather.GroupOf(p.Pod) != "" {
		e.State, e.Reason = view.Held, gather.ReasonGroupIncomplete
		if gather.Described(p.Pod) {
			e.say("%s is held with its group %s", e.Object, gather.GroupOf(p.Pod))
			e.Helps = "see what the group waits for: mlbatch why " + p.Pod.Namespace + "/" + gather.GroupOf(p.Pod)
			return
		}
		e.say(
			"%s is held with its group %s until all %s pods of that are created",
			e.Object,
			gather.GroupOf(p.Pod),
			gather.WantedOf(p.Pod),
		)
		e.Helps = "create the missing pods, with the same label " + kueue.PodGroupNameLabel + "; kubectl describe says if the pods contradict each other"
		return
	}
	if p.Pod != nil && (p.Pod.Status.Phase == corev1.PodSucceeded || p.Pod.Status.Phase == corev1.PodFailed) {
		loosePodEnded(p, e)
		return
	}
	if p.Asked.Kind == view.KindCronJob {
		scheduled(p, e)
		return
	}
	if i := slices.IndexFunc(
		p.Pods,
		func(o corev1.Pod) bool { return gather.Held(&o) },
	); i >= 0 && p.Pod == nil &&
		len(p.Parts) == 0 {
		queuedPods(p, j, e)
		return
	}
	if len(p.Parts) > 0 || p.servesQueued() {
		queuedSet(p, j, e)
		return
	}
	e.say("%s belongs to no job that waits in a queue, so no quota holds it back", e.Object)
	if g := p.PodGroup; g != nil {
		e.say(
			"Its pods start together, %d at least; it is %s",
			g.Spec.MinMember,
			cmp.Or(string(g.Status.Phase), "not looked at yet"),
		)
	}
	e.pods(p, j)
}

// loosePodEnded tells of a pod outside the queues that has ended.
func loosePodEnded(p JobObjects, e *Explanation) {
	e.Reason = string(p.Pod.Status.Phase)
	if p.Pod.Status.Phase == corev1.PodFailed {
		e.State = view.Failed
		e.say("%s belonged to no job that waits in a queue, and failed", e.Object)
		e.failures(p)
		return
	}
	e.State = view.Succeeded
	e.say("%s belonged to no job that waits in a queue, and completed", e.Object)
}

// queuedPods tells of an object whose pods are queued one by one.
func queuedPods(p JobObjects, j view.Standing, e *Explanation) {
	waiting := slices.DeleteFunc(
		slices.Clone(p.Pods),
		func(o corev1.Pod) bool { return len(o.Spec.SchedulingGates) == 0 },
	)
	if group := sharedGroup(p.Pods); group != "" {
		e.say("%s is not queued itself: its pods are, together, as Workload %s", e.Object, group)
	} else {
		e.say("%s is not queued itself: its pods are, one by one", e.Object)
	}
	e.State, e.Reason = view.Running, gather.ReasonPodsQueued
	e.pods(p, j)
	e.lacks(p)
	if len(waiting) == 0 {
		return
	}
	e.State = view.Waiting
	e.Helps = "ask about one of them: mlbatch why " + waiting[0].Namespace + "/" + waiting[0].Name
	e.part(p)
	e.rollout(p)
}

// sharedGroup is the group that all of some pods are queued in, "" if there is none.
func sharedGroup(pods []corev1.Pod) string {
	group := gather.GroupOf(&pods[0])
	if slices.ContainsFunc(pods, func(o corev1.Pod) bool { return gather.GroupOf(&o) != group }) {
		return ""
	}
	return group
}

// rollout tells of a Deployment that makes room for its new pods only once they run: what they
// wait for may be what its old pods hold.
func (e *Explanation) rollout(p JobObjects) {
	d := p.Deployment
	if d == nil || p.Part == nil || d.Spec.Strategy.RollingUpdate == nil {
		return
	}
	gentle := d.Spec.Strategy.RollingUpdate.MaxUnavailable
	old := slices.ContainsFunc(p.Pods, func(o corev1.Pod) bool {
		return !gated(&o) && o.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != p.Part.hash()
	})
	if gentle == nil || gentle.String() != "0" && gentle.String() != "0%" || !old {
		return
	}
	e.say(
		"It is being rolled out: its old pods keep their quota until new ones run (spec.strategy.rollingUpdate.maxUnavailable is 0)",
	)
	text := fmt.Sprintf("let old pods end first: kubectl patch deployment -n %s %s -p '%s'", d.Namespace, d.Name,
		`{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":0}}}}`)
	if e.Helps = text; len(e.Advice) > 0 {
		e.Advice = append([]string{text}, e.Advice...)
	}
}

// unqueued tells of jobs that name no queue.
func unqueued(p JobObjects, j view.Standing, e *Explanation) {
	switch {
	case p.Asked.Kind == view.KindWorkload:
		e.say("%s waits in no queue: it has no spec.queueName", e.Object)
		e.Helps = "set the label " + kueue.QueueNameLabel + " of the job to the name of a LocalQueue"
	case j.State == view.Unmanaged:
		text := "so Kubernetes runs it without mlbatch"
		if p.Other != nil {
			text = "so no quota holds it back"
		}
		e.say(
			"%s has no label %s, and namespace %s does not ask for one, %s",
			e.Object,
			kueue.QueueNameLabel,
			p.Asked.Namespace,
			text,
		)
		if p.suspended() {
			e.say("But it is suspended (spec.suspend), and nothing lets it go on by itself")
			e.Helps = "let it run: mlbatch release " + p.Asked.Namespace + "/" + p.Asked.Name
			return
		}
		e.pods(p, j)
	default:
		e.say("%s is held, because it has no label %s", e.Object, kueue.QueueNameLabel)
		if p.Team {
			e.say("Namespace %s belongs to a team, and there only queued jobs may run", p.Asked.Namespace)
		}
		e.Helps = fmt.Sprintf(
			"give it one: kubectl label %s -n %s %s %s=default-queue",
			lower(p.Asked.Kind),
			p.Asked.Namespace,
			p.Asked.Name,
			kueue.QueueNameLabel,
		)
	}
}

// RecordedWithin is how long a controller that runs takes to make a Workload, at most.
const RecordedWithin = 30 * time.Second

// notRecorded tells of jobs that should have a Workload.
func notRecorded(p JobObjects, j view.Standing, e *Explanation) {
	created := p.created()
	if created.IsZero() || p.Now.Sub(created) < RecordedWithin {
		e.say(
			"%s is meant for queue %s, but has no Workload yet; the controller makes one within a second",
			e.Object,
			j.LocalQueue,
		)
	} else {
		e.say("%s is meant for queue %s, but has had no Workload for %s", e.Object, j.LocalQueue, p.ago(created))
	}
	switch {
	case j.Message != "":
		e.say("%s", j.Message)
	case (p.Other != nil || !created.IsZero()) && p.Now.Sub(created) >= RecordedWithin:
		e.say(
			"Either no controller runs, or it is set up to leave %ss alone (--kinds, or integrations of its configuration)",
			p.Asked.Kind,
		)
	}
	e.Helps = "if this stays so, see whether the controller runs (mlbatch status) and what the object's events say (kubectl describe)"
}

func finished(p JobObjects, j view.Standing, e *Explanation) {
	e.say("%s finished %s ago: %s", e.Object, p.ago(j.Since), cmp.Or(j.Message, j.Reason))
	e.retried(&p)
	e.pastAttempts(p.attempts(nil))
	if j.State == view.Failed && p.AppWrapper == nil { // an AppWrapper names its pods itself
		e.failures(p)
	}
}

func evicted(p JobObjects, j view.Standing, e *Explanation) {
	if j.State == view.Waiting {
		e.say("%s has been waiting for nodes for %s: %s", e.Object, p.ago(j.Since), j.Message)
	} else {
		e.say("%s has been stopping for %s: %s", e.Object, p.ago(j.Since), j.Message)
	}
	if at := convert.ToldUntil(p.Workload, p.Now); !at.IsZero() {
		e.say("Its pods run on until %s at the latest, to save what they have done", at.UTC().Format(time.RFC3339))
	}
	if n := j.Pods.Live(); n > 0 {
		e.say("%s still %s to end; only then its quota is free for others", words.Count(n, "pod"), words.Has(n))
	}
	e.stopped(p, j.Eviction)
	switch kept := find(p.Workload.Status.Conditions, kueue.WorkloadNodesKept); {
	case kept == nil || kept.Status != metav1.ConditionTrue:
		e.say("After that it waits in its queue again")
	case j.State == view.Waiting:
		e.say(
			"It goes on as soon as there are nodes for all its pods, and waits in its queue again after that time",
		)
	default:
		e.say("%s", kept.Message)
		e.say(
			"When its pods have ended it goes on as soon as there are nodes for all of them, and waits in its queue again after that time",
		)
	}
	switch j.Reason {
	case kueue.ReasonClusterQueueStopped:
		e.Helps = "whoever manages the ClusterQueue lets it go on: mlbatch queue resume " + j.ClusterQueue
	case kueue.ReasonLocalQueueStopped:
		e.Helps = fmt.Sprintf(
			"whoever manages the LocalQueue lets it go on: mlbatch queue resume -n %s %s",
			p.Asked.Namespace,
			j.LocalQueue,
		)
	}
}

// checking tells of jobs that have quota and wait for admission checks.
func checking(p JobObjects, j view.Standing, e *Explanation) {
	w, since := p.Workload, j.Since
	if since.IsZero() {
		since = w.CreationTimestamp.Time
	}
	e.say(
		"%s has had quota in ClusterQueue %s for %s and waits for admission checks",
		e.Object,
		j.ClusterQueue,
		p.ago(since),
	)
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

func deactivated(p JobObjects, j view.Standing, e *Explanation) {
	e.say("%s is held: its Workload is deactivated (spec.active is false)", e.Object)
	if j.Reason != kueue.ReasonDeactivated {
		e.say("%s", cmp.Or(j.Message, j.Reason))
	}
	by, admins := p.Workload.Annotations[kueue.HeldByAnnotation]
	if admins {
		e.holder = Holder(by)
		e.say("It is held by %s, and only administrators release it", e.holder)
	}
	e.stopped(p, j.Eviction)
	e.release = p.release(j)
	if x := p.Answer; x != nil && x.Waiting {
		e.Answer = x
		e.helps(x)
		if len(e.Advice) > 0 {
			return
		}
		if len(x.Next) > 0 {
			e.say("Released, it would wait: %s", x.Next[0].Message)
		}
	}
	if e.Helps = e.release; admins {
		e.Helps = "ask " + e.holder + " to " + e.release
	}
}

// Holder is who holds a job, as its Workload names them.
func Holder(by string) string {
	if by == "" || by == kueue.HeldBySomeAdministrator {
		return kueue.HeldBySomeAdministrator
	}
	return "the administrator " + words.Harmless(by)
}

func find(cs []metav1.Condition, kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(cs, kind)
}

func isTrue(cs []metav1.Condition, kind string) bool {
	return apimeta.IsStatusConditionTrue(cs, kind)
}

// runs says that all pods run.
func runs(n, want int) string {
	if n == want && n > 1 {
		return fmt.Sprintf("Its %d pods run,", n)
	}
	return words.Count(n, "pod") + " " + words.Run(n) + ","
}

func lower(k view.Kind) string { return strings.ToLower(string(k)) }

// withJobNames puts the names of jobs where the names of their workloads stand.
func (p *JobObjects) withJobNames(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		name := strings.TrimRight(word, ".,:;")
		if job, ok := p.Jobs[name]; ok {
			words[i] = job + word[len(name):]
		}
	}
	return strings.Join(words, " ")
}

// objects are what the facts of the job are made from.
func (p *JobObjects) objects() view.Objects {
	return view.Objects{
		AppWrapper: p.AppWrapper,
		Job:        p.Job,
		Other:      gather.OtherJob(p.Asked.Kind, p.Other),
		Workload:   p.Workload,
		Pods:       p.Pods,
		Team:       p.Team,
		Refused:    p.Refused,
		Answer:     p.Answer,
		Deleted:    p.deleted(),
		Loose: p.Pod != nil && p.Workload == nil || p.PodGroup != nil || p.Deployment != nil || p.Set != nil ||
			p.Asked.Kind == view.KindGroup,
	}
}

// deleted reports whether the object of the job is being deleted.
func (p *JobObjects) deleted() bool {
	root := p.Root()
	return root != nil && root.GetDeletionTimestamp() != nil
}

// hash is of which version of its Deployment a pod is.
func (p *JobObjects) hash() string {
	if p.Pod == nil {
		return ""
	}
	return p.Pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
}

// suspended reports whether a job is by the field of its kind.
func (p *JobObjects) suspended() bool {
	k, job := gather.KindOf(p.Asked.Kind), p.Other
	if p.Job != nil {
		job = p.Job
	}
	return k != nil && job != nil && len(k.Queueing.SuspendPath) > 0 && k.Queueing.Suspended(job)
}

// created is when the job was; zero if that is not known.
func (p *JobObjects) created() time.Time {
	switch {
	case p.AppWrapper != nil:
		return p.AppWrapper.CreationTimestamp.Time
	case p.Job != nil:
		return p.Job.CreationTimestamp.Time
	case p.Other != nil:
		return p.Other.GetCreationTimestamp().Time
	}
	return time.Time{}
}

// elsewhere reports whether another controller makes the job's pods, of what the admission
// wrote into the job.
func (p *JobObjects) elsewhere() bool {
	k := gather.KindOf(p.Asked.Kind)
	if k == nil || p.Other == nil || k.Running.Injection == nil || k.Queueing.Templates == nil {
		return false
	}
	return slices.ContainsFunc(
		k.Queueing.Templates(p.Other),
		func(t jobs.PodTemplate) bool { return jobs.Injected(t.Template) },
	)
}

// release is how a job is let back into its queue, and what comes of that where it was stopped
// for a reason that holds on.
func (p *JobObjects) release(j view.Standing) string {
	release := ": mlbatch release " + p.Asked.Namespace + "/" + p.Asked.Name
	cause := ""
	if j.Eviction != nil {
		cause = j.Eviction.Cause
	}
	switch cause {
	case kueue.ReasonMaximumExecutionTimeExceeded:
		return "submit it again with more time (label " + kueue.MaxExecTimeSecondsLabel + "); released as it is, it starts anew and is stopped after as long as before" + release
	case kueue.ReasonAdmissionCheck:
		return "release it, and the check is asked anew, which may reject it again" + release
	case kueue.ReasonRequeuingLimitExceeded:
		return "see to what kept its pods from being ready, and release it then" + release
	}
	return "release it" + release
}

// ago prints how long ago t was.
func (p *JobObjects) ago(t time.Time) string {
	return duration.HumanDuration(max(p.Now.Sub(t), 0).Round(time.Second))
}
