package cli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TestReadLists: what one may not read is named and does not keep the rest from being read, a
// kind that is not there is empty, and other failures are told.
func TestReadLists(t *testing.T) {
	broken := errors.New("the wire is cut")
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "a"}},
	).WithInterceptorFuncs(
		interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				switch list.(type) {
				case *corev1.NodeList:
					return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
				case *corev1.SecretList:
					return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
				case *corev1.NamespaceList:
					return &apimeta.NoKindMatchError{}
				case *corev1.ServiceList:
					return broken
				}
				return c.List(ctx, list, opts...)
			},
		},
	).Build()
	var pods corev1.PodList
	lists := []gather.List{
		{What: "secrets", Into: &corev1.SecretList{}},
		{What: "nodes", Into: &corev1.NodeList{}},
		{What: "namespaces", Into: &corev1.NamespaceList{}},
		{What: "pods", Into: &pods, Options: []client.ListOption{client.InNamespace("blue")}},
	}
	unread, err := gather.ReadLists(t.Context(), c, lists...)
	if err != nil || !slices.Equal(unread, []string{"nodes", "secrets"}) || len(pods.Items) != 1 {
		t.Errorf("unread %v, %d pods, %v", unread, len(pods.Items), err)
	}
	_, err = gather.ReadLists(
		t.Context(),
		c,
		append(lists, gather.List{What: "Services", Into: &corev1.ServiceList{}})...)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "list Services") {
		t.Errorf("a list that fails is told: %v", err)
	}
}
