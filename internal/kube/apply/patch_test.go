package apply

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Every write of a Workload is checked, stored and sent to all watchers: there
// must be none without need, and none on top of what somebody else wrote.
func TestStatusWrites(t *testing.T) {
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme.New()).
		WithObjects(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w"}}).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				writes++
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}).Build()
	read := func() *kueue.Workload {
		t.Helper()
		w := &kueue.Workload{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "w"}, w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w, stale := read(), read()

	if err := Status(t.Context(), c, w, w.Status); err != nil || writes != 0 {
		t.Errorf("a status that is so already: %d writes, error %v", writes, err)
	}
	if err := Status(t.Context(), c, w, kueue.WorkloadStatus{ClusterName: new("a")}); err != nil || writes != 1 {
		t.Errorf("a new status: %d writes, error %v", writes, err)
	}
	if stored := read(); w.ResourceVersion != stored.ResourceVersion || *stored.Status.ClusterName != "a" {
		t.Errorf("the caller has version %s, stored is %s with %v", w.ResourceVersion, stored.ResourceVersion, stored.Status)
	}
	err := Status(t.Context(), c, stale, kueue.WorkloadStatus{ClusterName: new("b")})
	if !apierrors.IsConflict(err) {
		t.Errorf("a status decided on an older object: error %v, want a conflict", err)
	}
	if stale.Status.ClusterName != nil {
		t.Errorf("what was not written must not be left in the object: %v", stale.Status)
	}
	if err := Status(t.Context(), c, w, kueue.WorkloadStatus{}); err != nil || read().Status.ClusterName != nil {
		t.Errorf("a field that goes: error %v, stored %v", err, read().Status)
	}
}
