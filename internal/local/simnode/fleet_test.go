package simnode

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodesHaveTheTutorialsCapacity(t *testing.T) {
	n := DefaultFleet().Node(2, at(0))
	got := map[string]string{
		"name":     n.Name,
		"hostname": n.Labels[corev1.LabelHostname],
		"zone":     n.Labels[corev1.LabelTopologyZone],
		"region":   n.Labels[corev1.LabelTopologyRegion],
	}
	for _, r := range []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu", "pods"} {
		q := n.Status.Allocatable[r]
		got[string(r)] = q.String()
	}
	want := map[string]string{
		"name":           "node-2",
		"hostname":       "node-2",
		"zone":           "local-c",
		"region":         "local",
		"cpu":            "224",
		"memory":         "2000Gi",
		"nvidia.com/gpu": "8",
		"pods":           "250",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// TestNodesAreInZones: one after the other, so that three nodes are in three; a label that was asked
// for stays.
func TestNodesAreInZones(t *testing.T) {
	f := DefaultFleet()
	var got []string
	for i := range 4 {
		got = append(got, f.Node(i, at(0)).Labels[corev1.LabelTopologyZone])
	}
	f.Labels = map[string]string{corev1.LabelTopologyZone: "mine"}
	got = append(got, f.Node(0, at(0)).Labels[corev1.LabelTopologyZone])
	if diff := cmp.Diff([]string{"local-a", "local-b", "local-c", "local-a", "mine"}, got); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
}

func TestReconcile(t *testing.T) {
	f := DefaultFleet()
	node := func(i int) corev1.Node { return *f.Node(i, at(0)) }
	bigger := f
	bigger.GPUs = 16
	smaller := f
	smaller.Count = 1
	tests := map[string]struct {
		why                    string
		fleet                  Fleet
		have                   []corev1.Node
		create, update, delete []string
	}{
		"new": {"a fresh cluster", f, nil, []string{"node-0", "node-1", "node-2"}, nil, nil},
		"resumed": {
			"nodes of the last run stay as they are",
			f,
			[]corev1.Node{node(0), node(1), node(2)},
			nil,
			nil,
			nil,
		},
		"deleted": {
			"a deleted node is back after the next start",
			f,
			[]corev1.Node{node(0), node(2)},
			[]string{"node-1"},
			nil,
			nil,
		},
		"smaller": {
			"nodes that are no longer wanted go",
			smaller,
			[]corev1.Node{node(0), node(1)},
			nil,
			nil,
			[]string{"node-1"},
		},
		"capacity": {
			"a new size takes effect",
			bigger,
			[]corev1.Node{node(0), node(1), node(2)},
			nil,
			[]string{"node-0", "node-1", "node-2"},
			nil,
		},
	}
	names := func(nodes []*corev1.Node) []string {
		var out []string
		for _, n := range nodes {
			out = append(out, n.Name)
		}
		return out
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := Reconcile(tc.fleet, tc.have, at(1))
			if diff := cmp.Diff(
				[][]string{tc.create, tc.update, tc.delete},
				[][]string{names(c.Create), names(c.Update), names(c.Delete)},
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestBadFleets(t *testing.T) {
	tests := map[string]struct {
		why    string
		change func(*Fleet)
	}{
		"negative count": {"no such thing", func(f *Fleet) { f.Count = -1 }},
		"negative GPUs":  {"no such thing", func(f *Fleet) { f.GPUs = -1 }},
		"no CPU":         {"nothing would run", func(f *Fleet) { f.CPU = resource.Quantity{} }},
		"no memory":      {"nothing would run", func(f *Fleet) { f.Memory = resource.MustParse("0") }},
		"no pods":        {"nothing would run", func(f *Fleet) { f.Pods = 0 }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := DefaultFleet()
			tc.change(&f)
			if f.Validate() == nil {
				t.Errorf("accepted: %s", tc.why)
			}
		})
	}
}

func TestNodesSayHowTheyAre(t *testing.T) {
	ready := func(st *corev1.NodeStatus) string {
		if st == nil {
			return "nothing"
		}
		for _, c := range st.Conditions {
			if c.Type == corev1.NodeReady {
				return string(c.Status)
			}
		}
		return "no condition"
	}
	with := func(value string, st corev1.ConditionStatus) *corev1.Node {
		n := DefaultFleet().Node(0, at(0))
		n.Annotations = map[string]string{AnnotationSimulate: value}
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != st {
				c.Status, c.Reason = st, "NodeStatusUnknown"
			}
		}
		return n
	}
	tests := map[string]struct {
		why  string
		node *corev1.Node
		want string
	}{
		"fine":       {"nothing new, nothing written", with("", corev1.ConditionTrue), "nothing"},
		"thought up": {"it lives after all", with("", corev1.ConditionUnknown), "True"},
		"not ready":  {"it says so itself", with(NotReady, corev1.ConditionTrue), "False"},
		"still not":  {"once", with("", corev1.ConditionFalse), "True"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ready(nodeStatus(tc.node, DefaultFleet().Node(0, at(0)), at(5))); got != tc.want {
				t.Errorf("says %s, want %s: %s", got, tc.want, tc.why)
			}
		})
	}
}

// What a fleet was like is found in its nodes.
func TestFleetOf(t *testing.T) {
	want := DefaultFleet()
	want.Count = 4
	var nodes []corev1.Node
	for _, i := range []int{0, 3} { // an administrator deleted two
		nodes = append(nodes, *want.Node(i, time.Now()))
	}
	nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	got, ok := FleetOf(nodes)
	if !ok || got.Count != 4 || got.GPUs != want.GPUs || got.Pods != want.Pods ||
		got.GPUProduct != want.GPUProduct ||
		got.CPU.Cmp(want.CPU) != 0 ||
		got.Memory.Cmp(want.Memory) != 0 {
		t.Errorf("fleet = %+v, %v; want %+v", got, ok, want)
	}
	if _, ok := FleetOf(nil); ok {
		t.Error("no nodes are a fleet")
	}
}

// TestNodeCreatedAgain: a node that a user deleted and created again, with no more
// than its name, gets back what its kubelet says of it; what others know better stays.
func TestNodeCreatedAgain(t *testing.T) {
	s := &simulator{fleet: DefaultFleet(), port: 1234}
	bare := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{gpuProduct: "mine"}},
	}
	if !s.plays(bare) {
		t.Fatal("the fleet does not play a node of its own")
	}
	self := s.self(bare, at(0))
	var patch struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(missingLabels(bare, self), &patch); err != nil {
		t.Fatal(err)
	}
	if l := patch.Metadata.Labels; l[LabelSimulated] != "true" || l[corev1.LabelHostname] != "node-1" ||
		l[gpuCount] != "8" ||
		l[gpuProduct] != "" {
		t.Errorf("labels to add are %v, want what is missing and no more", l)
	}
	st := nodeStatus(bare, self, at(0))
	if st == nil || !sameCapacity(st.Capacity, s.fleet.capacity()) ||
		!sameCapacity(st.Allocatable, s.fleet.capacity()) {
		t.Fatalf("status is %+v, want the fleet's capacity", st)
	}
	if st.DaemonEndpoints.KubeletEndpoint.Port != 1234 ||
		!slices.Contains(st.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: loopback}) {
		t.Errorf("its kubelet answers at %v, port %v", st.Addresses, st.DaemonEndpoints)
	}
	again := bare.DeepCopy()
	again.Labels, again.Status = self.Labels, *st
	if missingLabels(again, self) != nil || nodeStatus(again, self, at(1)) != nil {
		t.Error("what is right is written again")
	}
	again.Status.Capacity = corev1.ResourceList{gpuResource: resource.MustParse("2")}
	if st := nodeStatus(again, self, at(1)); st != nil {
		t.Errorf("a capacity that a user chose became %v", st.Capacity)
	}
	for name, plays := range map[string]bool{"node-2": true, "node-3": false, "gpu-1": false} {
		if n := (&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); s.plays(n) != plays {
			t.Errorf("plays %s is %v: a fleet of 3 has node-0 to node-2", name, !plays)
		}
	}
	down := bare.DeepCopy()
	down.Annotations = map[string]string{AnnotationSimulate: Down}
	if s.plays(down) {
		t.Error("the dead say nothing")
	}
}
