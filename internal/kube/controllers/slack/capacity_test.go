package slack

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// team is a ClusterQueue with GPUs of its own.
func team(name, gpus string) *kueue.ClusterQueue {
	q := slackQueue()
	q.Name = name
	q.Spec.ResourceGroups[0].CoveredResources = []corev1.ResourceName{"nvidia.com/gpu"}
	q.Spec.ResourceGroups[0].Flavors[0].Resources = []kueue.ResourceQuota{
		{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse(gpus)},
	}
	return q
}

// gpus is how GPUs of the flavor stand.
func (w *world) gpus() nodehealth.Capacity {
	w.Helper()
	w.reconcile()
	f := &kueue.ResourceFlavor{}
	w.must(w.c.Get(w.Context(), client.ObjectKey{Name: "default-flavor"}, f))
	for _, c := range convert.Capacities(f) {
		if c.Resource == "nvidia.com/gpu" {
			return c
		}
	}
	w.Fatalf("flavor says nothing of GPUs: %v", f.Annotations)
	return nodehealth.Capacity{}
}

// The annotation says what is planned, there, healthy and promised, and since when it is too little.
func TestFlavorsSayHowTheirCapacityStands(t *testing.T) {
	slack := slackQueue()
	slack.Spec.ResourceGroups[0].Flavors[0].Resources[1].NominalQuota = resource.MustParse("4")
	w := newWorld(t, slack, team("a", "8"), flavor(), node("n1"), node("n2"), node("n3"))
	w.r.options.Cut = true
	is := w.gpus()
	want := nodehealth.Capacity{
		Resource: "nvidia.com/gpu", Planned: 12, Present: 12, Healthy: 12, Promised: 8, Cut: true,
	}
	if !is.Equal(want) || is.Slack() != 4 {
		t.Errorf("with all nodes well: %+v, want %+v with a slack of 4", is, want)
	}

	w.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	want.Healthy, want.LostSince = 8, start
	if is = w.gpus(); !is.Equal(want) {
		t.Errorf("with one of three cordoned: %+v, want %+v", is, want)
	}

	w.clock.SetTime(start.Add(time.Hour))
	w.told()
	w.must(w.c.Delete(t.Context(), node("n2")))
	want.Present, want.Healthy, want.ShortSince = 8, 4, start.Add(time.Hour)
	if is = w.gpus(); !is.Equal(want) {
		t.Errorf("with one cordoned and one gone: %+v, want %+v", is, want)
	}
	if got := w.told(); !slices.ContainsFunc(got, func(e string) bool {
		return strings.Contains(
			e,
			"CapacityShort Of 8 nvidia.com/gpu promised only 4 are left while nodes are out of service: quotas are cut",
		)
	}) {
		t.Errorf("events %q, want one that says it", got)
	}

	w.clock.SetTime(start.Add(2 * time.Hour))
	if is = w.gpus(); !is.Equal(want) {
		t.Errorf("an hour later: %+v, want that it says since when", is)
	}
	w.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	want.Healthy, want.ShortSince = 8, time.Time{}
	if is = w.gpus(); !is.Equal(want) {
		t.Errorf("with one back: %+v, want %+v", is, want)
	}
	if got := w.told(); !slices.ContainsFunc(
		got,
		func(e string) bool { return strings.Contains(e, "CapacityRestored") },
	) {
		t.Errorf("events %q, want one that says that it is enough again", got)
	}
}

func TestCapacityIsWrittenOnce(t *testing.T) {
	w := newWorld(t, team("a", "8"), flavor(), node("n1"))
	w.gpus()
	before, after := &kueue.ResourceFlavor{}, &kueue.ResourceFlavor{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: "default-flavor"}, before))
	w.clock.SetTime(start.Add(time.Minute))
	w.gpus()
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: "default-flavor"}, after))
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("the flavor was written although nothing changed")
	}
}

// Nodes of pools that are made on demand are not lost when they are deleted, and nothing is cut for them.
func TestPoolsOnDemandLoseNothing(t *testing.T) {
	check := &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "provision"},
		Spec:       kueue.AdmissionCheckSpec{ControllerName: kueue.ProvisioningRequestControllerName},
	}
	asks := team("a", "8")
	asks.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
		AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "provision"}},
	}
	said := flavor()
	said.Annotations = map[string]string{kueue.NodesOnDemandAnnotation: "true"}
	for why, objects := range map[string][]client.Object{
		"an admission check makes nodes": {asks, flavor(), check},
		"the flavor says so":             {team("a", "8"), said},
	} {
		w := newWorld(t, append(objects, node("n1"), node("n2"))...)
		w.r.options.Cut = true
		w.gpus()
		w.must(w.c.Delete(t.Context(), node("n1")))
		want := nodehealth.Capacity{
			Resource: "nvidia.com/gpu", Planned: 8, Present: 4, Healthy: 4, Promised: 8, OnDemand: true,
		}
		if is := w.gpus(); !is.Equal(want) {
			t.Errorf("%s: %+v, want %+v", why, is, want)
		}
		m := &corev1.ConfigMap{}
		w.must(w.c.Get(t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: InventoryName}, m))
		if _, still := m.Data["n1"]; still {
			t.Errorf("%s: the inventory remembers a node that is not lost", why)
		}
	}
}

// Who takes the annotation away, or writes nonsense into it, has it written again, with the times that it had; no event
// tells anew what was told.
func TestAnAnnotationThatIsTakenAwayComesBack(t *testing.T) {
	w := newWorld(t, team("a", "8"), flavor(), node("n1"), node("n2"))
	w.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	want := w.gpus()
	w.told()
	for i, change := range []func(map[string]string){
		func(a map[string]string) { delete(a, convert.CapacityAnnotation) },
		func(a map[string]string) { a[convert.CapacityAnnotation] = "{" },
	} {
		f := &kueue.ResourceFlavor{}
		w.must(w.c.Get(t.Context(), client.ObjectKey{Name: "default-flavor"}, f))
		change(f.Annotations)
		w.must(w.c.Update(t.Context(), f))
		w.clock.SetTime(start.Add(time.Duration(i+1) * time.Hour))
		if is := w.gpus(); want.ShortSince.IsZero() || !is.Equal(want) {
			t.Errorf("change %d: it says %+v, want %+v", i, is, want)
		}
		if got := w.told(); len(got) != 0 {
			t.Errorf("change %d: events %q, want none", i, got)
		}
	}
}

// A flavor that has no capacity any more says that, and does not fall silent.
func TestNoCapacityIsSaid(t *testing.T) {
	w := newWorld(t, flavor(), node("n1"))
	w.gpus()
	w.must(w.c.Delete(t.Context(), node("n1")))
	m := &corev1.ConfigMap{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: InventoryName}, m))
	delete(m.Data, "n1")
	w.must(w.c.Update(t.Context(), m))
	w.reconcile()
	f := &kueue.ResourceFlavor{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: "default-flavor"}, f))
	if got := f.Annotations[convert.CapacityAnnotation]; got != "[]" {
		t.Errorf("it says %q, want []", got)
	}
}

// What the configuration plans counts, and not what was seen: more is missing, or nodes are retired.
func TestPlannedIsWhatTheConfigurationSays(t *testing.T) {
	for why, c := range map[string]struct {
		planned core.Amount
		lends   string
	}{
		"nodes never came":     {14, "0"},
		"as many as there are": {8, ""},
		"fewer are planned":    {4, ""},
	} {
		w := newWorld(t, slackQueue(), flavor(), node("n1"), node("n2"))
		w.r.options.Pools = map[string]nodehealth.Pool{
			"default-flavor": {Planned: core.Resources{{Resource: "nvidia.com/gpu", Amount: c.planned}}},
		}
		if is := w.gpus(); is.Planned != c.planned {
			t.Errorf("%s: %v are planned, want %v", why, is.Planned, c.planned)
		}
		if got := w.limits()["nvidia.com/gpu"]; got != c.lends {
			t.Errorf("%s: it lends %q, want %q", why, got, c.lends)
		}
	}
}

// Devices that cannot be allocated are lost, and nothing else of their node is.
func TestDevicesThatCannotBeAllocatedAreLost(t *testing.T) {
	sick := node("n1")
	sick.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("7"), "nvidia.com/gpu": resource.MustParse("3"),
	}
	w := newWorld(t, slackQueue(), flavor(), sick)
	if is := w.gpus(); is.Healthy != 3 {
		t.Errorf("%v GPUs are healthy, want 3 of 4", is.Healthy)
	}
	if got := w.limits(); got["nvidia.com/gpu"] != "5" || got["cpu"] != "" {
		t.Errorf("it lends %v, want 5 of 6 GPUs and all CPU", got)
	}
}
