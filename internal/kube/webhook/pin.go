package webhook

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// pinHook is the webhook that gives queues and flavors their finalizer. Where it has no answer their
// controller does so a moment later.
func pinHook() hook {
	resources := []string{"clusterqueues", "resourceflavors"}
	return hook{
		name:     "mqueues",
		path:     pathPin,
		rule:     rule(kueue.GroupVersion.Group, queueVersions(), resources, create),
		optional: true,
	}
}

// pin writes the finalizer into a new object that stays while it is used: it is there when the creation
// is answered, so that one which is deleted at once waits for what uses it by then.
func pin(_ context.Context, req admission.Request) admission.Response {
	e, err := newEdit(req.Object.Raw)
	if err != nil {
		return malformed(err)
	}
	if slices.Contains(e.object.GetFinalizers(), kueue.ResourceInUseFinalizer) {
		return e.response()
	}
	if err := e.add(kueue.ResourceInUseFinalizer, "metadata", "finalizers"); err != nil {
		return malformed(err)
	}
	return e.response()
}

const pathPin = "/pin"
