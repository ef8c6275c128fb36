package visibility

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Judge knows what could never start; see inquiry.Never.
type Judge interface {
	Never(w core.Workload, now time.Time) (why core.Reason, impossible bool, err error)
}

const (
	// foreseenFor is for how long an answer of Never is remembered: nodes and quotas change.
	foreseenFor = 10 * time.Second
	// foreseenMany bounds how many different ones are.
	foreseenMany = 1024
)

// asked is what an answer depends on: what the engine counts of the pods, and not what they run.
type asked struct {
	namespace, queue string
	sets             [sha256.Size]byte
}

// Never answers why what asks for such pods in a LocalQueue could never start as it is, in one
// sentence; "" if it could, or if that is not known. Of many that ask for the same in a few seconds
// the engine judges one. reader is as Options.Workloads.
func Never(
	j Judge,
	reader client.Reader,
	rules convert.Rules,
	c clock.PassiveClock,
) func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string {
	h := &handler{workloads: reader, rules: rules, clock: c}
	answers := cache.NewLRUExpireCacheWithClock(foreseenMany, c)
	return func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string {
		w := &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         namespace,
				Name:              plannedName,
				UID:               plannedName,
				CreationTimestamp: metav1.NewTime(c.Now()),
			},
		}
		w.Spec.QueueName, w.Spec.PodSets = kueue.LocalQueueName(queue), sets
		told, err := h.translate(ctx, w)
		if err != nil {
			return ""
		}
		text, err := json.Marshal(told.PodSets)
		if err != nil {
			return ""
		}
		key := asked{namespace, queue, sha256.Sum256(text)}
		if known, has := answers.Get(key); has {
			return known.(string) //nolint:forcetypeassert // nothing else is in there
		}
		why, impossible, err := j.Never(told, c.Now())
		if err != nil {
			return "" // it is asked again
		}
		answer := ""
		if impossible {
			answer = sentence(why)
		}
		answers.Add(key, answer, foreseenFor)
		return answer
	}
}
