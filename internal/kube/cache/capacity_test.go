package cache_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const gpus = corev1.ResourceName("nvidia.com/gpu")

// has are quotas of GPUs of one flavor.
func has(amount string) []kueue.ResourceGroup {
	return []kueue.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{gpus},
		Flavors: []kueue.FlavorQuotas{{
			Name:      "a100",
			Resources: []kueue.ResourceQuota{{Name: gpus, NominalQuota: resource.MustParse(amount)}},
		}},
	}}
}

func queueOf(name, amount string) cache.ObjectUpdate {
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Queue, Name: name}, Object: &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kueue.ClusterQueueSpec{ResourceGroups: has(amount)},
	}}
}

func flavorWith(t *testing.T, c nodehealth.Capacity) cache.ObjectUpdate {
	t.Helper()
	c.Resource = string(gpus)
	text, err := convert.CapacitiesText([]nodehealth.Capacity{c})
	if err != nil {
		t.Fatal(err)
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Flavor, Name: "a100"}, Object: &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "a100",
			Annotations: map[string]string{convert.CapacityAnnotation: text},
		},
	}}
}

// While something that is promised is lost, all quotas are told in proportion; only if the flavor says that they are cut, and
// with what is cut of each. The slack queue has what nobody was promised. What specs say stays, and all is as before
// when it is healthy.
func TestQuotasAreCutInProportion(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type quota struct{ Nominal, Cut core.Amount }
	w := cache.NewWorld(convert.Rules{SlackQueue: "slack"})
	cohort := cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Cohort, Name: "all"}, Object: &kueue.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: kueue.CohortSpec{ResourceGroups: has("16")},
	}}
	flavors := 0
	silent := cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Flavor, Name: "a100"}, Object: &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: "a100"},
	}}
	for _, step := range []struct {
		why     string
		changes []cache.ObjectUpdate
		want    map[string]quota
	}{
		{
			"all is healthy",
			[]cache.ObjectUpdate{
				flavorWith(t, nodehealth.Capacity{Planned: 72, Healthy: 72, Promised: 64, Cut: true}),
				queueOf("blue", "32"), queueOf("red", "16"), queueOf("slack", "8"), cohort,
			},
			map[string]quota{"blue": {32, 0}, "red": {16, 0}, "slack": {8, 0}, "cohort all": {16, 0}},
		},
		{
			"half of what was promised is lost",
			[]cache.ObjectUpdate{flavorWith(
				t, nodehealth.Capacity{Planned: 72, Healthy: 32, Promised: 64, Cut: true, LostSince: at, ShortSince: at},
			)},
			map[string]quota{"blue": {16, 16}, "red": {8, 8}, "slack": {0, 8}, "cohort all": {8, 8}},
		},
		{
			"the same once more",
			[]cache.ObjectUpdate{flavorWith(
				t, nodehealth.Capacity{Planned: 72, Healthy: 32, Promised: 64, Cut: true, LostSince: at, ShortSince: at},
			)},
			map[string]quota{},
		},
		{
			"a quota changes",
			[]cache.ObjectUpdate{queueOf("blue", "16")},
			map[string]quota{"blue": {11, 5}, "red": {11, 5}, "cohort all": {10, 6}},
		},
		{
			"a queue is gone, and what is left is enough",
			[]cache.ObjectUpdate{{Ref: cache.Ref{Kind: cache.Queue, Name: "blue"}}},
			map[string]quota{"red": {16, 0}, "cohort all": {16, 0}},
		},
		{
			"the status of a queue is written",
			[]cache.ObjectUpdate{queueOf("red", "16")},
			map[string]quota{"red": {16, 0}},
		},
		{
			"the annotation is taken away",
			[]cache.ObjectUpdate{silent, queueOf("slack", "8")},
			map[string]quota{"slack": {0, 8}},
		},
		{
			"more was promised on purpose, and one is lost",
			[]cache.ObjectUpdate{flavorWith(
				t, nodehealth.Capacity{Planned: 16, Healthy: 15, Promised: 32, Cut: true, LostSince: at, ShortSince: at},
			)},
			map[string]quota{"cohort all": {15, 1}},
		},
		{
			"it is only told",
			[]cache.ObjectUpdate{flavorWith(
				t, nodehealth.Capacity{Planned: 72, Healthy: 8, Promised: 32, LostSince: at, ShortSince: at},
			)},
			map[string]quota{"slack": {8, 0}, "cohort all": {16, 0}},
		},
	} {
		got := map[string]quota{}
		for _, ev := range w.Translate(step.changes) {
			switch ev := ev.(type) {
			case core.FlavorSet:
				flavors++
			case core.QueueSet:
				q := ev.Queue.Groups[0].Flavors[0].Quotas[0]
				got[ev.Queue.Name] = quota{q.Nominal, q.Cut}
			case core.CohortSet:
				q := ev.Cohort.Groups[0].Flavors[0].Quotas[0]
				got["cohort "+ev.Cohort.Name] = quota{q.Nominal, q.Cut}
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
	}
	if flavors != 1 {
		t.Errorf("the flavor is told %d times, want once: it stays as it is", flavors)
	}
}
