package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Details are a job with all that it consists of and what happened to it. Its fields are what scripts
// read.
type Details struct {
	// Namespace, Kind and Name are those of the job.
	Namespace string    `json:"namespace"`
	Kind      view.Kind `json:"kind"`
	Name      string    `json:"name"`
	// Queue is the LocalQueue that it names, ClusterQueue the one whose quota it has, of these
	// flavors.
	Queue        string   `json:"queue,omitempty"`
	ClusterQueue string   `json:"clusterQueue,omitempty"`
	Flavors      []string `json:"flavors,omitempty"`
	User         string   `json:"user,omitempty"`
	Priority     *int32   `json:"priority,omitempty"`
	// PriorityClass is what its priority is from, "" for none.
	PriorityClass string `json:"priorityClass,omitempty"`
	Workload      string `json:"workload,omitempty"`
	// State in one word, Reason its code, Message a sentence, Since when it came to it.
	State   view.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// Evictions is how often it was stopped to be queued again, Resets how often pods of it were
	// made anew within its quota. RequeueAt is when it may be admitted again.
	Evictions int32 `json:"evictions,omitempty"`
	// Eviction is the last one, as long as it is not admitted again; Lost is what its runs took
	// that were stopped, nil if none was.
	Eviction  *view.Eviction `json:"eviction,omitempty"`
	Lost      *view.Lost     `json:"lost,omitempty"`
	Resets    int32          `json:"resets,omitempty"`
	RequeueAt *time.Time     `json:"requeueAt,omitempty"`
	// Attempts are its runs: when each began and ended, why, where, and what was lost; nil of a job
	// that was never admitted.
	*view.Attempts
	// Retries is what is left of its retries; nil if nothing is to be told of them.
	Retries *Retries `json:"retries,omitempty"`
	// Progress says how the steps go of a job that states how often it takes one; Hangs is that it takes none.
	Progress string `json:"progress,omitempty"`
	Hangs    bool   `json:"hangs,omitempty"`
	// Failure is how the first pod failed that did.
	Failure *Failure `json:"failure,omitempty"`
	Roles   []Role   `json:"roles,omitempty"`
	// Pods are all of them: what failed first, then what does not run, then the others.
	Pods     []Pod    `json:"pods,omitempty"`
	Timeline []Moment `json:"timeline,omitempty"`
	// Unread says what could not be read.
	Unread []string `json:"unread,omitempty"`

	// Evicted is the last eviction in words.
	Evicted string `json:"-"`
}

// Role is what pods are alike for.
type Role struct {
	// Name is that of the pod set or, of kinds that have some, of the role.
	Name string `json:"name"`
	// Pods is how many there are to be, Running how many run, Ended how many have ended.
	Pods    int `json:"pods"`
	Running int `json:"running"`
	Ended   int `json:"ended"`
	// Requests are what each asks for, GPUs how many of that are GPUs.
	Requests map[string]string `json:"requests,omitempty"`
	GPUs     int64             `json:"gpus"`
	// Slices is how many parts of GPUs, by their sort.
	Slices map[string]int64 `json:"slices,omitempty"`
	// Flavors are those that its pods were given.
	Flavors []string `json:"flavors,omitempty"`
}

// Pod is a pod in one line.
type Pod struct {
	// Role is what it is for, Index counts in the role and Rank in the job, from 0.
	Role  string `json:"role,omitempty"`
	Index int    `json:"index"`
	Rank  int    `json:"rank"`
	// Name is that of the pod, Node where it is.
	Name string `json:"name"`
	Node string `json:"node,omitempty"`
	// State is Waiting, Running, Leaving, Succeeded or Failed; Why says more.
	State    string `json:"state"`
	Why      string `json:"why,omitempty"`
	Restarts int32  `json:"restarts"`
	GPUs     int64  `json:"gpus"`
	// Slices is how many parts of GPUs, by their sort.
	Slices map[string]int64 `json:"slices,omitempty"`
}

// Failure is how a pod failed.
type Failure struct {
	// Role is what the pod was for.
	Role string `json:"role,omitempty"`
	// Index counts in the role and Rank in the job; nil of a pod that is gone.
	Index *int `json:"index,omitempty"`
	Rank  *int `json:"rank,omitempty"`
	// Pod, Node and Container are where it happened, At is when.
	Pod       string    `json:"pod"`
	Node      string    `json:"node,omitempty"`
	Container string    `json:"container,omitempty"`
	At        time.Time `json:"at"`
	// ExitCode is nil of a pod that failed otherwise; Reason is Kubernetes' word, and Why says
	// it in words.
	ExitCode *int32 `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Why      string `json:"why"`
	// Log are the last lines that it wrote, NoLog says why there are none.
	Log   []string `json:"log,omitempty"`
	NoLog string   `json:"noLog,omitempty"`
}

// LogTail reads the last lines of what a container of a pod wrote.
type LogTail func(ctx context.Context, namespace, pod, container string, lines int64) (string, error)

// Show gathers what there is to know about a job. Of the log of the pod that failed first, if one
// did, it reads some last lines, none if lines is 0.
func Show(
	ctx context.Context,
	c client.Reader,
	logs LogTail,
	ref view.Ref,
	lines int64,
	now time.Time,
) (*Details, error) {
	p, err := FindAny(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	p.Now = now
	if n := len(p.Parts); n > 0 { // one of its parts speaks for it: the first that waits
		p.Workload = &p.Parts[max(0, slices.IndexFunc(p.Parts, func(w kueue.Workload) bool { return IsWaiting(&w) }))]
	}
	if err := p.findNamespace(ctx, c); err != nil {
		return nil, err
	}
	var unread []string
	events, err := p.events(ctx, c)
	if gather.Readable(err) == nil && err != nil {
		unread = append(unread, "events")
	} else if err != nil {
		return nil, err
	}
	j := view.StandingOf(p.objects())
	p.standsByPods(&j)
	if j.Eviction != nil { // it may name another workload
		if err := p.findOthers(ctx, c); err != nil {
			return nil, err
		}
	}
	out := shownOf(&p, &j)
	out.Unread = unread
	out.Attempts = p.attempts(troubleSeen(ctx, c))
	out.Retries = p.retries(p.clusterQueue(ctx, c))
	out.Timeline = Timeline(&p, &j, events)
	if out.Failure != nil && out.Failure.NoLog == "" && lines > 0 {
		out.Failure.readLog(ctx, logs, p.Asked.Namespace, lines)
	}
	return out, nil
}

// shownOf is what the objects of a job tell.
func shownOf(p *JobObjects, j *view.Standing) *Details {
	out := &Details{
		Namespace:    p.Asked.Namespace,
		Kind:         p.Asked.Kind,
		Name:         p.Asked.Name,
		Queue:        j.LocalQueue,
		ClusterQueue: j.ClusterQueue,
		User:         p.User(),
		State:        j.State,
		Reason:       j.Reason,
		Message:      j.Message,
		Resets:       p.resets(),
	}
	if !j.Since.IsZero() {
		out.Since = new(j.Since.UTC())
	}
	if c := p.progress(); c != nil {
		out.Progress, out.Hangs = c.Message, c.Status == metav1.ConditionFalse
	}
	if w := p.Workload; w != nil {
		out.Workload, out.Priority = w.Name, w.Spec.Priority
		if ref := w.Spec.PriorityClassRef; ref != nil {
			out.PriorityClass = ref.Name
		}
		if r := w.Status.RequeueState; r != nil && r.RequeueAt != nil && r.RequeueAt.After(p.Now) {
			out.RequeueAt = new(r.RequeueAt.UTC())
		}
		if out.Evictions, out.Evicted = view.Evictions(w); out.Evictions > 0 {
			if out.Lost = new(view.LostBy(w)); j.Eviction != nil {
				last := *j.Eviction
				last.Message = p.withJobNames(last.Message)
				out.Eviction = &last
			}
		}
	}
	members := failedFirst(Members(p.Workload, p.Pods))
	out.Roles = roles(p.Workload, members)
	for _, r := range out.Roles {
		out.Flavors = append(out.Flavors, r.Flavors...)
	}
	slices.Sort(out.Flavors)
	out.Flavors = slices.Compact(out.Flavors)
	for i := range members {
		out.Pods = append(out.Pods, podRow(&members[i]))
	}
	if len(members) > 0 && members[0].Pod.Status.Phase == corev1.PodFailed && j.State != view.Succeeded {
		out.Failure = failureOf(&members[0])
	}
	if pod, node, code, is := view.FailedPod(j.Message); is && out.Failure == nil && j.State == view.Failed {
		out.Failure = &Failure{
			Pod:      pod,
			Node:     node,
			ExitCode: &code,
			At:       j.Since.UTC(),
			Why:      fmt.Sprintf("exit code %d%s", code, exitInWords("", code)),
			NoLog:    "the pod is gone, and its log with it",
		}
	}
	return out
}

// failedFirst orders pods by what people look for: failed ones, the first to fail first, then
// pods that do not run, then the others by rank.
func failedFirst(all []Member) []Member {
	class := func(m *Member) int {
		switch p := m.Pod; {
		case p.Status.Phase == corev1.PodFailed:
			return 0
		case p.Status.Phase == corev1.PodSucceeded:
			return 3
		case p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(class(&a), class(&b)), failedAt(a.Pod).Compare(failedAt(b.Pod)))
	})
	return all
}

// roles are the pod sets of the Workload or, of a job without one, the roles of its pods.
func roles(w *kueue.Workload, members []Member) []Role {
	var out []Role
	at := map[string]int{}
	if w != nil {
		for i := range w.Spec.PodSets {
			set := &w.Spec.PodSets[i]
			at[string(set.Name)] = i
			row := Role{Name: string(set.Name), Pods: int(set.Count)}
			row.asks(&set.Template.Spec)
			if a := w.Status.Admission; a != nil && i < len(a.PodSetAssignments) {
				row.admitted(&a.PodSetAssignments[i])
			}
			out = append(out, row)
		}
	}
	for _, m := range members {
		name := cmp.Or(m.Pod.Labels[kueue.PodSetLabel], m.Role)
		i, known := at[name]
		switch {
		case known:
		case len(out) == 1 && w != nil: // pods that were made before their job was queued
			i = 0
		default:
			i = len(out)
			at[name] = i
			row := Role{Name: cmp.Or(name, "pods")}
			row.asks(&m.Pod.Spec)
			out = append(out, row)
		}
		switch {
		case m.Pod.Status.Phase == corev1.PodRunning && m.Pod.DeletionTimestamp == nil:
			out[i].Running++
		case m.Pod.Status.Phase == corev1.PodFailed, m.Pod.Status.Phase == corev1.PodSucceeded:
			out[i].Ended++
		}
		if w == nil {
			out[i].Pods++
		}
	}
	return out
}

// asks notes what a pod of the role asks for.
func (r *Role) asks(spec *corev1.PodSpec) {
	r.GPUs, r.Slices = view.GPUs(spec), view.Slices(spec, 1)
	for _, need := range convert.PodRequests(spec) {
		if r.Requests == nil {
			r.Requests = map[string]string{}
		}
		q := convert.Quantity(need.Resource, need.Amount)
		if need.Resource == string(corev1.ResourceMemory) ||
			need.Resource == string(corev1.ResourceEphemeralStorage) {
			q = *resource.NewQuantity(q.Value(), resource.BinarySI) // as people write it
		}
		r.Requests[need.Resource] = q.String()
	}
}

// admitted notes what the role was given.
func (r *Role) admitted(a *kueue.PodSetAssignment) {
	if a.Count != nil {
		r.Pods = int(*a.Count)
	}
	for _, flavor := range a.Flavors { // sorted below
		if !slices.Contains(r.Flavors, string(flavor)) {
			r.Flavors = append(r.Flavors, string(flavor))
		}
	}
	slices.Sort(r.Flavors)
}

func podRow(m *Member) Pod {
	p := m.Pod
	row := Pod{
		Role:     m.Role,
		Index:    m.Index,
		Rank:     m.Rank,
		Name:     p.Name,
		Node:     p.Spec.NodeName,
		Restarts: view.Restarts(p),
		GPUs:     view.GPUs(&p.Spec),
		Slices:   view.Slices(&p.Spec, 1),
	}
	switch {
	case p.Status.Phase == corev1.PodFailed:
		row.State, row.Why = string(
			view.Failed,
		), strings.TrimPrefix(
			strings.TrimPrefix(howFailed(p), ": "),
			" with ",
		)
	case p.Status.Phase == corev1.PodSucceeded:
		row.State = string(view.Succeeded)
	case p.DeletionTimestamp != nil:
		row.State = "Leaving"
	case p.Status.Phase == corev1.PodRunning:
		row.State = string(view.Running)
	default:
		row.State, row.Why = string(view.Waiting), obstacle(p)
	}
	return row
}

// failureOf says how a pod failed.
func failureOf(m *Member) *Failure {
	p := m.Pod
	f := &Failure{Role: m.Role, Index: &m.Index, Rank: &m.Rank, Pod: p.Name, Node: p.Spec.NodeName}
	switch container, t := view.Culprit(p); {
	case t != nil:
		f.Container, f.ExitCode, f.Reason, f.At = container, new(t.ExitCode), t.Reason, t.FinishedAt.UTC()
		f.Why = fmt.Sprintf("exit code %d%s", *f.ExitCode, exitInWords(f.Reason, *f.ExitCode))
	default:
		f.Reason = p.Status.Reason
		f.Why = strings.TrimPrefix(howFailed(p), ": ")
	}
	return f
}

// exitInWords says what an exit code, or Kubernetes' reason for it, means.
func exitInWords(reason string, code int32) string {
	const killed, term, abort, segv = 137, 143, 134, 139
	switch {
	case reason == "OOMKilled":
		return ": out of memory, it needed more than its limit (OOMKilled)"
	case reason == "DeadlineExceeded":
		return ": its time was over (DeadlineExceeded)"
	case reason == "ContainerCannotRun", reason == "StartError":
		return ": its command could not be started (" + reason + ")"
	case code == killed:
		return ": it was killed (SIGKILL), as for too much memory or because it did not stop when asked"
	case code == term:
		return ": it was asked to stop (SIGTERM)"
	case code == abort:
		return ": it aborted itself (SIGABRT)"
	case code == segv:
		return ": it crashed on a bad address (SIGSEGV)"
	case reason != "" && reason != "Error":
		return " (" + reason + ")"
	}
	return ""
}

// inBrackets is Kubernetes' reason for an exit code, if it says more than that it failed.
func inBrackets(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" || t.Reason == "Error" || t.Reason == "Completed" {
		return ""
	}
	return " (" + t.Reason + ")"
}

func (f *Failure) readLog(ctx context.Context, logs LogTail, namespace string, lines int64) {
	text, err := logs(ctx, namespace, f.Pod, f.Container, lines)
	switch {
	case err != nil:
		f.NoLog = "its log cannot be read: " + err.Error()
	case strings.TrimSpace(text) == "":
		f.NoLog = "its log is empty"
	default:
		f.Log = strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
}

// standsByPods is how what is not queued itself stands by its pods, which are.
func (p *JobObjects) standsByPods(j *view.Standing) {
	if j.Stage == view.Loose && len(p.Pods) == 0 && p.servesQueued() {
		j.State, j.Reason, j.LocalQueue = view.Starting, gather.ReasonPodsQueued, p.Root().GetLabels()[kueue.QueueNameLabel]
		return
	}
	if j.Stage != view.Loose ||
		!slices.ContainsFunc(p.Pods, func(o corev1.Pod) bool { return gather.Held(&o) }) {
		return
	}
	j.LocalQueue = p.Pods[0].Labels[kueue.QueueNameLabel]
	switch {
	case p.Asked.Kind == view.KindGroup:
		if j.State, j.Reason = view.Held, gather.ReasonGroupIncomplete; p.Refused != nil {
			j.Reason = p.Refused.Reason
		}
	case slices.ContainsFunc(p.Pods, func(o corev1.Pod) bool { return gated(&o) }):
		j.State, j.Reason = view.Waiting, gather.ReasonPodsQueued
	case j.Pods.AllRun():
		j.State, j.Reason = view.Running, gather.ReasonPodsQueued
	default:
		j.State, j.Reason = view.Starting, gather.ReasonPodsQueued
	}
}

// events are those of the job and of all that it consists of.
func (p *JobObjects) events(ctx context.Context, c client.Reader) ([]Event, error) {
	list, err := ReadEvents(ctx, c, p.Asked.Namespace, p)
	if err != nil {
		return nil, err
	}
	rows, _, err := list.List(ctx, time.Time{})
	return rows, err
}
