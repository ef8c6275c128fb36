package job

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// TestEveryKindSavesBeforeItIsStopped: a job of any kind that asks for it is stopped only when its time to save what it
// has done is over, or ended early, whatever it is evicted for; one that does not ask is stopped at once.
func TestEveryKindSavesBeforeItIsStopped(t *testing.T) {
	const most = time.Minute
	for _, k := range kinds.All() {
		evicted := func(t *testing.T, asks string) *world {
			t.Helper()
			o := sample(t, &k, 2, "i", false)
			if asks != "" {
				o.SetAnnotations(map[string]string{kueue.StopNoticeAnnotation: asks})
			}
			w := kindWorld(t, k, o, &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
			})
			w.r.opts.Lifecycle.MaxStopNotice = most
			w.settle()
			w.admit()
			w.write(func(is *kueue.Workload, next *kueue.WorkloadStatus) {
				workloadlifecycle.Evict(
					is,
					next,
					now,
					workloadlifecycle.Eviction{Reason: kueue.ReasonPreempted, Message: "for another"},
				)
			})
			w.settle()
			return w
		}
		t.Run(k.GVK().Kind, func(t *testing.T) {
			if w := evicted(t, ""); !k.Queueing.Suspended(w.job()) {
				t.Error("it did not ask, and runs on")
			}
			w := evicted(t, "8h")
			if k.Queueing.Suspended(w.job()) {
				t.Fatal("it was stopped at once")
			}
			clock := w.r.opts.Clock.(*clocktesting.FakePassiveClock)
			clock.SetTime(now.Add(most - time.Second))
			if w.settle(); k.Queueing.Suspended(w.job()) {
				t.Error("it was stopped before its time was over")
			}
			clock.SetTime(now.Add(most))
			if w.settle(); !k.Queueing.Suspended(w.job()) {
				t.Error("it keeps what it has for longer than the installation allows")
			}
			w = evicted(t, "40s")
			w.write(func(is *kueue.Workload, next *kueue.WorkloadStatus) {
				step := workloadlifecycle.Next(workloadlifecycle.Facts{
					Workload: is, Owned: true, LivePods: 1, Running: 1, Acknowledged: true, Now: now,
				})
				*next = *step.Status
			})
			if w.settle(); !k.Queueing.Suspended(w.job()) {
				t.Error("it agreed, and is not stopped")
			}
		})
	}
}

// write changes the status of the job's Workload.
func (w *world) write(change func(is *kueue.Workload, next *kueue.WorkloadStatus)) {
	w.Helper()
	is := w.workload()
	next := is.Status.DeepCopy()
	change(is, next)
	is.Status = *next
	if err := w.c.Status().Update(w.Context(), is); err != nil {
		w.Fatal(err)
	}
}
