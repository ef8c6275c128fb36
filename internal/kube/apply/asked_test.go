package apply

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A waiting workload says what it asks for in the same write as why it waits,
// and no longer once it is admitted.
func TestAskedIsWrittenWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).Build()
		done := make(chan *kueue.Workload)
		a := New(Options{
			Client: c, Clock: clock.RealClock{}, Workers: 1, Sentence: sentence,
			Refused: func(core.Key, string) { t.Error("the decision was not carried out") },
			Done:    func(_ context.Context, _ core.Decision, w *kueue.Workload) { done <- w },
		})
		go a.Run(t.Context())
		a.Plan(
			core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}},
			func(core.Key) core.Workload {
				return core.Workload{PodSets: []core.PodSet{{
					Name: "main", Count: 3,
					Requests: core.MakeResources(map[string]core.Amount{core.CPU: 1500}),
					Quota:    core.MakeResources(map[string]core.Amount{"credits": 2}),
				}}}
			},
		)
		want := []kueue.PodSetRequest{
			{Name: "main", Resources: corev1.ResourceList{"credits": resource.MustParse("6")}},
		}
		w := <-done
		if diff := cmp.Diff(want, w.Status.ResourceRequests); diff != "" {
			t.Errorf("what counts, of all pods (-want +got):\n%s", diff)
		}
		a.Plan(core.Plan{core.Admit{Key: key, Admission: on("node-0")}}, unknown)
		<-done
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			t.Fatal(err)
		}
		if n := len(w.Status.ResourceRequests); n > 0 {
			t.Errorf("admitted, and %d pod sets still ask", n)
		}
	})
}
