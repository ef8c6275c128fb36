package appwrapper

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodAt returns a pod as the pod template at a path of an injected object makes
// it, to be tried and not to be kept; nil if there is none.
func PodAt(object *unstructured.Unstructured, path string) *unstructured.Unstructured {
	at, err := lookup(object.Object, path)
	if err != nil {
		return nil
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	for _, field := range []string{"metadata", "spec"} {
		if v, ok := at[field].(map[string]any); ok {
			pod.Object[field] = runtime.DeepCopyJSON(v)
		}
	}
	pod.SetNamespace(object.GetNamespace())
	pod.SetName("")
	pod.SetGenerateName("trial-")
	return pod
}
