package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// What is told of queues.
func TestQueueOf(t *testing.T) {
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	q.Spec.CohortName = "c"
	q.Spec.ResourceGroups = []kueue.ResourceGroup{
		{Flavors: []kueue.FlavorQuotas{{Name: "f", Resources: []kueue.ResourceQuota{
			{
				Name:           corev1.ResourceCPU,
				NominalQuota:   resource.MustParse("8"),
				BorrowingLimit: new(resource.MustParse("2")),
			},
			{Name: core.GPU, NominalQuota: resource.MustParse("4"), LendingLimit: new(resource.MustParse("3"))},
		}}}},
		{Flavors: []kueue.FlavorQuotas{{Name: "e"}}},
	}
	load := core.Load{
		Pending:      1,
		Inadmissible: 2,
		Reserving:    3,
		Admitted:     4,
		Reserved: map[core.FlavorResource]core.Amount{
			{Flavor: "f", Resource: core.GPU}: 6,
		},
		Used: map[core.FlavorResource]core.Amount{},
	}
	flavors := []core.FlavorQuotas{
		{Flavor: "f", Quotas: []core.Quota{
			{
				Resource:  core.CPU,
				Nominal:   8000,
				Borrowing: new(core.Amount(2000)),
			},
			{Resource: core.GPU, Nominal: 4, Lending: new(core.Amount(3))},
		}},
		{Flavor: "e"},
	}
	is := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: kueue.ClusterQueueActive, Status: status, Reason: reason}
	}
	want := view.ClusterQueue{
		Name:    "q",
		Cohorts: []string{"c"},
		State:   view.QueueActive,
		Reason:  "Ready",
		Flavors: flavors,
		Load:    load,
	}
	got := view.ClusterQueueOf(q, is(metav1.ConditionTrue, "Ready"), load)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		active *metav1.Condition
		state  view.QueueState
		reason string
	}{
		"stopped":   {is(metav1.ConditionFalse, "Stopped"), view.QueuePending, "Stopped"},
		"not known": {is(metav1.ConditionUnknown, "Pending"), view.QueuePending, "Pending"},
		"going":     {is(metav1.ConditionFalse, kueue.ReasonTerminating), view.QueueTerminating, kueue.ReasonTerminating},
		"not said":  {nil, view.QueueUnknown, ""},
	} {
		if q := view.ClusterQueueOf(q, c.active, load); q.State != c.state || q.Reason != c.reason {
			t.Errorf("%s: %q because of %q", name, q.State, q.Reason)
		}
	}
	if reserved, nominal := got.Sum(core.GPU); reserved != 6 || nominal != 4 || got.Waiting() != 3 {
		t.Errorf("%d of %d GPUs, and %d wait", reserved, nominal, got.Waiting())
	}
	gpu := flavors[0].Quotas[1]
	if n := got.Borrowed(gpu, 6); n != 2 {
		t.Errorf("6 of 4 borrow %d", n)
	}
	if n := got.Borrowed(gpu, 3); n != 0 {
		t.Errorf("3 of 4 borrow %d", n)
	}
	q.Spec.CohortName = ""
	if alone := view.ClusterQueueOf(q, nil, load); alone.Cohort() != "" || alone.Borrowed(gpu, 6) != 0 {
		t.Errorf("in cohort %q it borrows %d: no queue could lend", alone.Cohort(), alone.Borrowed(gpu, 6))
	}
	l := &kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l", Labels: map[string]string{"team": "blue"}},
	}
	l.Spec.ClusterQueue = "q"
	wantLocal := view.LocalQueue{
		Namespace: "n",
		Name:      "l",
		Queue:     "q",
		Labels:    l.Labels,
		Active:    metav1.ConditionFalse,
		Flavors:   flavors,
		Load:      load,
	}
	if diff := cmp.Diff(wantLocal, view.LocalQueueOf(l, q, *is(metav1.ConditionFalse, ""), load)); diff != "" {
		t.Errorf("LocalQueue (-want +got):\n%s", diff)
	}
	if got := view.LocalQueueOf(l, nil, *is(metav1.ConditionFalse, ""), load); len(got.Flavors) != 0 {
		t.Errorf("without a ClusterQueue it has quotas %v", got.Flavors)
	}
}
