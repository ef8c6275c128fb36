package webhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// stamp writes into a new object the version of the API that it is submitted in, of kinds that
// mean different things by their versions (jobs.Kind.Versions): once it is stored nobody can
// tell. It is called about versions other than the one that is stored.
func stamp(_ context.Context, req admission.Request) admission.Response {
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if err := e.set(req.Kind.Version, "metadata", "annotations", jobs.VersionAnnotation); err != nil {
		return malformed(err)
	}
	return e.response()
}

const pathStamp = "/stamp"
