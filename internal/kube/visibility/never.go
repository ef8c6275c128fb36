package visibility

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Judge knows what could never start; see cycle.Never.
type Judge interface {
	Never(w core.Workload, now time.Time) (why core.Reason, impossible bool, err error)
}

// Never answers why what asks for such pods in a LocalQueue could never start as it is, in one
// sentence; "" if it could, or if that is not known. reader is as Options.Workloads.
func Never(j Judge, reader client.Reader, rules convert.Rules, c clock.PassiveClock) func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string {
	h := &handler{workloads: reader, rules: rules, clock: c}
	return func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: plannedName, UID: plannedName, CreationTimestamp: metav1.NewTime(c.Now())}}
		w.Spec.QueueName, w.Spec.PodSets = kueue.LocalQueueName(queue), sets
		told, err := h.translate(ctx, w)
		if err != nil {
			return ""
		}
		why, impossible, err := j.Never(told, c.Now())
		if err != nil || !impossible {
			return ""
		}
		return sentence(why)
	}
}
