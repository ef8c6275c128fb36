package admin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
)

const health = "autopilot.ibm.com/gpuhealth"

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func closed(n *corev1.Node) { n.Spec.Unschedulable = true }

func labelled(value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[health] = value }
}

// state is what a node says of its service.
func state(n *corev1.Node) string {
	out := "open"
	if n.Spec.Unschedulable {
		out = "cordoned"
	}
	if v, has := n.Labels[health]; has {
		out += " " + v
	}
	return out
}

// TestDrainAndBack: a node is closed with who and why, and put back as it was: cordons and labels of
// others stay.
func TestDrainAndBack(t *testing.T) {
	for name, tc := range map[string]struct {
		why     string
		node    []func(*corev1.Node)
		evict   bool
		between func(*corev1.Node)
		drained string
		after   string
		left    string // what Undrain says is left, or its error
	}{
		"evict":         {"closed, and what has GPUs leaves", nil, true, nil, "cordoned EVICT", "open", ""},
		"no new":        {"closed only", nil, false, nil, "cordoned", "open", ""},
		"of others":     {"NVS#1424: a cordon of somebody else is theirs", []func(*corev1.Node){closed}, true, nil, "cordoned EVICT", "cordoned", "cordoned before"},
		"label":         {"a health check's word comes back", []func(*corev1.Node){labelled("WARN")}, true, nil, "cordoned EVICT", "open WARN", ""},
		"evicted":       {"the label of a health check stays", []func(*corev1.Node){labelled("EVICT")}, true, nil, "cordoned EVICT", "open EVICT", "was there before"},
		"checked since": {"a newer word of the health check stays", nil, true, labelled("ERR"), "cordoned EVICT", "open ERR", "=ERR"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(node("a", tc.node...))
			find := func() admin.Node {
				nodes, err := admin.FindNodes(t.Context(), c, []string{"a"})
				if err != nil {
					t.Fatal(err)
				}
				return nodes[0]
			}
			for n, want := range []bool{true, false} { // again it changes nothing
				done, err := find().Drain(t.Context(), c, "root", "fan", tc.evict, noon())
				if err != nil || done != want {
					t.Fatalf("drain %d: %v, %v", n, done, err)
				}
			}
			is := find()
			d := view.DrainOf(is.Node)
			if got := state(
				is.Node,
			); got != tc.drained || d == nil || d.By != "root" || d.Reason != "fan" ||
				!d.At.Equal(noon()) {
				t.Errorf("%s, %+v; want %s: %s", got, d, tc.drained, tc.why)
			}
			if tc.between != nil {
				tc.between(is.Node)
				if err := c.Update(t.Context(), is.Node); err != nil {
					t.Fatal(err)
				}
			}
			left, err := find().Undrain(t.Context(), c)
			text := strings.Join(left, ", ")
			if got := state(
				find().Node,
			); err != nil || got != tc.after || (text == "") != (tc.left == "") ||
				!strings.Contains(text, tc.left) {
				t.Errorf("afterwards %s, left %q, %v; want %s, %q: %s", got, text, err, tc.after, tc.left, tc.why)
			}
			if view.DrainOf(find().Node) != nil {
				t.Error("it still says that it is drained")
			}
		})
	}
}

// TestUndrainOfOthers: what mlbatch did not close it does not open.
func TestUndrainOfOthers(t *testing.T) {
	for want, change := range map[string][]func(*corev1.Node){
		"is not drained":                    nil,
		"by somebody else (cordoned)":       {closed},
		"by somebody else (label " + health: {labelled("EVICT")},

		"not by mlbatch drain: it stays; kubectl uncordon a puts it back":                                          {closed},
		"not by mlbatch drain: it stays; kubectl label node a " + health + "- puts it back":                        {labelled("EVICT")},
		"not by mlbatch drain: it stays; kubectl uncordon a and kubectl label node a " + health + "- puts it back": {closed, labelled("EVICT")},
	} {
		c := cluster(node("a", change...))
		nodes, err := admin.FindNodes(t.Context(), c, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		before := state(nodes[0].Node)
		if _, err := nodes[0].Undrain(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := state(nodes[0].Node); got != before {
			t.Errorf("%s became %s", before, got)
		}
	}
}

// TestWhoIsMoved is told as docs/node-health.md has it.
func TestWhoIsMoved(t *testing.T) {
	pod := func(name string, gpus string, change ...func(*corev1.Pod)) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}, Spec: corev1.PodSpec{
			NodeName: "a",
			Containers: []corev1.Container{
				{
					Name: "c",
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)},
					},
				},
			},
		}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	owned := func(api, kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: api, Kind: kind, Name: name, Controller: new(true), UID: "u"},
			}
		}
	}
	c := cluster(
		node("a"),
		pod(
			"aw-1",
			"2",
			func(p *corev1.Pod) { p.Labels = map[string]string{appwrapper.AppWrapperLabel: "aw"} },
			owned("batch/v1", "Job", "inner"),
		),
		pod(
			"aw-2",
			"2",
			func(p *corev1.Pod) { p.Labels = map[string]string{appwrapper.AppWrapperLabel: "aw"} },
			owned("batch/v1", "Job", "inner"),
		),
		pod(
			"job-1",
			"1",
			owned("batch/v1", "Job", "train"),
		),
		pod("rs-1", "1", owned("apps/v1", "ReplicaSet", "serve")),
		pod(
			"bare",
			"1",
		),
		pod("cpu", "0", owned("batch/v1", "Job", "load")),
		pod("ds", "1", owned("apps/v1", "DaemonSet", "exporter")),
		pod("alien", "1", owned("argoproj.io/v1", "Workflow", "flow")),
		pod("done", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	)
	nodes, err := admin.FindNodes(t.Context(), c, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"blue/aw":    "starts again elsewhere",
		"blue/train": "made anew elsewhere, as far",
		"blue/serve": "made anew elsewhere",
		"blue/bare":  "stays: nobody",
		"blue/load":  "stays: it has no GPUs",
		"blue/flow":  "stays: who runs it",
	}
	for _, j := range nodes[0].Jobs {
		if how, known := want[j.Job]; !known || !strings.Contains(j.How, how) ||
			j.Moves == strings.HasPrefix(j.How, "stays") {
			t.Errorf("%+v, want %q", j, how)
		}
		delete(want, j.Job)
	}
	if len(want) > 0 || nodes[0].Jobs[0].Job != "blue/aw" || nodes[0].Jobs[0].GPUs != 4 ||
		nodes[0].Jobs[0].Pods != 2 {
		t.Errorf("missing %v, first %+v", want, nodes[0].Jobs[0])
	}
	leave, stay := nodes[0].Leaving(false)
	if len(leave) > 0 || len(stay) != 6 {
		t.Errorf("without eviction %v leave", leave)
	}
}
