package crowd

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestOthersYieldToACrowd: while many stop at once, and for a moment after, but nothing for ever.
func TestOthersYieldToACrowd(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(now)
	c := New(clock)
	named := func(i int, change func(*kueue.WorkloadStatus)) {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}}
		change(&w.Status)
		c.See(w)
	}
	set := func(kinds ...string) func(*kueue.WorkloadStatus) {
		return func(s *kueue.WorkloadStatus) {
			s.Admission = &kueue.Admission{}
			for _, kind := range kinds {
				s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
			}
		}
	}
	stops := set(kueue.WorkloadEvicted)
	check := func(why string, want time.Duration) {
		t.Helper()
		if got := c.Yields(now); got != want {
			t.Errorf("%s: yields for %s, want %s", why, got, want)
		}
	}
	c.Comes(Many - 1)
	check("few will stop", 0)
	c.Comes(Many)
	check("many will stop", pause)
	now = now.Add(after)
	clock.SetTime(now)
	check("and did not", 0)
	for i := range Many - 1 {
		named(i, stops)
		named(i, stops)
	}
	check("few stop, however often that is told", 0)
	named(Many, set())
	named(Many+1, set(kueue.WorkloadEvicted, kueue.WorkloadFinished))
	named(Many+2, func(s *kueue.WorkloadStatus) { stops(s); s.Admission = nil })
	check("others run, have ended or have stopped", 0)
	named(Many, stops)
	check("many stop", pause)
	c.Gone(types.NamespacedName{Namespace: "a", Name: "0"})
	clock.SetTime(now.Add(after - 1))
	check("they have gone just now", pause)
	clock.SetTime(now.Add(after))
	check("they have gone a while ago", 0)
	named(0, stops)
	clock.SetTime(now.Add(Longest - time.Second))
	check("nothing yields for longer than Longest", time.Second)
	clock.SetTime(now.Add(Longest + time.Second))
	check("nor after that", 0)
	if got := (*Crowd)(nil).Yields(now); got != 0 {
		t.Errorf("without a crowd it yields for %s", got)
	}
}
