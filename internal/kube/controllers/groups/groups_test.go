package groups

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// bench is the controller over objects in memory.
type bench struct {
	*reconciler
	t      *testing.T
	events *events.FakeRecorder
	clock  *clocktesting.FakePassiveClock
}

func set() *api.LeaderWorkerSet {
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	return &api.LeaderWorkerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "s", UID: "l1", Generation: 1},
		Spec: api.LeaderWorkerSetSpec{
			Replicas:             new(int32(1)),
			LeaderWorkerTemplate: api.LeaderWorkerTemplate{Size: new(int32(2)), WorkerTemplate: pod},
		},
	}
}

func newBench(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *bench {
	t.Helper()
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lws-system"}},
	)
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(objects...).
		WithStatusSubresource(&api.LeaderWorkerSet{}).
		WithIndex(&corev1.Pod{}, foreign.Index, foreign.IndexImages([]string{leaderworkerset.Image})).
		WithInterceptorFuncs(faults).
		Build()
	told, clock := events.NewFakeRecorder(1000), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &bench{
		&reconciler{Options: Options{Client: c, Clock: clock, Recorder: told}, kind: new(leaderworkerset.Kind())},
		t,
		told,
		clock,
	}
}

func (b *bench) look() (reconcile.Result, error) {
	return b.Reconcile(
		b.t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "s"}},
	)
}

// settle looks a few times.
func (b *bench) settle() {
	b.t.Helper()
	for range 5 {
		if _, err := b.look(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// has lists what there is of a kind.
func (b *bench) has(list client.ObjectList) []string {
	b.t.Helper()
	if err := b.Client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	var out []string
	switch l := list.(type) {
	case *appsv1.StatefulSetList:
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
	case *corev1.ServiceList:
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
	case *corev1.PodList:
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
	case *appsv1.ControllerRevisionList:
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bench) told(reason string) bool {
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, reason) {
				return true
			}
		default:
			return false
		}
	}
}

// pod is one that a StatefulSet of the bench has made, that was told its place, and that runs.
func (b *bench) pod(of, name string) {
	b.t.Helper()
	b.made(of, name, true)
}

func (b *bench) made(of, name string, placed bool) { //nolint:revive // a fact about the pod
	b.t.Helper()
	var s appsv1.StatefulSet
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: of}, &s); err != nil {
		b.t.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: *s.Spec.Template.ObjectMeta.DeepCopy(), Spec: s.Spec.Template.Spec}
	p.Namespace, p.Name, p.UID = "blue", name, types.UID(name)
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: of, UID: s.UID, Controller: new(true)},
	}
	if placed {
		maps.Copy(p.Labels, leaderworkerset.Identify(p, "blue").Labels)
	}
	p.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if err := b.Client.Create(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
}

// TestPodsThatWereNotToldTheirPlaceAreMadeAnew: leaders go with their groups, workers by themselves, after
// a pause, and the set says so.
func TestPodsThatWereNotToldTheirPlaceAreMadeAnew(t *testing.T) {
	for name, leader := range map[string]bool{"s-0": true, "s-0-1": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, interceptor.Funcs{}, set())
			b.settle()
			b.made("s", "s-0", !leader)
			b.settle()
			if !leader {
				b.made("s-0", "s-0-1", false)
			}
			young := b.has(&corev1.PodList{})
			result, err := b.look()
			if err != nil || slices.Contains(b.has(&corev1.PodList{}), name) && result.RequeueAfter == 0 {
				t.Fatalf("of %v it looks again after %v, %v", young, result.RequeueAfter, err)
			}
			b.clock.SetTime(b.clock.Now().Add(time.Minute))
			b.settle()
			if left := b.has(&corev1.PodList{}); slices.Contains(left, name) || !b.told("was not told its place") {
				t.Errorf("there are %v", left)
			}
		})
	}
}

// What comes next is done, and the status written.
func TestReconcile(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, set())
	b.settle()
	if diff := cmp.Diff(
		[]string{"s"},
		b.has(&appsv1.StatefulSetList{}),
	); diff != "" || len(b.has(&corev1.ServiceList{})) != 1 ||
		len(b.has(&appsv1.ControllerRevisionList{})) != 1 {
		t.Fatalf("sets (-want +got):\n%s", diff)
	}
	b.pod("s", "s-0")
	b.settle()
	b.pod("s-0", "s-0-1")
	b.settle()
	l := set()
	if err := b.Client.Get(
		t.Context(),
		client.ObjectKeyFromObject(l),
		l,
	); err != nil ||
		l.Status.ReadyReplicas != 1 {
		t.Fatalf("%v, status %+v", err, l.Status)
	}
	var workers appsv1.StatefulSet
	if err := b.Client.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: "s-0"},
		&workers,
	); err != nil ||
		workers.Annotations["mlbatch.dev/members"] == "" {
		t.Fatalf("%v, annotations %v", err, workers.Annotations)
	}
	if err := b.Client.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "s-0-1"}},
	); err != nil {
		t.Fatal(err)
	}
	b.settle()
	if left := b.has(&corev1.PodList{}); len(left) > 0 || !b.told("RecreateGroup") {
		t.Errorf("the leader of a group that lost a pod is there: %v", left)
	}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil {
		t.Fatal(err)
	}
	l.Spec.Replicas = new(int32(3))
	if err := b.Client.Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	b.settle()
	var leaders appsv1.StatefulSet
	if err := b.Client.Get(
		t.Context(),
		client.ObjectKeyFromObject(l),
		&leaders,
	); err != nil ||
		*leaders.Spec.Replicas != 3 {
		t.Errorf("%v, %d leaders", err, *leaders.Spec.Replicas)
	}
}

// What is not ours is left alone, and its author told.
func TestNotOurs(t *testing.T) {
	going := set()
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
	b := newBench(t, interceptor.Funcs{}, going)
	b.settle()
	if made := b.has(&appsv1.StatefulSetList{}); len(made) > 0 {
		t.Errorf("for a set that goes: %v", made)
	}
	taken := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "s", Labels: map[string]string{api.NameLabel: "s"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(7))},
	}
	b = newBench(t, interceptor.Funcs{}, set(), taken)
	if result, err := b.look(); err != nil || result.RequeueAfter != takenPause || !b.told("NameTaken") {
		t.Errorf("a name that is taken: %v, %v", result, err)
	}
	if len(b.has(&appsv1.ControllerRevisionList{})) > 0 {
		t.Error("something is made although the name is taken")
	}
	b = newBench(t, interceptor.Funcs{})
	if _, err := b.look(); err != nil {
		t.Errorf("a set that is gone: %v", err)
	}
}

// Where another controller runs, ours stands back, and says so once.
func TestStandsBack(t *testing.T) {
	manager := func(namespace, image string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lws"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Image: image}},
			},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	const image = "registry.k8s.io/lws/lws:v0.8.0"
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		more client.Object
		back bool
	}{
		"it runs":               {pod: manager("lws-system", image, corev1.PodRunning), back: true},
		"by digest":             {pod: manager("lws-system", "lws/lws@sha256:0", corev1.PodRunning), back: true},
		"with a port":           {pod: manager("lws-system", "localhost:5000/lws/lws", corev1.PodRunning), back: true},
		"it has ended":          {pod: manager("lws-system", image, corev1.PodFailed)},
		"another image":         {pod: manager("lws-system", "example.com/notlws/lws:1", corev1.PodRunning)},
		"a tenant's":            {pod: manager("blue", image, corev1.PodRunning)},
		"where jobs are queued": {pod: manager("lws-system", image, corev1.PodRunning), more: &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "lws-system", Name: "q"}}},
		"nowhere":               {pod: manager("gone", image, corev1.PodRunning)},
	} {
		objects := []client.Object{set(), tc.pod}
		if tc.more != nil {
			objects = append(objects, tc.more)
		}
		b := newBench(t, interceptor.Funcs{}, objects...)
		b.settle()
		if made := b.has(&appsv1.StatefulSetList{}); (len(made) == 0) != tc.back {
			t.Errorf("%s: made %v", name, made)
		}
		if told := b.told("LeftToOther"); told != tc.back || b.told("LeftToOther") {
			t.Errorf("%s: told %v, or more than once", name, told)
		}
		if !tc.back {
			continue
		}
		if got := b.all(t.Context(), tc.pod); len(got) != 1 || got[0].Name != "s" {
			t.Errorf("%s: sets to look at when it goes: %v", name, got)
		}
		b.clock.SetTime(b.clock.Now().Add(tellAgain))
		b.settle()
		if !b.told("LeftToOther") {
			t.Errorf("%s: not said again after a while", name)
		}
	}
}

// What the API server refuses is tried again, and told if it is final.
func TestTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		fails bool
		told  bool
		words string
	}{
		"there already": {err: apierrors.NewAlreadyExists(schema.GroupResource{}, "s")},
		"written since": {err: apierrors.NewConflict(schema.GroupResource{}, "s", errors.New("x"))},
		"refused":       {err: errors.New("refused"), fails: true, told: true, words: "refused"},
		"without rights": {
			err:   apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "s", errors.New(`User "x" cannot create resource "controllerrevisions"`)),
			fails: true, told: true, words: "mlbatch has no rights in this namespace, which is no team's and has no LocalQueue",
		},
	} {
		b := newBench(
			t,
			interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
			},
			set(),
		)
		result, err := b.look()
		if (err != nil) != tc.fails || !tc.fails && result.RequeueAfter == 0 {
			t.Errorf("%s: %v, %v", name, result, err)
		}
		if told := b.told("FailedCreate " + tc.words); told != tc.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}

// A set whose pods the namespace does not take says so, on itself, and once they are taken it says
// that no more: Kubernetes tells it on the StatefulSets only.
func TestPodsThatMayNotBeMadeAreToldOnTheSet(t *testing.T) {
	refusal := apierrors.NewForbidden(
		schema.GroupResource{Resource: "pods"},
		"s-0",
		errors.New("violates PodSecurity"),
	)
	tried := []string{}
	b := newBench(
		t,
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				p, is := o.(*corev1.Pod)
				of := (&client.CreateOptions{}).ApplyOptions(opts)
				if !is || len(of.DryRun) == 0 {
					o.SetCreationTimestamp(metav1.NewTime(time.Unix(1000, 0)))
					return c.Create(ctx, o, opts...)
				}
				tried = append(tried, p.Name)
				if refusal != nil {
					return refusal
				}
				return nil
			},
		},
		set(),
	)
	says := func() string {
		l := set()
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil {
			t.Fatal(err)
		}
		for _, c := range l.Status.Conditions {
			if c.Type == api.Progressing {
				return c.Message
			}
		}
		return ""
	}
	b.settle()
	if b.told("FailedCreate") || len(tried) > 0 {
		t.Fatalf("tried at once: %v", tried)
	}
	b.clock.SetTime(b.clock.Now().Add(missedAfter))
	b.settle()
	if result, err := b.look(); err != nil || result.RequeueAfter != trialPause {
		t.Errorf("looks again after %v, %v", result, err)
	}
	if len(tried) != 1 || tried[0] != "s-0" || !strings.Contains(says(), "violates PodSecurity") ||
		!b.told("violates PodSecurity") ||
		b.told("FailedCreate") {
		t.Errorf("tried %v, condition %q", tried, says())
	}
	refusal = nil
	b.clock.SetTime(b.clock.Now().Add(trialPause))
	b.settle()
	if got := says(); got != "Replicas are progressing" || b.told("FailedCreate") {
		t.Errorf("the namespace takes them now, condition %q", got)
	}
	b.pod("s", "s-0")
	b.settle()
	refusal = apierrors.NewForbidden(
		schema.GroupResource{Resource: "pods"},
		"s-0-1",
		errors.New("exceeded quota"),
	)
	b.clock.SetTime(b.clock.Now().Add(trialPause + missedAfter))
	b.settle()
	if got := tried[len(tried)-1]; got != "s-0-1" || !strings.Contains(says(), "exceeded quota") {
		t.Errorf("tried %v, condition %q", tried, says())
	}
}

// A pod of others that has the name of one of a set's is told of.
func TestNamesOfPodsThatAreTakenAreToldOnTheSet(t *testing.T) {
	b := newBench(
		t,
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, is := o.(*corev1.Pod); is { // a dry run of the fake client asks for no name
					return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, o.GetName())
				}
				return c.Create(ctx, o, opts...)
			},
		},
		set(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "s-0"}},
	)
	b.settle()
	b.clock.SetTime(b.clock.Now().Add(missedAfter))
	b.settle()
	if !b.told("there is another Pod s-0") {
		t.Error("a name that is taken is not told of")
	}
}
