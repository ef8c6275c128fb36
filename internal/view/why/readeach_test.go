package why_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// A job is found by its name alone among all kinds in the time of one question to the API server.
func TestKindsAreLookedThroughAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).
			WithObjects(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train"}}).
			WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					time.Sleep(time.Second)
					return c.Get(ctx, key, o, opts...)
				},
			}).Build()
		began := time.Now()
		p, err := why.Find(t.Context(), c, view.Ref{Namespace: "blue", Name: "train"})
		if err != nil || p.Job == nil {
			t.Fatalf("found %v, %v; want the Job", p.Job, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s where one question takes 1s", took)
		}
	})
}
