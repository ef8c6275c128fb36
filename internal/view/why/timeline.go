package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// MomentKind is what a moment in the life of a job is.
type MomentKind string

// The steps of a job.
const (
	Submitted MomentKind = "Submitted"
	Waits     MomentKind = "Waits"    // and for what
	Admits    MomentKind = "Admitted" // quota and nodes are reserved
	Starts    MomentKind = "Started"  // all pods run
	Moves     MomentKind = "Moved"    // to other nodes
	Evicts    MomentKind = "Evicted"  // stopped, to be queued again
	Requeues  MomentKind = "Requeued"
	Restarts  MomentKind = "Restarted" // pods, or all of the job, within its quota
	Fails     MomentKind = "PodFailed"
	Troubles  MomentKind = "Warning"
	Ends      MomentKind = "Ended"
)

// Moment is what happened to a job at a time.
type Moment struct {
	// At is when, Step what it is, Text what happened in a sentence.
	At   time.Time  `json:"at"`
	Step MomentKind `json:"step"`
	Text string     `json:"text"`
	// Seconds is how long what ended at this moment took: the waiting before an admission, the
	// run before an eviction or the end; nil of others.
	Seconds *float64 `json:"seconds,omitempty"`
}

// Timeline is the life of a job, the oldest first: what its objects say of themselves, and what
// events say that are still there, which is for an hour.
func Timeline(p *JobObjects, j *view.Standing, events []Event) []Moment {
	t := timeline{p: p}
	t.submission(j)
	for i := range events {
		if e := &events[i]; j.Message == "" || e.Type != corev1.EventTypeWarning ||
			!strings.Contains(e.Message, j.Message) {
			t.event(e) // what its end says is told there
		}
	}
	t.conditions(j)
	t.podsSaid(j)
	t.end(j)
	slices.SortStableFunc(t.moments, func(a, b Moment) int {
		return cmp.Or(
			a.At.Truncate(time.Second).Compare(b.At.Truncate(time.Second)),
			cmp.Compare(order(a.Step), order(b.Step)),
		)
	})
	t.measure()
	return t.moments
}

// order is that of steps that have the same second.
func order(s MomentKind) int {
	return slices.Index(
		[]MomentKind{Submitted, Evicts, Requeues, Waits, Moves, Admits, Starts, Restarts, Troubles, Fails, Ends},
		s,
	)
}

type timeline struct {
	p       *JobObjects
	moments []Moment
}

func (t *timeline) add(at time.Time, step MomentKind, format string, args ...any) {
	if !at.IsZero() {
		t.moments = append(t.moments, Moment{At: at.UTC(), Step: step, Text: fmt.Sprintf(format, args...)})
	}
}

// apart is how far an event and the condition that was written with it are apart at most.
const apart = 3 * time.Second

// has reports whether a step is told of already at about that time.
func (t *timeline) has(at time.Time, step MomentKind) bool {
	return slices.ContainsFunc(
		t.moments,
		func(m Moment) bool { return m.Step == step && m.At.Sub(at).Abs() <= apart },
	)
}

// once adds what is not told of already.
func (t *timeline) once(at time.Time, step MomentKind, format string, args ...any) {
	if !t.has(at, step) {
		t.add(at, step, format, args...)
	}
}

func (t *timeline) submission(j *view.Standing) {
	at := time.Time{}
	if root := t.p.Root(); root != nil {
		at = root.GetCreationTimestamp().Time
	}
	if w := t.p.Workload; w != nil {
		if exact, err := time.Parse(time.RFC3339Nano, w.Annotations[kueue.SubmittedAtAnnotation]); err == nil {
			at = exact
		}
	}
	text := "submitted"
	if user := t.p.User(); user != "" {
		text += " by " + user
	}
	if j.LocalQueue != "" {
		text += " to queue " + j.LocalQueue
	}
	t.add(at, Submitted, "%s", text)
}

// event adds what an event of the job, its Workload, its pods or what makes them tells.
func (t *timeline) event(e *Event) {
	ofWorkload := e.Kind == string(view.KindWorkload)
	message := e.Message
	if e.Times > 1 {
		message = fmt.Sprintf("%s (%d times)", e.Message, e.Times)
	}
	switch {
	case ofWorkload && (e.Reason == kueue.ReasonAdmitted || e.Reason == kueue.WorkloadQuotaReserved):
		t.once(e.At, Admits, "%s", lowered(message))
	case ofWorkload && (e.Reason == kueue.ReasonPreempted || strings.HasPrefix(e.Reason, "EvictedDueTo")):
		t.once(e.At, Evicts, "evicted: %s", lowered(message))
	case ofWorkload && e.Reason == gather.Moved, e.Reason == "Evacuated":
		t.add(e.At, Moves, "moved: %s", lowered(message))
	case ofWorkload && slices.Contains(requeues(), e.Reason):
		t.add(e.At, Requeues, "queued again: %s", lowered(message))
	case ofWorkload && slices.Contains(refusals(), e.Reason):
		t.add(e.At, Waits, "waits: %s", lowered(Plain(message)))
	case e.Kind == string(view.KindAppWrapper) && e.Reason == string(appwrapper.AppWrapperResetting):
		t.add(e.At, Restarts, "reset, its pods are made anew: %s", lowered(message))
	case e.Kind == string(view.KindAppWrapper) && e.Reason == string(appwrapper.AppWrapperFailed),
		e.Kind == string(view.KindJob) && e.Reason == batchv1.JobReasonBackoffLimitExceeded:
		// The end of the job says it, or what failed in it does.
	case e.Type == corev1.EventTypeWarning:
		t.add(e.At, Troubles, "%s %s: %s: %s", e.Kind, e.Name, e.Reason, message)
	}
}

// requeues are the reasons of events that tell that a workload waits again.
func requeues() []string {
	return []string{kueue.ReasonBackoffFinished, "ClusterQueueRestarted", "LocalQueueRestarted", "Reactivated"}
}

// refusals are the reasons of events that tell why a workload waits.
func refusals() []string {
	return []string{
		string(
			core.WaitingForQuota,
		),
		string(core.ExceedsMaxQuota),
		string(core.NoMatchingFlavor),
		string(core.TopologyPlacementFailed),
		string(
			core.WaitingForPodsReady,
		),
		string(core.WaitingForPreempted),
		string(core.Misconfigured),
		string(core.OnHold),
		string(core.AdmissionGated),
		string(core.Suspended),
		kueue.ReasonInadmissible,
	}
}

// conditions adds what events said that are gone.
func (t *timeline) conditions(j *view.Standing) {
	w := t.p.Workload
	if w == nil {
		return
	}
	if c := find(
		w.Status.Conditions,
		kueue.WorkloadQuotaReserved,
	); c != nil && c.Status == metav1.ConditionTrue &&
		w.Status.Admission != nil {
		t.once(c.LastTransitionTime.Time, Admits, "admitted by ClusterQueue %s", w.Status.Admission.ClusterQueue)
	}
	if c := find(w.Status.Conditions, kueue.WorkloadEvicted); c != nil && c.Status == metav1.ConditionTrue {
		t.once(c.LastTransitionTime.Time, Evicts, "evicted: %s", lowered(c.Message))
	}
	if aw := t.p.AppWrapper; aw != nil {
		if c := find(
			aw.Status.Conditions,
			appwrapper.Unhealthy,
		); c != nil && c.Status == metav1.ConditionTrue &&
			c.Message != j.Message {
			t.once(c.LastTransitionTime.Time, Troubles, "unhealthy: %s", cmp.Or(c.Message, c.Reason))
		}
	}
}

// mostPods is how many pods are told of one by one.
const mostPods = 5

// allRestarted is the reason of Kubernetes for a container that ended since all of its pod restarted in place.
const allRestarted = "RestartingAllContainers"

// podsSaid adds when pods started, were restarted and failed.
func (t *timeline) podsSaid(j *view.Standing) {
	first, broke := t.remade()
	var started time.Time
	failed, restarted := 0, 0
	for _, m := range failedFirst(Members(t.p.Workload, t.p.Pods)) {
		if s := m.Pod.Status.StartTime; s != nil && t.by(m.Pod, s.Time).After(started) {
			started = t.by(m.Pod, s.Time)
		}
		if s := m.Pod.Status.StartTime; s != nil && (first.IsZero() || t.by(m.Pod, s.Time).Before(first)) {
			first = t.by(m.Pod, s.Time)
		}
		if at, how := failedAt(m.Pod), howFailed(m.Pod); m.Pod.Status.Phase == corev1.PodFailed {
			if at.Before(never()) && at.After(broke) {
				broke = at
			}
			if failed++; failed <= mostPods && at.Before(never()) {
				t.add(t.by(m.Pod, at), Fails, "%s failed%s%s", m.Name(), onNode(m.Pod), how)
			}
		}
		for _, s := range m.Pod.Status.ContainerStatuses {
			if last := s.LastTerminationState.Terminated; last != nil && last.Reason == allRestarted {
				if r := s.State.Running; r != nil {
					if restarted++; restarted <= mostPods {
						t.add(
							t.by(m.Pod, r.StartedAt.Time),
							Restarts,
							"%s was restarted in place%s, all its containers (%s so far)",
							m.Name(),
							onNode(m.Pod),
							words.Times(s.RestartCount),
						)
					}
				}
				continue
			}
			if last := s.LastTerminationState.Terminated; last != nil && s.RestartCount > 0 {
				if restarted++; restarted <= mostPods {
					t.add(
						t.by(m.Pod, last.FinishedAt.Time),
						Restarts,
						"%s ended%s with exit code %d%s and was restarted in place (%s so far)",
						m.Name(),
						onNode(m.Pod),
						last.ExitCode,
						inBrackets(last),
						words.Times(s.RestartCount),
					)
				}
			}
		}
	}
	again := !broke.IsZero() && first.Before(broke)
	if again {
		t.add(first, Starts, "started")
	}
	if j.State == view.Running {
		word := "started"
		if again && started.After(broke) {
			word = "all run again"
		}
		t.add(
			started,
			Starts,
			word+": %s on %s",
			lowered(strings.TrimSuffix(runs(len(j.Pods.Running), j.Pods.Wanted), ",")),
			nodes(j.Pods.Running),
		)
	}
}

// remade tells that pods of the job failed and were made anew by those who run its kind, and when
// its first pods were made and when the last failed; zero if none did.
func (t *timeline) remade() (first, broke time.Time) {
	r := t.p.recovery()
	if r == nil || r.LastFailureTime == nil {
		return time.Time{}, time.Time{}
	}
	t.add(r.LastFailureTime.Time, Restarts, "%s", lowered(remadeText(r)))
	if r.StartTime != nil {
		first = r.StartTime.Time
	}
	return first, r.LastFailureTime.Time
}

// by is a time that the clock of a pod's node says, as far as it can be: that clock may be wrong, and
// nothing of a pod was before the pod was made, nor after the API server was told of it.
func (t *timeline) by(pod *corev1.Pod, at time.Time) time.Time {
	if made := pod.CreationTimestamp.Time; at.Before(made) {
		return made
	}
	told := t.p.Now
	if last := toldOf(pod); !last.IsZero() {
		told = last
	}
	if at.After(told) {
		return told
	}
	return at
}

// toldOf is when the status of a pod was last written, by the API server's clock; zero if that is
// not known.
func toldOf(pod *corev1.Pod) (last time.Time) {
	for _, f := range pod.ManagedFields {
		if f.Subresource == "status" && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

func onNode(p *corev1.Pod) string {
	if p.Spec.NodeName == "" {
		return ""
	}
	return " on " + p.Spec.NodeName
}

// end adds how the job ended.
func (t *timeline) end(j *view.Standing) {
	if j.State != view.Succeeded && j.State != view.Failed {
		return
	}
	at := j.Since
	if at.IsZero() && t.p.Workload != nil {
		if c := find(t.p.Workload.Status.Conditions, kueue.WorkloadFinished); c != nil {
			at = c.LastTransitionTime.Time
		}
	}
	if at.IsZero() && t.p.AppWrapper != nil {
		for _, c := range t.p.AppWrapper.Status.Conditions {
			if c.Type == string(appwrapper.QuotaReserved) {
				at = c.LastTransitionTime.Time
			}
		}
	}
	text := strings.ToLower(string(j.State))
	if j.Message != "" && j.State == view.Failed {
		text += ": " + lowered(j.Message)
	}
	t.add(at, Ends, "%s", text)
}

// measure says how long the job waited before each admission, and ran before each stop.
func (t *timeline) measure() {
	var waits, runs time.Time
	took := func(m *Moment, since *time.Time, words string) {
		if since.IsZero() {
			return
		}
		d := max(m.At.Sub(*since), 0)
		m.Seconds = new(d.Round(time.Millisecond).Seconds())
		if m.Step != Admits || !strings.Contains(m.Text, " after ") {
			m.Text += fmt.Sprintf(words, duration.HumanDuration(d.Round(time.Second)))
		}
		*since = time.Time{}
	}
	for i := range t.moments {
		m := &t.moments[i]
		switch m.Step {
		case Submitted:
			waits = m.At
		case Admits:
			took(m, &waits, " (it waited %s)")
			runs = m.At
		case Evicts:
			took(m, &runs, " (after %s with quota)")
			waits = m.At
		case Ends:
			took(m, &runs, " (after %s with quota)")
		case Requeues, Waits, Starts, Moves, Restarts, Fails, Troubles:
		}
	}
}

// LostText says what was lost, "" of what did not run.
func LostText(l view.Lost) string {
	if l.RanSeconds == 0 {
		return ""
	}
	text := ", and had run for " + duration.HumanDuration(time.Duration(l.RanSeconds)*time.Second)
	if l.GPUHours > 0 {
		text += fmt.Sprintf(" (%.1f GPU-hours)", l.GPUHours)
	}
	return text + "; how much of that it had saved is not known"
}

// lowered begins a message in the middle of a sentence, unless it begins with a name.
func lowered(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if len(first) > 1 && strings.ToLower(first[1:]) == first[1:] && !slices.Contains(Kinds(), view.Kind(first)) {
		return strings.ToLower(first[:1]) + text[1:]
	}
	return text
}

// stopped says by which rule a job was stopped, how often that happened, and what it had run for.
func (e *Explanation) stopped(p JobObjects, ev *view.Eviction) {
	if ev == nil {
		return
	}
	if ev.Rule != "" && ev.Reason != kueue.ReasonDeactivated { // that was told
		e.say("The rule is %s", ev.Rule)
	}
	if late := ev.Reason == kueue.ReasonPodsReadyTimeout ||
		ev.Cause == kueue.ReasonRequeuingLimitExceeded; late && p.Hindered != nil &&
		!strings.Contains(ev.Message, p.Hindered.InvolvedObject.Name) {
		e.say("The last trouble of its pods, %s ago: %s", p.ago(gather.When(p.Hindered)), eventText(p.Hindered))
	}
	switch n, text := view.Evictions(p.Workload); {
	case n > 1:
		e.say("It was stopped %s so far%s", text, LostText(ev.Lost))
	case LostText(ev.Lost) != "":
		e.say("It was stopped once so far%s", LostText(ev.Lost))
	}
}

// User is who submitted the job, "" where nobody knows.
func (p *JobObjects) User() string {
	root := p.Root()
	if root == nil {
		return ""
	}
	return jobs.User(gather.KindOf(p.Asked.Kind), root)
}

// resets is how often pods of the job were made anew within its quota.
func (p *JobObjects) resets() int32 {
	k := gather.KindOf(p.Asked.Kind)
	if o, is := p.Root().(jobs.Object); is && k != nil {
		return k.Restarts(o, p.Recovery)
	}
	return 0
}
