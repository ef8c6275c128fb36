package convert_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// reporting is a node with such resources whose agent reports such checks.
func reporting(checks string, resources ...corev1.ResourceName) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
			health.ChecksAnnotation: `{"at":"2026-03-01T12:00:00Z","checks":[` + checks + `]}`,
		}},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}},
	}
	for _, r := range resources {
		n.Status.Capacity[r] = resource.MustParse("8")
	}
	return n
}

// found are severity, name and resource of what is found on a node.
func found(t *testing.T, n *corev1.Node) string {
	t.Helper()
	p, err := convert.Patient(n, nil, nil, nodehealth.DefaultRules())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range p.Found {
		if p.Overrules(f) {
			continue
		}
		all = append(all, strings.TrimSpace(strings.Join([]string{string(f.Severity), f.Name, f.Resource}, " ")))
	}
	return strings.Join(all, ", ")
}

func TestChecksOfReports(t *testing.T) {
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	check := func(name, result string) string {
		return `{"name":"` + name + `","result":"` + result + `","at":"2026-03-01T12:00:00Z","devices":["n7"]}`
	}
	for name, c := range map[string]struct {
		why  string
		node *corev1.Node
		want string
	}{
		"a neighbour does not answer": {
			why:  "an agent is believed about its own node only",
			node: reporting(check("ping", "Warned")+","+check("iperf", "Warned"), gpu),
		},
		"no neighbour answers": {
			why:  "it is this node that is cut off",
			node: reporting(check("ping", "Failed"), gpu),
			want: "Failed ping",
		},
		"a GPU": {
			why:  "it is of the GPUs",
			node: reporting(check("xid", "Fatal"), gpu),
			want: "Fatal xid nvidia.com/gpu",
		},
		"a deep test": {
			why:  "it is of the GPUs as well",
			node: reporting(check("invasive", "Failed"), gpu),
			want: "Failed invasive nvidia.com/gpu",
		},
		"a GPU of another kind": {
			why:  "of a resource that the node does not have it would say nothing, and use up the breaker",
			node: reporting(check("gpumem", "Failed"), "amd.com/gpu"),
			want: "Failed gpumem",
		},
		"GPUs by DRA": {
			why: "the node has no resource for them, whoever finds it",
			node: &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: "GpuMemWatch", Status: corev1.ConditionTrue},
			}}},
			want: "Failed GpuMemWatch",
		},
		"an agent that is silent for a year": {
			why:  "nobody looks any more, which does not make a node well",
			node: reporting(`{"name":"gpumem","result":"Failed","at":"2025-03-01T12:00:00Z"}`, gpu),
			want: "Failed gpumem nvidia.com/gpu",
		},
		"a volume cannot be had": {
			why:  "other checks that warn are of this node",
			node: reporting(check("pvc", "Warned"), gpu),
			want: "Warned pvc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(t, c.node); got != c.want {
				t.Errorf("found %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// However many devices of a resource are unhealthy, they are one finding, which names them: many would find no room in
// what is remembered.
func TestDevicesOfAResourceAreOneFinding(t *testing.T) {
	pod := func(ids ...corev1.ResourceID) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: make([]corev1.ContainerStatus, 1)}}
		s := corev1.ResourceStatus{Name: "nvidia.com/gpu"}
		for _, id := range ids {
			s.Resources = append(s.Resources, corev1.ResourceHealth{
				ResourceID: id, Health: corev1.ResourceHealthStatusUnhealthy,
			})
		}
		p.Status.ContainerStatuses[0].AllocatedResourcesStatus = []corev1.ResourceStatus{s}
		return p
	}
	p, err := convert.Patient(
		reporting("", "nvidia.com/gpu"), []*corev1.Pod{pod("c", "a"), pod("b", "a")}, nil, nil,
	)
	if err != nil || len(p.Found) != 1 || p.Found[0].Device != "a,b,c" {
		t.Errorf("found %+v (%v), want one of a,b,c", p.Found, err)
	}
}
