package views

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cached is what the cache keeps of what serves, once a view was asked for: the metadata that is read, and of
// what others made less. A cluster may have tens of thousands of ReplicaSets, nearly all of Deployments.
func Cached() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: {Transform: trimServing},
		&appsv1.ReplicaSet{}: {Transform: trimServing},
	}
}

func trimServing(o any) (any, error) {
	m, is := o.(*metav1.PartialObjectMetadata)
	if !is {
		return o, nil
	}
	m.ManagedFields = nil
	delete(m.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if metav1.GetControllerOf(m) != nil {
		m.Labels, m.Annotations, m.Finalizers = nil, nil, nil
	}
	return m, nil
}
