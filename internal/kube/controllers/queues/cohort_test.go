package queues

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

func TestShares(t *testing.T) {
	cohort := &kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	w := newWorld(t, clusterQueue(), flavor(), cohort)
	q := clusterQueue()

	w.numbers.queues["q"] = core.Load{}
	w.reconcile(w.queues, q)
	w.reconcile(w.cohorts, cohort)
	w.read(q)
	w.read(cohort)
	if q.Status.FairSharing != nil || cohort.Status.FairSharing != nil || len(w.gauges.cohorts) != 0 {
		t.Errorf(
			"shares %v and %v without fair sharing, want none",
			q.Status.FairSharing,
			cohort.Status.FairSharing,
		)
	}

	w.writes = 0
	w.clock.Step(DefaultInterval)
	w.numbers.queues["q"] = core.Load{Share: &core.Share{Rounded: 125, Exact: 124.5}}
	w.numbers.cohorts["c"] = core.Share{Rounded: 250, Exact: 249.75}
	w.reconcile(w.queues, q)
	w.reconcile(w.cohorts, cohort)
	w.reconcile(w.cohorts, cohort)
	w.read(q)
	w.read(cohort)
	if q.Status.FairSharing == nil || q.Status.FairSharing.WeightedShare != 125 ||
		cohort.Status.FairSharing == nil || cohort.Status.FairSharing.WeightedShare != 250 {
		t.Errorf("shares %v and %v, want 125 and 250", q.Status.FairSharing, cohort.Status.FairSharing)
	}
	if w.writes != 2 {
		t.Errorf("%d writes, want one for each: nothing changed since", w.writes)
	}
	if g := w.gauges.queues["q"]; g.Share == nil || g.Share.Exact != 124.5 || w.gauges.cohorts["c"] != 249.75 {
		t.Errorf("gauges show %v and %v", g.Share, w.gauges.cohorts)
	}

	w.must(w.c.Delete(t.Context(), cohort))
	w.reconcile(w.cohorts, cohort)
	if len(w.gauges.cohorts) != 0 {
		t.Errorf("gauges still show %v", w.gauges.cohorts)
	}
}
