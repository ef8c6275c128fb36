package admin

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create makes an object that must not be there yet.
func Create(ctx context.Context, c client.Client, o client.Object) error {
	s := TeamObject{Object: o, Done: Created}
	err := s.write(ctx, c)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s is there already", Name(o))
	}
	return err
}

// Manifest is an object as people write it: without what only the API server says.
func Manifest(o client.Object) (map[string]any, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("print %s: %w", Name(o), err)
	}
	delete(raw, "status")
	for _, field := range []string{"creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "finalizers"} {
		unstructured.RemoveNestedField(raw, "metadata", field)
	}
	if spec, is := raw["spec"].(map[string]any); is && len(spec) == 0 {
		delete(raw, "spec")
	}
	return raw, nil
}
