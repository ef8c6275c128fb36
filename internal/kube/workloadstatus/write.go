// Package workloadstatus writes Workload.status, and is the only package that
// does: a test in internal/arch sees to it.
//
// Many have a say in a status: the decision loop (package apply), the life cycle
// of workloads (controllers/workload), the controllers of jobs (controllers/job)
// and of provisioning checks (controllers/provisioning), and programs of others
// that answer admission checks. One policy keeps each from undoing what another
// said. A writer has made the whole status from the object as it read it,
// and it is written only if the object is still that one (resourceVersion). If it
// is not, nothing is written and the writer is Overtaken: it looks at the newer
// object, which is on its way to its cache, and makes the status anew, or finds
// that it has nothing to say any more. Nothing is merged and nothing forced, so
// what is stored is always what one writer made from all that was said before. Why
// not fields of several owners: docs/adr/0015-one-status-writer.md.
package workloadstatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Write changes the status of a Workload to next, on condition that the object is
// still the one that was read. It updates w to what the API server stored. No
// difference sends nothing. It sends the whole object: the API server takes a
// tenth less time for that than for a patch, which it has to encode, merge and
// decode.
func Write(ctx context.Context, c client.Client, w *kueue.Workload, next kueue.WorkloadStatus) error {
	if equality.Semantic.DeepEqual(w.Status, next) {
		return nil
	}
	stored := w.DeepCopy()
	stored.Status = next
	if err := c.Status().Update(ctx, stored); err != nil {
		return err
	}
	*w = *stored
	return nil
}

// Overtaken reports whether a write was refused because the object is not as it was
// read: another writer was faster, or it is gone. That is no fault: the writer looks
// again.
func Overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
