package webhook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestAnotherKind: whoever reaches the port can ask any question about any object. Whatever the
// answer is, nothing breaks of it.
func TestAnotherKind(t *testing.T) {
	handlers := serveWith(t, webhook.Options{}, nil, nil, world()...)
	for _, text := range []string{
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: x}}",
		"{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: x, namespace: blue}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: x, namespace: blue}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: blue}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: blue}, spec: {}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: x}}",
		"{apiVersion: example.com/v1, kind: Thing, metadata: {name: x, namespace: blue}, spec: []}",
	} {
		for _, path := range slices.Sorted(maps.Keys(handlers)) {
			for _, old := range []string{"", text} {
				t.Run(path, func(t *testing.T) {
					if r := send(t, handlers, ask{path: path, old: old, new: text}); strings.Contains(r.Message, "panic") {
						t.Errorf("asked about %s: %s", text, r.Message)
					}
				})
			}
		}
	}
}
