package cli

import (
	"context"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Jobs are all jobs of a namespace, or of all if it is "", as a controller tells them: one request, however many
// there are. Where none does, the same list is made here of what the user may read.
func Jobs(ctx context.Context, c client.Reader, namespace string, in client.ListOptions) (*view.JobList, error) {
	var served view.JobViewList
	// One page: it is computed for the request, and would be again for the next.
	err := c.List(ctx, &served, &in, client.InNamespace(namespace), client.Limit(math.MaxInt32))
	switch {
	case err == nil && !served.At.IsZero():
		return served.Jobs(), nil
	case err == nil, unserved(err):
		return gather.Jobs(ctx, c, namespace, in)
	}
	return nil, err //nolint:wrapcheck // as it would be of a list that is read here
}

// unserved reports whether an error means that no controller answers what is asked, or not to this user.
func unserved(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
}

// Nodes are how the nodes stand, as a controller tells it; where none does, as the user may read. seen is false if the
// pods on them are not counted.
func Nodes(ctx context.Context, c client.Reader) (rows []view.Node, seen bool, err error) {
	var served view.NodeViewList
	err = c.List(ctx, &served, client.Limit(math.MaxInt32))
	switch {
	case err == nil && !served.At.IsZero():
		rows, seen = served.Nodes()
		return rows, seen, nil
	case err == nil, unserved(err):
		return gather.Nodes(ctx, c)
	}
	return nil, false, err //nolint:wrapcheck // as it would be of a list that is read here
}
