package leaderworkerset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
)

// OtherIndex is the name of the cache index to pods that run another controller of
// LeaderWorkerSets.
const OtherIndex = "mlbatch.dev/other-leaderworkerset"

// IndexOther returns whether a pod runs one, for OtherIndex.
func IndexOther(o client.Object) []string {
	if !isOther(o) {
		return nil
	}
	return []string{leaderworkerset.Image}
}

func isOther(o client.Object) bool {
	p, is := o.(*corev1.Pod)
	return is && p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		path, _, _ := strings.Cut(c.Image, "@")
		if colon := strings.LastIndex(path, ":"); colon > strings.LastIndex(path, "/") {
			path = path[:colon]
		}
		return path == leaderworkerset.Image || strings.HasSuffix(path, "/"+leaderworkerset.Image)
	})
}

// other finds a pod of another controller; "" if there is none. Pods where jobs are
// queued are none, whatever they run: a tenant could stop everybody's sets.
func (r *reconciler) other(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{OtherIndex: leaderworkerset.Image}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("look for other controllers: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		var ns corev1.Namespace
		if err := r.Client.Get(ctx, types.NamespacedName{Name: p.Namespace}, &ns, client.UnsafeDisableDeepCopy); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return "", fmt.Errorf("read namespace %s: %w", p.Namespace, err)
			}
			continue
		}
		var queues kueue.LocalQueueList
		if err := r.Client.List(ctx, &queues, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list LocalQueues of namespace %s: %w", p.Namespace, err)
		}
		if ns.Labels[kueue.TeamNamespaceLabel] == "" && len(queues.Items) == 0 {
			return p.Namespace + "/" + p.Name, nil
		}
	}
	return "", nil
}

// standBack says that a set is left to another controller.
func (r *reconciler) standBack(l *api.LeaderWorkerSet, other string) {
	if other != "" && r.told.again(client.ObjectKeyFromObject(l), r.Clock.Now()) {
		r.event(l, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
			"It is left to the controller in pod %s: mlbatch runs it once that pod is gone", other))
	}
}

// comesOrGoes lets through that pods of other controllers begin and end.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isOther(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isOther(e.ObjectOld) != isOther(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return isOther(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
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
