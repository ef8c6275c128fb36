package view_test

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
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// A flavor says how it stands, worst first: cut, short, lost; with what is lent and, where nodes are made on demand,
// what is on its way.
func TestCapacityOfFlavors(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	flavor := func(name string, c nodehealth.Capacity) kueue.ResourceFlavor {
		c.Resource = core.GPU
		text, err := convert.CapacitiesText([]nodehealth.Capacity{c})
		if err != nil {
			t.Fatal(err)
		}
		return kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{convert.CapacityAnnotation: text},
			},
		}
	}
	on := func(name string) core.FlavorResource { return core.FlavorResource{Flavor: name, Resource: core.GPU} }
	queue := &kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{CohortName: "all"}}
	for _, name := range []kueue.ResourceFlavorReference{"a", "e"} {
		queue.Spec.ResourceGroups = append(queue.Spec.ResourceGroups, kueue.ResourceGroup{
			CoveredResources: []corev1.ResourceName{core.GPU},
			Flavors: []kueue.FlavorQuotas{{Name: name, Resources: []kueue.ResourceQuota{
				{Name: core.GPU, NominalQuota: resource.MustParse("8")},
			}}},
		})
	}
	load := core.Load{
		Reserved: map[core.FlavorResource]core.Amount{on("a"): 12, on("e"): 8},
		Used:     map[core.FlavorResource]core.Amount{on("a"): 12, on("e"): 2},
	}
	got := view.CapacityOf([]kueue.ResourceFlavor{
		flavor("e", nodehealth.Capacity{Planned: 16, Present: 4, Healthy: 4, Promised: 8, OnDemand: true}),
		flavor("a", nodehealth.Capacity{Planned: 16, Present: 16, Healthy: 16, Promised: 8, Cut: true}),
		flavor("b", nodehealth.Capacity{Planned: 16, Present: 16, Healthy: 12, Promised: 8, LostSince: at}),
		flavor(
			"c",
			nodehealth.Capacity{Planned: 16, Present: 8, Healthy: 4, Promised: 8, LostSince: at, ShortSince: at},
		),
		flavor(
			"d",
			nodehealth.Capacity{
				Planned:    16,
				Healthy:    0,
				Promised:   8,
				LostSince:  at,
				ShortSince: at.Add(time.Hour),
				Cut:        true,
			},
		),
		{ObjectMeta: metav1.ObjectMeta{Name: "z"}},
	}, []view.ClusterQueue{view.ClusterQueueOf(queue, nil, load)})
	later := at.Add(time.Hour)
	row := func(flavor, present, healthy, slack, lent, state string, since *time.Time) view.FlavorCapacity {
		return view.FlavorCapacity{
			Flavor: flavor, Resource: core.GPU, Planned: "16", Present: present, Healthy: healthy, Promised: "8",
			Slack: slack, Lent: lent, State: state, Since: since,
		}
	}
	onDemand := row("e", "4", "4", "8", "0", view.CapacityOK, nil)
	onDemand.OnItsWay, onDemand.OnDemand = "6", "6"
	want := []view.FlavorCapacity{
		row("a", "16", "16", "8", "4", view.CapacityOK, nil),
		row("b", "16", "12", "4", "0", view.CapacityLost, &at),
		row("c", "8", "4", "-4", "0", view.CapacityShort, &at),
		row("d", "0", "0", "-8", "0", view.CapacityCut, &later),
		onDemand,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
