package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// TestRefusalOfPlannedNodesIsTold: what planned nodes answer by rules that the engine does not
// know is told with how many pods each of them takes, once they have said so for a while; what the
// engine counts itself is not.
func TestRefusalOfPlannedNodesIsTold(t *testing.T) {
	withPort := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP},
		}
	}
	const taken = "node(s) didn't have free ports for the requested pod ports"
	refusal := func(node string, most int32) convert.Refusal {
		return convert.Refusal{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: node, Most: most, Why: taken}}
	}
	cases := map[string]struct {
		why    string
		change func(*corev1.Pod)
		gpus   int
		places []core.Place
		want   []convert.Refusal
	}{
		"every planned node": {
			"n1 and n2 each take one of the two planned there",
			withPort,
			1,
			[]core.Place{placed("n1", 2), placed("n2", 2)},
			[]convert.Refusal{refusal("n1", 1), refusal("n2", 1)},
		},
		"no room": {
			"the engine counts it",
			func(*corev1.Pod) {},
			5,
			[]core.Place{placed("n1", 4)},
			nil,
		},
		"a node that is gone": {
			"the engine will see it",
			func(*corev1.Pod) {},
			1,
			[]core.Place{placed("n9", 4)},
			nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8}, aNode{name: "n2", gpus: 8, cpus: 8})
			var told found
			var again func()
			r.plugin.refused = func(_ *corev1.Pod, f found) { told = f }
			r.plugin.later = func(_ time.Duration, f func()) { again = f }
			g := r.plan(r.add("job", c.gpus, "a", "b", "c", "d"), c.places...)
			for _, p := range r.pods[g.Key] {
				c.change(p)
			}
			a := r.find(g, "a")
			if _, why := r.prefilter(a); why == "" || told.refusals != nil {
				t.Fatalf("refused with %q, told at once: %v", why, told)
			}
			if (again != nil) != (c.want != nil) {
				t.Fatalf("%s: asked again: %t", c.why, again != nil)
			}
			if again != nil {
				r.wokenSince()
				again()
				if !slices.Contains(r.wokenSince(), "a") {
					t.Error("the pod that was refused is not tried again")
				}
			}
			r.now = r.now.Add(settles)
			r.prefilter(a)
			if diff := cmp.Diff(c.want, told.refusals); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if c.want != nil && told.plugin != names.NodePorts {
				t.Errorf("%q refused", told.plugin)
			}
		})
	}
}

// TestRefusalThatPassesIsNotTold: nodes that take the pods when they are asked again refused
// nothing, and later refusals count from their own time.
func TestRefusalThatPassesIsNotTold(t *testing.T) {
	r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
	g := r.add("job", 1, "a")
	r.refuse(g.Key, "a", "x")
	for _, step := range []struct {
		after   time.Duration
		refused bool
		want    time.Duration
	}{{0, true, 0}, {settles, true, settles}, {0, false, 0}, {time.Second, true, 0}, {settles, true, settles}} {
		r.now = r.now.Add(step.after)
		if !step.refused {
			r.undisputed(g.Key)
			continue
		}
		if got := r.disputed(g.Key); got != step.want {
			t.Errorf("refused for %v, want %v", got, step.want)
		}
	}
}

// TestUnevenPodsAreGivenTimeToBeMadeEven: what a node refuses because pods like it are not spread alike is told later than
// other refusals: others that make them even may be on their way.
func TestUnevenPodsAreGivenTimeToBeMadeEven(t *testing.T) {
	for plugin, after := range map[string]time.Duration{names.NodePorts: settles, names.PodTopologySpread: evens} {
		r := newRig(t, aNode{name: "n1", gpus: 8, cpus: 8})
		told := false
		r.plugin.refused = func(*corev1.Pod, found) { told = true }
		r.plugin.later = func(time.Duration, func()) {}
		g := r.add("job", 1, "a")
		r.refuse(g.Key, "a", "x")
		f := found{
			refusals: []convert.Refusal{{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n1", Why: "uneven"}}},
			plugin:   plugin,
		}
		for _, step := range []struct {
			after time.Duration
			told  bool
		}{{0, false}, {after - time.Millisecond, false}, {time.Millisecond, true}} {
			r.now = r.now.Add(step.after)
			if r.plugin.answered(g.Key, r.find(g, "a"), f); told != step.told {
				t.Errorf("%s: told: %t", plugin, told)
			}
		}
	}
}

// TestNoterWritesWhichNodesRefuse: once, and since when: the time is that of the first answer, whatever words a webhook
// finds for the same again.
func TestNoterWritesWhichNodesRefuse(t *testing.T) {
	before := metav1.NewTime(time.Unix(500, 0))
	told := func(plugin, text string) []corev1.PodCondition {
		return []corev1.PodCondition{{
			Type: kueue.PodNodesRefused, Status: corev1.ConditionTrue, Reason: plugin, Message: text,
			LastTransitionTime: before,
		}}
	}
	for name, c := range map[string]struct {
		told   []corev1.PodCondition
		writes int
		since  bool // before
	}{
		"nothing is told":       {nil, 1, false},
		"it is told":            {told(names.VolumeBinding, "main: n1=0: no volume"), 0, true},
		"told in other words":   {told(names.VolumeBinding, "main: n1=0: none at 10:31"), 1, true},
		"another node is told":  {told(names.VolumeBinding, "main: n2=0: no volume"), 1, false},
		"it takes fewer":        {told(names.VolumeBinding, "main: n1=1: no volume"), 1, false},
		"another plugin is":     {told(names.NodePorts, "main: n1=0: no volume"), 1, false},
		"it was not true":       {[]corev1.PodCondition{{Type: kueue.PodNodesRefused, Status: corev1.ConditionFalse}}, 1, false},
		"another thing is told": {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, 1, false},
	} {
		d := newDesk()
		g := d.gang("job", "a")
		resize(d.pods[g.Key][0], 1)
		p := planned(d.pods[g.Key][0].DeepCopy(), "job", "main")
		p.Namespace, p.Name, p.Status.Conditions = "blue", "a", c.told
		n, written, queue := newTestNoter(t, d, p)
		n.refused(
			p,
			found{
				plugin: names.VolumeBinding,
				refusals: []convert.Refusal{
					{PodSet: "main", NodeRefusal: core.NodeRefusal{Node: "n1", Why: "no volume"}},
				},
			},
		)
		key, _ := queue.Get()
		for range 2 { // the second time there is nothing to write
			if err := n.note(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		writes := 0
		for _, a := range written.Actions() {
			if a.GetVerb() == "patch" {
				writes++
			}
		}
		got, err := written.CoreV1().Pods("blue").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(
			got.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == kueue.PodNodesRefused },
		)
		if i < 0 || writes != c.writes || got.Status.Conditions[i].Reason != names.VolumeBinding ||
			got.Status.Conditions[i].Message != "main: n1=0: no volume" ||
			got.Status.Conditions[i].LastTransitionTime.Equal(&before) != c.since {
			t.Errorf("%s: %d writes, conditions %v", name, writes, got.Status.Conditions)
		}
	}
}

// refusedNodes: pods that may not share a node are planned on one.
func refusedNodes(w *world, ns string) {
	w.node("r0", 8, map[string]string{core.HostnameLabel: "r0"})
	wl := w.workload(ns, "job", 2)
	for _, name := range []string{"job-0", "job-1"} {
		p := planned(pod(ns, name, 1), "job", "main")
		p.Labels["app"] = ns
		p.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{
						TopologyKey:   core.HostnameLabel,
						LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": ns}},
					},
				},
			},
		}
		w.create(p)
	}
	w.admit(wl, placed("r0", 2))
	began := time.Now()
	var told []convert.Refusal
	w.eventually("a pod tells which node refuses it", func() string {
		var pods corev1.PodList
		if err := w.c.List(w.ctx, &pods, client.InNamespace(ns)); err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			if told = convert.PodRefusals(&pods.Items[i]); told != nil {
				return ""
			}
		}
		return "none does"
	})
	w.t.Logf("told after %v", time.Since(began))
	if len(told) != 1 || told[0].Node != "r0" || told[0].Most != 1 {
		w.t.Errorf("told is %v, want that r0 takes one", told)
	}
}
