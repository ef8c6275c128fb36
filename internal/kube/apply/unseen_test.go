package apply

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// An eviction is rejected while the admission before it is still on its way
// through the watch. Told at once, the engine would take back the admission too,
// which was accepted, and give its quota to another.
func TestRefusedOnlyWhenTheLastWriteIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Bool
		before := aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" })
		writes := 0
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(before, aQueue()).
			WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if err := c.Get(ctx, k, o, opts...); err != nil {
						return err
					}
					if w, ok := o.(*kueue.Workload); ok && !seen.Load() { // the watch lags
						w.ResourceVersion, w.Status = "1", kueue.WorkloadStatus{}
					}
					return nil
				},
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					if writes++; writes > 1 {
						return apierrors.NewInvalid(kueue.GroupVersion.WithKind("Workload").GroupKind(), key.Name, nil)
					}
					o.SetResourceVersion("999") // what is stored, as the fake client counts
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
			}).Build()
		var refused atomic.Bool
		a := New(Options{
			Client:   c,
			Clock:    clock.RealClock{},
			Workers:  1,
			Sentence: sentence,
			Refused:  func(core.Key, string) { refused.Store(true) },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); a.Run(ctx) }()
		a.Plan(
			core.Plan{core.Admit{Key: key, Admission: on("node-0")}, core.Evict{Key: key, Reason: core.NodeFailures}},
			unknown,
		)

		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		if writes < 2 || refused.Load() {
			t.Errorf(
				"after %d writes, refused: %t; want the rejection kept back while the admission is unseen",
				writes,
				refused.Load(),
			)
		}
		seen.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !refused.Load() {
			t.Error("the admission is seen, and the rejection still kept back")
		}
		cancel()
		<-stopped
	})
}
