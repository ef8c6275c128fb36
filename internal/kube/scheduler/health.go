package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// HealthName is the name of the node health plugin, as users see it in messages.
const HealthName = "MLBatchNodeHealth"

// healthPlugin keeps pods that ask for GPUs off nodes that a health check has
// marked bad, and prefers others to suspect ones. It judges by the label alone, on any node:
// what taints and conditions say is the business of the framework's own plugins.
type healthPlugin struct{}

var (
	_ fwk.FilterPlugin      = healthPlugin{}
	_ fwk.ScorePlugin       = healthPlugin{}
	_ fwk.EnqueueExtensions = healthPlugin{}
	_ fwk.SignPlugin        = healthPlugin{}
)

func newHealthPlugin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return healthPlugin{}, nil
}

// Name is the plugin's name.
func (healthPlugin) Name() string { return HealthName }

// Filter refuses nodes whose GPUs are bad or under test.
func (healthPlugin) Filter(
	_ context.Context,
	_ fwk.CycleState,
	pod *corev1.Pod,
	info fwk.NodeInfo,
) *fwk.Status {
	node := info.Node()
	if nodehealth.MarkedState(node.Labels).TakesWork() || !asksForGPU(pod) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		"node(s) have unhealthy GPUs ("+nodehealth.HealthLabel+"="+node.Labels[nodehealth.HealthLabel]+")")
}

// Score is lower for nodes whose GPUs are suspect.
func (healthPlugin) Score(
	_ context.Context,
	_ fwk.CycleState,
	pod *corev1.Pod,
	info fwk.NodeInfo,
) (int64, *fwk.Status) {
	if nodehealth.MarkedState(info.Node().Labels) == core.NodeWarned && asksForGPU(pod) {
		return 0, nil
	}
	return fwk.MaxScore, nil
}

// ScoreExtensions returns nil: the scores need no scaling.
func (healthPlugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// EventsToRegister names what may help a refused pod: another node, or a label
// that says a node is well again.
func (healthPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: func(_ klog.Logger, _ *corev1.Pod, _, obj any) (fwk.QueueingHint, error) {
			if node, ok := obj.(*corev1.Node); ok && !nodehealth.MarkedState(node.Labels).TakesWork() {
				return fwk.QueueSkip, nil
			}
			return fwk.Queue, nil
		},
	}}, nil
}

// SignPod adds nothing: what this plugin looks at is in the pod's requests,
// which others sign.
func (healthPlugin) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// asksForGPU tells whether any container of the pod asks for a GPU.
func asksForGPU(pod *corev1.Pod) bool {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	q, ok := requests[core.GPU]
	return ok && !q.IsZero()
}
