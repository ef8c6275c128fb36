package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// HealthMemory is the name of the ConfigMap, in mlbatch's namespace, that has what is remembered of nodes which are not
// healthy: one key for each.
const HealthMemory = "mlbatch-node-health"

// NodesRole is the ClusterRole that mode Act needs, and that an installation binds to nobody.
const NodesRole = "mlbatch-controller-nodes"

// BreakerLifted is the annotation of that ConfigMap by which somebody says, from a time on, that more nodes may be
// taken out of service, whatever was taken until then.
const BreakerLifted = "mlbatch.dev/breaker-lifted"

// Healths are what the ConfigMap says of nodes. What cannot be read says nothing, and is named by torn.
func Healths(m *corev1.ConfigMap) (out map[string]nodehealth.Health, torn []string) {
	out = map[string]nodehealth.Health{}
	if m == nil {
		return out, nil
	}
	for node, text := range m.Data {
		var h nodehealth.Health
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			torn = append(torn, node)
			continue
		}
		out[node] = h
	}
	slices.Sort(torn)
	return out, torn
}

// HealthText is what the ConfigMap has of a node.
func HealthText(h nodehealth.Health) (string, error) { return h.Text() }

// LiftedAt is when somebody last said that the breaker may go on; zero if nobody did, or it cannot be read.
func LiftedAt(m *corev1.ConfigMap) time.Time {
	if m == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, m.Annotations[BreakerLifted])
	if err != nil {
		return time.Time{}
	}
	return at
}

// ClearedAnnotation on a Node says that somebody holds it for well, whatever was found on it until then.
const ClearedAnnotation = "mlbatch.dev/health-cleared"

// Cleared is what it says.
type Cleared struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// WithoutTest says that the node is to be used without the deep test of nodes that return.
	WithoutTest bool `json:"withoutTest,omitempty"`
	// FaultsForgotten is until when faults are not to count any more; zero if all of them do.
	FaultsForgotten time.Time `json:"faultsForgotten,omitzero"`
}

// ClearedOf is what somebody last said who cleared a node; zero if nobody did, or it cannot be read.
func ClearedOf(n *corev1.Node) Cleared {
	var c Cleared
	if json.Unmarshal([]byte(n.Annotations[ClearedAnnotation]), &c) != nil {
		return Cleared{}
	}
	return c
}

// LabelledAnnotation on a Node says that mlbatch wrote its health label, and over what.
const LabelledAnnotation = "mlbatch.dev/health-label"

// HealthMark is what it says, nil if the label is of others.
func HealthMark(n *corev1.Node) *nodehealth.Mark {
	var m nodehealth.Mark
	if text, there := n.Annotations[LabelledAnnotation]; !there || json.Unmarshal([]byte(text), &m) != nil {
		return nil
	}
	return &m
}

// NodeWith translates a node of which so much is remembered.
func NodeWith(n *corev1.Node, h nodehealth.Health) core.Node {
	out := Node(n)
	signals := NodeSignals(n)
	signals.Health = OfNode(n, h)
	out.State, out.Why = nodehealth.Classify(signals)
	out.Faults = Faults(signals.Health)
	return out
}

// Faults are what a place on a node costs for what is remembered of it.
func Faults(h nodehealth.Health) int32 { return int32(h.Lemon) } //nolint:gosec // few

// bootTime is for how long after it came a node may not be ready, as one that still begins.
const bootTime = 10 * time.Minute

// Answers is since when a node does not answer by itself, or does again: it is not being deleted or cordoned, and has
// been ready before, as far as that can be seen. One of both is zero at least.
func Answers(n *corev1.Node) (down, returned time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady || n.Spec.Unschedulable || n.DeletionTimestamp != nil ||
			!c.LastTransitionTime.After(n.CreationTimestamp.Add(bootTime)) {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			returned = c.LastTransitionTime.UTC()
		} else {
			down = c.LastTransitionTime.UTC()
		}
	}
	return down, returned
}

// OfNode is what is remembered, if it is of this node and not of one before it that had the same name.
func OfNode(n *corev1.Node, h nodehealth.Health) nodehealth.Health {
	if h.UID != string(n.UID) {
		return nodehealth.Health{}
	}
	return h
}

// gpuChecks are the checks that are of a node's GPUs; others are of the node.
func gpuChecks() []string {
	return []string{"pciebw", "remapped", "gpupower", "gpumem", "dcgm", "invasive", "xid"}
}

// accuses reports whether a check says what is wrong with other nodes than the one whose agent made it: it is believed
// about its own only. That no other node answers is of its own, and Failed.
func accuses(c health.Check) bool {
	return c.Result == health.Warned && (c.Name == "ping" || c.Name == "iperf")
}

// Patient is a node to be judged, with what is found on it by rules. pods are those on it with unhealthy devices. A
// report of the agent that cannot be read says nothing; err tells why. A report stays true however old it is: an agent
// that is silent does not say that its node is well.
func Patient(
	n *corev1.Node,
	pods []*corev1.Pod,
	flavors []core.Flavor,
	rules []nodehealth.Rule,
) (nodehealth.Patient, error) {
	o := nodehealth.Observed{Taints: Taints(n.Spec.Taints), Labels: n.Labels}
	for _, c := range n.Status.Conditions {
		o.Conditions = append(o.Conditions, nodehealth.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.UTC(),
		})
	}
	var passed time.Time
	report, err := health.Read(n.Annotations)
	for _, c := range report.Checks {
		if c.Result == health.Passed && c.Deep && c.At.After(passed) {
			passed = c.At.UTC()
		}
		if s := ofResult(c.Result); s != nodehealth.Ignored && !accuses(c) {
			f := nodehealth.Finding{
				Source: nodehealth.SourceCheck, Name: c.Name, Device: strings.Join(c.Devices, ","), Severity: s,
				Message: c.Message, Since: c.At.UTC(),
			}
			if slices.Contains(gpuChecks(), c.Name) {
				f.Resource = core.GPU
			}
			o.Checks = append(o.Checks, f)
		}
	}
	o.Devices = devices(pods)
	out := nodehealth.Patient{
		Name: n.Name, UID: string(n.UID), Pools: nodehealth.Pools(flavors, NodeSignals(n)),
		Testing: nodehealth.IsTest(n.Labels),
		Found:   nodehealth.Findings(rules, o),
	}
	for i := range out.Found { // what is of devices that the node does not have is of the node, or it would say nothing
		f := &out.Found[i]
		if _, has := n.Status.Capacity[corev1.ResourceName(f.Resource)]; !has {
			f.Resource = ""
		}
	}
	cleared := ClearedOf(n)
	out.DeepPassed, out.Cleared, out.Trusted = passed, cleared.At, cleared.WithoutTest
	out.Forgotten = cleared.FaultsForgotten
	if err != nil {
		err = fmt.Errorf("node %s: %w", n.Name, err)
	}
	return out, err
}

func ofResult(r health.Result) nodehealth.Severity {
	switch r {
	case health.Warned:
		return nodehealth.Warned
	case health.Failed:
		return nodehealth.Failed
	case health.Fatal:
		return nodehealth.Fatal
	case health.Passed, health.Skipped, health.Unknown:
	}
	return nodehealth.Ignored
}

// devices are what kubelets say of the devices of pods: one finding for each resource, with all that are unhealthy.
func devices(pods []*corev1.Pod) []nodehealth.Finding {
	bad := map[string][]string{}
	for _, p := range pods {
		for resource, id := range UnhealthyDevices(p) {
			if strings.HasPrefix(resource, "claim:") { // what allots them says itself how they are
				continue
			}
			bad[resource] = append(bad[resource], id)
		}
	}
	var out []nodehealth.Finding
	for _, resource := range slices.Sorted(maps.Keys(bad)) {
		slices.Sort(bad[resource])
		out = append(out, nodehealth.Finding{
			Source: nodehealth.SourceDevice, Name: resource, Resource: resource,
			Device:  strings.Join(slices.Compact(bad[resource]), ","),
			Message: "Unhealthy, as its kubelet says",
		})
	}
	return out
}

// UnhealthyDevices are the resources and devices of a pod of which its kubelet says that they are unhealthy. Those of
// claims have names that begin with "claim:".
func UnhealthyDevices(p *corev1.Pod) func(yield func(resource, id string) bool) {
	return func(yield func(resource, id string) bool) {
		for s := range allotted(p) {
			for _, r := range s.Resources {
				if r.Health == corev1.ResourceHealthStatusUnhealthy && !yield(string(s.Name), string(r.ResourceID)) {
					return
				}
			}
		}
	}
}

// allotted are the resources of which a pod's containers were given devices.
func allotted(p *corev1.Pod) func(yield func(corev1.ResourceStatus) bool) {
	return func(yield func(corev1.ResourceStatus) bool) {
		for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range all {
				for _, s := range all[i].AllocatedResourcesStatus {
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}
