package e2e_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A tenant cannot make a controller forget a pod, which would then outlive the eviction of
// its job and keep the quota that others wait for.
func TestTenantCannotTakePodsFromTheirJobs(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	for kind, manifest := range map[string]string{
		"Job":        "{apiVersion: batch/v1, kind: Job, metadata: {name: keeps-job, " + inDefaultQueue + "}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: [sleep, \"1000000\"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}",
		"PyTorchJob": "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: keeps-torch, " + inDefaultQueue + "}, spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: i, command: [sleep, \"1000000\"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}}",
	} {
		t.Run(kind, func(t *testing.T) {
			name := create(t, alice, manifest, "blue")
			eventually(t, "it runs", inState(t, "blue", name, 1, 0))
			p := named(t, "blue", name)[0]
			label := "mlbatch.dev/job-uid"
			if kind == "Job" {
				label = "batch.kubernetes.io/controller-uid"
			}
			for field, patch := range map[string]string{
				"metadata.ownerReferences": `{"metadata":{"ownerReferences":null}}`,
				"metadata.labels":          `{"metadata":{"labels":{"` + label + `":null}}}`,
				"metadata.annotations":     `{"metadata":{"annotations":{"kueue.x-k8s.io/workload":"other"}}}`,
			} {
				err := alice.Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
				if err == nil || !strings.Contains(err.Error(), field) {
					t.Errorf("%s: %v", patch, err)
				}
			}
			if err := alice.Patch(
				t.Context(),
				&p,
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"yes"}}}`)),
			); err != nil {
				t.Errorf("a label besides: %v", err)
			}
			if err := alice.Delete(t.Context(), &corev1.Pod{ObjectMeta: p.ObjectMeta}); err != nil {
				t.Error(err)
			}
		})
	}
}
