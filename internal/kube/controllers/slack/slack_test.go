package slack

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// start is when worlds begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is an API server with a slack queue of 6 GPUs and 20 cpu.
type world struct {
	*testing.T
	c       client.WithWatch
	r       *reconciler
	events  *events.FakeRecorder
	patches int // writes to the queue
	clock   *clocktesting.FakePassiveClock
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kueue.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, events: events.NewFakeRecorder(100), clock: clocktesting.NewFakePassiveClock(start)}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithInterceptorFuncs(
			interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if _, ok := o.(*kueue.ClusterQueue); ok {
						w.patches++
					}
					return c.Patch(ctx, o, p, opts...)
				},
			},
		).Build()
	w.r = &reconciler{
		client: w.c, inventories: w.c, recorder: w.events,
		options: Options{Queue: DefaultQueue, Namespace: DefaultNamespace, Clock: w.clock},
	}
	return w
}

func slackQueue() *kueue.ClusterQueue {
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultQueue, Generation: 1},
		Spec: kueue.ClusterQueueSpec{CohortName: "default-cohort", ResourceGroups: []kueue.ResourceGroup{{
			CoveredResources: []corev1.ResourceName{corev1.ResourceCPU, "nvidia.com/gpu", corev1.ResourcePods},
			Flavors: []kueue.FlavorQuotas{{Name: "default-flavor", Resources: []kueue.ResourceQuota{
				{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse("20")},
				{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("6")},
				{Name: corev1.ResourcePods, NominalQuota: resource.MustParse("100")},
			}}},
		}}},
	}
}

func flavor() *kueue.ResourceFlavor {
	return &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "default-flavor"}}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("4"),
				corev1.ResourcePods: resource.MustParse("250"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func (w *world) reconcile() {
	w.Helper()
	if _, err := w.r.Reconcile(w.Context(), reconcile.Request{}); err != nil {
		w.Fatalf("reconcile: %v", err)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) changeNode(name string, change func(*corev1.Node)) {
	w.Helper()
	n := &corev1.Node{}
	w.must(w.c.Get(w.Context(), client.ObjectKey{Name: name}, n))
	change(n)
	w.must(w.c.Update(w.Context(), n))
}

// limits returns the lending limits by resource; those without are left out.
func (w *world) limits() map[string]string {
	w.Helper()
	q := &kueue.ClusterQueue{}
	w.must(w.c.Get(w.Context(), client.ObjectKey{Name: DefaultQueue}, q))
	got := map[string]string{}
	for _, r := range q.Spec.ResourceGroups[0].Flavors[0].Resources {
		if r.LendingLimit != nil {
			got[string(r.Name)] = r.LendingLimit.String()
		}
	}
	return got
}

func (w *world) told() []string {
	var all []string
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return all
}

func (w *world) expect(why string, limits map[string]string, events ...string) {
	w.Helper()
	w.reconcile()
	if diff := cmp.Diff(limits, w.limits()); diff != "" {
		w.Errorf("%s: limits (-want +got):\n%s", why, diff)
	}
	if diff := cmp.Diff(events, w.told()); diff != "" {
		w.Errorf("%s: events (-want +got):\n%s", why, diff)
	}
}

// What findings take out of service is not lent either.
func TestLendingFollowsFindings(t *testing.T) {
	w := newWorld(t, slackQueue(), flavor(), node("n1"), node("n2"))
	w.r.health = w.c
	w.expect("nothing is remembered", map[string]string{})
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: convert.HealthMemory},
		Data: map[string]string{
			"n1": `{"parts":[{"of":"nvidia.com/gpu","state":"Failed","since":"2026-03-01T12:00:00Z","level":"Failed"}]}`,
		},
	}
	w.must(w.c.Create(t.Context(), m))
	w.reconcile()
	if got := w.limits(); got["nvidia.com/gpu"] != "2" || got["cpu"] != "" {
		t.Errorf("it lends %v, want 2 of 6 GPUs and all else", got)
	}
}

func TestLendingFollowsNodes(t *testing.T) {
	w := newWorld(t, slackQueue(), flavor(), node("n1"), node("n2"))
	w.expect("all nodes are well", map[string]string{})

	w.changeNode("n1", func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "EVICT" })
	w.expect("a label takes the GPUs of its node", map[string]string{"nvidia.com/gpu": "2"},
		"Warning LendingLimited Lends less: 2 of 6 nvidia.com/gpu (default-flavor). "+
			"Out of service: n1 (label autopilot.ibm.com/gpuhealth=EVICT)")

	w.changeNode("n2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.expect(
		"a cordon takes everything",
		map[string]string{"cpu": "12", "nvidia.com/gpu": "0"},
		"Warning LendingLimited Lends less: 12 of 20 cpu (default-flavor), 0 of 6 nvidia.com/gpu (default-flavor). "+
			"Out of service: n1 (label autopilot.ibm.com/gpuhealth=EVICT), n2 (cordoned)",
	)

	w.changeNode("n1", func(n *corev1.Node) { delete(n.Labels, nodehealth.HealthLabel) })
	w.expect(
		"one of two came back",
		map[string]string{"cpu": "12", "nvidia.com/gpu": "2"},
		"Normal LendingRestored Lends more: 2 of 6 nvidia.com/gpu (default-flavor). Still out of service: n2 (cordoned)",
	)

	w.must(w.c.Delete(w.Context(), node("n2")))
	w.expect("a deleted node is still missing", map[string]string{"cpu": "12", "nvidia.com/gpu": "2"})

	inventory := &corev1.ConfigMap{}
	w.must(w.c.Get(w.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: InventoryName}, inventory))
	delete(inventory.Data, "n2")
	w.must(w.c.Update(w.Context(), inventory))
	w.expect("the admin accepts the loss", map[string]string{},
		"Normal LendingRestored Lends more: 20 of 20 cpu (default-flavor), 6 of 6 nvidia.com/gpu (default-flavor)")
}

func TestNothingIsWrittenWithoutChange(t *testing.T) {
	sick := node("n1")
	sick.Spec.Unschedulable = true
	w := newWorld(t, slackQueue(), flavor(), sick)
	w.reconcile()
	q, m := &kueue.ClusterQueue{}, &corev1.ConfigMap{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: DefaultQueue}, q))
	w.must(w.c.Get(t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: InventoryName}, m))
	for range 3 {
		w.reconcile()
	}
	again, bookAgain := &kueue.ClusterQueue{}, &corev1.ConfigMap{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: DefaultQueue}, again))
	w.must(w.c.Get(t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: InventoryName}, bookAgain))
	if q.ResourceVersion != again.ResourceVersion || w.patches != 1 {
		t.Errorf("the queue was written %d times, want once", w.patches)
	}
	if m.ResourceVersion != bookAgain.ResourceVersion {
		t.Error("the inventory was written although nothing changed")
	}
}

func TestPatchTouchesNothingElse(t *testing.T) {
	queue := slackQueue()
	queue.Spec.ResourceGroups[0].Flavors[0].Resources[1].LendingLimit = new(resource.MustParse("1"))
	w := newWorld(t, queue, flavor(), node("n1"))
	before := &kueue.ClusterQueue{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: DefaultQueue}, before))
	w.expect("what a user wrote into a limit is overwritten", map[string]string{},
		"Normal LendingRestored Lends more: 6 of 6 nvidia.com/gpu (default-flavor)")
	after := &kueue.ClusterQueue{}
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: DefaultQueue}, after))
	before.Spec.ResourceGroups[0].Flavors[0].Resources[1].LendingLimit = nil
	before.ResourceVersion, after.ResourceVersion = "", ""
	before.ManagedFields, after.ManagedFields = nil, nil
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("more than the limit changed (-want +got):\n%s", diff)
	}
}

func TestRearrangedSpecIsNotPatched(t *testing.T) {
	sick := node("n1")
	sick.Spec.Unschedulable = true
	w := newWorld(t, slackQueue(), flavor(), sick)
	seen := slackQueue()
	w.must(w.c.Get(t.Context(), client.ObjectKey{Name: DefaultQueue}, seen))
	now := seen.DeepCopy()
	resources := now.Spec.ResourceGroups[0].Flavors[0].Resources
	resources[0], resources[2] = resources[2], resources[0]
	w.must(w.c.Update(t.Context(), now))
	all, err := w.r.look(t.Context())
	w.must(err)
	losses, _ := nodehealth.Account(all.flavors, all.machines, nil)
	if err := w.r.adjust(t.Context(), seen, lending(seen, losses)); err == nil {
		t.Error("a patch made for another order of resources was applied")
	}
	if got := w.limits(); len(got) != 0 {
		t.Errorf("limits %v were written", got)
	}
	w.expect(
		"the next look does it right",
		map[string]string{"cpu": "12", "nvidia.com/gpu": "2"},
		"Warning LendingLimited Lends less: 2 of 6 nvidia.com/gpu (default-flavor), 12 of 20 cpu (default-flavor). Out of service: n1 (cordoned)",
	)
}

func TestNoCohort(t *testing.T) {
	queue := slackQueue()
	queue.Spec.CohortName = ""
	sick := node("n1")
	sick.Spec.Unschedulable = true
	w := newWorld(t, queue, flavor(), sick)
	w.expect("a queue in no cohort cannot lend, and says so", map[string]string{},
		"Warning NoCohort The slack queue lends to nobody because it is in no cohort: set spec.cohortName")
	w.expect("it says so once", map[string]string{})
}

func TestNoSlackQueue(t *testing.T) {
	w := newWorld(t, flavor(), node("n1"))
	w.reconcile()
	if got := w.told(); got != nil {
		t.Errorf("events %v, want none: a cluster without slack queue is in order", got)
	}
}

func TestLedgerTrouble(t *testing.T) {
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: InventoryName},
		Data:       map[string]string{"gone": "{", "n1": "nonsense"},
	}
	w := newWorld(t, slackQueue(), flavor(), node("n1"), stored)
	w.reconcile()
	got := w.told()
	if len(got) != 1 || !strings.Contains(got[0], "LedgerUnreadable") ||
		!strings.Contains(got[0], "for nodes gone,") {
		t.Errorf("events %q, want one that names the key that only the admin can mend", got)
	}
	w.must(w.c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
	want := map[string]string{
		"gone": "{",
		"n1":   `{"flavors":["default-flavor"],"capacity":{"cpu":"8","nvidia.com/gpu":"4"}}`,
	}
	if diff := cmp.Diff(want, stored.Data); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestLimitsFollowThoughLedgerCannotBeWritten(t *testing.T) {
	sick := node("n1")
	sick.Spec.Unschedulable = true
	w := newWorld(t, slackQueue(), flavor(), sick)
	boom := errors.New("namespace not found")
	w.r.client = interceptor.NewClient(w.c, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return boom },
	})
	if _, err := w.r.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, boom) {
		t.Errorf("reconcile returned %v, want %v so that it is tried again", err, boom)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "12", "nvidia.com/gpu": "2"}, w.limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestNodeChanged(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat": {"status is rewritten all the time", func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
			n.ResourceVersion = "2"
		}, false},
		"health label": {
			"it takes GPUs away",
			func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "ERR" },
			true,
		},
		"cordon": {"it takes the node away", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"not ready": {"it takes the node away", func(n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, true},
		"taint": {
			"it may take the node out of the pool",
			func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} },
			true,
		},
		"capacity": {
			"the inventory remembers it",
			func(n *corev1.Node) { n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("3") },
			true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			after := node("n")
			c.change(after)
			if got := nodeChanged().Update(
				event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node("n"), ObjectNew: after},
			); got != c.want {
				t.Errorf("passed = %v, want %v: %s", got, c.want, c.why)
			}
		})
	}
}
