package queues

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// A queue says that what it was promised is not all there, and how much of its quota is cut for that.
func TestQueuesSayThatCapacityIsShort(t *testing.T) {
	q := &kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{ResourceGroups: []kueue.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
		Flavors: []kueue.FlavorQuotas{{Name: "a100", Resources: []kueue.ResourceQuota{
			{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("64")},
		}}},
	}}}}
	short := []shortOf{
		{"a100", nodehealth.Capacity{Resource: "nvidia.com/gpu", Planned: 128, Promised: 128, Healthy: 96}},
	}
	cut := map[core.FlavorResource]core.Amount{{Flavor: "a100", Resource: "nvidia.com/gpu"}: 16}
	had := []metav1.Condition{
		{Type: convert.CapacityShort, Status: metav1.ConditionTrue, Reason: convert.ReasonQuotaCut},
	}
	for why, c := range map[string]struct {
		short        []shortOf
		load         *core.Load
		before       []metav1.Condition
		reason, text string
	}{
		"its quota is cut": {
			short, &core.Load{Cut: cut}, nil, convert.ReasonQuotaCut,
			"Of 128 nvidia.com/gpu of flavor a100 that are promised 96 are left while nodes are out of service, and the queue has 48 of its 64",
		},
		"its quota stays": {
			short, &core.Load{}, nil, convert.ReasonQuotaKept,
			"Of 128 nvidia.com/gpu of flavor a100 that are promised 96 are left while nodes are out of service",
		},
		"all is healthy again": {nil, &core.Load{}, had, "", ""},
		"another flavor is short": {
			[]shortOf{{"h100", short[0].Capacity}}, &core.Load{}, nil, "", "",
		},
		"nobody knows yet how full it is": {nil, nil, had, convert.ReasonQuotaCut, ""},
	} {
		conditions := append([]metav1.Condition(nil), c.before...)
		setShort(&conditions, q, c.short, c.load, time.Unix(1000, 0))
		got := metav1.Condition{}
		if is := apimeta.FindStatusCondition(conditions, convert.CapacityShort); is != nil {
			got = *is
		}
		if got.Reason != c.reason || got.Message != c.text {
			t.Errorf("%s: %s %q, want %s %q", why, got.Reason, got.Message, c.reason, c.text)
		}
	}
}
