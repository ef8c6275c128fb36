package appwrapper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// errCrash is what the process's last write ends with.
var errCrash = errors.New("killed")

// crash says which write fails, and whether it took effect before.
type crash struct {
	at     int // 1 is the first write; 0 is never
	effect bool
}

// world is an API server with one AppWrapper, and a Job controller and kubelet
// that do their work when told to.
type world struct {
	t       *testing.T
	server  client.WithWatch // without faults
	r       *reconciler
	clock   *clocktesting.FakePassiveClock
	events  *events.FakeRecorder
	key     types.NamespacedName
	recheck time.Duration

	// one lets a single write happen at a time: pods are deleted side by side.
	one     sync.Mutex
	writes  []string
	crash   crash
	created map[string]int // successful creations of components by UID of their owner and name
	serial  int
	// before is called ahead of every write.
	before func(what string)
	// cache changes what cached reads see; nil means that they see everything.
	cache interceptor.Funcs
}

const jobManifest = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"short-"},"spec":{
	"completions":2,"parallelism":2,"ttlSecondsAfterFinished":1,"template":{"spec":{"restartPolicy":"Never",
	"containers":[{"name":"c","image":"i","command":["sleep","30"],"resources":{"limits":{"nvidia.com/gpu":4}}}]}}}}`

const podManifest = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"alone"},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`

const serviceManifest = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"front"},"spec":{"ports":[{"port":80}]}}`

func wrapper(manifests ...string) *awv1beta2.AppWrapper {
	w := &awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "short", UID: "uid-short"}}
	w.Spec.Suspend = true
	for _, m := range manifests {
		w.Spec.Components = append(
			w.Spec.Components,
			awv1beta2.AppWrapperComponent{Template: runtime.RawExtension{Raw: []byte(m)}},
		)
	}
	return w
}

// smallScheme knows just the kinds of these tests: the fake client walks
// through all kinds at every call.
func smallScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, awv1beta2.AddToScheme, kueue.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newWorld(t *testing.T, w *awv1beta2.AppWrapper, more ...client.Object) *world {
	t.Helper()
	x := &world{
		t: t, key: client.ObjectKeyFromObject(w), created: map[string]int{},
		clock:  clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		events: events.NewFakeRecorder(1000),
	}
	b := fake.NewClientBuilder().WithScheme(smallScheme(t)).WithStatusSubresource(&awv1beta2.AppWrapper{}).
		WithObjects(w).WithObjects(more...)
	for i := range 3 {
		b = b.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}})
	}
	for name, of := range podIndexes() {
		b = b.WithIndex(&corev1.Pod{}, name, of)
	}
	x.server = b.Build()
	count, err := newCounters(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	x.r = &reconciler{
		client: interceptor.NewClient(x.server, x.faults()), live: x.server, recorder: x.events, clock: x.clock,
		policy: lifecycle.Defaults(), inject: appwrapper.InjectOptions{Avoid: jobs.AvoidBadGPUs()}, count: count,
	}
	return x
}

// write counts a write, and lets it fail before or after its effect.
func (x *world) write(what string, do func() error) error {
	x.one.Lock()
	defer x.one.Unlock()
	if x.before != nil {
		x.before(what)
	}
	x.writes = append(x.writes, what)
	dies := len(x.writes) == x.crash.at
	if dies && !x.crash.effect {
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	if dies {
		return errCrash
	}
	return nil
}

func (x *world) faults() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if x.cache.Get != nil {
				return x.cache.Get(ctx, c, key, o, opts...)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if x.cache.List != nil {
				return x.cache.List(ctx, c, l, opts...)
			}
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return x.write("create "+o.GetObjectKind().GroupVersionKind().Kind, func() error {
				x.serial++
				o.SetUID(types.UID(fmt.Sprintf("uid-%d", x.serial)))
				err := c.Create(ctx, o, opts...)
				if err == nil {
					x.created[o.GetName()]++
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return x.write("delete "+kindOf(o), func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return x.write("finalizer", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return x.write("status", func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	}
}

func kindOf(o client.Object) string {
	if _, ok := o.(*corev1.Pod); ok {
		return "Pod"
	}
	return o.GetObjectKind().GroupVersionKind().Kind
}

func (x *world) get() *awv1beta2.AppWrapper {
	x.t.Helper()
	w := &awv1beta2.AppWrapper{}
	if err := x.server.Get(x.t.Context(), x.key, w); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		x.t.Fatal(err)
	}
	return w
}

func (x *world) phase() string {
	x.t.Helper()
	if w := x.get(); w != nil {
		return string(w.Status.Phase)
	}
	return "gone"
}

// admit lets the AppWrapper run the way that its queue's controller does.
func (x *world) admit() {
	x.t.Helper()
	w := x.get()
	facts, err := appwrapper.Adapter{}.Read(w)
	if err != nil {
		x.t.Fatal(err)
	}
	var infos []jobs.PodSetInfo
	for _, ps := range facts.PodSets {
		infos = append(infos, jobs.PodSetInfo{Name: string(ps.Name), Count: ps.Count})
	}
	started, err := appwrapper.Adapter{}.Start(w, infos)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.server.Update(x.t.Context(), started); err != nil {
		x.t.Fatal(err)
	}
}

func (x *world) stop() {
	x.t.Helper()
	stopped, err := appwrapper.Adapter{}.Stop(x.get(), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.server.Update(x.t.Context(), stopped); err != nil {
		x.t.Fatal(err)
	}
}

func (x *world) reconcile() error {
	res, err := x.r.Reconcile(x.t.Context(), reconcile.Request{NamespacedName: x.key})
	x.recheck = res.RequeueAfter
	return err
}

// reconcileAll reconciles until nothing is written any more. Deaths are survived.
func (x *world) reconcileAll() {
	x.t.Helper()
	for range 100 {
		before := len(x.writes)
		err := x.reconcile()
		if err != nil && !errors.Is(err, errCrash) {
			x.t.Fatalf("reconcile: %v", err)
		}
		if err == nil && len(x.writes) == before {
			return
		}
	}
	x.t.Fatalf("does not come to rest: %v", x.writes)
}

// to reconciles, letting time pass as asked for, until a phase is reached.
func (x *world) to(phase string) {
	x.t.Helper()
	for range 50 {
		x.reconcileAll()
		if x.phase() == phase {
			return
		}
		if x.recheck == 0 {
			break
		}
		x.clock.SetTime(x.clock.Now().Add(x.recheck))
	}
	x.t.Fatalf("stays in phase %s on the way to %s; conditions %v", x.phase(), phase, x.conditions())
}

func (x *world) conditions() string {
	var out []string
	for _, c := range x.get().Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, " ")
}

func (x *world) jobs() []batchv1.Job {
	x.t.Helper()
	var l batchv1.JobList
	if err := x.server.List(x.t.Context(), &l); err != nil {
		x.t.Fatal(err)
	}
	return l.Items
}

func (x *world) pods() []corev1.Pod {
	x.t.Helper()
	var l corev1.PodList
	if err := x.server.List(x.t.Context(), &l); err != nil {
		x.t.Fatal(err)
	}
	return l.Items
}

// run makes the pods that Jobs want, on nodes from first on, in a phase.
func (x *world) run(first int, phase corev1.PodPhase) {
	x.t.Helper()
	for _, j := range x.jobs() {
		for i := range int(*j.Spec.Parallelism) {
			p := &corev1.Pod{
				ObjectMeta: *j.Spec.Template.ObjectMeta.DeepCopy(),
				Spec:       *j.Spec.Template.Spec.DeepCopy(),
			}
			p.Namespace, p.Name = j.Namespace, fmt.Sprintf("%s-%d", j.Name, i)
			x.serial++
			p.UID = types.UID(fmt.Sprintf("uid-%d", x.serial))
			p.Spec.NodeName = fmt.Sprintf("node-%d", first+i)
			if err := x.server.Create(x.t.Context(), p); err != nil {
				if apierrors.IsAlreadyExists(err) {
					continue
				}
				x.t.Fatal(err)
			}
			p.Status.Phase = phase
			x.status(p)
		}
	}
}

// finish ends all pods and Jobs well.
func (x *world) finish() {
	x.t.Helper()
	for _, p := range x.pods() {
		p.Status.Phase = corev1.PodSucceeded
		x.status(&p)
	}
	x.jobCondition(batchv1.JobComplete, "CompletionsReached")
}

func (x *world) jobCondition(kind batchv1.JobConditionType, reason string) {
	x.t.Helper()
	for _, j := range x.jobs() {
		j.Status.Conditions = append(
			j.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason},
		)
		x.status(&j)
	}
}

func (x *world) status(o client.Object) {
	x.t.Helper()
	if err := x.server.Status().Update(x.t.Context(), o); err != nil {
		x.t.Fatal(err)
	}
}

func (x *world) label(node, value string) {
	x.t.Helper()
	n := &corev1.Node{}
	if err := x.server.Get(x.t.Context(), types.NamespacedName{Name: node}, n); err != nil {
		x.t.Fatal(err)
	}
	n.Labels = map[string]string{nodehealth.HealthLabel: value}
	if err := x.server.Update(x.t.Context(), n); err != nil {
		x.t.Fatal(err)
	}
}

// running brings a world to where its pods run.
func running(t *testing.T, manifests ...string) *world {
	t.Helper()
	x := newWorld(t, wrapper(manifests...))
	x.reconcileAll()
	x.admit()
	x.to("Running")
	x.run(0, corev1.PodRunning)
	x.reconcileAll()
	return x
}

// told are the reasons of the events so far.
func (x *world) told() []string {
	var out []string
	for {
		select {
		case e := <-x.events.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return out
		}
	}
}

// kinds are the writes since mark, with equal neighbours merged.
func (x *world) since(mark int) []string { return slices.Clone(x.writes[mark:]) }
