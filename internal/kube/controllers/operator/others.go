package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// tellAgain is how long it is not said again that a job is left to another controller.
const tellAgain = 10 * time.Minute

// standBack says that a job is left to another controller.
func (r *reconciler) standBack(l *look, other string) {
	key := client.ObjectKeyFromObject(l.job)
	if other == "" || ago(r.told.Get(key), l.now) < tellAgain {
		return
	}
	r.told.Set(key, l.now)
	r.event(l.job, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
		"It is left to the controller in pod %s: mlbatch queues it, and runs it once that pod is gone", other))
}

// all leads to all jobs of the kind.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	made, err := r.Client.Scheme().New(r.kind.ListGVK())
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil
	}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache was filled before anything is watched
	}
	var out []reconcile.Request
	_ = apimeta.EachListItem(list, func(o runtime.Object) error { // what it is given returns no error
		if job, is := o.(client.Object); is {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
		}
		return nil
	})
	return out
}
