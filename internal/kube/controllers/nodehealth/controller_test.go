package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is an API server with nodes of eight GPUs and one flavor.
type world struct {
	*testing.T
	c      client.WithWatch
	r      *reconciler
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	// writes are those to nodes, memories those to the ConfigMap.
	writes, memories int
	// refuse is what the API server says to writes to nodes, forget to writes to the ConfigMap.
	refuse, forget error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kueue.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, events: events.NewFakeRecorder(100), clock: clocktesting.NewFakeClock(noon)}
	count := func(o client.Object) error {
		switch o.(type) {
		case *corev1.Node:
			w.writes++
			return w.refuse
		case *corev1.ConfigMap:
			w.memories++
			return w.forget
		}
		return nil
	}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, flavor("gpus"))...).
		WithStatusSubresource(&corev1.Node{}).
		WithIndex(&corev1.Pod{}, DeviceIndex, IndexDevices).
		WithIndex(&kueue.Workload{}, HangIndex, IndexHangs).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := count(o); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := count(o); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.restart(true)
	return w
}

// restart is what kill -9 leaves: what is in the API.
func (w *world) restart(act bool) {
	w.r = &reconciler{
		Options: Options{
			Client: w.c, Clock: w.clock, Recorder: w.events, Namespace: "mlbatch-system", Act: act,
			Policy: nodehealth.Policy{
				Rules: nodehealth.DefaultRules(), Hold: 5 * time.Minute, MaxHold: time.Hour, Forget: 24 * time.Hour,
				Percent: 50, Most: nodehealth.DefaultMost,
			},
		},
		memory: w.c, told: map[string]bool{},
	}
}

func flavor(name string) *kueue.ResourceFlavor {
	return &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func node(name, label string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if label != "" {
		n.Labels[nodehealth.HealthLabel] = label
	}
	return n
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(name string) *corev1.Node {
	w.Helper()
	n := &corev1.Node{}
	w.must(w.c.Get(w.Context(), client.ObjectKey{Name: name}, n))
	return n
}

func (w *world) change(name string, change func(*corev1.Node)) {
	w.Helper()
	n := w.get(name)
	change(n)
	status := n.Status.DeepCopy()
	w.must(w.c.Update(w.Context(), n))
	n.Status = *status
	w.must(w.c.Status().Update(w.Context(), n))
}

// set sets a condition from now on.
func (w *world) set(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		c := corev1.NodeCondition{
			Type:               kind,
			Status:             status,
			Message:            "so it says",
			LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == kind {
				n.Status.Conditions[i] = c
				return
			}
		}
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
}

func (w *world) look() reconcile.Result {
	w.Helper()
	result, err := w.r.Reconcile(w.Context(), reconcile.Request{})
	w.must(err)
	return result
}

func (w *world) told() (all []string) {
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return all
}

// state is the health that is remembered of a node, its label and its condition.
func (w *world) state(name string) [3]string {
	w.Helper()
	n := w.get(name)
	m, err := w.r.read(w.Context())
	w.must(err)
	all, torn := convert.Healths(m)
	if len(torn) > 0 {
		w.Errorf("what is remembered of %v cannot be read", torn)
	}
	out := [3]string{string(all[name].State()), n.Labels[nodehealth.HealthLabel], ""}
	for _, c := range n.Status.Conditions {
		if c.Type == nodehealth.ConditionType {
			out[2] = string(c.Status) + " " + c.Reason
		}
	}
	return out
}

func (w *world) expect(why, name, state, label, condition string) {
	w.Helper()
	w.look()
	if diff := cmp.Diff([3]string{state, label, condition}, w.state(name)); diff != "" {
		w.Errorf("%s: state, label, condition (-want +got):\n%s", why, diff)
	}
	before := w.writes + w.memories
	w.look()
	if w.writes+w.memories != before {
		w.Errorf("%s: a second look writes again", why)
	}
}

func TestNodesAreLabelled(t *testing.T) {
	w := newWorld(t, node("n1", "PASS"), node("n2", ""))
	w.expect("nothing is wrong", "n1", "Healthy", "PASS", "")
	if w.writes > 0 || w.memories > 0 {
		t.Errorf("nothing is wrong, and %d nodes and %d memories are written", w.writes, w.memories)
	}
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.expect("it fails", "n1", "Failed", "ERR", "False Failed")
	w.restart(true)
	w.expect("a new controller knows as much", "n1", "Failed", "ERR", "False Failed")
	w.clock.Step(time.Minute)
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionFalse))
	w.expect("it may come back", "n1", "Back", "ERR", "False Back")
	if again := w.look().RequeueAfter; again != 5*time.Minute {
		t.Errorf("the next look is in %s, want 5m", again)
	}
	w.clock.Step(5 * time.Minute)
	w.expect("what was there is put back", "n1", "Healthy", "PASS", "True Healthy")
	want := []string{
		"Warning HealthChanged The node is Failed: condition KernelDeadlock (so it says)",
		"Normal HealthChanged The node is Back: condition KernelDeadlock (so it says)",
		"Normal HealthChanged The node is healthy again",
	}
	if diff := cmp.Diff(want, w.told()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.clock.Step(25 * time.Hour)
	w.look()
	if m, err := w.r.read(t.Context()); err != nil || len(m.Data) > 0 {
		t.Errorf("after a day is remembered %v (%v), want nothing", m.Data, err)
	}
}

// Beside another one that acts, no node is touched.
func TestDecideTouchesNoNode(t *testing.T) {
	w := newWorld(t, node("n1", "PASS"))
	w.restart(false)
	w.change("n1", w.set("GpuMemWatch", corev1.ConditionTrue))
	w.expect("it fails", "n1", "Failed", "PASS", "")
	if w.writes > 0 {
		t.Errorf("%d writes to nodes", w.writes)
	}
	m, err := w.r.read(t.Context())
	w.must(err)
	all, _ := convert.Healths(m)
	if n := convert.NodeWith(
		w.get("n1"),
		all["n1"],
	); n.State.TakesWork() ||
		!strings.Contains(n.Why, "condition GpuMemWatch") {
		t.Errorf("the engine is told %s, %s; want that it takes no work, and why", n.State, n.Why)
	}
	anew := w.get("n1")
	anew.UID = "anew"
	if n := convert.NodeWith(anew, all["n1"]); !n.State.TakesWork() {
		t.Errorf("a node that was made anew is %s, %s", n.State, n.Why)
	}
}

// Who goes back from Act to Decide finds nodes as they were: what mlbatch wrote is taken off, and nothing else. Where that
// is forbidden the rest goes on.
func TestDecideLiftsWhatActWrote(t *testing.T) {
	theirs := node("n3", "EVICT")
	w := newWorld(t, node("n1", "PASS"), node("n2", "PASS"), theirs)
	w.change("n1", w.set("GpuMemWatch", corev1.ConditionTrue))
	w.expect("it fails", "n1", "Failed", "ERR", "False Failed")

	w.restart(false)
	w.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("no"))
	w.look()
	if got, want := w.state("n1"), [3]string{"Failed", "ERR", "False Failed"}; got != want {
		t.Errorf("nodes may not be written: %v, want %v", got, want)
	}

	w.refuse = nil
	w.expect("nodes may be written", "n1", "Failed", "PASS", "")
	if _, marked := w.get("n1").Annotations[convert.LabelledAnnotation]; marked {
		t.Error("the label is marked as ours still")
	}
	if got := w.get("n3").Labels[nodehealth.HealthLabel]; got != "EVICT" {
		t.Errorf("the label of others is %q, want EVICT", got)
	}
	w.writes = 0
	w.look()
	if w.writes > 0 {
		t.Errorf("%d more writes to nodes", w.writes)
	}
}

// A check that stays bad is no news, however often its report says it anew.
func TestWhatStaysBadIsWrittenOnce(t *testing.T) {
	for _, result := range []string{"Warned", "Failed", "Fatal"} {
		w := newWorld(t, node("n1", "PASS"))
		for round := range 4 {
			w.change("n1", func(n *corev1.Node) {
				at := w.clock.Now().Format(time.RFC3339)
				if n.Annotations == nil {
					n.Annotations = map[string]string{}
				}
				n.Annotations[health.ChecksAnnotation] = fmt.Sprintf(
					`{"at":%q,"checks":[{"name":"xid","result":%q,"at":%q,"devices":["3"]}]}`, at, result, at,
				)
			})
			w.look()
			if round == 0 {
				w.memories = 0
			}
			w.clock.Step(time.Hour)
		}
		if w.memories > 0 {
			t.Errorf("%s: in three hours what is remembered was written %d times", result, w.memories)
		}
	}
}

// A fatal finding is not overwritten by weaker results, whoever writes them.
func TestFatalSticks(t *testing.T) {
	w := newWorld(t, node("n1", "PASS"))
	report := func(text string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[health.ChecksAnnotation] = text
		}
	}
	w.change(
		"n1",
		report(
			`{"at":"2026-03-01T12:00:00Z","checks":[{"name":"xid","result":"Fatal","at":"2026-03-01T11:59:00Z","devices":["3"],"message":"XID 79"}]}`,
		),
	)
	w.expect("a GPU fell off the bus", "n1", "Draining", "EVICT", "False Draining")
	w.change(
		"n1",
		func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "PASS" },
	) // Autopilot's hourly check
	w.expect("a weaker check passed", "n1", "Draining", "EVICT", "False Draining")
	w.change(
		"n1",
		report(
			`{"at":"2026-03-01T12:30:00Z","checks":[{"name":"xid","result":"Passed","at":"2026-03-01T12:30:00Z"}]}`,
		),
	)
	w.clock.Step(10 * time.Hour)
	w.expect("the log is silent", "n1", "Draining", "EVICT", "False Draining")
	w.change("n1", report("broken"))
	w.expect("a report that cannot be read", "n1", "Draining", "EVICT", "False Draining")
	w.change(
		"n1",
		report(
			`{"at":"2026-03-01T13:00:00Z","checks":[{"name":"dcgm","result":"Passed","deep":true,"at":"2026-03-01T13:00:00Z"}]}`,
		),
	)
	w.expect("a deep test passed", "n1", "Back", "ERR", "False Back")
	w.clock.Step(5 * time.Minute)
	w.expect("and it is back", "n1", "Healthy", "PASS", "True Healthy")
}

func TestPeopleHaveTheLastWord(t *testing.T) {
	w := newWorld(t, node("n1", ""))
	w.change("n1", w.set("ReadonlyFilesystem", corev1.ConditionTrue))
	w.expect("it fails", "n1", "Failed", "ERR", "False Failed")
	w.change("n1", func(n *corev1.Node) {
		n.Labels[nodehealth.HealthLabel] = nodehealth.Evict
		n.Annotations[view.DrainAnnotation] = `{"by":"ann","labelled":true,"health":"ERR"}`
	})
	w.clock.Step(time.Minute)
	w.change("n1", w.set("ReadonlyFilesystem", corev1.ConditionFalse))
	w.clock.Step(time.Hour)
	w.look()
	w.clock.Step(time.Hour)
	w.expect("it is well, and drained by hand", "n1", "Healthy", "EVICT", "True Healthy")
	w.change("n1", func(n *corev1.Node) { // mlbatch undrain
		n.Labels[nodehealth.HealthLabel] = "ERR"
		delete(n.Annotations, view.DrainAnnotation)
	})
	w.expect("what was ours before is ours again", "n1", "Healthy", "", "True Healthy")
	w.change("n1", w.set("ReadonlyFilesystem", corev1.ConditionTrue))
	w.expect("it fails again", "n1", "Failed", "ERR", "False Failed")
	w.clock.Step(time.Minute)
	w.change("n1", func(n *corev1.Node) {
		n.Annotations[convert.ClearedAnnotation] = `{"by":"ann","at":"` + w.clock.Now().Format(time.RFC3339) + `"}`
	})
	w.expect("somebody clears it, whatever the condition says", "n1", "Healthy", "", "True Healthy")
}

func TestDevicesOfPods(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			AllocatedResourcesStatus: []corev1.ResourceStatus{
				{Name: "nvidia.com/gpu", Resources: []corev1.ResourceHealth{
					{ResourceID: "GPU-1", Health: corev1.ResourceHealthStatusUnhealthy},
					{ResourceID: "GPU-2", Health: corev1.ResourceHealthStatusHealthy},
				}},
				{
					Name:      "claim:x",
					Resources: []corev1.ResourceHealth{{ResourceID: "d", Health: corev1.ResourceHealthStatusUnhealthy}},
				},
			},
		}}},
	}
	w := newWorld(t, node("n1", ""), p)
	w.expect("a GPU is unhealthy", "n1", "Failed", "ERR", "False Failed")
	if got := w.told(); len(got) != 1 || !strings.Contains(got[0], "device nvidia.com/gpu of GPU-1") {
		t.Errorf("told %v, want which device", got)
	}
	w.must(w.c.Delete(t.Context(), p))
	w.expect("its pod is gone", "n1", "Back", "ERR", "False Back")
}

// Half of the nodes may be taken out within an hour here; the others stay, and that is said once.
func TestTooManyAtOnce(t *testing.T) {
	w := newWorld(t, node("n1", ""), node("n2", ""), node("n3", ""), node("n4", ""))
	for _, n := range []string{"n1", "n2", "n3"} {
		w.change(n, w.set("KernelDeadlock", corev1.ConditionTrue))
	}
	w.expect("two may be", "n2", "Failed", "ERR", "False Failed")
	w.expect("the third is only avoided", "n3", "Suspect", "WARN", "False Suspect")
	told := strings.Join(w.told(), "\n")
	if n := strings.Count(
		told,
		"TooManyNodesBad n3 would be taken out of service and stay in it: of 4 nodes 2 were taken out within the hour, and 2 may be. That looks like a fault of what watches the nodes. The next may be taken out at 2026-03-01T13:00:00Z",
	); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, told)
	}
	m, err := w.r.read(t.Context())
	w.must(err)
	w.clock.Step(time.Minute)
	m.Annotations = map[string]string{convert.BreakerLifted: w.clock.Now().Format(time.RFC3339)}
	w.must(w.c.Update(t.Context(), m))
	w.expect("somebody says that it goes on", "n3", "Failed", "ERR", "False Failed")
}

// Who tests writes the label himself: it is told as a state, and is no finding that stays.
func TestTestsAreTold(t *testing.T) {
	w := newWorld(t, node("n1", "TESTING"))
	w.expect("it is tested", "n1", "Testing", "TESTING", "False Testing")
	w.change("n1", func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "PASS" })
	w.expect("it passed", "n1", "Healthy", "PASS", "True Healthy")
}

// The label speaks of GPUs: a node without gets none.
func TestNodesWithoutGPUsGetNoLabel(t *testing.T) {
	n := node("n1", "")
	n.Status.Capacity = nil
	w := newWorld(t, n)
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.expect("it fails", "n1", "Failed", "", "False Failed")
}

func TestFailuresAreTold(t *testing.T) {
	w := newWorld(t, node("n1", ""))
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("no"))
	if _, err := w.r.Reconcile(
		t.Context(),
		reconcile.Request{},
	); err == nil ||
		!strings.Contains(err.Error(), convert.NodesRole) {
		t.Errorf("without the right: %v, want which role is missing", err)
	}
	w.refuse = apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n1")
	w.look() // it was deleted at this moment
	w.refuse = nil
	w.expect("the next look makes up for it", "n1", "Failed", "ERR", "False Failed")
	m, err := w.r.read(t.Context())
	w.must(err)
	m.Data["gone"], m.Data["n1"] = "{", "{"
	w.must(w.c.Update(t.Context(), m))
	w.expect("what cannot be read is written anew", "n1", "Failed", "ERR", "False Failed")
}

// What is remembered may not be written over what somebody else has written since: the breaker would count wrong.
func TestMemoryIsWrittenOnWhatWasRead(t *testing.T) {
	w := newWorld(t, node("n1", ""))
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.look()
	old, err := w.r.read(t.Context())
	w.must(err)
	m := old.DeepCopy()
	m.Annotations = map[string]string{"x": "y"}
	w.must(w.c.Update(t.Context(), m))
	if err := w.r.write(
		t.Context(),
		old,
		nil,
		nil,
		map[string]nodehealth.Health{"n2": {}},
	); !apierrors.IsConflict(
		err,
	) {
		t.Errorf("written on an old one: %v, want a conflict", err)
	}
}

// Who does not see yet that something is remembered acts on nothing: it would lift the labels of what waits to be back.
func TestNothingIsDoneByWhoSeesTheMemoryLate(t *testing.T) {
	w := newWorld(t, node("n1", ""), node("n2", ""))
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.look()
	w.clock.Step(time.Minute)
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionFalse))
	w.change("n2", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.r.memory, w.writes = fake.NewClientBuilder().Build(), 0
	if _, err := w.r.Reconcile(
		t.Context(),
		reconcile.Request{},
	); !apierrors.IsAlreadyExists(err) ||
		w.writes > 0 {
		t.Errorf("it says %v and writes %d times on nodes, want that there is a ConfigMap, and none", err, w.writes)
	}
}

// Where nothing new can be remembered, what is remembered goes on: its labels are kept. What is new waits, and nobody's
// word is written over.
func TestRefusedMemoryDoesNotHoldUpTheRest(t *testing.T) {
	w := newWorld(
		t,
		node("n1", ""),
		node("n2", ""),
		node("n3", ""),
		node("n4", ""),
		node("n5", ""),
		node("n6", ""),
	)
	w.change("n1", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.change("n2", w.set("KernelDeadlock", corev1.ConditionTrue))
	w.look()
	w.clock.Step(time.Minute)
	w.told()
	counted := 0
	w.r.Count = func(states map[nodehealth.State]int, _ map[string]int, _ []nodehealth.State) {
		counted += states[nodehealth.FailedState]
	}
	w.forget = apierrors.NewRequestEntityTooLargeError("it is too large")
	w.change("n1", func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "PASS" })
	w.change("n2", func(n *corev1.Node) {
		n.Annotations[convert.ClearedAnnotation] = `{"by":"ann","at":"` + w.clock.Now().Format(time.RFC3339) + `"}`
		delete(n.Annotations, convert.LabelledAnnotation)
		delete(n.Labels, nodehealth.HealthLabel)
	})
	w.change("n3", w.set("KernelDeadlock", corev1.ConditionTrue))
	if _, err := w.r.Reconcile(
		t.Context(),
		reconcile.Request{},
	); err == nil ||
		!strings.Contains(err.Error(), "large") {
		t.Errorf("it says %v, want what the API server says", err)
	}
	want := [3][3]string{{"Failed", "ERR", "False Failed"}, {"Failed", "", "False Failed"}, {"Healthy", "", ""}}
	if diff := cmp.Diff(want, [3][3]string{w.state("n1"), w.state("n2"), w.state("n3")}); diff != "" {
		t.Errorf(
			"state, label, condition of the one that is as it was, of one that somebody cleared, and of one that "+
				"fails (-want +got):\n%s",
			diff,
		)
	}
	if told := w.told(); len(told) > 0 || counted != 2 {
		t.Errorf("told %v and counted %d failed nodes; want nothing that is not remembered, and two", told, counted)
	}
	w.forget = nil
	w.expect("it is made up for", "n2", "Healthy", "", "True Healthy")
}

func TestHeartbeatsAreNoNews(t *testing.T) {
	const (
		checks = `{"name":"gpumem","result":"Passed","at":"2026-03-01T12:00:00Z"},` +
			`{"name":"dcgm","result":"Skipped","at":"2026-03-01T12:00:00Z","message":"no dcgmi"}`
		deep = `{"name":"invasive","result":"Passed","deep":true,"at":"2026-03-01T12:00:00Z"}`
	)
	report := func(text string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[health.ChecksAnnotation] = text }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		news   bool
	}{
		"a heartbeat":                  {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon) }, false},
		"images":                       {func(n *corev1.Node) { n.Annotations["x"] = "y" }, false},
		"a condition":                  {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"a taint":                      {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }, true},
		"a label":                      {func(n *corev1.Node) { n.Labels["x"] = "y" }, true},
		"a report that cannot be read": {report("broken"), true},
		"a report of the same, later": {report(
			`{"at":"2026-03-01T13:00:00Z","checks":[` + strings.ReplaceAll(checks, "12:00", "13:00") + `,` + deep + `]}`), false},
		"a check that fails": {report(`{"at":"2026-03-01T12:00:00Z","checks":[` +
			strings.Replace(checks, "Passed", "Failed", 1) + `,` + deep + `]}`), true},
		"a deep test that passes again": {report(`{"at":"2026-03-01T12:00:00Z","checks":[` + checks + `,` +
			strings.ReplaceAll(deep, "12:00", "13:00") + `]}`), true},
		"no report":     {func(n *corev1.Node) { delete(n.Annotations, health.ChecksAnnotation) }, true},
		"a resource":    {func(n *corev1.Node) { n.Status.Capacity["amd.com/gpu"] = resource.MustParse("8") }, true},
		"it is cleared": {func(n *corev1.Node) { n.Annotations[convert.ClearedAnnotation] = "{}" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := node("n", ""), node("n", "")
			for _, n := range []*corev1.Node{old, now} {
				n.Annotations = map[string]string{}
				report(`{"at":"2026-03-01T12:00:00Z","checks":[` + checks + `,` + deep + `]}`)(n)
			}
			c.change(now)
			if got := nodeChanged().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: old, ObjectNew: now}); got != c.news {
				t.Errorf("let through: %v, want %v", got, c.news)
			}
		})
	}
}
