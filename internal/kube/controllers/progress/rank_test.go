package progress

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// manyPods are the pods of a job of two pod sets, in no order; the name of each ends with its rank.
func manyPods(n int) (*kueue.Workload, []corev1.Pod) {
	w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "master"}, {Name: "worker"}}}}
	pods := make([]corev1.Pod, n)
	for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		set, index := "worker", i-1
		if i == 0 {
			set, index = "master", 0
		}
		pods[at] = corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("train-%s-%d", set, i),
			Labels: map[string]string{
				kueue.PodSetLabel: set, batchv1.JobCompletionIndexAnnotation: strconv.Itoa(index), "app": "train",
				"kueue.x-k8s.io/managed": "true", "batch.kubernetes.io/job-name": "train",
			},
		}}
	}
	return w, pods
}

// TestRanks: pod sets come in their order, then indexes as numbers, then names; what failed has no rank.
func TestRanks(t *testing.T) {
	w, pods := manyPods(300)
	for i, k := range ranked(w, pods) {
		if k.rank != int32(i) || k.pod.Name != fmt.Sprintf("train-%s-%d", k.pod.Labels[kueue.PodSetLabel], i) {
			t.Fatalf("rank %d is %s", k.rank, k.pod.Name)
		}
	}
	bare := func(name string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	got := ranked(w, []corev1.Pod{bare("p-10", ""), bare("p-9", ""), bare("p-8", corev1.PodFailed)})
	if len(got) != 2 || got[0].pod.Name != "p-9" || got[1].pod.Name != "p-10" {
		t.Errorf("without labels: %v", got)
	}
}

// BenchmarkRanked is what each look at a job of 10,000 pods begins with, whenever one of them has told of a step.
func BenchmarkRanked(b *testing.B) {
	w, pods := manyPods(10_000)
	for b.Loop() {
		ranked(w, pods)
	}
}
