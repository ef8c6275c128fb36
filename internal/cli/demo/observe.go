package demo

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

const gpuResource = "nvidia.com/gpu"

// observer turns watch events into moments by comparing each object with what
// was seen of it before.
type observer struct {
	wrappers  map[string]*appwrapper.AppWrapper
	workloads map[string]*kueue.Workload
	pods      map[string]podSeen
	health    map[string]string
	// owner leads from a Workload's name, and from its UID, to its job.
	owner map[string]string
}

type podSeen struct{ running, leaving, ended bool }

func newObserver() *observer {
	return &observer{
		wrappers: map[string]*appwrapper.AppWrapper{}, workloads: map[string]*kueue.Workload{},
		pods: map[string]podSeen{}, health: map[string]string{}, owner: map[string]string{},
	}
}

// observe returns what an event says that was not known, without the time.
func (o *observer) observe(e watch.Event) []Moment {
	var ms []Moment
	switch obj := e.Object.(type) {
	case *appwrapper.AppWrapper:
		ms = choose(e.Type, o.wrapper, o.wrapperGone)(obj)
	case *kueue.Workload:
		ms = choose(e.Type, o.workload, o.workloadGone)(obj)
	case *corev1.Pod:
		ms = choose(e.Type, o.pod, o.podGone)(obj)
	case *corev1.Node:
		ms = o.node(obj)
	default:
		return nil
	}
	object, _ := e.Object.(client.Object)
	rev, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil
	}
	for i := range ms {
		ms[i].rev = rev
	}
	return ms
}

// choose picks what to do with an object that is there, or is gone.
func choose[T any](kind watch.EventType, there, gone func(T) []Moment) func(T) []Moment {
	if kind == watch.Deleted {
		return gone
	}
	return there
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (o *observer) wrapperGone(aw *appwrapper.AppWrapper) []Moment {
	delete(o.wrappers, key(aw))
	return []Moment{{What: Removed, Job: key(aw)}}
}

func (o *observer) wrapper(aw *appwrapper.AppWrapper) []Moment {
	job := key(aw)
	was, known := o.wrappers[job]
	o.wrappers[job] = aw
	var ms []Moment
	if !known {
		was = &appwrapper.AppWrapper{}
		ms = append(ms, Moment{What: Submitted, Job: job, Who: aw.Labels[appwrapper.AppWrapperUserLabel]})
	}
	if aw.Status.Phase != was.Status.Phase {
		ms = append(ms, Moment{What: Phase, Job: job, Reason: string(aw.Status.Phase)})
	}
	if aw.Status.Retries > was.Status.Retries {
		ms = append(ms, Moment{What: Retries, Job: job, Reason: strconv.Itoa(int(aw.Status.Retries))})
	}
	return ms
}

func (o *observer) workload(w *kueue.Workload) []Moment {
	name := key(w)
	var ms []Moment
	was, known := o.workloads[name]
	if !known {
		owner := metav1.GetControllerOf(w)
		if owner == nil {
			return nil
		}
		was = &kueue.Workload{}
		o.owner[name] = w.Namespace + "/" + owner.Name
		o.owner[string(w.UID)] = o.owner[name]
		ms = append(ms, Moment{What: Queued, Job: o.owner[name], Created: w.CreationTimestamp.Time})
	}
	o.workloads[name] = w
	return append(ms, o.decisions(o.owner[name], was, w)...)
}

func (o *observer) workloadGone(w *kueue.Workload) []Moment {
	was := o.workloads[key(w)]
	delete(o.workloads, key(w))
	if was == nil || was.Status.Admission == nil {
		return nil
	}
	return []Moment{{What: Released, Job: o.owner[key(w)]}}
}

// decisions finds what the engine decided about a workload since it was seen.
func (o *observer) decisions(job string, was, is *kueue.Workload) []Moment {
	var ms []Moment
	evicted := apimeta.FindStatusCondition(is.Status.Conditions, kueue.WorkloadEvicted)
	if evicted != nil && evicted.Status == metav1.ConditionTrue &&
		!apimeta.IsStatusConditionTrue(was.Status.Conditions, kueue.WorkloadEvicted) {
		m := Moment{What: Evicted, Job: job, Reason: evicted.Reason, Message: evicted.Message}
		if p := apimeta.FindStatusCondition(
			is.Status.Conditions,
			kueue.WorkloadPreempted,
		); p != nil &&
			p.Status == metav1.ConditionTrue {
			m.Reason, m.For = p.Reason, o.beneficiary(p.Message)
		}
		ms = append(ms, m)
	}
	switch {
	case is.Status.Admission != nil && was.Status.Admission == nil:
		ms = append(ms, Moment{What: Admitted, Job: job, Node: strings.Join(plannedNodes(is), " ")})
	case is.Status.Admission == nil && was.Status.Admission != nil:
		ms = append(ms, Moment{What: Released, Job: job})
	}
	now, before := refusal(is), refusal(was)
	if now != nil && (before == nil || now.Reason != before.Reason || now.Message != before.Message) {
		ms = append(ms, Moment{What: Waits, Job: job, Reason: now.Reason, Message: now.Message})
	}
	return ms
}

// beneficiary finds the job for which a workload was preempted: the Workload
// that the message names, or tells the UID of if it is another team's.
func (o *observer) beneficiary(message string) string {
	for word := range strings.FieldsSeq(message) {
		if job, ok := o.owner[strings.TrimRight(word, ".,:;)")]; ok {
			return job
		}
	}
	return ""
}

func refusal(w *kueue.Workload) *metav1.Condition {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// plannedNodes lists the nodes of an admission.
func plannedNodes(w *kueue.Workload) []string {
	var nodes []string
	for _, a := range w.Status.Admission.PodSetAssignments {
		if a.TopologyAssignment == nil {
			continue
		}
		for _, s := range a.TopologyAssignment.Slices {
			nodes = append(nodes, lowestLevel(s)...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// lowestLevel lists the values of the last level of a slice.
func lowestLevel(s kueue.TopologyAssignmentSlice) []string {
	if len(s.ValuesPerLevel) == 0 {
		return nil
	}
	v := s.ValuesPerLevel[len(s.ValuesPerLevel)-1]
	if v.Universal != nil {
		return []string{*v.Universal}
	}
	if v.Individual == nil {
		return nil
	}
	var prefix, suffix string
	if v.Individual.Prefix != nil {
		prefix = *v.Individual.Prefix
	}
	if v.Individual.Suffix != nil {
		suffix = *v.Individual.Suffix
	}
	var names []string
	for _, root := range v.Individual.Roots {
		names = append(names, prefix+root+suffix)
	}
	return names
}

func (o *observer) pod(p *corev1.Pod) []Moment {
	id := key(p) + " " + string(p.UID)
	was := o.pods[id]
	is := podSeen{
		running: was.running || p.Status.Phase == corev1.PodRunning,
		leaving: was.leaving || p.DeletionTimestamp != nil,
		ended:   was.ended || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
	}
	o.pods[id] = is
	return news(p, was, is)
}

func (o *observer) podGone(p *corev1.Pod) []Moment {
	id := key(p) + " " + string(p.UID)
	was := o.pods[id]
	delete(o.pods, id)
	return news(p, was, podSeen{running: was.running, leaving: was.leaving, ended: true})
}

// news tells the difference between two sights of a pod.
func news(p *corev1.Pod, was, is podSeen) []Moment {
	wrapper := p.Labels[appwrapper.AppWrapperLabel]
	if wrapper == "" {
		return nil
	}
	m := Moment{Job: p.Namespace + "/" + wrapper, Pod: p.Name, Node: p.Spec.NodeName, GPUs: podGPUs(p)}
	var ms []Moment
	for _, c := range []struct {
		what    What
		was, is bool
	}{
		{PodRuns, was.running, is.running}, {PodLeaves, was.leaving, is.leaving}, {PodEnded, was.ended, is.ended},
	} {
		if c.is && !c.was {
			m.What = c.what
			ms = append(ms, m)
		}
	}
	return ms
}

func podGPUs(p *corev1.Pod) int64 {
	var n int64
	for _, c := range p.Spec.Containers {
		q := c.Resources.Requests[gpuResource]
		n += q.Value()
	}
	return n
}

func (o *observer) node(n *corev1.Node) []Moment {
	was, known := o.health[n.Name]
	is := n.Labels[nodehealth.HealthLabel]
	o.health[n.Name] = is
	if is == was || !known && is == "" {
		return nil
	}
	return []Moment{{What: Labelled, Node: n.Name, Reason: is}}
}
