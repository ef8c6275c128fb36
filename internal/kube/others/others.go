// Package others finds controllers of others for kinds that mlbatch runs: where one runs, its
// jobs are left to it.
package others

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Index is the name of the cache index from images of other controllers to pods that run them.
const Index = "mlbatch.dev/other-controller"

// IndexImages returns which of some images a pod runs, for Index. Images end with these, without
// their tags, such as kubeflow/training-operator.
func IndexImages(images []string) client.IndexerFunc {
	return func(o client.Object) []string { return runs(o, images) }
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

// Find finds a pod that runs one of some images; "" if there is none. Pods where jobs are queued
// are none, whatever they run: a tenant could stop everybody's jobs. The cache must have Index.
func Find(ctx context.Context, c client.Reader, images ...string) (string, error) {
	for _, image := range images {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.MatchingFields{Index: image}, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("look for other controllers: %w", err)
		}
		for i := range pods.Items {
			tenants, err := hasTenants(ctx, c, pods.Items[i].Namespace)
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
func hasTenants(ctx context.Context, c client.Reader, name string) (bool, error) {
	var ns corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &ns, client.UnsafeDisableDeepCopy); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	if ns.Labels[kueue.TeamNamespaceLabel] != "" {
		return true, nil
	}
	var queues kueue.LocalQueueList
	if err := c.List(ctx, &queues, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
		return true, fmt.Errorf("list LocalQueues of namespace %s: %w", name, err)
	}
	return len(queues.Items) > 0, nil
}

// ComeOrGo lets through that pods of other controllers begin and end.
func ComeOrGo(images ...string) predicate.Predicate {
	is := func(o client.Object) bool { return len(runs(o, images)) > 0 }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
