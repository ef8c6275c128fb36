package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
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
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/test/toy"
)

// bench is a controller of toys with a cluster that is up to date.
type bench struct {
	t     *testing.T
	r     *reconciler
	clock *clocktesting.FakePassiveClock
	told  *events.FakeRecorder
	// before is asked before each write; an error is the API server's answer.
	before func(verb string, o client.Object) error
	made   int
	// dead: the controller was killed, and another begins at the next step.
	dead bool
	// acting: it is the controller that writes.
	acting bool
}

// In namespace lab nothing is queued, in blue everything is.
func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{
		t:     t,
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		told:  events.NewFakeRecorder(1000),
	}
	var mu sync.Mutex // of a job, several things are made and removed at a time
	ask := func(verb string, o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if b.before == nil || !b.acting {
			return nil
		}
		return b.before(verb, o)
	}
	name := func(o client.Object) {
		mu.Lock()
		defer mu.Unlock()
		b.made++
		o.SetUID(types.UID(fmt.Sprint("uid-", b.made)))
	}
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "rented"},
		},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "rented", Name: "q"}},
	)
	c := fake.NewClientBuilder().WithScheme(scheme.For(append(kinds.All(), toy.Kind()))).WithObjects(objects...).
		WithStatusSubresource(&toy.Toy{}, &corev1.Pod{}, &batchv1.Job{}, &kueue.Workload{}).
		WithIndex(
			&corev1.Pod{},
			Index,
			IndexOwned,
		).WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(
			&corev1.Service{},
			Index,
			IndexOwned,
		).WithIndex(&batchv1.Job{}, Index, IndexOwned).WithIndex(&corev1.Pod{}, foreign.Index, foreign.IndexImages(toy.Kind().Running.Operator.Others)).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := ask("create", o); err != nil {
					return err
				}
				if o.GetUID() == "" {
					name(o)
				}
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if err := ask("update", o); err != nil {
					return err
				}
				return c.Update(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := ask("delete", o); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := ask("status", o); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}).Build()
	kind := toy.Kind()
	b.r = &reconciler{kind: &kind, Options: Options{
		Client: c, Live: c, Clock: b.clock, Recorder: b.told,
		Managed: func(_, kind string) bool { return kind == "AppWrapper" },
	}}
	return b
}

func aToy(namespace string, change ...func(*toy.Toy)) *toy.Toy {
	x := &toy.Toy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: "x-uid"},
		Spec: toy.Spec{Pods: 3, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "mine"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	}
	for _, c := range change {
		c(x)
	}
	return x
}

func (b *bench) step() (reconcile.Result, error) {
	b.t.Helper()
	ns := "lab"
	if b.get("blue", &toy.Toy{}, "x") {
		ns = "blue"
	}
	b.acting = true
	defer func() { b.acting = false }()
	return b.r.Reconcile(
		b.t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: "x"}},
	)
}

// run reconciles until nothing changes any more.
func (b *bench) run() {
	b.t.Helper()
	before := ""
	for range 30 {
		if _, err := b.step(); b.dead {
			b.dead, b.r.awaited, b.r.counted, b.r.kept = false, awaited{}, memo.Table[time.Time]{}, memo.Table[kept]{}
			continue
		} else if err != nil {
			b.t.Fatal(err)
		}
		now := b.picture()
		if now == before {
			return
		}
		before = now
	}
	b.t.Fatal("it never comes to rest")
}

func (b *bench) get(namespace string, o client.Object, name string) bool {
	b.t.Helper()
	err := b.r.Client.Get(b.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return err == nil
}

func (b *bench) toy(namespace string) *toy.Toy {
	b.t.Helper()
	x := &toy.Toy{}
	if !b.get(namespace, x, "x") {
		b.t.Fatal("the job is gone")
	}
	return x
}

// recovery is what is remembered of the job.
func (b *bench) recovery(namespace string) *recovery.Recovery {
	b.t.Helper()
	o := &recovery.JobRecovery{}
	if !b.get(namespace, o, "x-uid") {
		b.t.Fatal("nothing is remembered")
	}
	out := o.Of(b.toy(namespace))
	if out == nil {
		b.t.Fatalf("what is remembered is not of the job: %+v", o)
	}
	return out
}

func (b *bench) update(o client.Object) {
	b.t.Helper()
	if err := b.r.Client.Update(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) pods() []corev1.Pod {
	b.t.Helper()
	var all corev1.PodList
	if err := b.r.Client.List(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	return all.Items
}

func (b *bench) podNames() []string {
	b.t.Helper()
	var out []string
	for _, p := range b.pods() {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func (b *bench) serviceNames() []string {
	b.t.Helper()
	var all corev1.ServiceList
	if err := b.r.Client.List(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, s := range all.Items {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

// picture is all that there is.
func (b *bench) picture() string {
	var out strings.Builder
	for _, p := range b.pods() {
		fmt.Fprintln(&out, p.Name, p.UID, p.ResourceVersion)
	}
	for _, j := range b.jobs() {
		fmt.Fprintln(&out, j.Name, j.UID, j.ResourceVersion)
	}
	for _, ns := range []string{"blue", "lab"} {
		x := &toy.Toy{}
		if b.get(ns, x, "x") {
			fmt.Fprintln(&out, x.ResourceVersion)
		}
		if r := (&recovery.JobRecovery{}); b.get(ns, r, "x-uid") {
			fmt.Fprintln(&out, r.ResourceVersion)
		}
	}
	fmt.Fprintln(&out, b.serviceNames())
	return out.String()
}

// becomes lets a kubelet say how a pod is.
func (b *bench) becomes(name string, phase corev1.PodPhase, change ...func(*corev1.Pod)) {
	b.t.Helper()
	for _, p := range b.pods() {
		if p.Name != name {
			continue
		}
		p.Status.Phase = phase
		if phase == corev1.PodRunning {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		for _, c := range change {
			c(&p)
		}
		if err := b.r.Client.Status().Update(b.t.Context(), &p); err != nil {
			b.t.Fatal(err)
		}
	}
}

func expect(t *testing.T, why string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
}

var three = []string{"x-0", "x-1", "x-2"}

// TestJobRuns: pods are made with what makes them members, their services beside them,
// those that fail are made anew, and in the end all are done.
func TestJobRuns(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	expect(t, "pods", b.podNames(), three)
	expect(t, "services", b.serviceNames(), three)
	p := b.pods()[1]
	expect(t, "labels", p.Labels, map[string]string{
		"app":                 "mine",
		recovery.JobLabel:     "x-uid",
		recovery.RoleLabel:    "main",
		recovery.IndexLabel:   "1",
		recovery.AttemptLabel: "0",
	})
	expect(t, "env", p.Spec.Containers[0].Env, []corev1.EnvVar{{Name: "RANK", Value: "1"}})
	if o := metav1.GetControllerOf(&p); o == nil || o.UID != "x-uid" || o.Kind != "Toy" {
		t.Errorf("it is controlled by %v", o)
	}
	b.becomes("x-0", corev1.PodSucceeded)
	b.becomes("x-1", corev1.PodFailed)
	b.run()
	if again := b.pods()[1]; again.UID == p.UID {
		t.Error("the failed pod was not made anew")
	}
	got := b.recovery("lab")
	expect(t, "failures", got.Failures, int32(1))
	expect(t, "done", got.Done, []recovery.Done{{Role: "main", Indexes: "0"}})
	b.becomes("x-1", corev1.PodSucceeded)
	b.becomes("x-2", corev1.PodSucceeded)
	b.run()
	if r := b.recovery("lab"); !b.toy("lab").Status.Done || r.Outcome != "Succeeded" {
		t.Errorf("it ended with %+v", r)
	}
}

// TestNothingIsMadeBeforeItIsNoted: whoever gives back the quota of a job looks at whether
// it has begun.
func TestNothingIsMadeBeforeItIsNoted(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.before = func(verb string, o client.Object) error {
		if _, pod := o.(*corev1.Pod); pod && verb == "create" &&
			(!b.toy("lab").Status.Runs || b.recovery("lab").StartTime == nil) {
			t.Error("a pod is made, and the job says that it has none, or will not be remembered")
		}
		return nil
	}
	b.run()
	expect(t, "pods", b.podNames(), three)
}

// TestSuspendedJobKeepsNothing: all its pods and services go, and only when no pod is left,
// by the API server's own account, it says so.
func TestSuspendedJobKeepsNothing(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	for _, p := range b.pods() { // kubelets have yet to stop them
		p.Spec.NodeName, p.Finalizers = "n", []string{"test/stops"}
		b.update(&p)
	}
	x := b.toy("lab")
	x.Spec.Hold = true
	b.update(x)
	b.run()
	expect(t, "services", b.serviceNames(), []string(nil))
	if !b.toy("lab").Status.Runs || b.recovery("lab").StartTime == nil {
		t.Error("its pods still run, and it says that it has none")
	}
	// Two are gone, one has stopped and is kept by its user, and one runs on that the cache
	// does not show.
	for i, p := range b.pods() {
		if i > 0 {
			p.Finalizers = nil
			b.update(&p)
		}
	}
	hidden := b.pods()[0].DeepCopy()
	hidden.ObjectMeta = metav1.ObjectMeta{
		Namespace:       "lab",
		Name:            "hidden",
		UID:             "h",
		Labels:          hidden.Labels,
		OwnerReferences: hidden.OwnerReferences,
	}
	hidden.Spec.NodeName = "n"
	live := b.r.Client
	if err := live.Create(t.Context(), hidden); err != nil {
		t.Fatal(err)
	}
	b.becomes("x-0", corev1.PodFailed)
	b.r.Client = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, is := list.(*corev1.PodList); is {
				pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == "hidden" })
			}
			return err
		},
	})
	b.run()
	b.r.Client = live
	if !b.toy("lab").Status.Runs || b.recovery("lab").StartTime == nil {
		t.Error("a pod is left at the API server, and it says that it has none")
	}
	if err := live.Delete(t.Context(), hidden); err != nil {
		t.Fatal(err)
	}
	// Whoever writes the job's label on a pod of theirs keeps nothing.
	forged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "forged", UID: "f", Labels: hidden.Labels},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	if err := live.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	b.run()
	if r := b.recovery("lab"); r.StartTime != nil || b.toy("lab").Status.Runs {
		t.Errorf("none is left that runs, and it says that it began at %s", r.StartTime)
	}
	for _, p := range b.pods() {
		p.Finalizers = nil
		b.update(&p)
		if err := live.Delete(t.Context(), &p); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	x = b.toy("lab")
	x.Spec.Hold = false
	b.update(x)
	b.run()
	expect(t, "pods after it is resumed", b.podNames(), three)
}

func workload(uid types.UID) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "toys.example.com/v1", Kind: "Toy", Name: "x", UID: uid, Controller: new(true)},
		}},
	}
	return w
}

// admitted is one with quota for three pods.
func admitted(uid types.UID) *kueue.Workload {
	w := workload(uid)
	w.Spec.PodSets = []kueue.PodSet{{Name: "main", Count: 3}}
	w.Status.Admission = &kueue.Admission{ClusterQueue: "cq", PodSetAssignments: []kueue.PodSetAssignment{
		{
			Name:    "main",
			Count:   new(int32(3)),
			Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{corev1.ResourceCPU: "f"},
		},
	}}
	w.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue}}
	return w
}

func aFlavor() *kueue.ResourceFlavor {
	return &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}, Spec: kueue.ResourceFlavorSpec{
		NodeLabels: map[string]string{
			"gpu": "a100",
		},
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
	}}
}

// TestQueuedJobWaits: where jobs are queued no pod is made before the job's Workload is
// admitted, whether or not somebody has set it free; and what its admission gives pods
// is in the pods, and not in the job.
func TestQueuedJobWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		why      string
		workload *kueue.Workload
		owner    string
		want     []string
	}{
		"none":         {"it is about to get one, and to be suspended", nil, "", nil},
		"not admitted": {"it is about to be suspended", workload("x-uid"), "", nil},
		"another's":    {"the Workload of an object that had its name does not count", admitted("old"), "", nil},
		"admitted":     {"it may run", admitted("x-uid"), "", three},
		"part":         {"it is admitted with its owner", nil, "AppWrapper", three},
		"stranger":     {"an owner that is not queued admits nothing", nil, "Stranger", nil},
		"evicted": {"it is about to be suspended", func() *kueue.Workload {
			w := admitted("x-uid")
			w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue})
			return w
		}(), "", nil},
	} {
		x := aToy("blue")
		if tc.owner != "" {
			x.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v", Kind: tc.owner, Name: "o", UID: "o", Controller: new(true)},
			}
		}
		objects := []client.Object{x, aFlavor()}
		if tc.workload != nil {
			objects = append(objects, tc.workload)
		}
		b := newBench(t, objects...)
		b.run()
		expect(t, name+": "+tc.why, b.podNames(), tc.want)
		if tc.workload != nil && len(b.pods()) > 0 {
			p := b.pods()[0]
			expect(t, "node selector", p.Spec.NodeSelector, map[string]string{"gpu": "a100"})
			expect(t, "tolerations", len(p.Spec.Tolerations), 1)
			expect(t, "annotations", p.Annotations, map[string]string{kueue.WorkloadAnnotation: "w"})
			expect(t, "pod set", p.Labels[kueue.PodSetLabel], "main")
			expect(t, "the job's own template", b.toy("blue").Spec.Template, aToy("blue").Spec.Template)
		}
	}
}

// TestNoMorePodsThanAdmitted: a job whose user asks for more while it runs gets them once it
// was admitted with them.
func TestNoMorePodsThanAdmitted(t *testing.T) {
	b := newBench(t, aToy("blue", func(x *toy.Toy) { x.Spec.Pods = 5 }), aFlavor(), admitted("x-uid"))
	b.run()
	expect(t, "pods of a job that was admitted with three", b.podNames(), three)
	expect(t, "services", b.serviceNames(), three)
}

// TestForeignPodHasTheName: a pod that is not the job's stays as it is, and the job says
// what is in its way.
func TestForeignPodHasTheName(t *testing.T) {
	b := newBench(
		t,
		aToy("lab"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-0", UID: "theirs"}},
	)
	for range 4 {
		result, err := b.step()
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter > takenPause {
			t.Errorf("it looks again in %s", result.RequeueAfter)
		}
	}
	if p := b.pods(); p[0].UID != "theirs" {
		t.Error("it took another's pod")
	}
	if said := b.said(); !strings.Contains(said, "NameTaken There is another pod x-0") {
		t.Errorf("it said %s", said)
	}
}

func (b *bench) said() string {
	var all []string
	for {
		select {
		case e := <-b.told.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

// TestRefusedPodsAreNotTriedAtOnce: a ResourceQuota that refuses one refuses all; the rest
// is not asked for.
func TestRefusedPodsAreNotTriedAtOnce(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Pods = 100 }))
	asked := 0
	b.before = func(verb string, o client.Object) error {
		if _, pod := o.(*corev1.Pod); pod && verb == "create" {
			asked++
			return apierrors.NewForbidden(
				schema.GroupResource{Resource: "pods"},
				o.GetName(),
				errors.New("exceeded quota"),
			)
		}
		return nil
	}
	if _, err := b.step(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.step(); err == nil {
		t.Error("it is not tried again")
	}
	expect(t, "pods asked for", asked, 1)
	if said := b.said(); !strings.Contains(said, "FailedCreatePod") ||
		!strings.Contains(said, "exceeded quota") {
		t.Errorf("it said %s", said)
	}
}

// TestPodThatWasNeverShownIsMadeAgain: a pod may be deleted before the cache shows it, and then no
// event tells that it is gone. It is not awaited for ever.
func TestPodThatWasNeverShownIsMadeAgain(t *testing.T) {
	b := newBench(t, aToy("lab"))
	for range 2 { // it is noted that it begins, then its pods are made
		if _, err := b.step(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "pods", b.podNames(), three)
	lost := b.pods()[0]
	if err := b.r.Client.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	expect(t, "pods that are left", len(b.podNames()), 2)
	b.said()
	for range 20 { // each time as late as the controller asks for: nothing else happens
		result, err := b.step()
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == 0 {
			break
		}
		b.clock.SetTime(b.clock.Now().Add(result.RequeueAfter))
	}
	expect(t, "pods, in the end", b.podNames(), three)
}

// TestOldJobMakesNothing: what the cache shows of a job may be old; it is asked for before
// pods are made.
func TestOldJobMakesNothing(t *testing.T) {
	b := newBench(t, aToy("lab"))
	if _, err := b.step(); err != nil { // notes that it begins
		t.Fatal(err)
	}
	fresh := b.toy("lab")
	fresh.Spec.Hold = true
	live := b.r.Client
	old := b.toy("lab")
	b.r.Client = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if x, is := o.(*toy.Toy); is {
				*x = *old
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if err := live.Update(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if _, err := b.step(); err != nil {
		t.Fatal(err)
	}
	b.r.Client = live
	expect(t, "pods of a job that was suspended a moment ago", b.podNames(), []string(nil))
}

// TestCountersAreWrittenNowAndThen: a pod that starts is one reconcile and, where many
// start, not one write each.
func TestCountersAreWrittenNowAndThen(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Pods = 20 }))
	b.run()
	writes := 0
	b.before = func(verb string, _ client.Object) error {
		if verb == "status" {
			writes++
		}
		return nil
	}
	asked := false
	for _, name := range b.podNames() {
		b.becomes(name, corev1.PodRunning)
		result, err := b.step()
		if err != nil || writes > 0 {
			t.Fatalf("%s: %d writes within a second of the last, %v", name, writes, err)
		}
		asked = asked || result.RequeueAfter > 0 && result.RequeueAfter <= countsPause
	}
	if !asked {
		t.Error("nobody looks again")
	}
	b.clock.SetTime(b.clock.Now().Add(countsPause))
	b.run()
	if !b.toy("lab").Status.Ready {
		t.Error("all are ready, and it does not say so")
	}
}

// TestDeletedServiceComesBack: others reach a pod by it.
func TestDeletedServiceComesBack(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	if err := b.r.Client.Delete(
		t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-1"}},
	); err != nil {
		t.Fatal(err)
	}
	b.run()
	expect(t, "services", b.serviceNames(), three)
}

// TestServicesAreThereBeforePods: pods ask for each other as soon as they run, and a name that was
// asked for in vain is not found for a while. Each is made once; where none may be made there are
// pods, and what is in the way is told.
func TestServicesAreThereBeforePods(t *testing.T) {
	b := newBench(t, aToy("lab"))
	var made []string
	b.before = func(verb string, o client.Object) error {
		if verb == "create" {
			made = append(made, fmt.Sprintf("%T", o))
		}
		return nil
	}
	b.run()
	pod, service := "*v1.Pod", "*v1.Service"
	expect(t, "made", made, []string{"*v1alpha1.JobRecovery", service, service, service, pod, pod, pod})

	b = newBench(t, aToy("lab"))
	b.before = func(verb string, o client.Object) error {
		if _, is := o.(*corev1.Service); is && verb == "create" {
			return apierrors.NewForbidden(
				schema.GroupResource{Resource: "services"},
				o.GetName(),
				errors.New("exceeded quota"),
			)
		}
		return nil
	}
	var err error
	for range 2 {
		_, err = b.step()
	}
	if said := b.said(); err == nil || !strings.Contains(said, "FailedCreateService") {
		t.Errorf("without services: %v, and it said %s", err, said)
	}
	expect(t, "pods without services", b.podNames(), three)
}

// TestFewerPods: what is beyond the count goes with its service.
func TestFewerPods(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	x := b.toy("lab")
	x.Spec.Pods = 1
	b.update(x)
	b.run()
	expect(t, "pods", b.podNames(), []string{"x-0"})
	expect(t, "services", b.serviceNames(), []string{"x-0"})
}

// TestLeftAlone: jobs of others, jobs that are being deleted, and those that cannot be
// understood.
func TestLeftAlone(t *testing.T) {
	now := metav1.Now()
	b := newBench(
		t,
		aToy("lab", func(x *toy.Toy) { x.DeletionTimestamp, x.Finalizers = &now, []string{"test/keeps"} }),
	)
	b.run()
	expect(t, "pods of a job that is being deleted", b.podNames(), []string(nil))
	b = newBench(t, aToy("lab"))
	b.r.kind.Running.Operator = &jobs.Operator{
		Compile: func(jobs.Object) (*jobs.Plan, error) { return nil, errors.New("no role") },
	}
	b.run()
	if said := b.said(); !strings.Contains(said, "InvalidJob no role") {
		t.Errorf("it said %s", said)
	}
}

// TestAnotherOperatorRuns: where another controller of the kind runs, jobs are left to it, and
// said so; a team's pod is none, whatever it runs.
func TestAnotherOperatorRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		why, namespace, image string
		phase                 corev1.PodPhase
		stands                bool
	}{
		"runs":           {"two would fight over the pods", "lab", "quay.io/toys/toy-operator:v1.2", corev1.PodRunning, true},
		"mirrored":       {"from a registry with a port, by digest", "lab", "mirror:5000/x/toys/toy-operator@sha256:12", corev1.PodRunning, true},
		"ended":          {"it was stopped", "lab", "toys/toy-operator", corev1.PodSucceeded, false},
		"of a team":      {"a tenant could stop everybody's jobs", "blue", "toys/toy-operator", corev1.PodRunning, false},
		"beside a queue": {"as above", "rented", "toys/toy-operator", corev1.PodRunning, false},
		"much alike":     {"it is another program", "lab", "nottoys/toy-operator", corev1.PodRunning, false},
		"its sidecar":    {"likewise", "lab", "toys/toy-operator/proxy:1", corev1.PodRunning, false},
	} {
		b := newBench(t, aToy("lab"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "operator"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "x", Image: "x"}, {Name: "c", Image: tc.image}},
			},
			Status: corev1.PodStatus{Phase: tc.phase},
		})
		b.run()
		if stands := len(b.pods()) == 1; stands != tc.stands {
			t.Errorf("%s (%s): it made %v", name, tc.why, b.podNames())
		}
		if said := strings.Count(b.said(), "LeftToOther"); (said == 1) != tc.stands {
			t.Errorf("%s: it said so %d times", name, said)
		}
		if tc.stands { // and when it has gone, all jobs are looked at
			if got := b.r.all(t.Context(), nil); len(got) != 1 || got[0].Name != "x" {
				t.Errorf("%s: looks at %v", name, got)
			}
			if err := b.r.Client.Delete(
				t.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "operator"}},
			); err != nil {
				t.Fatal(err)
			}
			b.run()
			expect(t, name+": once it is gone", b.podNames(), three)
		}
	}
}

// TestUnintelligibleJobIsStopped: a job that became one that nobody understands gives its
// pods up like any other when it is suspended; else it would keep its quota for ever.
func TestUnintelligibleJobIsStopped(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	operated := *b.r.kind.Running.Operator
	operated.Compile = func(jobs.Object) (*jobs.Plan, error) { return nil, errors.New("no role") }
	b.r.kind.Running.Operator = &operated
	b.run()
	expect(t, "pods while it may run", b.podNames(), three)
	x := b.toy("lab")
	x.Spec.Hold = true
	b.update(x)
	b.run()
	if r := b.recovery("lab"); len(b.pods()) > 0 || r.StartTime != nil || b.toy("lab").Status.Runs {
		t.Errorf("it was suspended and keeps %v, begun at %s", b.podNames(), r.StartTime)
	}
}

// TestKilledAnywhere: the controller is killed after each of its writes in turn, while a pod
// fails, one succeeds, and the job is suspended and resumed. It comes to the same end, and
// no failure is lost or counted twice.
func TestKilledAnywhere(t *testing.T) {
	life := func(b *bench) {
		b.run()
		b.becomes("x-0", corev1.PodFailed)
		b.becomes("x-1", corev1.PodSucceeded)
		b.run()
		x := b.toy("lab")
		x.Spec.Hold = true
		b.update(x)
		b.run()
		x = b.toy("lab")
		x.Spec.Hold = false
		b.update(x)
		b.run()
		for _, name := range three {
			b.becomes(name, corev1.PodSucceeded)
		}
		b.run()
	}
	end := func(b *bench) map[string]any {
		r := b.recovery("lab")
		r.StartTime, r.EndTime, r.LastFailureTime, r.Counted = nil, nil, nil, nil
		return map[string]any{
			"pods":     b.podNames(),
			"services": b.serviceNames(),
			"kept":     r,
			"says":     b.toy("lab").Status,
		}
	}
	quiet := newBench(t, aToy("lab"))
	writes := 0
	quiet.before = func(string, client.Object) error { writes++; return nil }
	life(quiet)
	want := end(quiet)
	if writes < 15 {
		t.Fatalf("only %d writes", writes)
	}
	for at := range writes {
		b := newBench(t, aToy("lab"))
		n := 0
		b.before = func(string, client.Object) error {
			n++
			b.dead = b.dead || n == at+1
			if b.dead {
				return errors.New("killed")
			}
			return nil
		}
		life(b)
		if diff := cmp.Diff(want, end(b)); diff != "" {
			t.Fatalf("killed at write %d (-want +got):\n%s", at, diff)
		}
	}
}

// TestJobsWhoseTimeIsOverStayUntilTheirPodsAreGone: another of its name would find names taken.
func TestJobsWhoseTimeIsOverStayUntilTheirPodsAreGone(t *testing.T) {
	x := aToy("lab")
	x.ResourceVersion = "7"
	var asked client.DeleteOptions
	c := interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme.For([]jobs.Kind{toy.Kind()})).WithObjects(x).Build(),
		interceptor.Funcs{
			Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
				asked.ApplyOptions(opts)
				return nil
			},
		},
	)
	if err := (&reconciler{Options: Options{Client: c}}).remove(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if p := asked.PropagationPolicy; p == nil || *p != metav1.DeletePropagationForeground ||
		asked.Preconditions == nil ||
		*asked.Preconditions.UID != x.UID ||
		*asked.Preconditions.ResourceVersion != "7" {
		t.Errorf("it is deleted with %+v", asked)
	}
}
