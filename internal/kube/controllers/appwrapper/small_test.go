package appwrapper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// Of Jobs only their end counts: their status is written with every pod.
func TestJobEnds(t *testing.T) {
	job := func(change func(*batchv1.Job)) *batchv1.Job { j := &batchv1.Job{}; change(j); return j }
	says := func(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: status, Reason: reason}}
		}
	}
	nothing := job(func(*batchv1.Job) {})
	failed := job(says(batchv1.JobFailed, corev1.ConditionTrue, "a"))
	kind := batchjob.Kind()
	p := ends(&kind)
	for what, c := range map[string]struct{ got, want bool }{
		"active pods":         {p.Update(event.UpdateEvent{ObjectOld: nothing, ObjectNew: job(func(j *batchv1.Job) { j.Status.Active = 3 })}), false},
		"failed":              {p.Update(event.UpdateEvent{ObjectOld: nothing, ObjectNew: failed}), true},
		"failed before":       {p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: failed}), false},
		"other words":         {p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: job(says(batchv1.JobFailed, corev1.ConditionTrue, "b"))}), false},
		"taken back":          {p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: job(says(batchv1.JobFailed, corev1.ConditionFalse, "a"))}), true},
		"complete instead":    {p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: job(says(batchv1.JobComplete, corev1.ConditionTrue, "a"))}), true},
		"marked for deletion": {p.Update(event.UpdateEvent{ObjectOld: nothing, ObjectNew: job(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{} })}), true},
		"another kind":        {p.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: &corev1.Pod{}}), true},
		"comes":               {p.Create(event.CreateEvent{Object: failed}), false},
		"is gone":             {p.Delete(event.DeleteEvent{Object: nothing}), true},
		"something else":      {p.Generic(event.GenericEvent{Object: failed}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: let through %v, want %v", what, c.got, c.want)
		}
	}
}

// Of pods it counts that they are there, their phase, their node, and that they go.
func TestPodChanges(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{awv1beta2.AppWrapperLabel: "short"}},
		}
		change(p)
		return p
	}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status}} }
	}
	p := podChanges()
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":                {func(*corev1.Pod) {}, false},
		"its containers":         {func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) }, false},
		"its phase":              {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"its node":               {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, true},
		"it goes":                {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, true},
		"it has to make way":     {condition(corev1.DisruptionTarget, corev1.ConditionTrue), true},
		"it need not make way":   {condition(corev1.DisruptionTarget, corev1.ConditionFalse), false},
		"it is ready":            {condition(corev1.PodReady, corev1.ConditionTrue), false},
		"no AppWrapper any more": {func(p *corev1.Pod) { p.Labels, p.Status.Phase = nil, corev1.PodFailed }, false},
	} {
		if got := p.Update(
			event.UpdateEvent{ObjectOld: pod(func(*corev1.Pod) {}), ObjectNew: pod(c.change)},
		); got != c.want {
			t.Errorf("%s: let through %v, want %v", what, got, c.want)
		}
	}
	ours, others := pod(func(*corev1.Pod) {}), &corev1.Pod{}
	if !p.Create(event.CreateEvent{Object: ours}) || !p.Delete(event.DeleteEvent{Object: ours}) ||
		p.Create(event.CreateEvent{Object: others}) ||
		p.Delete(event.DeleteEvent{Object: others}) {
		t.Error("want that pods of AppWrappers are seen when they come and go, and no others")
	}
}

// A node counts when pods have to leave it, and when it is gone.
func TestNodeTurnsBad(t *testing.T) {
	avoid := []jobs.Avoidance{
		{Label: "health", Evicting: []string{"EVICT"}},
		{Label: "rack", Evicting: []string{"burns", "smokes"}},
	}
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	good, bad, worse := node(
		nil,
	), node(
		map[string]string{"health": "evict"},
	), node(
		map[string]string{"health": "EVICT", "rack": "Smokes"},
	)
	p := nodeTurnsBad(avoid)
	for what, c := range map[string]struct{ got, want bool }{
		"turns bad":      {p.Update(event.UpdateEvent{ObjectOld: good, ObjectNew: bad}), true},
		"is bad":         {p.Update(event.UpdateEvent{ObjectOld: bad, ObjectNew: bad}), false},
		"turns good":     {p.Update(event.UpdateEvent{ObjectOld: bad, ObjectNew: good}), false},
		"is good":        {p.Update(event.UpdateEvent{ObjectOld: good, ObjectNew: good}), false},
		"comes bad":      {p.Create(event.CreateEvent{Object: bad}), true},
		"comes good":     {p.Create(event.CreateEvent{Object: good}), false},
		"is gone":        {p.Delete(event.DeleteEvent{Object: good}), true},
		"something else": {p.Generic(event.GenericEvent{Object: bad}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: let through %v, want %v", what, c.got, c.want)
		}
	}
	for want, n := range map[string]*corev1.Node{"": good, "health=evict": bad, "health=EVICT, rack=Smokes": worse} {
		if got := jobs.Evicting(n.Labels, avoid); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Pods are found by their AppWrapper and, if they have one, by their node, which leads
// to each AppWrapper once.
func TestPodsAreIndexed(t *testing.T) {
	pod := func(ns, name, wrapper, node string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
		if wrapper != "" {
			p.Labels[awv1beta2.AppWrapperLabel] = wrapper
		}
		return p
	}
	indexes := podIndexes()
	for name, c := range map[string]struct {
		o                client.Object
		wrappers, onNode []string
	}{
		"placed": {pod("n", "p", "w", "node-1"), []string{"w"}, []string{"node-1"}},
		"waits":  {pod("n", "p", "w", ""), []string{"w"}, nil},
		"plain":  {pod("n", "p", "", "node-1"), nil, nil},
		"no pod": {&corev1.Node{}, nil, nil},
	} {
		if diff := cmp.Diff(
			[][]string{c.wrappers, c.onNode},
			[][]string{indexes[byAppWrapper](c.o), indexes[byNode](c.o)},
		); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	x := newWorld(
		t,
		wrapper(jobManifest),
		pod("blue", "a", "w", "node-1"),
		pod("blue", "b", "w", "node-1"),
		pod("red", "c", "w", "node-1"),
		pod("blue", "d", "v", "node-1"),
		pod("blue", "e", "u", "node-2"),
		pod("blue", "f", "", "node-1"),
	)
	var got []string
	for _, r := range x.r.onNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}) {
		got = append(got, r.String())
	}
	if diff := cmp.Diff(
		[]string{"blue/v", "blue/w", "red/w"},
		got,
		cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	); diff != "" {
		t.Errorf("the node leads to (-want +got):\n%s", diff)
	}
	x.cache.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("not synced")
	}
	if got := x.r.onNode(
		t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
	); len(
		got,
	) != 0 {
		t.Errorf("it leads to %v though nothing could be listed", got)
	}
}

// What is read of a pod.
func TestReadPod(t *testing.T) {
	ended := func(codes ...int32) (out []corev1.ContainerStatus) {
		for _, c := range codes {
			out = append(
				out,
				corev1.ContainerStatus{
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: c}},
				},
			)
		}
		return out
	}
	until := metav1.NewTime(time.Unix(100, 0))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "p",
			UID:               "u",
			Finalizers:        []string{"f"},
			DeletionTimestamp: &until,
			Labels:            map[string]string{"kueue.x-k8s.io/podset": "main"},
		},
		Status: corev1.PodStatus{
			InitContainerStatuses: ended(0, 3),
			ContainerStatuses:     append(ended(7, 0), corev1.ContainerStatus{}),
		},
	}
	a := &attempt{reconciler: newWorld(t, wrapper(jobManifest)).r, w: wrapper(jobManifest)}
	a.facts.Phase = lifecycle.Running
	got, err := a.readPod(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := lifecycle.Pod{
		Name:       "p",
		UID:        "u",
		PodSet:     "main",
		Phase:      lifecycle.PodPending,
		Deleting:   true,
		Until:      until.Time,
		Finalizers: []string{"f"},
		ExitCodes:  []int32{3, 7},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Which nodes a pod has lost, and by whom it is asked.
func TestLostNodes(t *testing.T) {
	w := wrapper(podManifest)
	on := func(node string, changes ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		for _, c := range changes {
			c(p)
		}
		return p
	}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(w, awv1beta2.GroupVersion.WithKind("AppWrapper")),
		}
	}
	evicted := func(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status, Message: "drained"}}
		}
	}
	for name, c := range map[string]struct {
		why  string
		pod  *corev1.Pod
		want string
	}{
		"runs":              {"its node is there", on("node-1"), ""},
		"no node yet":       {"it cannot have lost one", on(""), ""},
		"node is gone":      {"it never comes back", on("gone"), "node gone does not exist any more"},
		"done":              {"it needs no node", on("gone", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ""},
		"component evicted": {"no controller replaces it", on("node-1", owned, evicted(corev1.DisruptionTarget, corev1.ConditionTrue)), "it was evicted from node node-1: drained"},
		"of a Job, evicted": {"the Job replaces it", on("node-1", evicted(corev1.DisruptionTarget, corev1.ConditionTrue)), ""},
		"not evicted":       {"the eviction was taken back", on("node-1", owned, evicted(corev1.DisruptionTarget, corev1.ConditionFalse)), ""},
		"another condition": {"that is no eviction", on("node-1", owned, evicted(corev1.PodReady, corev1.ConditionTrue)), ""},
	} {
		x := newWorld(t, w.DeepCopy())
		a := &attempt{reconciler: x.r, w: w}
		if got, err := a.lostNode(t.Context(), c.pod); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q: %s", name, got, err, c.want, c.why)
		}
	}
	x := newWorld(t, w.DeepCopy())
	asked := 0
	x.r.live = interceptor.NewClient(
		x.server,
		interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				asked++
				return nil
			},
		},
	)
	a := &attempt{reconciler: x.r, w: w}
	if got, err := a.lostNode(t.Context(), on("new")); got != "" || err != nil || asked != 1 {
		t.Errorf("a node that the cache does not show yet: %q, %v, asked %d times", got, err, asked)
	}
	if _, err := a.lostNode(t.Context(), on("node-1")); err != nil || asked != 1 {
		t.Errorf("%v; the API server is asked about a node that the cache has", err)
	}
}

// What cannot be read is an error: nothing may be decided without it.
func TestReadsThatFail(t *testing.T) {
	away := errors.New("connection refused")
	for want, fails := range map[string]func(any) bool{
		"AppWrapper blue/short: list pods: ":        func(o any) bool { _, is := o.(*corev1.PodList); return is },
		"AppWrapper blue/short: read node node-0: ": func(o any) bool { _, is := o.(*corev1.Node); return is },
		"AppWrapper blue/short: read Job short-":    func(o any) bool { _, is := o.(*batchv1.Job); return is },
		"connection refused":                        func(o any) bool { _, is := o.(*awv1beta2.AppWrapper); return is },
	} {
		x := running(t, jobManifest)
		x.cache.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if fails(o) {
				return away
			}
			return c.Get(ctx, key, o, opts...)
		}
		x.cache.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if fails(l) {
				return away
			}
			return c.List(ctx, l, opts...)
		}
		mark := len(x.writes)
		if err := x.reconcile(); !errors.Is(err, away) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if wrote := x.since(mark); len(wrote) != 0 {
			t.Errorf("%s: wrote %v", want, wrote)
		}
	}
}

// Which errors end an attempt, which end a reading, and which mean that it is gone.
func TestKindsOfErrors(t *testing.T) {
	r := schema.GroupResource{Resource: "jobs"}
	for name, c := range map[string]struct {
		err                   error
		fatal, hopeless, gone bool
	}{
		"forbidden":         {apierrors.NewForbidden(r, "j", nil), false, true, false},
		"not supported":     {apierrors.NewMethodNotSupported(r, "get"), false, true, false},
		"bad request":       {apierrors.NewBadRequest("x"), true, true, false},
		"invalid":           {apierrors.NewInvalid(schema.GroupKind{}, "j", nil), true, true, false},
		"no such kind":      {&meta.NoKindMatchError{}, true, false, true},
		"another's":         {errForeign, true, false, false},
		"cannot be written": {injectError{errors.New("x")}, true, false, false},
		"going":             {errGoing, false, false, false},
		"not found":         {apierrors.NewNotFound(r, "j"), false, false, true},
		"conflict":          {apierrors.NewConflict(r, "j", errors.New("x")), false, false, true},
		"away":              {errors.New("connection refused"), false, false, false},
	} {
		if got := fatal(c.err); got != c.fatal {
			t.Errorf("%s: creating again would end the same way: %v", name, got)
		}
		if got := hopeless(c.err); got != c.hopeless {
			t.Errorf("%s: reading again would find the same: %v", name, got)
		}
		if got := gone(c.err) == nil; got != c.gone {
			t.Errorf("%s: as good as deleted: %v", name, got)
		}
	}
}

// Two managers of one process count in the same place.
func TestCountersAreShared(t *testing.T) {
	registry := prometheus.NewRegistry()
	one, err := newCounters(registry)
	if err != nil {
		t.Fatal(err)
	}
	two, err := newCounters(registry)
	if err != nil {
		t.Fatal(err)
	}
	one.phase("blue", lifecycle.Running)
	two.phase("blue", lifecycle.Running)
	two.reset("blue", "x")
	if got := []float64{
		testutil.ToFloat64(one.phases.WithLabelValues("blue", "Running")),
		testutil.ToFloat64(one.resets.WithLabelValues("blue", "x")),
	}; !cmp.Equal(
		[]float64{2, 1},
		got,
	) {
		t.Errorf("counted %v", got)
	}
	other := prometheus.NewRegistry()
	other.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "appwrapper_phase_total", Help: "another"}),
	)
	if _, err := newCounters(
		other,
	); err == nil ||
		!strings.HasPrefix(err.Error(), "register AppWrapper metrics: ") {
		t.Errorf("a name that is taken: %v", err)
	}
}

// All that a process made and has not recorded is known, and forgotten together.
func TestMade(t *testing.T) {
	var m made
	one, other := client.ObjectKey{Namespace: "n", Name: "a"}, client.ObjectKey{Namespace: "n", Name: "b"}
	m.add(one, "u1")
	m.add(one, "u2")
	m.add(other, "u3")
	m.forget(other)
	if !m.has(one, "u1") || !m.has(one, "u2") || m.has(one, "u3") || m.has(other, "u3") {
		t.Errorf("made %v", m.of)
	}
}

// A component is there already, and it cannot be told whose it is: it is neither taken nor
// given up.
func TestTakenNameThatCannotBeRead(t *testing.T) {
	name := running(t, jobManifest).jobs()[0].Name
	x := newWorld(
		t,
		wrapper(jobManifest),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, UID: "theirs"}},
	)
	x.reconcileAll()
	x.admit()
	away := true
	x.r.live = interceptor.NewClient(x.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if away && o.GetObjectKind().GroupVersionKind().Kind == "Job" {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 5 {
		if err := x.reconcile(); err != nil && !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
		if x.phase() == "Running" || x.phase() == "Failed" {
			t.Fatalf("phase %s: %s", x.phase(), x.conditions())
		}
		x.clock.SetTime(x.clock.Now().Add(max(x.recheck, time.Second)))
	}
	away = false
	x.to("Failed")
	if !strings.Contains(x.conditions(), "Unhealthy=True/CreateFailed") {
		t.Error(x.conditions())
	}
}

// An AppWrapper is started without our finalizer: it comes before the first
// component, in the same pass.
func TestFinalizerComesFirst(t *testing.T) {
	x := newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	w := x.get()
	w.Spec.Suspend, w.Spec.Components[0].PodSetInfos = false, make([]awv1beta2.AppWrapperPodSetInfo, 1)
	if err := x.server.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	mark := len(x.writes)
	looks := 0
	for ; x.phase() != "Running" && looks < 10; looks++ {
		if err := x.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(
		[]string{"finalizer", "status", "create Job", "status"},
		x.since(mark),
	); diff != "" ||
		looks != 2 {
		t.Errorf("%d looks; writes (-want +got)\n%s", looks, diff)
	}
}

// The same if it is taken away before the first component is there.
func TestFinalizerComesBack(t *testing.T) {
	x := newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	x.admit()
	if err := x.reconcile(); err != nil || x.phase() != "Resuming" {
		t.Fatal(x.phase(), err)
	}
	w := x.get()
	w.Finalizers = nil
	if err := x.server.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	mark := len(x.writes)
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		[]string{"finalizer", "create Job", "status"},
		x.since(mark),
	); diff != "" ||
		x.phase() != "Running" {
		t.Errorf("phase %s; writes of one look (-want +got)\n%s", x.phase(), diff)
	}
}

// What has nothing left goes in the look that says so: the write of the status is no
// reason to look again.
func TestGoesInOneLook(t *testing.T) {
	x := running(t, jobManifest)
	x.stop()
	x.to("Suspended")
	if err := x.server.Delete(t.Context(), x.get()); err != nil {
		t.Fatal(err)
	}
	mark := len(x.writes)
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"status", "finalizer"}, x.since(mark)); diff != "" || x.phase() != "gone" {
		t.Errorf("phase %s; writes of one look (-want +got)\n%s", x.phase(), diff)
	}
}

// What the webhook would have refused, had it been asked, fails with the reason.
func TestComponentsThatCannotBeRead(t *testing.T) {
	why := func(x *world) string {
		if c := meta.FindStatusCondition(x.get().Status.Conditions, "Unhealthy"); c != nil {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		return ""
	}
	x := newWorld(t, wrapper(`{"apiVersion":"v1","kind":"Pod"}`))
	x.to("Failed")
	if got := why(
		x,
	); !strings.HasPrefix(got, "True CreateFailed: ") || !strings.Contains(got, "give the object a name or a generateName") ||
		len(x.created) != 0 {
		t.Errorf("it says %q, and made %v", got, x.created)
	}
	x = newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	x.admit()
	if err := x.reconcile(); err != nil || x.phase() != "Resuming" {
		t.Fatal(x.phase(), err)
	}
	w := x.get()
	w.Spec.Components[0].Template.Raw = []byte(podManifest)
	if err := x.server.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	x.to("Failed")
	if got := why(
		x,
	); !strings.Contains(got, "they were exchanged after their creation began") ||
		len(x.created) != 0 {
		t.Errorf("exchanged: it says %q, and made %v", got, x.created)
	}
}
