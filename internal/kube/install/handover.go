package install

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handOver has a definition that others brought call us where it called them by other means: by a
// Service and not by a URL, or the other way round. To apply ours would leave both, which the API
// server refuses, since what others own stays.
func handOver(ctx context.Context, c client.Client, ours *apiextensionsv1.CustomResourceDefinition) error {
	to := ours.Spec.Conversion
	if to == nil || to.Webhook == nil || to.Webhook.ClientConfig == nil {
		return nil
	}
	have := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(ours), have); err != nil {
		return client.IgnoreNotFound(err)
	}
	if have.Spec.Conversion == nil || have.Spec.Conversion.Webhook == nil || have.Spec.Conversion.Webhook.ClientConfig == nil {
		return nil
	}
	is, want := have.Spec.Conversion.Webhook.ClientConfig, to.Webhook.ClientConfig
	if (is.URL == nil) == (want.URL == nil) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{
		"url": want.URL, "service": want.Service, "caBundle": want.CABundle,
	}}}}})
	if err != nil {
		return fmt.Errorf("hand over %s: %w", ours.Name, err)
	}
	return c.Patch(ctx, have, client.RawPatch(types.MergePatchType, patch))
}
