package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// TestChecks follows what AdmissionChecks mean for the queues that name them.
func TestChecks(t *testing.T) {
	queue := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
		ResourceGroups: []kueue.ResourceGroup{{Flavors: []kueue.FlavorQuotas{{Name: "metal"}, {Name: "cloud"}}}},
		AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{AdmissionChecks: []kueue.AdmissionCheckStrategyRule{
			{Name: "nodes", OnFlavors: []kueue.ResourceFlavorReference{"cloud"}}, {Name: "budget"},
		}},
	}}
	check := func(name, controller string, active bool) cache.ObjectUpdate {
		c := &kueue.AdmissionCheck{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kueue.AdmissionCheckSpec{ControllerName: controller},
		}
		if active {
			apimeta.SetStatusCondition(
				&c.Status.Conditions,
				metav1.Condition{Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue},
			)
		}
		return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.AdmissionCheck, Name: name}, Object: c}
	}
	type told struct {
		Inactive    string
		Provisioned []string
	}
	w := cache.NewWorld(convert.Rules{})
	for _, step := range []struct {
		why    string
		change cache.ObjectUpdate
		want   []told
	}{
		{
			"the checks are not known",
			cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Queue, Name: "q"}, Object: queue},
			[]told{{Inactive: "its admission checks nodes, budget do not exist"}},
		},
		{
			"one of them makes nodes for its flavor", check("nodes", kueue.ProvisioningRequestControllerName, true),
			[]told{{Inactive: "its admission checks budget do not exist", Provisioned: []string{"cloud"}}},
		},
		{
			"no controller answers the other", check("budget", "example.com/budget", false),
			[]told{{Inactive: "no controller answers its admission checks budget: they are not Active", Provisioned: []string{"cloud"}}},
		},
		{"now a controller does", check("budget", "example.com/budget", true), []told{{Provisioned: []string{"cloud"}}}},
		{"nothing new", check("budget", "example.com/budget", true), nil},
		{
			"gone",
			cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.AdmissionCheck, Name: "nodes"}},
			[]told{{Inactive: "its admission checks nodes do not exist"}},
		},
	} {
		var got []told
		for _, ev := range w.Translate([]cache.ObjectUpdate{step.change}) {
			if q, ok := ev.(core.QueueSet); ok {
				got = append(got, told{q.Queue.Inactive, q.Queue.Provisioned})
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
	}
}

// TestNodesOnDemand follows what flavors say of their nodes for their queues.
func TestNodesOnDemand(t *testing.T) {
	queue := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
		ResourceGroups: []kueue.ResourceGroup{{Flavors: []kueue.FlavorQuotas{{Name: "metal"}, {Name: "cloud"}}}},
	}}
	flavor := func(annotations map[string]string) cache.ObjectUpdate {
		f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Annotations: annotations}}
		return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Flavor, Name: "cloud"}, Object: f}
	}
	w := cache.NewWorld(convert.Rules{})
	for _, step := range []struct {
		why     string
		changes []cache.ObjectUpdate
		want    [][]string // each time the queue is told
	}{
		{"nothing is said", []cache.ObjectUpdate{flavor(nil), {Ref: cache.Ref{Kind: cache.Queue, Name: "q"}, Object: queue}}, [][]string{nil}},
		{"on demand", []cache.ObjectUpdate{flavor(map[string]string{kueue.NodesOnDemandAnnotation: "true"})}, [][]string{{"cloud"}}},
		{"nothing new", []cache.ObjectUpdate{flavor(map[string]string{kueue.NodesOnDemandAnnotation: "true", "x": "y"})}, nil},
		{"no longer", []cache.ObjectUpdate{flavor(map[string]string{kueue.NodesOnDemandAnnotation: "false"})}, [][]string{nil}},
	} {
		var got [][]string
		for _, ev := range w.Translate(step.changes) {
			if q, ok := ev.(core.QueueSet); ok {
				got = append(got, q.Queue.Provisioned)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
	}
}

// TestTopologies follows what Topologies mean for the queues of their flavors.
func TestTopologies(t *testing.T) {
	queue := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
		ResourceGroups: []kueue.ResourceGroup{{Flavors: []kueue.FlavorQuotas{{Name: "metal"}, {Name: "cloud"}}}},
	}}
	flavor := func(topology string) cache.ObjectUpdate {
		f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "metal"}}
		if topology != "" {
			f.Spec.TopologyName = new(kueue.TopologyReference(topology))
		}
		return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Flavor, Name: "metal"}, Object: f}
	}
	topology := cache.Ref{Kind: cache.Topology, Name: "racks"}
	w := cache.NewWorld(convert.Rules{})
	for _, step := range []struct {
		why     string
		changes []cache.ObjectUpdate
		want    []string // why the queue cannot admit, each time it is told
	}{
		{"no topology is named", []cache.ObjectUpdate{flavor(""), {Ref: cache.Ref{Kind: cache.Queue, Name: "q"}, Object: queue}}, []string{""}},
		{"one is named that does not exist", []cache.ObjectUpdate{flavor("racks")}, []string{"the topologies racks of its flavors do not exist"}},
		{"it is made", []cache.ObjectUpdate{{Ref: topology, Object: &kueue.Topology{}}}, []string{""}},
		{"nothing new", []cache.ObjectUpdate{{Ref: topology, Object: &kueue.Topology{}}}, nil},
		{"it goes", []cache.ObjectUpdate{{Ref: topology}}, []string{"the topologies racks of its flavors do not exist"}},
		{"the flavor goes", []cache.ObjectUpdate{{Ref: cache.Ref{Kind: cache.Flavor, Name: "metal"}}}, []string{""}},
	} {
		var got []string
		for _, ev := range w.Translate(step.changes) {
			if q, ok := ev.(core.QueueSet); ok {
				got = append(got, q.Queue.Inactive)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
	}
}
