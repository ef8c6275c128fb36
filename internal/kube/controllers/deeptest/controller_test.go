package deeptest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const tests = "mlbatch-tests"

// world is an API server with nodes of eight GPUs.
type world struct {
	*testing.T
	c      client.WithWatch
	r      *reconciler
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	// refuse is what the API server says to new Jobs.
	refuse error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kueue.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, events: events.NewFakeRecorder(100), clock: clocktesting.NewFakeClock(noon)}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithObjects(&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}).
		WithStatusSubresource(&batchv1.Job{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if w.refuse != nil {
					return w.refuse
				}
				o.SetCreationTimestamp(metav1.NewTime(w.clock.Now()))
				return c.Create(ctx, o, opts...)
			},
		}).Build()
	w.restart()
	return w
}

// restart is what kill -9 leaves: what is in the API.
func (w *world) restart() {
	w.r = &reconciler{
		Options: Options{
			Client: w.c, Clock: w.clock, Recorder: w.events, Home: "mlbatch-system", Namespace: tests,
			Policy: nodehealth.TestPolicy{Every: 24 * time.Hour, AfterFault: true, OnReturn: true, Most: 1},
			Template: Template{
				Image: "mlbatch", Deadline: time.Hour, Queue: "deep-tests", PriorityClass: "deep-tests",
			},
		},
		memory: w.c, told: map[string]bool{}, waited: map[string]time.Time{},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			Capacity:    corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func pod(namespace, node string, gpus bool) *corev1.Pod { //nolint:revive // a fact
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p-" + node},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{}}},
	}
	if gpus {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	}
	return p
}

// draining is what is remembered of a node with a fatal finding.
func (w *world) draining(names ...string) {
	w.Helper()
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "mlbatch-system",
			Name:      convert.HealthMemory,
		},
		Data: map[string]string{},
	}
	for _, n := range names {
		text, err := convert.HealthText(nodehealth.Health{UID: n, Parts: []nodehealth.Part{{
			Of: "nvidia.com/gpu", State: nodehealth.Draining, Level: nodehealth.Fatal, Since: noon, FatalAt: noon,
		}}})
		w.must(err)
		m.Data[n] = text
	}
	w.must(w.c.Create(w.Context(), m))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) look() {
	w.Helper()
	_, err := w.r.Reconcile(w.Context(), reconcile.Request{})
	w.must(err)
}

func (w *world) jobs() map[string]*batchv1.Job {
	w.Helper()
	var list batchv1.JobList
	w.must(w.c.List(w.Context(), &list))
	out := map[string]*batchv1.Job{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// ends has a Job end with a condition.
func (w *world) ends(name string, c batchv1.JobConditionType, reason string) {
	w.Helper()
	j := w.jobs()[name]
	j.Status.StartTime = new(metav1.NewTime(w.clock.Now()))
	w.clock.Step(time.Minute)
	j.Status.Conditions = []batchv1.JobCondition{
		{
			Type:               c,
			Status:             corev1.ConditionTrue,
			Reason:             reason,
			Message:            "so it was",
			LastTransitionTime: metav1.NewTime(w.clock.Now()),
		},
	}
	w.must(w.c.Status().Update(w.Context(), j))
}

// told are the events since the last look.
func (w *world) told() string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}

func TestAnIdleNodeIsTestedByTheQueue(t *testing.T) {
	w := newWorld(t, node("n1"), node("n2"), pod("blue", "n1", true), pod("blue", "n2", false))
	w.look()
	w.look()
	w.restart()
	w.look()
	jobs := w.jobs()
	j := jobs["deep-test-n2-1"]
	if len(jobs) != 1 || j == nil {
		t.Fatalf("there are %v, want one test, of the node whose GPUs nobody holds", jobs)
	}
	s := j.Spec.Template.Spec
	gpus := s.Containers[0].Resources.Limits["nvidia.com/gpu"]
	if j.Labels[kueue.QueueNameLabel] != "deep-tests" || j.Labels[kueue.PriorityClassLabel] != "deep-tests" ||
		!*j.Spec.Suspend || s.NodeName != "" || gpus.Value() != 8 {
		t.Errorf("the test is %+v, want it to wait in the queue for all GPUs", j)
	}
	if at := convert.Filter(&s); len(at.Terms) != 1 || at.Terms[0][0].Values[0] != "n2" {
		t.Errorf("it may run on %+v, want its node only", at)
	}
	if s.ServiceAccountName != "" || *s.AutomountServiceAccountToken {
		t.Error("it has rights in the cluster")
	}
	if !strings.Contains(w.told(), "DeepTestStarted") {
		t.Error("nobody is told of it")
	}
}

func TestANodeOutOfServiceIsTestedWithoutAQueue(t *testing.T) {
	w := newWorld(t, node("n1"))
	w.draining("n1")
	w.look()
	j := w.jobs()["deep-test-n1-1"]
	if j == nil || j.Labels[kueue.QueueNameLabel] != "" || j.Spec.Template.Spec.NodeName != "n1" {
		t.Fatalf("the test is %+v, want one that is told its node", j)
	}
	w.ends(j.Name, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy)
	w.look()
	w.clock.Step(time.Hour)
	w.look()
	if len(w.jobs()) != 1 {
		t.Errorf("there are %v: who failed is left alone until somebody clears it", w.jobs())
	}
}

// A device plugin that starts anew has its GPUs read 0 for a moment. What came of the last test is known after that, too.
func TestAPassIsKeptWhileGPUsAreGoneForAMoment(t *testing.T) {
	for name, zero := range map[string]corev1.ResourceList{
		"0": {"nvidia.com/gpu": resource.MustParse("0")}, "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("n1"))
			w.look()
			w.ends("deep-test-n1-1", batchv1.JobComplete, "")
			n := node("n1")
			n.Status.Capacity, n.Status.Allocatable = zero, zero
			w.must(w.c.Status().Update(w.Context(), n))
			w.look()
			if w.jobs()["deep-test-n1-1"] == nil {
				t.Fatal("the test that passed is gone")
			}
			w.must(w.c.Delete(w.Context(), n))
			w.look()
			if got := w.jobs(); len(got) > 0 {
				t.Errorf("the node is gone, and of its tests there are %v", got)
			}
		})
	}
}

// A test asks for all GPUs that the node has. One of those that are left would pass without a look at the broken one.
func TestATestOfSomeGPUsOnlyIsNone(t *testing.T) {
	n := node("n1")
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("7")}
	w := newWorld(t, n)
	w.draining("n1")
	w.look()
	w.look()
	if got := w.told(); len(w.jobs()) > 0 || strings.Count(got, "DeepTestWaits") != 1 ||
		!strings.Contains(got, "fewer of its GPUs can be allocated than it has") {
		t.Errorf("there are %v, told %q; want no test, and once why", w.jobs(), got)
	}
	p := w.r.Template.pod(n) // a GPU may break between the look and the start
	if asks := p.Containers[0].Resources.Limits["nvidia.com/gpu"]; asks.Value() != 8 {
		t.Errorf("the test asks for %v of 8 GPUs", asks.Value())
	}
}

// What is kept for recovery is given to no test by any queue: one that waited there would keep others from theirs.
func TestSparesAreNotTestedByTheQueue(t *testing.T) {
	w := newWorld(t, node("n1"), node("n2"), node("n3"), pod("blue", "n3", true))
	w.r.Spares = map[string]nodehealth.Spares{"gpus": {Nodes: 1}}
	w.r.Policy.Most = 5
	w.look()
	if got := w.jobs(); len(got) != 1 || got["deep-test-n1-1"] == nil {
		t.Errorf("there are %v, want a test of n1: n2 is kept, and n3 is used", got)
	}
}

// A test that the queue never runs makes room for those of other nodes, and a node that is late is counted.
func TestTestsThatWaitTooLongMakeRoom(t *testing.T) {
	w := newWorld(t, node("n1"), node("n2"))
	overdue := map[string]int{}
	w.r.Overdue = func(all map[string]int) { overdue = all }
	w.look()
	w.clock.Step(time.Hour)
	w.look()
	w.look()
	if got := w.jobs(); len(got) != 1 || got["deep-test-n2-1"] == nil {
		t.Errorf("there are %v, want a test of the node that had none", got)
	}
	if overdue["gpus"] != 2 {
		t.Errorf("overdue are %v, want both nodes", overdue)
	}
}

func TestUnclearTestsEndWithWords(t *testing.T) {
	w := newWorld(t, node("n1"))
	w.draining("n1")
	for _, name := range []string{"deep-test-n1-1", "deep-test-n1-2", "deep-test-n1-3"} {
		w.look()
		if w.jobs()[name] == nil {
			t.Fatalf("there are %v, want %s", w.jobs(), name)
		}
		w.ends(name, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
		w.clock.Step(time.Hour)
	}
	w.told()
	w.look()
	w.look()
	if got := w.told(); strings.Count(got, "DeepTestGivenUp") != 1 ||
		!strings.Contains(got, "3 deep tests in a row came to no end, the last one: DeadlineExceeded: so it was") ||
		!strings.Contains(got, "mlbatch nodes clear n1") {
		t.Errorf("told %q, want once why, and what to do", got)
	}
	if len(w.jobs()) != 1 || w.jobs()["deep-test-n1-3"] == nil {
		t.Errorf("there are %v, want the last one alone, for those who look", w.jobs())
	}
}

// Who has a node in hand is not disturbed.
func TestNodesInOtherHandsAreNotTested(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"cordoned":            func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"drained":             func(n *corev1.Node) { n.Annotations = map[string]string{view.DrainAnnotation: "{}"} },
		"not ready":           func(n *corev1.Node) { n.Status.Conditions = nil },
		"tested by Autopilot": func(n *corev1.Node) { n.Labels[nodehealth.HealthLabel] = "TESTING" },
		"without GPUs":        func(n *corev1.Node) { n.Status.Allocatable, n.Status.Capacity = nil, nil },
		"with a GPU that cannot be allocated": func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("7")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("n1")
			change(n)
			w := newWorld(t, n)
			w.look()
			if got := w.jobs(); len(got) > 0 {
				t.Errorf("there are %v, want no test", got)
			}
		})
	}
}

// A Job counts by its annotation and its name both, so that a copy of one says nothing; and so does one elsewhere.
func TestOnlyItsOwnJobsAreTests(t *testing.T) {
	said := `{"node":"n1","uid":"n1","number":7,"cause":"Periodic","tries":1}`
	job := func(namespace, name string) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{convert.DeepTestLabel: "true"},
				Annotations: map[string]string{convert.DeepTestLabel: said},
			},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)},
			}},
		}
	}
	w := newWorld(t, node("n1"), job("blue", "deep-test-n1-7"), job(tests, "copy"))
	w.look()
	if w.jobs()["deep-test-n1-1"] == nil {
		t.Errorf("there are %v, want a test as if the node had never been tested", w.jobs())
	}
}

func TestMissingNamespaceIsSaid(t *testing.T) {
	w := newWorld(t, node("n1"))
	w.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("no"))
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{})
	if err == nil || !strings.Contains(err.Error(), "namespace mlbatch-tests with LocalQueue deep-tests") {
		t.Errorf("it says %v, want what is missing", err)
	}
	w.refuse = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "jobs"}, "deep-test-n1-1")
	w.look() // it was made before the cache shows it
}

// What passes in a namespace in which a team may write is not to be believed.
func TestANamespaceOfATeamIsRefused(t *testing.T) {
	w := newWorld(t, node("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: tests, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"},
	}})
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{})
	if err == nil || !strings.Contains(err.Error(), "nodeHealth.deepTest.namespace") || len(w.jobs()) > 0 {
		t.Errorf("it says %v and makes %v, want an error that says what to set", err, w.jobs())
	}
}

func TestNamesOfJobsFit(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []string{"n", strings.Repeat("a", 60), strings.Repeat("a", 61), strings.Repeat("a.", 120) + "b", "a.b", "a-b"} {
		got := convert.TestJobName(&nodehealth.Test{Node: n, Number: 1 << 20})
		if len(validation.IsDNS1123Label(got)) > 0 || seen[got] {
			t.Errorf("%s is no name, or that of two", got)
		}
		seen[got] = true
	}
}

// Tools of another image run with mlbatch copied beside them; a command of the user's runs as it is.
func TestWhatTestsRun(t *testing.T) {
	one := Template{Image: "mlbatch", ToolsImage: "dcgm", RuntimeClassName: "nvidia"}
	p := one.pod(node("n1"))
	c := p.Containers[0]
	runs := []string{"/program/mlbatch", "agent", "check", "--deep"}
	if c.Image != "dcgm" || !slices.Equal(slices.Concat(c.Command, c.Args), runs) ||
		len(p.InitContainers) != 1 ||
		p.InitContainers[0].Image != "mlbatch" ||
		*p.RuntimeClassName != "nvidia" {
		t.Errorf("it runs %+v", p)
	}
	if u := p.SecurityContext.RunAsUser; u == nil || *u != nobody {
		t.Error("it runs as the user of the image, which may be root")
	}
	one.AnyUser = true
	if s := one.pod(node("n1")).SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || !*s.RunAsNonRoot {
		t.Errorf("it runs as %+v, want one whom the cluster chooses", s)
	}
	own := Template{Image: "mine", Command: []string{"test"}}
	if c := own.pod(node("n1")).Containers[0]; c.Image != "mine" ||
		!slices.Equal(slices.Concat(c.Command, c.Args), []string{"test"}) {
		t.Errorf("it runs %+v", c)
	}
}
