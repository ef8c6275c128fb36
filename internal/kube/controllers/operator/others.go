package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// OtherIndex is the name of the cache index from the images of other controllers, as in
// jobs.Operated.Others, to their pods that run.
const OtherIndex = "mlbatch.dev/other-operator"

// IndexOthers returns whose controllers a pod runs, for OtherIndex.
func IndexOthers(kinds jobs.Kinds) client.IndexerFunc {
	return func(o client.Object) []string {
		var out []string
		for i := range kinds {
			if k := &kinds[i]; k.Operated != nil {
				out = append(out, runs(o, k.Operated.Others)...)
			}
		}
		return out
	}
}

// runs returns which of some images a pod runs.
func runs(o client.Object, images []string) []string {
	pod, is := o.(*corev1.Pod)
	if !is || pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	var out []string
	for i := range pod.Spec.Containers {
		path := imagePath(pod.Spec.Containers[i].Image)
		for _, image := range images {
			if path == image || strings.HasSuffix(path, "/"+image) {
				out = append(out, image)
			}
		}
	}
	return out
}

// imagePath is an image without tag and digest.
func imagePath(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// other finds a pod of another controller of the kind; "" if there is none. Pods where
// jobs are queued are none, whatever they run: a tenant could stop everybody's jobs.
func (r *reconciler) other(ctx context.Context) (string, error) {
	for _, image := range r.kind.Operated.Others {
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.MatchingFields{OtherIndex: image}, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("look for other controllers: %w", err)
		}
		for i := range pods.Items {
			tenants, err := r.hasTenants(ctx, pods.Items[i].Namespace)
			if err != nil {
				return "", err
			}
			if !tenants {
				return pods.Items[i].Namespace + "/" + pods.Items[i].Name, nil
			}
		}
	}
	return "", nil
}

// hasTenants reports whether a namespace is a team's, or has a LocalQueue.
func (r *reconciler) hasTenants(ctx context.Context, name string) (bool, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &ns, client.UnsafeDisableDeepCopy); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	if ns.Labels[kueue.TeamNamespaceLabel] != "" {
		return true, nil
	}
	var queues kueue.LocalQueueList
	if err := r.Client.List(ctx, &queues, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
		return true, fmt.Errorf("list LocalQueues of namespace %s: %w", name, err)
	}
	return len(queues.Items) > 0, nil
}

// tellAgain is how long it is not said again that a job is left to another controller.
const tellAgain = 10 * time.Minute

// standBack says that a job is left to another controller.
func (r *reconciler) standBack(l *look, other string) {
	key := client.ObjectKeyFromObject(l.job)
	if other == "" || r.told.since(key, l.now) < tellAgain {
		return
	}
	r.told.note(key, l.now)
	r.event(l.job, corev1.EventTypeWarning, "LeftToOther", fmt.Sprintf(
		"It is left to the controller in pod %s: mlbatch queues it, and runs it once that pod is gone", other))
}

// comesOrGoes lets through that pods of other controllers begin and end.
func comesOrGoes(images []string) predicate.Predicate {
	is := func(o client.Object) bool { return len(runs(o, images)) > 0 }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
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
