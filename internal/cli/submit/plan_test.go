package submit_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/cli/submit"
)

// TestPlansAskForWhatTheJobSays: how near its pods want to be by annotations of the job itself is part of the question.
func TestPlansAskForWhatTheJobSays(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name:        "train",
		Annotations: map[string]string{"kai.scheduler/topology-required-placement": "rack"},
	}}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
	plan, err := submit.PlanOf(job)
	if err != nil {
		t.Fatal(err)
	}
	if r := plan.PodSets[0].TopologyRequest; r == nil || r.Required == nil || *r.Required != "rack" {
		t.Errorf("the plan asks for %+v", r)
	}
}
