package gather

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Capacity reads how the capacity of all flavors stands.
func Capacity(ctx context.Context, r client.Reader) ([]view.FlavorCapacity, error) {
	var flavors kueue.ResourceFlavorList
	if err := r.List(ctx, &flavors); err != nil {
		return nil, fmt.Errorf("list ResourceFlavors: %w", err)
	}
	q, _, err := readQuotas(ctx, r)
	if err != nil {
		return nil, err
	}
	return view.CapacityOf(flavors.Items, q.queues), nil
}
