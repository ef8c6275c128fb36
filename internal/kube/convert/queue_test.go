package convert_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// TestEveryFieldOfAQueueIsRead: every field of a ClusterQueue that the engine goes by, one at a
// time over a queue that says nothing.
func TestEveryFieldOfAQueueIsRead(t *testing.T) {
	plain := core.Queue{
		Name:        "q",
		Groups:      []core.ResourceGroup{},
		Strategy:    core.BestEffortFIFO,
		Stop:        core.StopNone,
		Fungibility: core.Fungibility{PreemptTriesNext: true},
		Preemption: core.Preemption{
			WithinQueue: core.PreemptNever,
			Reclaim:     core.PreemptNever,
			WhileBorrow: core.PreemptNever,
		},
	}
	quantity := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	weigh := func(s string) *kueue.FairSharing { return &kueue.FairSharing{Weight: quantity(s)} }
	for name, tc := range map[string]struct {
		why  string
		spec kueue.ClusterQueueSpec
		want func(*core.Queue)
	}{
		"nothing": {"the defaults", kueue.ClusterQueueSpec{}, func(*core.Queue) {}},
		"quota": {
			"a nominal quota of 0 is one, and a limit of 0 forbids",
			kueue.ClusterQueueSpec{CohortName: "c", ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{"cpu", "memory"},
				Flavors: []kueue.FlavorQuotas{
					{Name: "f", Resources: []kueue.ResourceQuota{
						{Name: "cpu", NominalQuota: resource.MustParse("0"), BorrowingLimit: quantity("1500m")},
						{Name: "memory", NominalQuota: resource.MustParse("1G"), BorrowingLimit: quantity("0"), LendingLimit: quantity("0")},
					}},
					{Name: "g", Resources: []kueue.ResourceQuota{{Name: "cpu", NominalQuota: resource.MustParse("0.5")}, {Name: "memory", NominalQuota: resource.MustParse("1Gi"), LendingLimit: quantity("1Ki")}}},
				},
			}}},
			func(q *core.Queue) {
				amount := func(a core.Amount) *core.Amount { return &a }
				q.Cohort = "c"
				q.Groups = []core.ResourceGroup{{Covered: []string{"cpu", "memory"}, Flavors: []core.FlavorQuotas{
					{Flavor: "f", Quotas: []core.Quota{{Resource: "cpu", Borrowing: amount(1500)}, {Resource: "memory", Nominal: 1e9, Borrowing: amount(0), Lending: amount(0)}}},
					{Flavor: "g", Quotas: []core.Quota{{Resource: "cpu", Nominal: 500}, {Resource: "memory", Nominal: 1 << 30, Lending: amount(1024)}}},
				}}}
			},
		},
		"strict":         {"the first blocks", kueue.ClusterQueueSpec{QueueingStrategy: kueue.StrictFIFO}, func(q *core.Queue) { q.Strategy = core.StrictFIFO }},
		"stopped":        {"nothing starts", kueue.ClusterQueueSpec{StopPolicy: new(kueue.StopPolicyHold)}, func(q *core.Queue) { q.Stop = core.Hold }},
		"drained":        {"nothing runs", kueue.ClusterQueueSpec{StopPolicy: new(kueue.StopPolicyHoldAndDrain)}, func(q *core.Queue) { q.Stop = core.HoldAndDrain }},
		"by usage":       {"the one that used less goes first", kueue.ClusterQueueSpec{AdmissionScope: &kueue.AdmissionScope{AdmissionMode: kueue.UsageBasedAdmissionFairSharing}}, func(q *core.Queue) { q.UsageBased = true }},
		"no usage":       {"the other mode", kueue.ClusterQueueSpec{AdmissionScope: &kueue.AdmissionScope{AdmissionMode: kueue.NoAdmissionFairSharing}}, func(*core.Queue) {}},
		"half a weight":  {"fractions count", kueue.ClusterQueueSpec{FairSharing: weigh("0.5")}, func(q *core.Queue) { q.Weight = new(core.WeightOne / 2) }},
		"no weight":      {"0 is not 1", kueue.ClusterQueueSpec{FairSharing: weigh("0")}, func(q *core.Queue) { q.Weight = new(core.Weight(0)) }},
		"tiny weight":    {"never 0 by rounding", kueue.ClusterQueueSpec{FairSharing: weigh("1.5n")}, func(q *core.Queue) { q.Weight = new(core.Weight(2)) }},
		"huge weight":    {"saturates", kueue.ClusterQueueSpec{FairSharing: weigh("1E")}, func(q *core.Queue) { q.Weight = new(core.HeaviestWeight) }},
		"empty sharing":  {"its weight is the default", kueue.ClusterQueueSpec{FairSharing: &kueue.FairSharing{}}, func(*core.Queue) {}},
		"any namespace":  {"an empty selector takes all, a missing one takes none", kueue.ClusterQueueSpec{NamespaceSelector: &metav1.LabelSelector{}}, func(q *core.Queue) { q.Namespaces = &core.Selector{} }},
		"fungibility":    {"empty fields have defaults", kueue.ClusterQueueSpec{FlavorFungibility: &kueue.FlavorFungibility{}}, func(*core.Queue) {}},
		"next to borrow": {"another flavor before borrowing", kueue.ClusterQueueSpec{FlavorFungibility: &kueue.FlavorFungibility{WhenCanBorrow: kueue.TryNextFlavor}}, func(q *core.Queue) { q.Fungibility.BorrowTriesNext = true }},
		"stay to preempt": {
			"evicting before another flavor",
			kueue.ClusterQueueSpec{FlavorFungibility: &kueue.FlavorFungibility{WhenCanPreempt: kueue.MayStopSearch}},
			func(q *core.Queue) { q.Fungibility.PreemptTriesNext = false },
		},
		"prefers preemption": {
			"of what is left",
			kueue.ClusterQueueSpec{FlavorFungibility: &kueue.FlavorFungibility{Preference: new(kueue.PreemptionOverBorrowing)}},
			func(q *core.Queue) { q.Fungibility.PreferPreemption = true },
		},
		"prefers borrowing": {
			"said in words",
			kueue.ClusterQueueSpec{FlavorFungibility: &kueue.FlavorFungibility{Preference: new(kueue.BorrowingOverPreemption)}},
			func(*core.Queue) {},
		},
		"preemption": {
			"each rule has its own word",
			kueue.ClusterQueueSpec{Preemption: &kueue.ClusterQueuePreemption{
				WithinClusterQueue: kueue.PreemptionPolicyLowerOrNewerEqualPriority, ReclaimWithinCohort: kueue.PreemptionPolicyAny,
				BorrowWithinCohort: &kueue.BorrowWithinCohort{Policy: kueue.BorrowWithinCohortPolicyLowerPriority, MaxPriorityThreshold: new(int32(7))},
			}},
			func(q *core.Queue) {
				q.Preemption = core.Preemption{WithinQueue: "LowerOrNewerEqualPriority", Reclaim: "Any", WhileBorrow: "LowerPriority", MaxPriority: new(int32(7))}
			},
		},
		"empty preemption": {
			"means never", kueue.ClusterQueueSpec{Preemption: &kueue.ClusterQueuePreemption{BorrowWithinCohort: &kueue.BorrowWithinCohort{}}}, func(*core.Queue) {},
		},
	} {
		want := plain
		tc.want(&want)
		got := convert.Queue(&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: tc.spec})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
		}
	}
	going := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "q", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}},
	}
	if convert.Queue(going).Inactive == "" {
		t.Error("a queue that is being deleted admits")
	}
}

// TestEverySelectorOfNamespacesIsRead: every way to say which namespaces a queue takes.
func TestEverySelectorOfNamespacesIsRead(t *testing.T) {
	q := &kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"b": "2", "a": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "c", Operator: metav1.LabelSelectorOpIn, Values: []string{"y", "x"}},
			{Key: "d", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"z"}},
			{Key: "e", Operator: metav1.LabelSelectorOpExists},
			{Key: "f", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}}}
	want := &core.Selector{
		{Key: "a", Operator: core.In, Values: []string{"1"}},
		{Key: "b", Operator: core.In, Values: []string{"2"}},
		{Key: "c", Operator: core.In, Values: []string{"x", "y"}},
		{Key: "d", Operator: core.NotIn, Values: []string{"z"}},
		{Key: "e", Operator: core.Exists},
		{Key: "f", Operator: core.DoesNotExist},
	}
	got := convert.Queue(q).Namespaces
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCohortAndFlavor: what of them the engine goes by.
func TestCohortAndFlavor(t *testing.T) {
	c := &kueue.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: kueue.CohortSpec{
			ParentName:  "root",
			FairSharing: &kueue.FairSharing{Weight: new(resource.MustParse("2"))},
		},
	}
	if diff := cmp.Diff(
		core.Cohort{Name: "c", Parent: "root", Groups: []core.ResourceGroup{}, Weight: new(2 * core.WeightOne)},
		convert.Cohort(c),
	); diff != "" {
		t.Errorf("cohort (-want +got):\n%s", diff)
	}
	f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}, Spec: kueue.ResourceFlavorSpec{
		NodeLabels: map[string]string{
			"pool": "a",
		},
		NodeTaints: []corev1.Taint{{Key: "gpu", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
		Tolerations: []corev1.Toleration{
			{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: "y", Value: "z"},
		},
	}}
	want := core.Flavor{
		Name:        "f",
		NodeLabels:  map[string]string{"pool": "a"},
		Taints:      []core.Taint{{Key: "gpu", Value: "v", Effect: "NoSchedule"}},
		Tolerations: []core.Toleration{{Key: "x", Exists: true, Effect: "NoExecute"}, {Key: "y", Value: "z"}},
	}
	if diff := cmp.Diff(want, convert.Flavor(f)); diff != "" {
		t.Errorf("flavor (-want +got):\n%s", diff)
	}
}

// TestReservationsAndPausesBeginAsWritten: a reservation and a pause begin when the API says.
func TestReservationsAndPausesBeginAsWritten(t *testing.T) {
	at := time.Unix(1e9, 0)
	w := &kueue.Workload{Status: kueue.WorkloadStatus{
		Conditions: []metav1.Condition{
			{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
		},
		RequeueState: &kueue.RequeueState{RequeueAt: new(metav1.NewTime(at.Add(time.Hour)))},
	}}
	got := convert.Workload(w, convert.Rules{}, convert.Surroundings{})
	if !got.Reserved.Equal(at) || !got.NotBefore.Equal(at.Add(time.Hour)) {
		t.Errorf("reserved at %v, not before %v", got.Reserved, got.NotBefore)
	}
	w.Status.Conditions[0].Status = metav1.ConditionFalse
	if got := convert.Workload(w, convert.Rules{}, convert.Surroundings{}); !got.Reserved.IsZero() {
		t.Errorf("nothing is reserved, since %v", got.Reserved)
	}
}

// Past usage that the API cannot hold saturates.
func TestConsumedSaturates(t *testing.T) {
	q := &kueue.LocalQueue{
		Status: kueue.LocalQueueStatus{
			FairSharing: &kueue.LocalQueueFairSharingStatus{
				AdmissionFairSharingStatus: &kueue.AdmissionFairSharingStatus{
					ConsumedResources: corev1.ResourceList{
						"cpu":    resource.MustParse("1E"),
						"memory": *resource.NewQuantity(math.MaxInt64, resource.BinarySI),
						"a":      resource.MustParse("-1"),
					},
				},
			},
		},
	}
	want := core.MakeResources(map[string]core.Amount{"cpu": core.Unlimited, "memory": core.Unlimited})
	if diff := cmp.Diff(want, convert.LocalQueue(q).Consumed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Flavors whose nodes are made on demand: they say so, or a check makes them, for all
// flavors or for those that it names.
func TestProvisioned(t *testing.T) {
	q := &kueue.ClusterQueue{}
	q.Spec.ResourceGroups = []kueue.ResourceGroup{
		{
			Flavors: []kueue.FlavorQuotas{{Name: "c"}, {Name: "a"}},
		},
		{Flavors: []kueue.FlavorQuotas{{Name: "b"}, {Name: "a"}}},
	}
	for name, tc := range map[string]struct {
		why    string
		checks []kueue.AdmissionCheckStrategyRule
		want   []string
	}{
		"no checks":   {"b says so itself", nil, []string{"b"}},
		"for all":     {"a check without flavors is for all", []kueue.AdmissionCheckStrategyRule{{Name: "makes"}}, []string{"a", "b", "c"}},
		"for one":     {"c only", []kueue.AdmissionCheckStrategyRule{{Name: "makes", OnFlavors: []kueue.ResourceFlavorReference{"c"}}}, []string{"b", "c"}},
		"of another":  {"it makes no nodes", []kueue.AdmissionCheckStrategyRule{{Name: "asks"}}, []string{"b"}},
		"one of two":  {"any of them", []kueue.AdmissionCheckStrategyRule{{Name: "asks"}, {Name: "makes", OnFlavors: []kueue.ResourceFlavorReference{"a"}}}, []string{"a", "b"}},
		"none for it": {"it names a flavor that the queue does not have", []kueue.AdmissionCheckStrategyRule{{Name: "makes", OnFlavors: []kueue.ResourceFlavorReference{"x"}}}, []string{"b"}},
	} {
		q.Spec.AdmissionChecksStrategy = nil
		if tc.checks != nil {
			q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{AdmissionChecks: tc.checks}
		}
		got := convert.Provisioned(q, func(check string) string {
			return map[string]string{"makes": kueue.ProvisioningRequestControllerName, "asks": "example.com/x"}[check]
		}, func(flavor string) bool { return flavor == "b" })
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
}
