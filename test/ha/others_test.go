package ha

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A pod that mlbatch has nothing to do with, bound by any scheduler, uses its node: a job for which
// nothing but this room is there waits, a smaller one does not, and the first one is admitted when
// the pod is gone.
func TestPodsOfOthersUseCapacity(t *testing.T) {
	p := newPlane(t)
	p.begin().ready()
	p.account("kube-public")
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "theirs"}}
	gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("5")}
	theirs.Spec = corev1.PodSpec{
		NodeName:                      "node",
		SchedulerName:                 "default-scheduler",
		AutomountServiceAccountToken:  new(bool),
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{
			{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: gpus, Limits: gpus}},
		},
	}
	p.eventually("their pod is made", func() error { return p.admin.Create(t.Context(), theirs) })
	p.furnish(100, 8)
	p.workload("large", 4, 10, "")
	p.workload("small", 3, 0, "")
	p.eventually("the small one is admitted", func() error { return p.holds("small") })
	if p.holds("large") == nil {
		t.Fatal("what another pod uses was given away")
	}
	if err := p.admin.Delete(t.Context(), theirs, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.eventually(
		"the large one is admitted",
		func() error { return errors.Join(p.holds("large"), p.holds("small")) },
	)
	t.Logf("%s after the pod was gone", time.Since(began).Round(time.Millisecond))
}
