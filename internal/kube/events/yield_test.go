package events

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
)

// TestEventsOfACrowdComeWhenItHasGone: they are told later, in order and all of them, also when the process is told to
// end; others are told at once, and without a crowd all are.
func TestEventsOfACrowdComeWhenItHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowd.New(clock.RealClock{})
		y := &yielding{crowd: c, clock: clock.RealClock{}}
		f := events.NewFakeRecorder(1000)
		r := recorder{f, y}
		told := func() (all []string) {
			synctest.Wait()
			for {
				select {
				case e := <-f.Events:
					all = append(all, e)
				default:
					return all
				}
			}
		}
		check := func(why string, want ...string) {
			t.Helper()
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("%s: told %q, want %q", why, got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- y.Start(ctx) }()

		r.Eventf(nil, nil, "Normal", kueue.ReasonPreempted, "Preempt", "zero")
		check("without a crowd", "Normal Preempted zero")
		stop := func() {
			for i := range crowd.Many {
				c.See(&kueue.Workload{
					ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)},
					Status: kueue.WorkloadStatus{
						Admission:  &kueue.Admission{},
						Conditions: []metav1.Condition{{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue}},
					},
				})
			}
		}
		stop()
		r.Eventf(nil, nil, "Normal", kueue.ReasonPreempted, "Preempt", "one")
		r.Eventf(nil, nil, "Normal", "Stopped", "Stop", "two")
		r.Eventf(nil, nil, "Normal", kueue.EventPreemptedWorkload, "Preempt", "three")
		r.Eventf(nil, nil, "Normal", "EvictedDueToClusterQueueStopped", "Evict", "four")
		r.Eventf(nil, nil, "Normal", kueue.ReasonAdmitted, "Admit", "other")
		time.Sleep(time.Minute)
		check("while there is one", "Normal Admitted other")
		for i := range crowd.Many {
			c.Gone(types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)})
		}
		time.Sleep(time.Minute)
		check("once it has gone", "Normal Preempted one", "Normal Stopped two", "Normal PreemptedWorkload three",
			"Normal EvictedDueToClusterQueueStopped four")
		r.Eventf(nil, nil, "Normal", "Stopped", "Stop", "five")
		check("when it has long gone", "Normal Stopped five")

		stop()
		r.Eventf(nil, nil, "Normal", "Stopped", "Stop", "six")
		time.Sleep(crowd.Longest - time.Second)
		check("not before its time")
		time.Sleep(2 * time.Second)
		check("in a crowd that stays", "Normal Stopped six")
		r.Eventf(nil, nil, "Normal", "Stopped", "Stop", "seven")
		check("and the next")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		check("at the end", "Normal Stopped seven")
	})
}
