package operator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/test/toy"
)

// exited has a pod fail with an exit code.
func exited(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode:   code,
				Reason:     "Error",
				FinishedAt: metav1.NewTime(time.Unix(5, 0)),
			},
		}}}
	}
}

// TestFailuresAreRemembered: with a failure it is remembered which pod failed, and why, in the same write; what
// another process has remembered stays.
func TestFailuresAreRemembered(t *testing.T) {
	saved := time.Unix(1<<33, 0).UTC().Format(time.RFC3339) // of the future, which counts for nothing
	b := newBench(t, aToy("lab", func(x *toy.Toy) {
		x.Spec.Pods = 2
		x.Annotations = map[string]string{history.CheckpointAnnotation: saved}
	}))
	b.run()
	b.becomes("x-0", corev1.PodRunning)
	b.becomes("x-1", corev1.PodFailed, exited(1))
	b.run()
	b.anew()
	b.becomes("x-0", corev1.PodFailed, exited(139))
	b.run()
	all := b.recovery("lab").Attempts.Attempts
	if len(all) != 2 {
		t.Fatalf("it remembers %+v", all)
	}
	first, second := all[0], all[1]
	if first.Pod != "x-1" || first.Category != "UserError" || *first.ExitCode != 1 || *first.Rank != 1 ||
		first.ReplacedPods != 1 {
		t.Errorf("of the first failure it remembers %+v", first)
	}
	if second.Pod != "x-0" || second.Category != "Crash" || *second.ExitCode != 139 || *second.Rank != 0 ||
		second.Checkpoint != nil {
		t.Errorf("of the second it remembers %+v", second)
	}
}
