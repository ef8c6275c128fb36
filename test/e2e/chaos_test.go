package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Processes may die at any moment. Each round submits jobs of both teams, kills
// one process at a random point and goes on: no job is lost, no node is used
// twice, no quota is exceeded, and everything finishes.
func TestKillAnything(t *testing.T) {
	const seed = 20261121
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round, victim := range []string{"controller", "scheduler", "kube-apiserver", "etcd", "kube-controller-manager", "controller", "scheduler"} {
		t.Run(fmt.Sprintf("%d-%s", round, victim), func(t *testing.T) {
			settleThroughFaults(t, "blue", "red")
			names := map[string][]string{
				"blue": times(t, 5, user(t, "alice"), "short", "blue"),
				"red":  times(t, 3, user(t, "bob"), "short", "red"),
			}
			// A moment somewhere in the middle: after this many jobs succeeded.
			after := rnd.IntN(6)
			eventually(t, "the demo is under way", func() string {
				if n := succeeded(t, names); n < after {
					return fmt.Sprintf("%d jobs of %d succeeded", n, after)
				}
				return ""
			})
			if err := cluster.Kill(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			always(t, "capacity and quota are never exceeded", exceeded(t), func() string {
				if n := succeeded(t, names); n != 8 {
					return fmt.Sprintf("%d of 8 jobs succeeded", n)
				}
				return ""
			})
		})
	}
}

// succeeded counts finished AppWrappers. While the API server is away nobody
// can tell, which counts as none.
func succeeded(t *testing.T, names map[string][]string) int {
	n := 0
	for ns, list := range names {
		var all aw.AppWrapperList
		if err := user(t, "").List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			return 0
		}
		for _, w := range all.Items {
			if slices.Contains(list, w.Name) && w.Status.Phase == aw.AppWrapperSucceeded {
				n++
			}
		}
	}
	return n
}

// exceeded is a check that no node holds more GPUs than it has, and that no
// more than the cohort's quota is admitted.
func exceeded(t *testing.T) func() string {
	c := user(t, "")
	return func() string {
		var ps corev1.PodList
		var ws kueue.WorkloadList
		if c.List(t.Context(), &ps) != nil || c.List(t.Context(), &ws) != nil {
			return "" // away for the moment
		}
		used := map[string]int64{}
		for _, p := range ps.Items {
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Spec.NodeName == "" {
				continue
			}
			for _, k := range p.Spec.Containers {
				q := k.Resources.Limits["nvidia.com/gpu"]
				used[p.Spec.NodeName] += q.Value()
			}
		}
		for node, n := range used {
			if n > 8 {
				return fmt.Sprintf("pods on %s use %d GPUs of 8", node, n)
			}
		}
		var admitted int64
		for _, w := range ws.Items {
			if w.Status.Admission == nil || isFinished(&w) {
				continue
			}
			for _, ps := range w.Status.Admission.PodSetAssignments {
				q := ps.ResourceUsage["nvidia.com/gpu"]
				admitted += q.Value()
			}
		}
		if admitted > 24 {
			return fmt.Sprintf("%d GPUs are admitted of 24", admitted)
		}
		return ""
	}
}

// settleThroughFaults waits until the cluster answers again, then empties it.
func settleThroughFaults(t *testing.T, namespaces ...string) {
	t.Helper()
	eventually(t, "the API server comes back", func() string {
		if err := user(t, "").List(t.Context(), &kueue.LocalQueueList{}); err != nil {
			return err.Error()
		}
		return ""
	})
	settle(t, namespaces...)
}
