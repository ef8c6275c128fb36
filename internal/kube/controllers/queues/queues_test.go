package queues

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

var (
	cpu = core.FlavorResource{Flavor: "f", Resource: core.CPU}
	gpu = core.FlavorResource{Flavor: "f", Resource: core.GPU}
)

// usage is a readable form of flavorsReservation or flavorsUsage.
func usage(all []kueue.FlavorUsage) map[string]string {
	out := map[string]string{}
	for _, f := range all {
		for _, r := range f.Resources {
			out[string(f.Name)+"/"+string(r.Name)] = r.Total.String() + " borrowed " + r.Borrowed.String()
		}
	}
	return out
}

func TestClusterQueueStatus(t *testing.T) {
	w := newWorld(t, clusterQueue(), flavor())
	w.numbers.queues["q"] = core.Load{
		Pending: 2, Inadmissible: 1, Reserving: 4, Admitted: 3,
		Reserved: map[core.FlavorResource]core.Amount{cpu: 2500, gpu: 6},
		Used:     map[core.FlavorResource]core.Amount{gpu: 4},
	}
	q := clusterQueue()
	w.reconcile(w.queues, q)
	w.read(q)
	if !slices.Equal(q.Finalizers, []string{"kueue.x-k8s.io/resource-in-use"}) {
		t.Errorf("finalizers are %v", q.Finalizers)
	}
	if got := [3]int32{
		q.Status.PendingWorkloads,
		q.Status.ReservingWorkloads,
		q.Status.AdmittedWorkloads,
	}; got != [3]int32{
		3,
		4,
		3,
	} {
		t.Errorf("pending, reserving, admitted = %v", got)
	}
	if diff := cmp.Diff(
		map[string]string{"f/cpu": "2500m borrowed 0", "f/nvidia.com/gpu": "6 borrowed 2"},
		usage(q.Status.FlavorsReservation),
	); diff != "" {
		t.Errorf("flavorsReservation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		map[string]string{"f/cpu": "0 borrowed 0", "f/nvidia.com/gpu": "4 borrowed 0"},
		usage(q.Status.FlavorsUsage),
	); diff != "" {
		t.Errorf("flavorsUsage (-want +got):\n%s", diff)
	}
	if !apimeta.IsStatusConditionTrue(q.Status.Conditions, kueue.ClusterQueueActive) {
		t.Errorf("conditions are %v", q.Status.Conditions)
	}
	if g := w.gauges.queues["q"]; g.State != view.QueueActive || g.Inadmissible != 1 || len(g.Flavors) != 1 ||
		len(g.Flavors[0].Quotas) != 2 ||
		g.Reserved[gpu] != 6 {
		t.Errorf("gauges show %+v", g)
	}
	w.reconcile(w.queues, q)
	if w.writes != 1 {
		t.Errorf("%d status writes, want one: nothing changed since", w.writes)
	}
}

// TestEmptyFlavorIsTold: in a cluster that has nodes, a queue says which of its
// flavors admit nothing because no node has their labels.
func TestEmptyFlavorIsTold(t *testing.T) {
	node := func(name, kind string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kind": kind}}}
	}
	labelled := flavor()
	labelled.Spec.NodeLabels = map[string]string{"kind": "h100"}
	const empty = "Can admit new workloads, but not with flavor(s) f: no node has the labels (spec.nodeLabels)"
	tests := map[string]struct {
		why   string
		nodes []client.Object
		says  string
		then  func(*kueue.ResourceFlavor)
	}{
		"no nodes": {"quota alone decides", nil, "Can admit new workloads", nil},
		"others":   {"they are no help", []client.Object{node("n", "a100")}, empty, nil},
		"its nodes": {
			"all is well",
			[]client.Object{node("n", "a100"), node("m", "h100")},
			"Can admit new workloads",
			nil,
		},
		"on demand": {
			"they will come",
			[]client.Object{node("n", "a100")},
			"Can admit new workloads",
			func(f *kueue.ResourceFlavor) {
				f.Annotations = map[string]string{"mlbatch.dev/nodes-on-demand": "true"}
			},
		},
		"no labels": {
			"any node will do",
			[]client.Object{node("n", "a100")},
			"Can admit new workloads",
			func(f *kueue.ResourceFlavor) { f.Spec.NodeLabels = nil },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := labelled.DeepCopy()
			if tc.then != nil {
				tc.then(f)
			}
			w, q := newWorld(t, append([]client.Object{clusterQueue(), f}, tc.nodes...)...), clusterQueue()
			w.reconcile(w.queues, q)
			w.read(q)
			if c := apimeta.FindStatusCondition(
				q.Status.Conditions,
				kueue.ClusterQueueActive,
			); c == nil || c.Status != metav1.ConditionTrue ||
				c.Message != tc.says {
				t.Errorf("%s: Active is %+v, want %q", tc.why, c, tc.says)
			}
		})
	}
}

func TestWritesArePaced(t *testing.T) {
	w := newWorld(t, clusterQueue(), flavor())
	q := clusterQueue()
	set := func(pending int) { w.numbers.queues["q"] = core.Load{Pending: pending} }
	set(1)
	w.reconcile(w.queues, q)
	set(2)
	w.clock.Step(100 * time.Millisecond)
	if got := w.reconcile(w.queues, q).RequeueAfter; got != 400*time.Millisecond {
		t.Errorf("comes back after %v, want what is left of the interval", got)
	}
	set(3)
	w.clock.Step(400 * time.Millisecond)
	w.reconcile(w.queues, q)
	w.read(q)
	if w.writes != 2 || q.Status.PendingWorkloads != 3 {
		t.Errorf(
			"%d writes and %d pending, want the first at once and the last after the interval",
			w.writes,
			q.Status.PendingWorkloads,
		)
	}
}

// TestQueuesOfATreeAreWrittenTogether: what the queues of a tree use together is
// never more than there is, however often and in whatever order they are written.
func TestQueuesOfATreeAreWrittenTogether(t *testing.T) {
	other := clusterQueue()
	other.Name = "other"
	w := newWorld(t, clusterQueue(), other, flavor())
	use := func(q, o core.Amount) {
		for name, n := range map[string]core.Amount{"q": q, "other": o} {
			w.numbers.queues[name] = core.Load{
				Reserved: map[core.FlavorResource]core.Amount{gpu: n},
				Used:     map[core.FlavorResource]core.Amount{gpu: n},
			}
		}
	}
	sum := func(when string, want string) {
		t.Helper()
		var text []string
		for _, q := range []*kueue.ClusterQueue{clusterQueue(), other} {
			w.read(q)
			text = append(text, usage(q.Status.FlavorsUsage)["f/nvidia.com/gpu"])
		}
		if got := strings.Join(text, ", "); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	use(4, 0)
	w.reconcile(w.queues, clusterQueue())
	w.reconcile(w.queues, other)
	sum("at first", "4 borrowed 0, 0 borrowed 0")
	use(0, 4)
	w.clock.Step(100 * time.Millisecond)
	if again := w.reconcile(w.queues, other).RequeueAfter; again != 400*time.Millisecond {
		t.Errorf("comes back after %v, want with the next page", again)
	}
	sum("one is looked at", "4 borrowed 0, 0 borrowed 0")
	w.clock.Step(400 * time.Millisecond)
	w.reconcile(w.queues, other)
	use(2, 2) // meanwhile
	w.reconcile(w.queues, clusterQueue())
	sum("both are written", "0 borrowed 0, 4 borrowed 0")
}

func TestUnknownTallyKeepsNumbers(t *testing.T) {
	stored := clusterQueue()
	stored.Status.PendingWorkloads = 7
	w := newWorld(t, stored)
	q := clusterQueue()
	w.reconcile(w.queues, q)
	w.read(q)
	c := apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive)
	if q.Status.PendingWorkloads != 7 || c == nil || c.Reason != kueue.ReasonFlavorNotFound {
		t.Errorf("status is %+v, want the old numbers and the true condition: a restart must not blink", q.Status)
	}
}

func TestCohortCycleIsFound(t *testing.T) {
	w := newWorld(t, clusterQueue(), flavor(),
		&kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: kueue.CohortSpec{ParentName: "d"}},
		&kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: kueue.CohortSpec{ParentName: "c"}})
	around, err := surroundingsOf(t.Context(), w.c, clusterQueue())
	w.must(err)
	if diff := cmp.Diff([]string{"c", "d", "c"}, around.cycle); diff != "" {
		t.Errorf("cycle (-want +got):\n%s", diff)
	}
}

func TestDeletedQueueWaitsUntilFree(t *testing.T) {
	holder := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w"},
		Status:     kueue.WorkloadStatus{Admission: &kueue.Admission{ClusterQueue: "q"}},
	}
	w := newWorld(t, clusterQueue(), flavor(), holder)
	q := clusterQueue()
	w.numbers.queues["q"] = core.Load{Reserving: 1, Admitted: 1}
	w.reconcile(w.queues, q)
	w.must(w.c.Delete(t.Context(), q))
	w.clock.Step(time.Second)

	if after := w.reconcile(w.queues, q).RequeueAfter; !w.exists(q) || after == 0 {
		t.Fatal("a queue with an admitted workload was deleted, or is not looked at again")
	}
	if c := apimeta.FindStatusCondition(
		q.Status.Conditions,
		kueue.ClusterQueueActive,
	); c.Reason != kueue.ReasonTerminating {
		t.Errorf("Active has reason %s, want Terminating", c.Reason)
	}
	if s := w.gauges.queues["q"].State; s != view.QueueTerminating {
		t.Errorf("gauges show status %s, want terminating", s)
	}
	w.numbers.queues["q"] = core.Load{}
	if w.reconcile(w.queues, q); !w.exists(q) {
		t.Fatal("the queue was deleted while a Workload still says that it holds its quota")
	}
	holder.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: "Succeeded"},
	}
	w.must(w.c.Status().Update(t.Context(), holder))
	if w.reconcile(w.queues, q); w.exists(q) {
		t.Error("the queue stays although its last workload finished")
	}
	w.reconcile(w.queues, q)
	if len(w.gauges.queues) != 0 {
		t.Error("gauges still show the deleted queue")
	}
}

func TestDeletedFlavorWaitsForQueues(t *testing.T) {
	w := newWorld(t, clusterQueue(), flavor())
	f := flavor()
	w.reconcile(w.flavors, f)
	w.must(w.c.Delete(t.Context(), f))
	if w.reconcile(w.flavors, f); !w.exists(f) {
		t.Fatal("a flavor in use was deleted")
	}
	if got, want := <-w.events.Events, "Warning InUse Deletion waits for ClusterQueues that refer to the ResourceFlavor: q"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	w.must(w.c.Delete(t.Context(), clusterQueue()))
	if w.reconcile(w.flavors, f); w.exists(f) {
		t.Error("the flavor stays although nothing refers to it")
	}
}

func TestDeletedCheckWaitsForQueues(t *testing.T) {
	q := clusterQueue()
	q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
		AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "budget"}},
	}
	budget := &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: "budget"}}
	w := newWorld(t, q, flavor(), budget)
	w.reconcile(w.checks, budget)
	w.must(w.c.Delete(t.Context(), budget))
	if w.reconcile(w.checks, budget); !w.exists(budget) {
		t.Fatal("a check that is asked was deleted: its queue would admit nothing any more")
	}
	q.Spec.AdmissionChecksStrategy = nil
	w.must(w.c.Update(t.Context(), q))
	if w.reconcile(w.checks, budget); w.exists(budget) {
		t.Error("the check stays although no queue asks for it")
	}
}

func TestLocalQueueStatus(t *testing.T) {
	w := newWorld(t, clusterQueue(), flavor(), localQueue())
	w.numbers.local["n/l"] = core.Load{
		Pending: 1, Reserving: 2, Admitted: 2,
		Reserved: map[core.FlavorResource]core.Amount{gpu: 6}, Used: map[core.FlavorResource]core.Amount{gpu: 6},
	}
	q := localQueue()
	w.reconcile(w.local, q)
	w.read(q)
	if got := [3]int32{
		q.Status.PendingWorkloads,
		q.Status.ReservingWorkloads,
		q.Status.AdmittedWorkloads,
	}; got != [3]int32{
		1,
		2,
		2,
	} {
		t.Errorf("pending, reserving, admitted = %v", got)
	}
	if f := q.Status.FlavorsUsage; len(f) != 1 || len(f[0].Resources) != 2 ||
		f[0].Resources[1].Total.String() != "6" {
		t.Errorf("flavorsUsage is %+v", f)
	}
	if !apimeta.IsStatusConditionTrue(q.Status.Conditions, kueue.LocalQueueActive) ||
		w.gauges.local["n/l"].Active != "True" {
		t.Errorf("conditions are %v, gauges %+v", q.Status.Conditions, w.gauges.local)
	}
	stopped := clusterQueue()
	w.read(stopped)
	stopped.Spec.StopPolicy = ptr.To(kueue.StopPolicyHold)
	w.must(w.c.Update(t.Context(), stopped))
	w.clock.Step(time.Second)
	w.reconcile(w.local, q)
	w.read(q)
	if c := apimeta.FindStatusCondition(
		q.Status.Conditions,
		kueue.LocalQueueActive,
	); c.Reason != kueue.ReasonClusterQueueIsInactive {
		t.Errorf("Active has reason %s, want that the queue behind it is stopped", c.Reason)
	}
	w.must(w.c.Delete(t.Context(), q))
	w.reconcile(w.local, q)
	if len(w.gauges.local) != 0 {
		t.Error("gauges still show the deleted LocalQueue")
	}
}

func TestFeederPassesOnWhatChanged(t *testing.T) {
	other := clusterQueue()
	other.Name = "other"
	c := newWorld(t, clusterQueue(), other, localQueue()).c
	synctest.Test(t, func(t *testing.T) {
		numbers := newTallies()
		f := newFeeder(c, Options{Numbers: numbers, Interval: DefaultInterval, Clock: clock.RealClock{}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Start(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("the feeder ended with %v", err)
			}
		}()
		next := func(from <-chan event.GenericEvent) string {
			select {
			case e := <-from:
				return e.Object.GetName()
			case <-time.After(time.Minute):
				return "nothing"
			}
		}
		numbers.queues["q"] = core.Load{Pending: 1}
		numbers.queues["other"] = core.Load{}
		numbers.local["n/l"] = core.Load{Pending: 1}
		numbers.changed <- struct{}{}
		got := []string{next(f.queues), next(f.queues)}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"other", "q"}, got); diff != "" {
			t.Errorf("at first all queues are new (-want +got):\n%s", diff)
		}
		if n := next(f.localQueues); n != "l" {
			t.Errorf("passed on %s, want the LocalQueue", n)
		}
		synctest.Wait()
		numbers.queues["q"] = core.Load{Pending: 1, Used: map[core.FlavorResource]core.Amount{gpu: 1}}
		start := time.Now()
		numbers.changed <- struct{}{}
		if n := next(f.queues); n != "q" {
			t.Errorf("passed on %s, want the one queue that changed", n)
		}
		if waited := time.Since(start); waited != DefaultInterval {
			t.Errorf("passed on after %v, want the interval %v", waited, DefaultInterval)
		}
		if n := next(f.queues); n != "nothing" {
			t.Errorf("passed on %s, which did not change", n)
		}
	})
}

func TestTopologyIsKeptWhileFlavorsNameIt(t *testing.T) {
	f := flavor()
	f.Spec.TopologyName = new(kueue.TopologyReference("racks"))
	topology := &kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: "racks"}}
	w := newWorld(t, clusterQueue(), f, topology)
	active := func() string {
		w.clock.Step(DefaultInterval)
		q := clusterQueue()
		w.reconcile(w.queues, q)
		w.read(q)
		return apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive).Reason
	}
	keep := newTopologies(w.c, w.events)
	w.reconcile(keep, topology)
	if got := active(); got != kueue.ReasonReady {
		t.Errorf("the queue is %s while all is there", got)
	}
	w.must(w.c.Delete(w.Context(), topology))
	if w.reconcile(keep, topology); !w.exists(topology) {
		t.Fatal("a topology in use was deleted")
	}
	if got, want := <-w.events.Events, "Deletion waits for ResourceFlavors that refer to the Topology: f"; !strings.Contains(
		got,
		want,
	) {
		t.Errorf("event %q does not say %q", got, want)
	}
	if !slices.Contains(names(topologyOf(w.Context(), f)), "racks") ||
		!slices.Contains(names(w.queues.usingTopology(w.Context(), topology)), "q") {
		t.Error("changes of a flavor lead to its topology, those of a topology to the queues of its flavors")
	}
	w.read(topology)
	topology.Finalizers = nil // an admin insists
	w.must(w.c.Update(w.Context(), topology))
	if got := active(); got != kueue.ReasonTopologyNotFound {
		t.Errorf("the queue is %s without the topology", got)
	}
}

func names(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.Name)
	}
	return out
}
