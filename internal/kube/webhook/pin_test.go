package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestQueuesArePinnedWhenTheyAreCreated: their finalizer is there when the creation is answered, in both
// versions and once, and nothing else is changed. Who cannot be asked keeps nobody from creating one.
func TestQueuesArePinnedWhenTheyAreCreated(t *testing.T) {
	for kind, resource := range map[string]string{"ClusterQueue": "clusterqueues", "ResourceFlavor": "resourceflavors"} {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			for before, want := range map[string]string{
				"": "[kueue.x-k8s.io/resource-in-use]", "finalizers: [a.b/c]": "[a.b/c kueue.x-k8s.io/resource-in-use]", "finalizers: [kueue.x-k8s.io/resource-in-use]": "[kueue.x-k8s.io/resource-in-use]",
			} {
				manifest := fmt.Sprintf(
					"{apiVersion: kueue.x-k8s.io/%s, kind: %s, metadata: {name: q, labels: {a: b}, %s}, spec: {own: 1}}",
					version,
					kind,
					before,
				)
				r := send(t, serve(t, nil, world()...), ask{path: "/pin", new: strings.Replace(manifest, ", }", "}", 1)})
				metadata, _ := r.Object["metadata"].(map[string]any)
				spec, _ := r.Object["spec"].(map[string]any)
				if got := fmt.Sprint(
					metadata["finalizers"],
				); !r.Allowed || got != want || len(spec) != 1 ||
					len(metadata) != 3 {
					t.Errorf("%s %s with %q: %v", kind, version, before, r.Object)
				}
			}
		}
		mutating, _ := webhook.Configurations(kinds.All(), webhook.AtURL("https://127.0.0.1:1", nil), nil)
		asked := ""
		for _, h := range mutating.Webhooks {
			for _, rule := range h.Rules {
				if strings.Contains(fmt.Sprint(rule.Resources), resource) {
					asked += fmt.Sprint(rule.Operations, rule.APIVersions, *h.FailurePolicy)
				}
			}
		}
		if asked != "[CREATE] [v1beta1 v1beta2]Ignore" {
			t.Errorf("%s: the API server asks %s", resource, asked)
		}
	}
}
