package webhook_test

import (
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestVersionsAreStamped: what a job was submitted as is written into it, whatever its author
// says, and only about the versions that need it.
func TestVersionsAreStamped(t *testing.T) {
	handlers := serveWith(t, webhook.Options{}, nil, nil, world()...)
	for name, metadata := range map[string]string{
		"plain":     "name: a",
		"annotated": "name: a, annotations: {other: stays}",
		"forged":    "name: a, annotations: {mlbatch.dev/submitted-version: v7}",
	} {
		r := send(
			t,
			handlers,
			ask{path: "/stamp", new: "{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {" + metadata + "}}"},
		)
		m, _ := r.Object["metadata"].(map[string]any)
		notes, _ := m["annotations"].(map[string]any)
		if !r.Allowed || notes["mlbatch.dev/submitted-version"] != "v1" ||
			name == "annotated" && notes["other"] != "stays" {
			t.Errorf("%s: %v", name, r.Object)
		}
	}
	mutating, _ := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	h := mutatingNamed(t, "smpijob.mlbatch.dev", jobs.SchedulerNames())
	if *h.MatchPolicy != admissionregistrationv1.Exact ||
		!slices.Equal(h.Rules[0].APIVersions, []string{"v1"}) ||
		*h.FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf(
			"it is called about %v (%s), and a failure is %s",
			h.Rules[0].APIVersions,
			*h.MatchPolicy,
			*h.FailurePolicy,
		)
	}
	for _, other := range mutating.Webhooks {
		if other.Name != h.Name && *other.MatchPolicy != admissionregistrationv1.Equivalent {
			t.Errorf("%s does not see other versions of its kind", other.Name)
		}
	}
}
