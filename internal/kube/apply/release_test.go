package apply

import (
	"context"
	"testing"
	"testing/synctest"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// What has nothing to stop gives its quota back as it is evicted; what has keeps it
// until the last pod is gone.
func TestEvictionReleasesWhatHasNothingToStop(t *testing.T) {
	owned := func(w *kueue.Workload) {
		w.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u", Controller: new(true)},
		}
	}
	was := func(w *kueue.Workload) { w.Labels = map[string]string{kueue.JobUIDLabel: "u"} }
	none := func(*kueue.Workload) {}
	cases := map[string]struct {
		why    string
		change func(*kueue.Workload)
		pods   int
		free   bool
	}{
		"alone":           {"there is nothing to wait for", none, 0, true},
		"pods of its own": {"they still use what it has", none, 1, false},
		"a job":           {"its reconciler knows when it has stopped", owned, 0, false},
		"a job was":       {"what is left of it is looked at first", was, 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }, admittedOn("n1"), c.change)
				cl := fake.NewClientBuilder().
					WithScheme(scheme.New()).
					WithStatusSubresource(&kueue.Workload{}).
					WithObjects(w, aQueue()).
					Build()
				done := make(chan *kueue.Workload, 1)
				a := New(Options{
					Client: cl, Clock: clock.RealClock{}, Workers: 1, Sentence: sentence,
					Refused: func(core.Key, string) { t.Error("it suits") },
					Done:    func(_ context.Context, _ core.Decision, w *kueue.Workload) { done <- w },
					Pods:    func(context.Context, core.Key) (int, error) { return c.pods, nil },
				})
				ctx, cancel := context.WithCancel(t.Context())
				stopped := make(chan struct{})
				go func() { defer close(stopped); a.Run(ctx) }()
				a.Plan(core.Plan{core.Evict{Key: key, Reason: core.InClusterQueue}}, unknown)
				told := <-done
				cancel()
				<-stopped
				if told.Status.Admission == nil {
					t.Error("the event cannot name the queue that it lost its quota in")
				}
				var is kueue.Workload
				if err := cl.Get(t.Context(), client.ObjectKeyFromObject(w), &is); err != nil {
					t.Fatal(err)
				}
				if !apimeta.IsStatusConditionTrue(is.Status.Conditions, kueue.WorkloadEvicted) {
					t.Error("it was not evicted")
				}
				if free := is.Status.Admission == nil; free != c.free {
					t.Errorf("its quota is free: %v, want %v: %s", free, c.free, c.why)
				}
				if requeued := apimeta.IsStatusConditionTrue(
					is.Status.Conditions,
					kueue.WorkloadRequeued,
				); requeued != c.free {
					t.Errorf("it waits again: %v, want %v: %s", requeued, c.free, c.why)
				}
			})
		})
	}
}
