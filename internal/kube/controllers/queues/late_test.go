package queues

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// errAway is what the API server's writes end with while it does not answer.
var errAway = errors.New("connection refused")

// However the numbers change, the status of a queue says what was so at most
// one rest (ten intervals) and one look of the feeder ago. Where the API server does
// not answer for a while, the longest pause between two tries comes on top of that,
// and not as long a time as it was away.
func TestStatusIsNoLaterThanItsRest(t *testing.T) {
	const (
		step   = 100 * time.Millisecond
		lasts  = 90 * time.Second
		late   = mostIntervals*DefaultInterval + DefaultInterval + step
		within = longestRetry + late
	)
	pending := map[string]func(*world) int{
		"ClusterQueue": func(w *world) int { q := clusterQueue(); w.read(q); return int(q.Status.PendingWorkloads) },
		"LocalQueue":   func(w *world) int { q := localQueue(); w.read(q); return int(q.Status.PendingWorkloads) },
	}
	for kind, written := range pending {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(t, clusterQueue(), localQueue(), flavor())
				var r reconcile.Reconciler = w.queues
				var object client.Object = clusterQueue()
				if kind == "LocalQueue" {
					r, object = w.local, localQueue()
				}
				queue := request(object)
				seed := rapid.Uint64().Draw(rt, "seed of the changes")
				busy := rapid.Float64Range(0.002, 1).Draw(rt, "share of moments with a change")
				from := rapid.Int64Range(0, int64(lasts/step)).Draw(rt, "moment from which the API server is away")
				to := from + rapid.Int64Range(0, int64(lasts/step)).Draw(rt, "how many moments")
				random, retry := rand.New(rand.NewPCG(seed, 0)), statusRetries()

				begin := w.clock.Now()
				var history []int
				count, passed := 0, -1
				look, again := begin, time.Time{}
				for i := range int64(lasts / step) {
					now := w.clock.Now()
					if random.Float64() < busy {
						count++
					}
					history = append(history, count)
					w.numbers.queues["q"], w.numbers.local["n/l"] = core.Load{Pending: count}, core.Load{Pending: count}
					w.fails = nil
					if i >= from && i < to {
						w.fails = errAway
					}
					work := !again.IsZero() && !again.After(now)
					if !look.After(now) && passed != count { // as the feeder does
						look, passed, work = now.Add(DefaultInterval), count, true
					}
					if work {
						again = time.Time{}
						if result, err := r.Reconcile(t.Context(), queue); err != nil {
							again = now.Add(retry.When(queue))
						} else if retry.Forget(queue); result.RequeueAfter > 0 {
							again = now.Add(result.RequeueAfter)
						}
					}
					settled := i < from || now.Sub(begin) > time.Duration(to)*step+within
					if before := i - int64(late/step); settled && before >= 0 && i%5 == 0 { // reading costs most
						if got := written(w); got < history[before] {
							rt.Fatalf(
								"after %v it says %d, which was over more than %v ago: %d then, %d now",
								now.Sub(begin),
								got,
								late,
								history[before],
								count,
							)
						}
					}
					w.clock.Step(step)
				}
			})
		})
	}
}

// What waits behind a LocalQueue that is held is pending all the same, whether
// it was held before or after: it is no less there.
func TestHeldJobsArePending(t *testing.T) {
	for name, policy := range map[string]kueue.StopPolicy{"open": kueue.StopPolicyNone, "held": kueue.StopPolicyHold, "drained": kueue.StopPolicyHoldAndDrain} {
		held := localQueue()
		held.Spec.StopPolicy = &policy
		w := newWorld(t, clusterQueue(), held, flavor())
		w.numbers.queues["q"], w.numbers.local["n/l"] = core.Load{Inadmissible: 5}, core.Load{Inadmissible: 5}
		w.reconcile(w.queues, clusterQueue())
		w.reconcile(w.local, held)
		q, l := clusterQueue(), localQueue()
		w.read(q)
		w.read(l)
		if q.Status.PendingWorkloads != 5 || l.Status.PendingWorkloads != 5 {
			t.Errorf("%s: %d and %d are pending, want 5", name, q.Status.PendingWorkloads, l.Status.PendingWorkloads)
		}
	}
}
