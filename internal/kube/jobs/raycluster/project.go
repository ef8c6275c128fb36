package raycluster

import (
	"maps"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Reasons of conditions.
const (
	allReadyFirstTime = "AllPodRunningAndReadyFirstTime"
	provisioning      = "RayClusterPodsProvisioning"
	headNotFound      = "HeadPodNotFound"
	headNotReady      = "ContainersNotReady"
	headReady         = "HeadPodRunningAndReady"
	noHead            = "FailedCreateHeadPod"
	noWorker          = "FailedCreateWorkerPod"
)

// project returns a cluster with the status that follows from what there is.
func project(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
	c, err := cast(o)
	if err != nil {
		return o
	}
	out := *c
	out.Status = *c.Status.DeepCopy()
	state := &out.Status
	now := metav1.NewTime(s.Now)
	if p != nil && p.Role(Head) != nil {
		count(&out, s)
	}
	tell(&out, s, now)
	state.ObservedGeneration = c.Generation
	if !equality.Semantic.DeepEqual(c.Status, *state) {
		state.LastUpdateTime = &now
	}
	return &out
}

// wereReady is said of a cluster that was ready once. Another controller says it in other words.
const wereReady = "all pods are ready for the first time"

// told is what a status says of what is remembered.
func told(c *api.RayCluster) podplan.RetryState {
	return podplan.RetryState{Started: jobs.Begun(c, nil, active(c))}
}

// count fills in how many workers there are and what they ask for.
func count(c *api.RayCluster, s *jobs.Progress) {
	state := &c.Status
	var desired, least, most, ready, active int64
	all := corev1.ResourceList{}
	asks(all, &c.Spec.HeadGroupSpec.Template.Spec, 1)
	for i := range c.Spec.WorkerGroupSpecs {
		g := groupOf(&c.Spec, &c.Spec.WorkerGroupSpecs[i])
		desired, least, most = desired+int64(g.Count), least+int64(g.Least), most+int64(g.Most)
		t := s.Counts[g.role()]
		ready, active = ready+int64(t.Ready), active+int64(t.Active)
		asks(all, &g.Template.Spec, int64(g.Count))
	}
	state.DesiredWorkerReplicas, state.MinWorkerReplicas, state.MaxWorkerReplicas = clip(
		desired,
	), clip(
		least,
	), clip(
		most,
	)
	state.ReadyWorkerReplicas, state.AvailableWorkerReplicas = clip(ready), clip(active)
	state.DesiredCPU, state.DesiredMemory = all[corev1.ResourceCPU], all[corev1.ResourceMemory]
	state.DesiredGPU, state.DesiredTPU = resource.Quantity{}, resource.Quantity{}
	for name, q := range all { // sums do not depend on the order
		switch {
		case strings.HasSuffix(string(name), "gpu"):
			state.DesiredGPU.Add(q)
		case name == "google.com/tpu":
			state.DesiredTPU.Add(q)
		}
	}
	state.Endpoints = map[string]string{}
	for _, port := range headPorts(&c.Spec.HeadGroupSpec.Template) {
		state.Endpoints[port.Name] = strconv.Itoa(int(port.ContainerPort))
	}
	state.Head = api.HeadInfo{}
	if t := s.Counts[Head]; t.Active > 0 {
		ip := s.Addresses[Head]
		// The service has no address of its own: asked for it, it answers with the pod's.
		state.Head = api.HeadInfo{PodName: headName(c.Name), PodIP: ip, ServiceName: ServiceName(c), ServiceIP: ip}
	}
}

func clip(n int64) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // it is no larger

// asks adds what pods request, or else may use.
func asks(all corev1.ResourceList, pod *corev1.PodSpec, pods int64) {
	for i := range pod.Containers {
		r := &pod.Containers[i].Resources
		names := maps.Clone(r.Limits)
		if names == nil {
			names = corev1.ResourceList{}
		}
		maps.Copy(names, r.Requests)
		for name, q := range names { // sums do not depend on the order
			q = q.DeepCopy()
			q.Mul(pods)
			sum := all[name]
			sum.Add(q)
			all[name] = sum
		}
	}
}

// tell brings state and conditions up to date.
func tell(c *api.RayCluster, s *jobs.Progress, now metav1.Time) {
	state := &c.Status
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		apimeta.SetStatusCondition(&state.Conditions, metav1.Condition{
			Type:               kind,
			Status:             status,
			Reason:             reason,
			Message:            message,
			ObservedGeneration: c.Generation,
			LastTransitionTime: now,
		})
	}
	holds := func(kind string) bool { return apimeta.IsStatusConditionTrue(state.Conditions, kind) }
	switch t := s.Counts[Head]; {
	case t.Ready > 0:
		set(api.HeadPodReady, true, headReady, "")
	case t.Active > 0:
		set(api.HeadPodReady, false, headNotReady, "the containers of the head are not ready")
	default:
		set(api.HeadPodReady, false, headNotFound, "there is no head")
	}
	switch {
	case s.NotMade != "" && !suspended(c):
		reason := noHead
		if s.Counts[Head].Active > 0 {
			reason = noWorker
		}
		set(api.ClusterReplicaFailure, true, reason, s.NotMade)
	case apimeta.FindStatusCondition(state.Conditions, api.ClusterReplicaFailure) != nil:
		apimeta.RemoveStatusCondition(&state.Conditions, api.ClusterReplicaFailure)
	}
	switch {
	case suspended(c) && s.Suspended:
		if holds(api.ClusterSuspending) {
			set(api.ClusterSuspending, false, api.ClusterIsSuspended, "")
		}
		set(api.ClusterIsSuspended, true, api.ClusterIsSuspended, "")
		set(api.ClusterProvisioned, false, api.ClusterIsSuspended, "")
		enter(state, api.ClusterSuspended, now)
	case suspended(c):
		set(api.ClusterSuspending, true, api.ClusterSuspending, "")
	default:
		if holds(api.ClusterIsSuspended) || holds(api.ClusterSuspending) {
			set(api.ClusterIsSuspended, false, api.ClusterIsSuspended, "")
			set(api.ClusterSuspending, false, api.ClusterIsSuspended, "")
		}
		if state.State == api.ClusterSuspended {
			state.State = ""
		}
		runs(state, s, set, now)
	}
}

// runs tells of a cluster that may have pods. One that was ready stays so while pods come
// and go.
func runs(
	state *api.RayClusterStatus,
	s *jobs.Progress,
	set func(string, bool, string, string),
	now metav1.Time,
) {
	switch {
	case s.Ready:
		set(api.ClusterProvisioned, true, allReadyFirstTime, wereReady)
		enter(state, api.ClusterReady, now)
	case !apimeta.IsStatusConditionTrue(state.Conditions, api.ClusterProvisioned):
		set(api.ClusterProvisioned, false, provisioning, "its pods are being made")
	}
}

// enter tells that the cluster is in a state.
func enter(state *api.RayClusterStatus, is api.ClusterState, now metav1.Time) {
	if state.State == is {
		return
	}
	state.State, state.Reason = is, ""
	if state.StateTransitionTimes == nil {
		state.StateTransitionTimes = map[api.ClusterState]*metav1.Time{}
	}
	state.StateTransitionTimes[is] = &now
}
