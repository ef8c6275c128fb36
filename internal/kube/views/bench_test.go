package views_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// crowded is a world of many jobs, whose lists cost what they cost a cache: no copies are made.
type crowded struct {
	client.Client
	jobs      []batchv1.Job
	workloads []kueue.Workload
	pods      []corev1.Pod
}

func (c *crowded) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	switch l := list.(type) {
	case *batchv1.JobList:
		l.Items = c.jobs
	case *kueue.WorkloadList:
		l.Items = c.workloads
	case *corev1.PodList:
		l.Items = c.pods
	default:
		return c.Client.List(ctx, list, o...)
	}
	return nil
}

// BenchmarkList is what an answer about 10,000 jobs of 4 GPUs costs, of which 4,000 run, with its JSON: what
// a controller does for mlbatch ps -A.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	c := &crowded{Client: w.Client}
	for i := range 10_000 {
		node := ""
		if i%5 < 2 {
			node = fmt.Sprintf("node-%d", i%1000)
		}
		for _, o := range queued(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("job-%05d", i), node) {
			switch o := o.(type) {
			case *batchv1.Job:
				c.jobs = append(c.jobs, *o)
			case *kueue.Workload:
				o.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						"cpu":            resource.MustParse("8"),
						"memory":         resource.MustParse("64Gi"),
						"nvidia.com/gpu": resource.MustParse("4"),
					},
				}}}
				c.workloads = append(c.workloads, *o)
			case *corev1.Pod:
				c.pods = append(c.pods, *o)
			}
		}
	}
	w.Client = c
	h := w.handler(rights{"root everything"})
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, root+"/jobviews", nil)
		r.Header.Set("User", "root")
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code != http.StatusOK || answer.Body.Len() < 1<<20 {
			b.Fatalf("%d, %d bytes", answer.Code, answer.Body.Len())
		}
	}
}
