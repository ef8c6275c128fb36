package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// BenchmarkConvertWorkload measures what every write of a Workload costs us: the
// API server keeps a cache of each served version and has each change converted
// for the other one.
func BenchmarkConvertWorkload(b *testing.B) {
	const stored = `{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"job-train-8c2f1","namespace":"blue","uid":"0994c4f7-dec6-4a1c-84cf-d787fd0610da","resourceVersion":"1","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"kueue.x-k8s.io/job-uid":"0994c4f7-dec6-4a1c-84cf-d787fd0610da"},"finalizers":["kueue.x-k8s.io/resource-in-use"],"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"train","uid":"0994c4f7-dec6-4a1c-84cf-d787fd0610da","controller":true,"blockOwnerDeletion":true}]},"spec":{"active":true,"priority":5,"queueName":"default-queue","priorityClassRef":{"group":"scheduling.k8s.io","kind":"PriorityClass","name":"default-priority"},"podSets":[{"name":"main","count":4,"template":{"metadata":{"labels":{"app":"train"}},"spec":{"restartPolicy":"Never","schedulerName":"mlbatch-scheduler","terminationGracePeriodSeconds":30,"containers":[{"name":"main","image":"busybox","command":["sh","-c","sleep 30"],"resources":{"requests":{"cpu":"1","nvidia.com/gpu":"4"},"limits":{"nvidia.com/gpu":"4"}}}]}}}]},"status":{"conditions":[{"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"Quota reserved in ClusterQueue blue-cluster-queue","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Admitted","status":"True","reason":"Admitted","message":"The workload is admitted","lastTransitionTime":"2026-01-01T00:00:00Z"}],"admission":{"clusterQueue":"blue-cluster-queue","podSetAssignments":[{"name":"main","count":4,"flavors":{"cpu":"default-flavor","nvidia.com/gpu":"default-flavor"},"resourceUsage":{"cpu":"4","nvidia.com/gpu":"16"},"topologyAssignment":{"levels":["kubernetes.io/hostname"],"slices":[{"domainCount":2,"valuesPerLevel":[{"individual":{"roots":["node-0","node-1"]}}],"podCounts":{"universal":2}}]}}]}}}`
	handlers, err := webhook.Handlers(webhook.Cluster{Scheme: scheme.New()}, webhook.Options{})
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(&apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
		UID:               "u",
		DesiredAPIVersion: "kueue.x-k8s.io/v1beta1",
		Objects:           []runtime.RawExtension{{Raw: []byte(stored)}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		handlers["/convert"].ServeHTTP(
			w,
			httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/convert", bytes.NewReader(body)),
		)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
