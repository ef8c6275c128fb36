package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/words"
)

// TitleLabel of a job is what people call it, of which there may be several.
const TitleLabel = "mlbatch.dev/job-name"

// Job is how a job stands, in one line: what tables, scripts and pages print. Its JSON is stable.
type Job struct {
	// UID is that of its object, "" of what has none of its own. Tables and scripts do without.
	UID types.UID `json:"-"`
	// Namespace, Kind and Name are those of what a user submitted.
	Namespace string `json:"namespace"`
	Kind      Kind   `json:"kind"`
	Name      string `json:"name"`
	// Title is what people call it, of which there may be several; "" if it has only a name.
	Title string `json:"title,omitempty"`
	// Queue is the LocalQueue that it names, ClusterQueue the one whose quota it has.
	Queue        string `json:"queue,omitempty"`
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// Target is the ClusterQueue that its LocalQueue leads to, "" if that is not known.
	Target string `json:"targetClusterQueue,omitempty"`
	// Position is its place in the line of its ClusterQueue, from 1; nil unless it waits there and
	// that was asked for.
	Position *int `json:"position,omitempty"`
	// Start is when it is expected to start, nil if that is not known, or was not asked for.
	Start *visibility.Start `json:"start,omitempty"`
	// State in one word, Reason its code, Message a sentence.
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Priority is nil of a job that has no Workload.
	Priority *int32 `json:"priority,omitempty"`
	// PriorityClass is the WorkloadPriorityClass or PriorityClass that it is of, "" for none.
	PriorityClass string `json:"priorityClass,omitempty"`
	// TimeLimit is for how many seconds it may run, nil for ever.
	TimeLimit *int32 `json:"timeLimitSeconds,omitempty"`
	// Pods is how many it consists of, Running how many of them run, GPUs how many GPUs
	// all of them have or ask for.
	Pods    int   `json:"pods"`
	Running int   `json:"running"`
	GPUs    int64 `json:"gpus"`
	// Slices is how many parts of GPUs it asks for, by their sort, such as mig-1g.5gb.
	Slices map[string]int64 `json:"slices,omitempty"`
	// Held is how many GPUs it keeps from others: those of its quota or, of a job without one,
	// the GPUs that its pods on nodes have. Started is since when, nil if it has none.
	Held int64 `json:"gpusHeld"`
	// SlicesHeld is the same for parts of GPUs.
	SlicesHeld map[string]int64 `json:"slicesHeld,omitempty"`
	Started    *time.Time       `json:"started,omitempty"`
	// Evictions is how often it was stopped to be queued again, EvictedBy why.
	Evictions int32  `json:"evictions,omitempty"`
	EvictedBy string `json:"evictedBy,omitempty"`
	// Nodes are the nodes that its pods are on.
	Nodes []string `json:"nodes,omitempty"`
	// Restarts is how often containers of its pods were started again. Trouble is what is wrong
	// with a job that has quota, in a few words; "" if nothing is.
	Restarts int32  `json:"restarts,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	// User is who submitted it, "" where nobody knows. Workload stands for it in its queue.
	User     string `json:"user,omitempty"`
	Workload string `json:"workload,omitempty"`
	// ExitCode is that of the container that failed first, or 0 of a job that succeeded; nil if
	// it has not ended, or its pods are gone.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Created is when it was, Since when it came to its state, nil if that is not known.
	Created time.Time  `json:"created"`
	Since   *time.Time `json:"since,omitempty"`
}

// JobList is what somebody sees of all jobs.
type JobList struct {
	Items []Job `json:"items"`
	// Unread are the kinds that the user may not read.
	Unread []string `json:"unread,omitempty"`
	// Served says that a controller told so, and not that it was read from objects.
	Served bool `json:"-"`
}

// JobOf is the view of a job with these objects.
func JobOf(kind Kind, o metav1.Object, parts Objects) Job {
	j := StandingOf(parts)
	row := Job{
		UID:          o.GetUID(),
		Namespace:    o.GetNamespace(),
		Kind:         kind,
		Name:         o.GetName(),
		Title:        o.GetLabels()[TitleLabel],
		Queue:        j.LocalQueue,
		ClusterQueue: j.ClusterQueue,
		State:        j.State,
		Reason:       j.Reason,
		Message:      j.Message,
		Pods:         j.Pods.Wanted,
		Running:      len(j.Pods.Running),
		Nodes:        nodesOf(parts.Pods),
		Created:      o.GetCreationTimestamp().UTC(),
	}
	if !j.Since.IsZero() {
		row.Since = new(j.Since.UTC())
	}
	row.ExitCode = ExitCode(j.State, parts.Pods)
	for i := range parts.Pods {
		row.Restarts += Restarts(&parts.Pods[i])
	}
	if j.State == Running || j.State == Starting || j.State == Unmanaged {
		row.Trouble = trouble(j, parts.Pods)
	}
	if w := parts.Workload; w != nil {
		row.Workload, row.Priority = w.Name, w.Spec.Priority
		if c := w.Spec.PriorityClassRef; c != nil {
			row.PriorityClass = c.Name
		}
		row.TimeLimit = w.Spec.MaximumExecutionTimeSeconds
		row.Evictions, row.EvictedBy = Evictions(w)
		row.Pods = 0
		row.asks(w)
		return row
	}
	for i := range parts.Pods {
		p := &parts.Pods[i]
		has := DevicesOf(&p.Spec)
		row.GPUs += has.GPUs
		row.Slices = AddSlices(row.Slices, has.Slices)
		if s := p.Status.StartTime; s != nil && p.Status.Phase != corev1.PodSucceeded &&
			p.Status.Phase != corev1.PodFailed {
			row.Held += has.GPUs
			row.SlicesHeld = AddSlices(row.SlicesHeld, has.Slices)
			if row.Started == nil || s.Time.Before(*row.Started) {
				row.Started = new(s.UTC())
			}
		}
	}
	return row
}

// asks notes what a Workload asks for, and what quota it has, without what it gave back.
func (j *Job) asks(w *kueue.Workload) {
	has := w.Status.Admission != nil &&
		!apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished)
	if c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); has && isTrue(c) {
		j.Started = new(c.LastTransitionTime.UTC())
	}
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		each := DevicesOf(&set.Template.Spec)
		j.Pods += int(set.Count)
		j.GPUs += int64(set.Count) * each.GPUs
		j.Slices = AddSlices(j.Slices, each.Times(set.Count).Slices)
		if has {
			n := podsHeld(w, set)
			j.Held += int64(n) * each.GPUs
			j.SlicesHeld = AddSlices(j.SlicesHeld, each.Times(n).Slices)
		}
	}
}

// podsHeld is how many pods of a pod set the quota of a Workload is for, without what it gave back.
func podsHeld(w *kueue.Workload, set *kueue.PodSet) int32 {
	n := Count(w, set)
	for _, back := range w.Status.ReclaimablePods {
		if back.Name == set.Name {
			n -= back.Count
		}
	}
	return max(0, n)
}

// nodesOf are the nodes of pods that have not ended.
func nodesOf(pods []corev1.Pod) []string {
	on := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded &&
			p.Status.Phase != corev1.PodFailed {
			on[p.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(on))
}

// trouble is what is wrong with pods of a job that should run, in a few words.
func trouble(j Standing, pods []corev1.Pod) string {
	var parts []string
	for i := range pods {
		for _, s := range slices.Concat(pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses) {
			if w := convert.Stuck(&s); w != nil && len(parts) == 0 {
				parts = append(parts, w.Reason)
			}
		}
	}
	if n := j.Pods.Failed; n > 0 {
		parts = append(parts, words.Count(n, "pod")+" failed")
	}
	return strings.Join(parts, ", ")
}

// ExitCode is that of a job that has ended: 0 of one that succeeded, and otherwise that of the
// container that failed first. It is nil if no container is left to say so.
func ExitCode(state State, pods []corev1.Pod) *int32 {
	if state == Succeeded {
		return new(int32(0))
	}
	if state != Failed {
		return nil
	}
	var first *corev1.ContainerStateTerminated
	for i := range pods {
		if _, t := Culprit(
			&pods[i],
		); t != nil &&
			(first == nil || t.FinishedAt.Time.Before(first.FinishedAt.Time)) {
			first = t
		}
	}
	if first == nil {
		return nil
	}
	return &first.ExitCode
}

// Evictions says how often the job was evicted and why, "" if it was not.
func Evictions(w *kueue.Workload) (n int32, text string) {
	if w == nil || w.Status.SchedulingStats == nil {
		return 0, ""
	}
	var parts []string
	for _, e := range w.Status.SchedulingStats.Evictions {
		n += e.Count
		why := e.Reason
		if e.UnderlyingCause != "" {
			why += "/" + string(e.UnderlyingCause)
		}
		parts = append(parts, fmt.Sprintf("%d %s", e.Count, why))
	}
	if n == 0 {
		return 0, ""
	}
	return n, words.Times(n) + " (" + strings.Join(parts, ", ") + ")"
}

// Restarts is how often the containers of a pod were.
func Restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// Join makes one line of those of one object, which may be queued in several parts: it is where
// that part is that is furthest from running.
func Join(rows []Job) (out []Job) {
	order := []State{Held, Waiting, Starting, Resetting, Stopping, Running}
	far := func(r *Job) int { return slices.Index(order, r.State) }
	at := map[Ref]int{}
	for i := range rows {
		r := rows[i]
		key := Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
		k, there := at[key]
		switch {
		case !there:
			at[key] = len(out)
			out = append(out, r)
			continue
		case far(&r) < 0: // it has ended, and others of it are there
			continue
		case far(&out[k]) < 0:
			out[k] = r
			continue
		}
		has := &out[k]
		pods, running, gpus, held, restarts := has.Pods+r.Pods, has.Running+r.Running, has.GPUs+r.GPUs, has.Held+r.Held, has.Restarts+r.Restarts
		parts, heldParts := AddSlices(has.Slices, r.Slices), AddSlices(has.SlicesHeld, r.SlicesHeld)
		nodes := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(has.Nodes), r.Nodes...))))
		started, created, trouble := has.Started, has.Created, cmp.Or(has.Trouble, r.Trouble)
		if r.Started != nil && (started == nil || r.Started.Before(*started)) {
			started = r.Started
		}
		if r.Created.Before(created) {
			created = r.Created
		}
		if far(&r) < far(has) {
			*has = r
		}
		has.Slices, has.SlicesHeld = parts, heldParts
		has.Pods, has.Running, has.GPUs, has.Held, has.Restarts, has.Nodes, has.Started, has.Created, has.Trouble = pods, running, gpus, held, restarts, nodes, started, created, trouble
	}
	return out
}
