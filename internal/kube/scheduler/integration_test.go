package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// TestScheduling runs scenarios one after another against one API server and
// one scheduler. Each has its own namespace and cleans its nodes up.
func TestScheduling(t *testing.T) {
	w := newWorld(t)
	w.kindsComeLate()
	scenarios := []struct {
		name string
		why  string
		run  func(*world, string)
	}{
		{
			"planned",
			"planned pods land exactly on their planned nodes, whichever comes first, pod or plan",
			plannedNodes,
		},
		{"moved", "pods follow a plan that changes while they wait", planMoved},
		{
			"refused",
			"which planned nodes refuse pods by a rule that no plan knows is told, with how many each takes",
			refusedNodes,
		},
		{"partial", "a gang of four that fits three starts none and says why", partialGang},
		{"free", "an admitted gang without planned nodes is placed freely and whole", freeGang},
		{"replacement", "a pod of a running gang is replaced alone, on its own place", replacement},
		{"compete", "two PodGroups compete for the same nodes: one runs, then the other", competingGroups},
		{"missing", "a PodGroup with too few pods says how many exist", missingPods},
		{"wrapped", "a planned pod that also has a PodGroup follows its plan", wrappedGroup},
		{"packing", "GPU pods fill started nodes first", packing},
		{"health", "GPU pods stay off bad nodes and prefer healthy ones", badNodes},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			in := *w
			in.t = t
			t.Logf("%s", s.why)
			ns := in.namespace("it-" + s.name)
			s.run(&in, ns)
		})
	}
}

// kindsComeLate starts the scheduler before its kinds are served: it has to
// wait for them.
func (w *world) kindsComeLate() {
	w.t.Helper()
	w.schedule()
	w.installKinds()
}

func plannedNodes(w *world, ns string) {
	w.node("p0", 8, nil)
	w.node("p1", 8, nil)
	w.node("p2", 8, nil)
	for i, podsFirst := range []bool{true, false} {
		name := fmt.Sprintf("job%d", i)
		wl := w.workload(ns, name, 3)
		places := []core.Place{placed("p1", 1), placed("p2", 2)}
		if !podsFirst {
			w.admit(wl, places...)
		}
		for j := range 3 {
			w.create(planned(pod(ns, fmt.Sprintf("%s-%d", name, j), 2), name, "main"))
		}
		if podsFirst {
			w.says(ns, name+"-0", "not admitted")
			w.admit(wl, places...)
		}
		w.allBound(ns, name, 3)
		got := map[string]int{}
		for pod, node := range w.nodes(ns) {
			if pod[:4] == name {
				got[node]++
			}
		}
		if diff := cmp.Diff(map[string]int{"p1": 1, "p2": 2}, got); diff != "" {
			w.t.Errorf("pods on nodes (-want +got):\n%s", diff)
		}
	}
}

func planMoved(w *world, ns string) {
	w.node("m0", 8, nil)
	w.node("m1", 8, nil)
	wl := w.workload(ns, "job", 2)
	w.create(pod(ns, "squatter", 8))
	w.allBound(ns, "squatter", 1)
	taken := w.nodes(ns)["squatter"]
	free := map[string]string{"m0": "m1", "m1": "m0"}[taken]
	w.admit(wl, placed(taken, 2))
	w.create(planned(pod(ns, "job-0", 4), "job", "main"), planned(pod(ns, "job-1", 4), "job", "main"))
	w.says(ns, "job-0", "0 of 2 pods fit", "planned node "+taken, "Insufficient nvidia.com/gpu")
	w.admit(wl, placed(free, 2))
	w.allBound(ns, "job", 2)
	for name, node := range w.nodes(ns) {
		if name != "squatter" && node != free {
			w.t.Errorf("pod %s is on %s, want %s", name, node, free)
		}
	}
}

func partialGang(w *world, ns string) {
	w.node("g0", 8, nil)
	wl := w.workload(ns, "job", 4)
	w.create(pod(ns, "squatter", 2))
	w.allBound(ns, "squatter", 1)
	w.admit(wl, placed("g0", 4))
	for i := range 4 {
		w.create(planned(pod(ns, fmt.Sprintf("job-%d", i), 2), "job", "main"))
	}
	for i := range 4 {
		w.says(
			ns,
			fmt.Sprintf("job-%d", i),
			"Workload "+ns+"/job starts as a whole",
			"3 of 4 pods fit",
			"Insufficient nvidia.com/gpu",
		)
	}
	if n := w.bound(ns, "job"); n != 0 {
		w.t.Errorf("%d pods of a gang that does not fit have nodes", n)
	}
	w.kill(ns, "squatter")
	w.allBound(ns, "job", 4)
}

func freeGang(w *world, ns string) {
	w.node("f0", 4, nil)
	w.node("f1", 4, nil)
	wl := w.workload(ns, "job", 4)
	w.admit(wl)
	for i := range 4 {
		w.create(planned(pod(ns, fmt.Sprintf("job-%d", i), 2), "job", "main"))
	}
	w.allBound(ns, "job", 4)
}

func replacement(w *world, ns string) {
	w.node("r0", 4, nil)
	w.node("r1", 8, nil)
	wl := w.workload(ns, "job", 2)
	w.admit(wl, placed("r0", 1), placed("r1", 1))
	w.create(planned(pod(ns, "job-0", 4), "job", "main"), planned(pod(ns, "job-1", 4), "job", "main"))
	w.allBound(ns, "job", 2)
	where := w.nodes(ns)["job-1"]
	w.finish(ns, "job-1", corev1.PodFailed)
	w.create(planned(pod(ns, "job-2", 4), "job", "main"))
	w.allBound(ns, "job-2", 1)
	if got := w.nodes(ns)["job-2"]; got != where {
		w.t.Errorf("the replacement is on %s, want %s, the place of the failed pod", got, where)
	}
	w.finish(ns, "job-2", corev1.PodSucceeded)
	w.create(planned(pod(ns, "job-3", 4), "job", "main"))
	w.allBound(ns, "job-3", 1)
	if got := w.nodes(ns)["job-3"]; got != where {
		w.t.Errorf("the next completion is on %s, want %s, the only place left", got, where)
	}
}

func competingGroups(w *world, ns string) {
	w.node("c0", 8, nil)
	w.node("c1", 8, nil)
	for _, g := range []string{"a", "b"} {
		w.group(ns, g, 3)
	}
	for i := range 3 {
		for _, g := range []string{"a", "b"} {
			w.create(grouped(pod(ns, fmt.Sprintf("%s-%d", g, i), 4), g))
		}
	}
	winner := ""
	w.eventually("one group has all its nodes", func() string {
		for _, g := range []string{"a", "b"} {
			if w.bound(ns, g) == 3 {
				winner = g
				return ""
			}
		}
		return fmt.Sprintf("a has %d, b has %d", w.bound(ns, "a"), w.bound(ns, "b"))
	})
	loser := map[string]string{"a": "b", "b": "a"}[winner]
	w.says(ns, loser+"-0", "PodGroup "+ns+"/"+loser+" starts as a whole", "1 of 3 pods fit")
	if n := w.bound(ns, loser); n != 0 {
		w.t.Errorf("%d pods of the losing group have nodes", n)
	}
	w.groupPhase(ns, winner, podgroup.PodGroupScheduled)
	w.groupPhase(ns, loser, podgroup.PodGroupPreScheduling)
	for i := range 3 {
		w.finish(ns, fmt.Sprintf("%s-%d", winner, i), corev1.PodSucceeded)
	}
	w.allBound(ns, loser, 3)
	w.groupPhase(ns, winner, podgroup.PodGroupFinished)
}

func (w *world) groupPhase(ns, name string, want podgroup.PodGroupPhase) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("PodGroup %s is %s", name, want), func() string {
		g := &podgroup.PodGroup{}
		if err := w.c.Get(w.ctx, client.ObjectKey{Namespace: ns, Name: name}, g); err != nil {
			return err.Error()
		}
		if g.Status.Phase != want {
			return fmt.Sprintf("%+v", g.Status)
		}
		return ""
	})
}

func missingPods(w *world, ns string) {
	w.node("x0", 8, nil)
	w.create(grouped(pod(ns, "g-0", 1), "g"))
	w.says(ns, "g-0", "PodGroup "+ns+"/g does not exist")
	w.group(ns, "g", 3)
	w.create(grouped(pod(ns, "g-1", 1), "g"))
	w.says(ns, "g-1", "2 of 3 pods exist")
	w.create(grouped(pod(ns, "g-2", 1), "g"), grouped(pod(ns, "g-3", 1), "g"))
	w.allBound(ns, "g", 4)
}

func wrappedGroup(w *world, ns string) {
	w.node("w0", 8, nil)
	w.node("w1", 8, nil)
	w.group(ns, "g", 5)
	wl := w.workload(ns, "job", 2)
	w.admit(wl, placed("w1", 2))
	w.create(
		grouped(planned(pod(ns, "job-0", 1), "job", "main"), "g"),
		grouped(planned(pod(ns, "job-1", 1), "job", "main"), "g"),
	)
	w.allBound(ns, "job", 2)
	if diff := cmp.Diff(map[string]string{"job-0": "w1", "job-1": "w1"}, w.nodes(ns)); diff != "" {
		w.t.Errorf("pods on nodes (-want +got):\n%s", diff)
	}
}

func packing(w *world, ns string) {
	for i := range 3 {
		w.node(fmt.Sprintf("k%d", i), 8, nil)
	}
	used := map[string]int{}
	for i := range 6 {
		name := fmt.Sprintf("p-%d", i)
		w.create(pod(ns, name, 2))
		w.allBound(ns, name, 1)
		used[w.nodes(ns)[name]]++
	}
	if len(used) != 2 {
		w.t.Errorf("six pods of two GPUs use nodes %v, want one full node and one begun", used)
	}
	w.create(pod(ns, "whole", 8))
	w.allBound(ns, "whole", 1)
}

func badNodes(w *world, ns string) {
	w.node("h0", 8, map[string]string{nodehealth.HealthLabel: "ERR"})
	w.node("h1", 8, map[string]string{nodehealth.HealthLabel: "WARN"})
	w.node("h2", 8, nil)
	w.create(pod(ns, "a", 8))
	w.allBound(ns, "a", 1)
	w.create(pod(ns, "b", 8))
	w.allBound(ns, "b", 1)
	w.create(pod(ns, "c", 8))
	w.says(ns, "c", "unhealthy GPUs (autopilot.ibm.com/gpuhealth=ERR)")
	want := map[string]string{"a": "h2", "b": "h1", "c": ""}
	if diff := cmp.Diff(want, w.nodes(ns)); diff != "" {
		w.t.Errorf("pods on nodes (-want +got):\n%s", diff)
	}
	n := &corev1.Node{}
	w.must(w.c.Get(w.ctx, client.ObjectKey{Name: "h0"}, n), "read node")
	n.Labels[nodehealth.HealthLabel] = "PASS"
	w.must(w.c.Update(w.ctx, n), "heal node")
	w.allBound(ns, "c", 1)
}
