package workloadlifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// RefusalPatience is how long planned nodes may refuse a job's pods before the
// plan is withdrawn: nodes and pods may be about to change.
const RefusalPatience = time.Minute

// Withdraw evicts a job whose planned nodes refuse its pods for a reason that
// the engine cannot see (a volume, an affinity between pods, ...). It is queued
// again after a pause that doubles, so that others get their turn meanwhile.
func Withdraw(w *kueue.Workload, why string, now time.Time) (*kueue.WorkloadStatus, Event) {
	const first, longest = time.Minute, time.Hour
	next := w.Status.DeepCopy()
	if next.RequeueState == nil {
		next.RequeueState = &kueue.RequeueState{}
	}
	n := ptr.Deref(next.RequeueState.Count, 0) + 1
	pause := min(first<<min(n-1, 10), longest)
	next.RequeueState.Count = &n
	next.RequeueState.RequeueAt = new(metav1.NewTime(now.Add(pause)))
	return next, Evict(w, next, now, Eviction{
		Reason: kueue.ReasonPodsReadyTimeout, Cause: kueue.ReasonWaitForStart,
		Message: "The planned nodes refuse its pods: " + why,
	})
}

// RefusePods evicts a job of which the API server lets no pods be made. It is held for that
// (kueue.PodsRefusedAnnotation), and needs no pause besides.
func RefusePods(w *kueue.Workload, why string, now time.Time) (*kueue.WorkloadStatus, Event) {
	next := w.Status.DeepCopy()
	return next, Evict(w, next, now, Eviction{
		Reason: kueue.ReasonPodsReadyTimeout, Cause: kueue.ReasonWaitForStart, Message: "Its pods may not be made: " + why,
	})
}
