// Package foreign finds controllers of others for kinds that mlbatch runs: where one runs, its
// jobs are left to it.
package foreign

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
		if err := c.List(
			ctx,
			&pods,
			client.MatchingFields{Index: image},
			client.UnsafeDisableDeepCopy,
		); err != nil {
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

// Watch has a controller look at all of its jobs, to which all leads, whenever Find may say
// something else of some images than before: a pod that runs one begins or ends, or its namespace
// becomes a tenant's or is one no longer.
func Watch(b *builder.Builder, c client.Reader, all handler.MapFunc, images ...string) *builder.Builder {
	inNamespace := handler.EnqueueRequestsFromMapFunc(whereOneRuns(c, all, images))
	return b.
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(comeOrGo(images))).
		Watches(&corev1.Namespace{}, inNamespace, builder.WithPredicates(teamsChange())).
		Watches(&kueue.LocalQueue{}, inNamespace, builder.WithPredicates(queuesChange()))
}

// whereOneRuns leads to all jobs from a namespace, or an object in one, if a pod there runs one of
// some images, and to none else: namespaces and queues come and go often, such pods hardly ever.
func whereOneRuns(c client.Reader, all handler.MapFunc, images []string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		namespace := cmp.Or(o.GetNamespace(), o.GetName())
		for _, image := range images {
			var pods corev1.PodList
			err := c.List(
				ctx,
				&pods,
				client.InNamespace(namespace),
				client.MatchingFields{Index: image},
				client.UnsafeDisableDeepCopy,
			)
			if err != nil || len(pods.Items) > 0 { // what cannot be ruled out is looked at
				return all(ctx, o)
			}
		}
		return nil
	}
}

// comeOrGo lets through that pods which run one of some images begin and end.
func comeOrGo(images []string) predicate.Predicate {
	is := func(o client.Object) bool { return len(runs(o, images)) > 0 }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// teamsChange lets through that a namespace becomes a team's or is one no longer. Where it comes or
// goes, its pods do.
func teamsChange() predicate.Predicate {
	is := func(o client.Object) bool { return o.GetLabels()[kueue.TeamNamespaceLabel] != "" }
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// queuesChange lets through that LocalQueues come and go.
func queuesChange() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// All leads to all objects of a kind, whatever the cache shows of them.
func All(ctx context.Context, c client.Client, kind schema.GroupVersionKind) []reconcile.Request {
	kind.Kind += "List"
	made, err := c.Scheme().New(kind)
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil
	}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
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
