package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

func TestDryRun(t *testing.T) {
	cpuOnly := func(r *rig, g gang.Gang) {
		for _, p := range r.pods[g.Key] {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			p.Spec.Containers[0].Resources.Limits = nil
		}
	}
	cases := map[string]struct {
		why         string
		nodes       []aNode
		places      []core.Place
		setUp       func(r *rig, g gang.Gang)
		assignments map[string]string // of pods a, b and c, of 2 GPUs each
		says        string
	}{
		"whole nodes stay whole": {
			"the node with the fewest free GPUs first",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}, {name: "n2", gpus: 8, cpus: 8, takenGPUs: 4}},
			nil, nil,
			map[string]string{"a": "n2", "b": "n2", "c": "n1"},
			"",
		},
		"without GPUs": {
			"the node with the least free CPU first, whatever its GPUs",
			[]aNode{{name: "n1", gpus: 2, cpus: 16}, {name: "n2", gpus: 8, cpus: 16, takenCPUs: 12}},
			nil, cpuOnly,
			map[string]string{"a": "n2", "b": "n2", "c": "n1"},
			"",
		},
		"suspect node": {
			"it is used last, though it is fuller",
			[]aNode{{name: "n1", gpus: 4, cpus: 8, health: "WARN"}, {name: "n2", gpus: 4, cpus: 8, health: "PASS"}},
			nil, nil,
			map[string]string{"a": "n2", "b": "n2", "c": "n1"},
			"",
		},
		"bad node": {
			"the filters that decide for real decide here",
			[]aNode{{name: "n1", gpus: 8, cpus: 8, health: "EVICT"}, {name: "n2", gpus: 8, cpus: 8}},
			nil, nil,
			map[string]string{"a": "n2", "b": "n2", "c": "n2"},
			"",
		},
		"nodes alike": {
			"the first by name",
			[]aNode{{name: "n2", gpus: 8, cpus: 8}, {name: "n1", gpus: 8, cpus: 8}},
			nil, nil,
			map[string]string{"a": "n1", "b": "n1", "c": "n1"},
			"",
		},
		"too big": {
			"all or none, with a reason for the first that found no place",
			[]aNode{{name: "n1", gpus: 4, cpus: 8}, {name: "n2", gpus: 1, cpus: 8}},
			nil, nil, nil,
			"Workload blue/job starts as a whole: 2 of 3 pods fit; no place for pod c: 2 Insufficient nvidia.com/gpu",
		},
		"too big for two reasons": {
			"each reason with its number of nodes",
			[]aNode{
				{name: "n1", gpus: 1, cpus: 8},
				{name: "n2", gpus: 1, cpus: 8},
				{name: "n3", gpus: 8, cpus: 8, health: "EVICT"},
			},
			nil,
			nil,
			nil,
			"Workload blue/job starts as a whole: 0 of 3 pods fit; no place for pod a: " +
				"2 Insufficient nvidia.com/gpu, 1 node(s) have unhealthy GPUs (autopilot.ibm.com/gpuhealth=EVICT)",
		},
		"no nodes": {
			"there is nothing to count", nil, nil, nil, nil,
			"Workload blue/job starts as a whole: 0 of 3 pods fit; no place for pod a: the cluster has no nodes",
		},
		"planned": {
			"in the order of the plan, as many as it says for each node",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}, {name: "n2", gpus: 8, cpus: 8}},
			[]core.Place{placed("n2", 2), placed("n1", 1)},
			nil,
			map[string]string{"a": "n2", "b": "n2", "c": "n1"},
			"",
		},
		"planned, and a stranger is there": {
			"never another node, and it is told which takes it not",
			[]aNode{
				{name: "n1", gpus: 8, cpus: 8, takenGPUs: 7},
				{name: "n2", gpus: 8, cpus: 8},
				{name: "n3", gpus: 8, cpus: 8},
			},
			[]core.Place{placed("n1", 1), placed("n2", 2)},
			nil,
			nil,
			"Workload blue/job starts as a whole: 2 of 3 pods fit; no place for pod a: planned node n1: Insufficient nvidia.com/gpu",
		},
		"planned, and the node is away": {
			"it says which",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}},
			[]core.Place{placed("gone", 3)},
			nil,
			nil,
			"Workload blue/job starts as a whole: 0 of 3 pods fit; no place for pod a: planned node gone: node is not in the cluster",
		},
		"planned, and full": {
			"what the node says",
			[]aNode{{name: "n1", gpus: 8, cpus: 8, takenGPUs: 4}},
			[]core.Place{placed("n1", 3)},
			nil,
			nil,
			"Workload blue/job starts as a whole: 2 of 3 pods fit; no place for pod c: planned node n1: Insufficient nvidia.com/gpu",
		},
		"room that was promised": {
			"another gang is about to take it",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}},
			nil,
			func(r *rig, _ gang.Gang) {
				other := r.add("other", 2, "x", "y")
				r.Reservations.begin(
					other,
					map[types.UID]assignment{"x": {r.find(other, "x"), "n1"}, "y": {r.find(other, "y"), "n1"}},
				)
			}, nil,
			"Workload blue/job starts as a whole: 2 of 3 pods fit; no place for pod c: 1 Insufficient nvidia.com/gpu",
		},
		"room that was promised on a node that is gone": {
			"it takes nothing",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}},
			nil,
			func(r *rig, _ gang.Gang) {
				other := r.add("other", 8, "x")
				r.Reservations.begin(other, map[types.UID]assignment{"x": {r.find(other, "x"), "gone"}})
			},
			map[string]string{"a": "n1", "b": "n1", "c": "n1"},
			"",
		},
		"nodes of an earlier attempt": {
			"they are given back first",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}},
			nil,
			func(r *rig, g gang.Gang) { r.Reservations.reserve(g.Key, "b", "n1") }, nil,
			"Workload blue/job starts as a whole: its pods give back the nodes of an earlier attempt",
		},
		"a pod that fits nowhere": {
			"it is named, and the others counted",
			[]aNode{{name: "n1", gpus: 8, cpus: 8}},
			nil,
			func(r *rig, g gang.Gang) { resize(r.find(g, "b"), 9); planned(r.find(g, "b"), "job", "main") }, nil,
			"Workload blue/job starts as a whole: 2 of 3 pods fit; no place for pod b: 1 Insufficient nvidia.com/gpu",
		},
		"pods that are not alike": {
			"a node that is full for one may take another",
			[]aNode{{name: "n1", gpus: 5, cpus: 8}, {name: "n2", gpus: 6, cpus: 8}},
			nil,
			func(r *rig, g gang.Gang) {
				for name, gpus := range map[string]int{"a": 6, "b": 4, "c": 1} {
					resize(r.find(g, name), gpus)
					planned(r.find(g, name), "job", "main")
				}
			},
			map[string]string{"a": "n2", "b": "n1", "c": "n1"},
			"",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.nodes...)
			g := r.plan(r.add("job", 2, "a", "b", "c"), c.places...)
			if c.setUp != nil {
				c.setUp(r, g)
			}
			assignments, says, _ := r.plugin.dryRun(t.Context(), r.look(g.Key), "a")
			got := map[string]string{}
			for uid, s := range assignments {
				got[string(uid)] = s.node
			}
			if c.assignments == nil {
				c.assignments = map[string]string{}
			}
			if diff := cmp.Diff(c.assignments, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if says != c.says {
				t.Errorf("%s:\n got %q\nwant %q", c.why, says, c.says)
			}
		})
	}
}

// A pod beyond those that its gang needs has no assignment and is told to wait for them.
func TestDryRunWithoutItsPod(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 2, "a", "b")
	_, says, _ := r.plugin.dryRun(t.Context(), r.look(g.Key), "stranger")
	if want := "Workload blue/job has all the pods it needs; this pod follows when they have started"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
}

// TestPodsThatSpreadAreCountedTogether: where pods must spread over domains, a gang is tried as a whole: what one pod
// makes uneven another makes even, whichever comes first.
func TestPodsThatSpreadAreCountedTogether(t *testing.T) {
	nodes := []aNode{
		{
			name:      "n1",
			gpus:      8,
			cpus:      8,
			takenCPUs: 1,
			zone:      "a",
			app:       "x",
		},
		{name: "n2", gpus: 8, cpus: 8, zone: "b"},
	}
	spread := func(r *rig, g gang.Gang) {
		for _, p := range r.pods[g.Key] {
			p.Labels["app"] = "x"
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			}}
		}
	}
	for _, tc := range []struct {
		why    string
		places []core.Place
		says   string
	}{
		{"two and two in the end", []core.Place{placed("n1", 1), placed("n2", 2)}, ""},
		{
			"three and one in the end",
			[]core.Place{placed("n1", 2), placed("n2", 1)},
			"node(s) didn't match pod topology spread constraints",
		},
	} {
		r := newRig(t, nodes...)
		g := r.plan(r.add("job", 2, "a", "b", "c"), tc.places...)
		spread(r, g)
		assignments, says, _ := r.plugin.dryRun(t.Context(), r.look(g.Key), "a")
		if (says == "") != (tc.says == "") || !strings.Contains(says, tc.says) {
			t.Errorf("%s: %q, want %q", tc.why, says, tc.says)
		}
		if says != "" {
			continue
		}
		r.Reservations.begin(r.look(g.Key).gang, assignments)
		for _, p := range r.pods[g.Key] {
			state := framework.NewCycleState()
			if _, status, _ := r.RunPreFilterPlugins(t.Context(), state, p); !status.IsSuccess() {
				t.Fatalf("pod %s: %v", p.Name, status)
			}
			info, err := r.SnapshotSharedLister().NodeInfos().Get(assignments[p.UID].node)
			if err != nil {
				t.Fatal(err)
			}
			if status := r.RunFilterPlugins(t.Context(), state, p, info); !status.IsSuccess() {
				t.Errorf("pod %s, before others have their nodes: %v", p.Name, status)
			}
		}
	}
}

// Pods of earlier admissions that have not ended hold the places of new ones.
func TestDryRunLeavesRoomToWhoeverLeaves(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.plan(r.add("job", 2, "a", "b"), placed("n1", 2))
	old := onNode("old", "n1", corev1.PodRunning)
	old.Namespace, old.DeletionTimestamp = "blue", &metav1.Time{}
	r.pods[g.Key] = append(r.pods[g.Key], planned(old, "job", "main"))
	_, says, _ := r.plugin.dryRun(t.Context(), r.look(g.Key), "a")
	for _, want := range []string{"1 of 2 pods fit", "no place for pod b: pod old was deleted and", "n1 until it has ended"} {
		if !strings.Contains(says, want) {
			t.Errorf("%q does not say %q", says, want)
		}
	}
}

// Alike are pods of one owner that ask for the same.
func TestClassOf(t *testing.T) {
	classes := []string{classOf(pod("ns", "a", 1)), classOf(pod("ns", "b", 2)), classOf(pod("ns", "c", 0))}
	slices.Sort(classes)
	if len(slices.Compact(classes)) != 3 {
		t.Errorf("pods that ask for 0, 1 and 2 GPUs are alike: %v", classes)
	}
	if classOf(pod("ns", "a", 1)) != classOf(pod("other", "b", 1)) {
		t.Error("pods that ask for the same are not alike")
	}
}
