package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A user cannot give a wrapped job more pods than its AppWrapper was admitted with.
func TestWrappedJobsKeepTheirPods(t *testing.T) {
	k := trainingKinds()[0]
	cases := map[string]struct {
		component, patch string
		object           client.Object
	}{
		"PyTorchJob": {
			strings.Replace(
				k.manifest("inner", "", "OnFailure", runFor("400s")),
				", labels: {kueue.x-k8s.io/queue-name: default-queue}",
				"",
				1,
			),
			`{"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 9}}}}`,
			trainingObjects()[0],
		},
		"Job": {
			"{apiVersion: batch/v1, kind: Job, metadata: {name: inner}, spec: {parallelism: 1, completions: 9, template: {spec: " + fmt.Sprintf(
				podSpec,
				"Never",
			) + "}}}",
			`{"spec": {"parallelism": 9}}`,
			&batchv1.Job{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			awaitEmpty(t, "blue")
			create(t, user(t, "alice"), wrap(tc.component), "blue")
			eventually(t, "it runs", inPhase(t, "Running", "blue", "wrapped"))
			tc.object.SetNamespace("blue")
			tc.object.SetName("inner")
			err := user(
				t,
				"alice",
			).Patch(t.Context(), tc.object, client.RawPatch(types.MergePatchType, []byte(tc.patch)))
			if err == nil || !strings.Contains(err.Error(), "it is a part of AppWrapper wrapped") {
				t.Errorf("alice changes it: %v", err)
			}
			awaitEmpty(t, "blue")
		})
	}
}
