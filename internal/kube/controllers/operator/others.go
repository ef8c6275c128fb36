package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

// tellAgain is how long it is not said again that a job is left to another controller.
const tellAgain = 10 * time.Minute

// standBack says that a job is left to another controller.
func (r *reconciler) standBack(l *look, other string) {
	if other != "" && memo.Due(&r.told, client.ObjectKeyFromObject(l.job), l.now, tellAgain) {
		r.event(l.job, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
			"It is left to the controller in pod %s: mlbatch queues it, and runs it once that pod is gone", other))
	}
}

// all leads to all jobs of the kind.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return foreign.All(ctx, r.Client, r.kind.GVK())
}
