package apply

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestReasonsOfAnEvictedCrowdYield: why one waits again that was stopped with many others is told when these have stopped;
// whoever only waits is told at once, and what was decided meanwhile is not told otherwise.
func TestReasonsOfAnEvictedCrowdYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evicted := aWorkload(func(w *kueue.Workload) {
			w.Name, w.ResourceVersion = "evicted", ""
			w.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue}}
		})
		began := evicted.DeepCopy()
		began.Name = "admitted"
		waits := aWorkload(func(w *kueue.Workload) { w.Name, w.ResourceVersion = "waits", "" })
		var mu sync.Mutex
		var writes []string
		written := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(writes)
		}
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(evicted, began, waits, aQueue()).
			WithInterceptorFuncs(interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					mu.Lock()
					writes = append(writes, o.GetName())
					mu.Unlock()
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
			}).Build()
		var crowd atomic.Bool
		crowd.Store(true)
		a, stop := running(t, Options{
			Client: c, Sentence: sentence,
			Refused: func(core.Key, string) {},
			Done:    func(context.Context, core.Decision, *kueue.Workload) {},
			Yields: func(time.Time) time.Duration {
				if crowd.Load() {
					return time.Second
				}
				return 0
			},
		})
		defer stop()
		named := func(name string) core.Key { return core.Key{Namespace: key.Namespace, Name: name} }
		why := core.Reason{Code: core.WaitingForQuota}
		a.Plan(core.Plan{
			core.Refuse{Key: named("evicted"), Why: why},
			core.Refuse{Key: named("admitted"), Why: why},
			core.Refuse{Key: named("waits"), Why: why},
		}, unknown)
		time.Sleep(30 * time.Second) // of the bubble
		synctest.Wait()
		if got, want := written(), []string{"waits"}; !slices.Equal(got, want) {
			t.Errorf("while many stop, %q are told, want %q", got, want)
		}
		a.Plan(core.Plan{core.Admit{Key: named("admitted"), Admission: on("node-0")}}, unknown)
		synctest.Wait()
		crowd.Store(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got, want := written(), []string{"waits", "admitted", "evicted"}; !slices.Equal(got, want) {
			t.Errorf("when they have stopped, %q were written, want %q", got, want)
		}
	})
}
