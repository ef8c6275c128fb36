package leaderworkerset

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// standBack says that a set is left to another controller.
func (r *reconciler) standBack(l *api.LeaderWorkerSet, other string) {
	if other != "" && r.told.again(client.ObjectKeyFromObject(l), r.Clock.Now()) {
		r.event(l, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
			"It is left to the controller in pod %s: mlbatch runs it once that pod is gone", other))
	}
}

// all leads to all sets.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list api.LeaderWorkerSetList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache was filled before anything is watched
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Pauses: until the cache shows what was written, and until a name that is taken is
// tried again.
const (
	conflictPause = 50 * time.Millisecond
	takenPause    = 10 * time.Second
	// tellAgain is how long the same is not said again of a set.
	tellAgain = 10 * time.Minute
)

// told remembers when something was last said of a set.
type told struct {
	mu  sync.Mutex
	set map[types.NamespacedName]time.Time
}

// again reports whether it is time to say it again, and notes that it is said.
func (t *told) again(name types.NamespacedName, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.set[name]; known && now.Sub(last) < tellAgain {
		return false
	}
	if t.set == nil {
		t.set = map[types.NamespacedName]time.Time{}
	}
	t.set[name] = now
	return true
}

func (t *told) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.set, name)
}
