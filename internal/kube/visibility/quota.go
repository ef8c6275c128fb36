package visibility

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// quotas are those of the ClusterQueue of a LocalQueue that was asked about. Whoever asks about a
// ClusterQueue reads them there.
func (h *handler) quotas(ctx context.Context, info *request.RequestInfo) ([]v1beta2.QueueQuota, error) {
	if info.Resource != localQueues {
		return nil, nil
	}
	name, known, err := h.lines.QueueOf(info.Namespace, info.Name)
	if err != nil {
		return nil, later(err)
	}
	queue := &kueue.ClusterQueue{}
	err = client.IgnoreNotFound(h.workloads.Get(ctx, client.ObjectKey{Name: name}, queue))
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("read ClusterQueue %s: %w", name, err))
	case !known || queue.Name == "":
		return nil, nil
	}
	is := view.ClusterQueueOf(queue, nil, view.LoadOf(queue.Status))
	var out []v1beta2.QueueQuota
	for _, f := range is.Flavors {
		for _, own := range f.Quotas {
			used := is.Reserved[core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}]
			limit := func(a *core.Amount) *resource.Quantity {
				if a == nil {
					return nil
				}
				return quantity(own.Resource, *a)
			}
			out = append(out, v1beta2.QueueQuota{
				Flavor:         f.Flavor,
				Resource:       own.Resource,
				Nominal:        convert.Quantity(own.Resource, own.Nominal),
				BorrowingLimit: limit(own.Borrowing),
				LendingLimit:   limit(own.Lending),
				Used: convert.Quantity(
					own.Resource,
					used,
				),
				Borrowed: convert.Quantity(own.Resource, is.Borrowed(own, used)),
			})
		}
	}
	return out, nil
}
