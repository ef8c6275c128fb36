package install

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handOver has a definition that others brought call us where it called them by other means: by a
// Service and not by a URL, or the other way round. To apply ours would leave both, which the API
// server refuses, since what others own stays.
func handOver(ctx context.Context, c client.Client, ours *unstructured.Unstructured) error {
	want := webhookClient(ours)
	if want == nil {
		return nil
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(definitionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(ours), have); err != nil {
		return client.IgnoreNotFound(err)
	}
	is := webhookClient(have)
	if is == nil || (is["url"] == nil) == (want["url"] == nil) {
		return nil
	}
	patch, err := json.Marshal(
		map[string]any{
			"spec": map[string]any{
				"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{
					"url": want["url"], "service": want["service"], "caBundle": want["caBundle"],
				}}},
			},
		},
	)
	if err != nil {
		return fmt.Errorf("hand over %s: %w", ours.GetName(), err)
	}
	return c.Patch(ctx, have, client.RawPatch(types.MergePatchType, patch))
}

// webhookClient is where a definition's conversion webhook is called, nil if there is none.
func webhookClient(definition *unstructured.Unstructured) map[string]any {
	at, _, err := unstructured.NestedMap(definition.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil {
		return nil
	}
	return at
}
