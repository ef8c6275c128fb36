package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A job of a scenario is there once, however often a busy API server refuses it or loses its answer; what it
// refuses for good is told at once.
func TestJobIsCreatedOnceByABusyAPIServer(t *testing.T) {
	storeTimesOut := errors.New("etcdserver: request timed out")
	const patience = time.Minute
	for name, tc := range map[string]struct {
		refusals int
		stores   bool // though it says that it did not
		err      error
		want     int // jobs that are there
		took     time.Duration
	}{
		"not stored":          {3, false, apierrors.NewInternalError(storeTimesOut), 1, 3 * retryEvery},
		"stored, answer lost": {1, true, apierrors.NewInternalError(storeTimesOut), 1, retryEvery},
		"too many requests":   {2, false, apierrors.NewTooManyRequestsError("later"), 1, 2 * retryEvery},
		"forbidden":           {9, false, apierrors.NewForbidden(appwrapper.GroupVersion.WithResource("appwrappers").GroupResource(), "normal", nil), 0, 0},
		"never":               {1 << 20, false, apierrors.NewInternalError(storeTimesOut), 0, patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refusals := tc.refusals
				c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.New()).Build(), interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if refusals == 0 {
							return c.Create(ctx, o, opts...)
						}
						refusals--
						if tc.stores {
							if err := c.Create(ctx, o, opts...); err != nil {
								return err
							}
						}
						return tc.err
					},
				})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				aw := &appwrapper.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", GenerateName: "normal-"}}
				begun := time.Now()
				err := create(ctx, clock.RealClock{}, c, aw)
				if took := time.Since(begun); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if (err == nil) != (tc.want == 1) {
					t.Errorf("it says %v", err)
				}
				var all appwrapper.AppWrapperList
				if err := c.List(t.Context(), &all); err != nil {
					t.Fatal(err)
				}
				if len(all.Items) != tc.want || tc.want == 1 && all.Items[0].Name != aw.Name {
					t.Errorf("there are %v, want %d called %s", all.Items, tc.want, aw.Name)
				}
			})
		})
	}
}
