package jobs_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkSee is what each event of a pod costs in a job of 1,000, beside Compile and Project.
func BenchmarkSee(b *testing.B) {
	p := plan()
	p.Roles[1].Count = 1000
	var pods []*corev1.Pod
	for i := range 1000 {
		pods = append(
			pods,
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("j-worker-", i)},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			},
		)
	}
	for b.Loop() {
		p.See(pods)
	}
}
