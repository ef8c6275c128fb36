package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Writes that never cease become rarer, up to ten intervals, and are quick again after
// a rest.
func TestPace(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	p := newPace(c, 100*time.Millisecond)
	key := types.NamespacedName{Name: "q"}
	write := func() (waited time.Duration) {
		for {
			wait := p.wait(key)
			if wait == 0 {
				return waited
			}
			waited += wait
			c.Step(wait)
		}
	}
	var got []time.Duration
	for range 9 {
		got = append(got, write()/time.Millisecond)
	}
	if want := []time.Duration{0, 100, 150, 225, 337, 506, 759, 1000, 1000}; !slices.Equal(got, want) {
		t.Errorf("writes wait %d ms, want %d", got, want)
	}
	c.Step(2 * time.Second)
	if write() != 0 || write() != 100*time.Millisecond {
		t.Error("after a rest of twice as long it begins anew")
	}
	p.forget(key)
	if write() != 0 {
		t.Error("an object that came anew waits for the one before it")
	}
	c.Step(100*time.Millisecond - 1)
	if got := p.wait(key); got != 1 {
		t.Errorf("waits %v, want the last nanosecond", got)
	}
}

// The queues of a tree share a page; those of other trees do not.
func TestPages(t *testing.T) {
	in := func(name, cohort string) *kueue.ClusterQueue {
		q := clusterQueue()
		q.Name, q.Spec.CohortName = name, kueue.CohortReference(cohort)
		return q
	}
	cohort := func(name, parent string) *kueue.Cohort {
		return &kueue.Cohort{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kueue.CohortSpec{ParentName: kueue.CohortReference(parent)},
		}
	}
	w := newWorld(
		t,
		in("a", "left"),
		in("b", "right"),
		in("alone", ""),
		in("other", "elsewhere"),
		in("lost", "x"),
		cohort("left", "root"),
		cohort("right", "root"),
		cohort("x", "y"),
		cohort("y", "x"),
	)
	for root, want := range map[string][]string{
		rootOf("a", []string{"left", "root"}): {"a", "b"}, rootOf("alone", nil): {"alone"},
		rootOf("other", []string{"elsewhere"}): {"other"}, rootOf("lost", []string{"x", "y"}): {"lost"},
	} {
		got, err := w.queues.pages.members(t.Context(), root)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("queues of %s, %v (-want +got):\n%s", root, err, diff)
		}
	}
	p, root := w.queues.pages, rootOf("a", []string{"left", "root"})
	for _, name := range []string{"a", "b"} {
		w.numbers.queues[name] = core.Load{Pending: 1}
	}
	w.must(p.turn(t.Context(), root))
	w.numbers.queues["a"] = core.Load{Pending: 2}
	w.must(p.turn(t.Context(), root)) // it is not time yet
	if now, left, ok := p.current(root, "a"); now.Pending != 1 || left != DefaultInterval || !ok {
		t.Errorf("%+v for %v more, %v", now, left, ok)
	}
	p.forget("a")
	if _, _, ok := p.current(root, "a"); ok {
		t.Error("a queue that is gone is on the page")
	}
	if _, _, ok := p.current(root, "b"); !ok {
		t.Error("the other queue of the tree is not")
	}
	p.forget("b")
	if len(p.of) != 0 || len(p.pace.last) != 0 {
		t.Errorf("a tree without queues is kept: %v %v", p.of, p.pace.last)
	}
	w.must(p.turn(t.Context(), root))
	w.clock.Step(DefaultInterval)
	if _, _, ok := p.current(root, "b"); ok {
		t.Error("a page is read when its time is over")
	}
}

// Statuses list 64 flavors at most, and what is borrowed only where a queue lends.
func TestUsage(t *testing.T) {
	fr := core.FlavorResource{Flavor: "f", Resource: core.GPU}
	used := map[core.FlavorResource]core.Amount{fr: 6}
	q := clusterQueue()
	q.Spec.CohortName = ""
	alone := view.ClusterQueueOf(q, nil, core.Load{})
	if got := queueUsage(&alone, used)[0].Resources[1]; got.Total.Value() != 6 || !got.Borrowed.IsZero() {
		t.Errorf("outside of cohorts: %+v", got)
	}
	q = clusterQueue()
	q.Spec.ResourceGroups[0].Flavors = nil
	for i := range 70 {
		q.Spec.ResourceGroups[0].Flavors = append(
			q.Spec.ResourceGroups[0].Flavors,
			kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(fmt.Sprintf("f%02d", i))},
		)
	}
	many := view.ClusterQueueOf(q, nil, core.Load{})
	if got := queueUsage(&many, nil); len(got) != 64 || got[63].Name != "f63" {
		t.Errorf("%d flavors are listed", len(got))
	}
	if got := localQueueUsage(many.Flavors, nil); len(got) != 64 || got[63].Name != "f63" {
		t.Errorf("%d flavors of a LocalQueue are listed", len(got))
	}
	if got := localQueueUsage(view.Flavors(nil), used); got != nil {
		t.Errorf("usage of nothing: %v", got)
	}
}

// What a status says is read from it again: a command that has no engine to ask prints the
// same values.
func TestStatusIsReadAsItWasWritten(t *testing.T) {
	cpu, gpu := core.FlavorResource{
		Flavor:   "f",
		Resource: core.CPU,
	}, core.FlavorResource{
		Flavor:   "f",
		Resource: core.GPU,
	}
	written := core.Load{
		Pending:      1,
		Inadmissible: 2,
		Reserving:    4,
		Admitted:     3,
		Reserved: map[core.FlavorResource]core.Amount{
			cpu: 2500,
			gpu: 6,
		},
		Used: map[core.FlavorResource]core.Amount{cpu: 500, gpu: 4},
	}
	active := metav1.Condition{Type: kueue.ClusterQueueActive, Status: metav1.ConditionTrue, Reason: "Ready"}
	q := clusterQueue()
	q.Status = queueStatus(q, active, &written, time.Unix(1, 0))
	want := view.ClusterQueueOf(q, &active, written)
	want.Pending, want.Inadmissible = 3, 0 // which are parked is not told
	got := view.ClusterQueueOf(
		q,
		apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive),
		view.LoadOf(q.Status),
	)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-in the controller +from the API):\n%s", diff)
	}
}

// Numbers that do not fit are shown as the largest that do.
func TestClip(t *testing.T) {
	for n, want := range map[int]int32{0: 0, 7: 7, 1<<31 - 1: 1<<31 - 1, 1 << 31: 1<<31 - 1} {
		if got := clip(n); got != want {
			t.Errorf("%d becomes %d", n, got)
		}
	}
}

// Gauges show what statuses say, the whole path of cohorts and the labels that
// LocalQueues are chosen by.
func TestGauges(t *testing.T) {
	l := localQueue()
	l.Labels = map[string]string{"team": "blue"}
	w := newWorld(
		t,
		clusterQueue(),
		flavor(),
		l,
		&kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: kueue.CohortSpec{ParentName: "root"}},
	)
	load := core.Load{
		Pending: 1, Inadmissible: 2, Reserving: 3, Admitted: 4,
		Reserved: map[core.FlavorResource]core.Amount{gpu: 2}, Used: map[core.FlavorResource]core.Amount{gpu: 1},
	}
	w.numbers.queues["q"], w.numbers.local["n/l"] = load, load
	w.reconcile(w.queues, clusterQueue())
	w.reconcile(w.local, localQueue())
	want := view.ClusterQueue{
		Name:    "q",
		Cohorts: []string{"c", "root"},
		State:   view.QueueActive,
		Reason:  "Ready",
		Flavors: view.Flavors(clusterQueue()),
		Load:    load,
	}
	if diff := cmp.Diff(want, w.gauges.queues["q"]); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	wantLocal := view.LocalQueue{
		Namespace: "n",
		Name:      "l",
		Queue:     "q",
		Labels:    l.Labels,
		Active:    metav1.ConditionTrue,
		Flavors:   view.Flavors(clusterQueue()),
		Load:      load,
	}
	if diff := cmp.Diff(wantLocal, w.gauges.local["n/l"]); diff != "" {
		t.Errorf("LocalQueue (-want +got):\n%s", diff)
	}
}

// Only what bears on whether a queue admits leads to its LocalQueues.
func TestActivityChanged(t *testing.T) {
	change := func(f func(*kueue.ClusterQueue)) *kueue.ClusterQueue { q := clusterQueue(); f(q); return q }
	is := func(status metav1.ConditionStatus) func(*kueue.ClusterQueue) {
		return func(q *kueue.ClusterQueue) {
			apimeta.SetStatusCondition(
				&q.Status.Conditions,
				metav1.Condition{Type: kueue.ClusterQueueActive, Status: status},
			)
		}
	}
	for name, c := range map[string]struct {
		was, is client.Object
		want    bool
	}{
		"numbers":      {clusterQueue(), change(func(q *kueue.ClusterQueue) { q.Status.PendingWorkloads = 7 }), false},
		"spec":         {clusterQueue(), change(func(q *kueue.ClusterQueue) { q.Generation++ }), true},
		"active":       {clusterQueue(), change(is(metav1.ConditionTrue)), true},
		"inactive":     {change(is(metav1.ConditionTrue)), change(is(metav1.ConditionFalse)), true},
		"still active": {change(is(metav1.ConditionTrue)), change(is(metav1.ConditionTrue)), false},
		"deleted":      {clusterQueue(), change(func(q *kueue.ClusterQueue) { q.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), true},
		"no queue":     {localQueue(), localQueue(), false},
	} {
		if got := activityChanged().Update(event.UpdateEvent{ObjectOld: c.was, ObjectNew: c.is}); got != c.want {
			t.Errorf("%s: let through %v, want %v", name, got, c.want)
		}
	}
}

// What leads to what.
func TestWhoIsWoken(t *testing.T) {
	other := clusterQueue()
	other.Name, other.Spec.CohortName, other.Spec.ResourceGroups = "other", "", nil
	other.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
		AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "budget"}},
	}
	elsewhere := localQueue()
	elsewhere.Name, elsewhere.Spec.ClusterQueue = "elsewhere", "other"
	racks := flavor()
	racks.Spec.TopologyName = new(kueue.TopologyReference("racks"))
	w := newWorld(t, clusterQueue(), other, localQueue(), elsewhere, racks)
	ctx := t.Context()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	for what, c := range map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"flavor":         {w.queues.usingFlavor(ctx, flavor()), []string{"q"}},
		"other flavor":   {w.queues.usingFlavor(ctx, &kueue.ResourceFlavor{ObjectMeta: named("x")}), nil},
		"topology":       {w.queues.usingTopology(ctx, &kueue.Topology{ObjectMeta: named("racks")}), []string{"q"}},
		"other topology": {w.queues.usingTopology(ctx, &kueue.Topology{ObjectMeta: named("x")}), nil},
		"check":          {w.queues.asking(ctx, &kueue.AdmissionCheck{ObjectMeta: named("budget")}), []string{"other"}},
		"cohort":         {w.queues.inCohorts(ctx, &kueue.Cohort{}), []string{"q"}},
		"node":           {w.queues.onNodes(ctx, &corev1.Node{}), []string{"q"}},
		"queue":          {w.local.leadingTo(ctx, clusterQueue()), []string{"l"}},
		"other queue":    {w.local.leadingTo(ctx, other), []string{"elsewhere"}},
		"its flavors":    {referred(flavorNames)(ctx, clusterQueue()), []string{"f"}},
		"its checks":     {referred(admissionChecks)(ctx, other), []string{"budget"}},
		"no queue":       {referred(flavorNames)(ctx, localQueue()), nil},
		"its topology":   {topologyOf(ctx, racks), []string{"racks"}},
		"no topology":    {topologyOf(ctx, flavor()), nil},
		"no flavor":      {topologyOf(ctx, clusterQueue()), nil},
	} {
		if diff := cmp.Diff(c.want, names(c.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// faulty lets verbs fail for objects of a kind, as "get *v1beta2.Cohort".
func faulty(w *world, fails map[string]error) client.Client {
	is := func(verb string, o any) error { return fails[fmt.Sprintf("%s %T", verb, o)] }
	through, ok := w.c.(client.WithWatch)
	if !ok {
		w.Fatal("another client")
	}
	return interceptor.NewClient(through, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := is("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := is("list", l); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := is("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := is("status", o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// What cannot be read or written is an error, of which object it was; what is gone or
// was written by another meanwhile is none.
func TestTrouble(t *testing.T) {
	away := errors.New("connection refused")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "x")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("written since"))
	cohort := &kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	for what, c := range map[string]struct {
		fails string
		of    client.Object
		err   error
		want  string // "" for no error
	}{
		"queue":                   {"get *v1beta2.ClusterQueue", clusterQueue(), away, "read ClusterQueue q: "},
		"flavor of a queue":       {"get *v1beta2.ResourceFlavor", clusterQueue(), away, "look around ClusterQueue q: read *v1beta2.ResourceFlavor f: "},
		"check of a queue":        {"get *v1beta2.AdmissionCheck", clusterQueue(), away, "look around ClusterQueue q: read *v1beta2.AdmissionCheck budget: "},
		"cohort of a queue":       {"get *v1beta2.Cohort", clusterQueue(), away, "look around ClusterQueue q: read *v1beta2.Cohort c: "},
		"topology of a queue":     {"get *v1beta2.Topology", clusterQueue(), away, "look around ClusterQueue q: read *v1beta2.Topology racks: "},
		"nodes of a queue":        {"list *v1.NodeList", clusterQueue(), away, "look around ClusterQueue q: look for a node with the labels map[]: "},
		"cohorts of a tree":       {"list *v1beta2.CohortList", clusterQueue(), away, "take the numbers of ClusterQueue q: list Cohorts: "},
		"queues of a tree":        {"list *v1beta2.ClusterQueueList", clusterQueue(), away, "take the numbers of ClusterQueue q: list ClusterQueues: "},
		"status of a queue":       {"status *v1beta2.ClusterQueue", clusterQueue(), away, "write status of ClusterQueue q: "},
		"status of a gone queue":  {"status *v1beta2.ClusterQueue", clusterQueue(), gone, ""},
		"finalizer of a queue":    {"patch *v1beta2.ClusterQueue", clusterQueue(), away, "write finalizers of q: "},
		"finalizer, written":      {"patch *v1beta2.ClusterQueue", clusterQueue(), conflict, ""},
		"finalizer, gone":         {"patch *v1beta2.ClusterQueue", clusterQueue(), gone, ""},
		"local queue":             {"get *v1beta2.LocalQueue", localQueue(), away, "read LocalQueue n/l: "},
		"behind a local queue":    {"get *v1beta2.ClusterQueue", localQueue(), away, "look behind LocalQueue n/l: read ClusterQueue q: "},
		"around a local queue":    {"get *v1beta2.ResourceFlavor", localQueue(), away, "look behind LocalQueue n/l: read *v1beta2.ResourceFlavor f: "},
		"status of a local queue": {"status *v1beta2.LocalQueue", localQueue(), away, "write status of LocalQueue n/l: "},
		"status, gone":            {"status *v1beta2.LocalQueue", localQueue(), gone, ""},
		"cohort":                  {"get *v1beta2.Cohort", cohort, away, "read Cohort c: "},
		"status of a cohort":      {"status *v1beta2.Cohort", cohort, away, "write status of Cohort c: "},
		"status of a gone cohort": {"status *v1beta2.Cohort", cohort, gone, ""},
		"a flavor":                {"get *v1beta2.ResourceFlavor", flavor(), away, "read ResourceFlavor f: "},
		"a flavor's finalizer":    {"patch *v1beta2.ResourceFlavor", flavor(), away, "write finalizers of f: "},
	} {
		t.Run(what, func(t *testing.T) {
			q := clusterQueue()
			q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
				AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "budget"}},
			}
			f := flavor()
			f.Spec.TopologyName = new(kueue.TopologyReference("racks"))
			w := newWorld(t, q, f, localQueue(), cohort.DeepCopy())
			w.numbers.queues["q"], w.numbers.local["n/l"], w.numbers.cohorts["c"] = core.Load{
				Pending: 1,
			}, core.Load{
				Pending: 1,
			}, core.Share{
				Rounded: 1,
				Exact:   1,
			}
			broken := faulty(w, map[string]error{c.fails: c.err})
			o := Options{Numbers: w.numbers, Gauges: w.gauges, Interval: DefaultInterval, Clock: w.clock}
			var r reconcile.Reconciler
			switch c.of.(type) {
			case *kueue.ClusterQueue:
				r = newClusterQueues(broken, o)
			case *kueue.LocalQueue:
				r = newLocalQueues(broken, o)
			case *kueue.Cohort:
				r = newCohorts(broken, o)
			default:
				r = newFlavors(broken, w.events)
			}
			_, err := r.Reconcile(t.Context(), request(c.of))
			if (err != nil) != (c.want != "") ||
				err != nil && !strings.Contains(err.Error(), c.want+"connection refused") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A deleted object is kept as long as it is not known what refers to it, and names ten of
// those that do.
func TestDeletedInUse(t *testing.T) {
	var objects []client.Object
	for i := range 12 {
		q := clusterQueue()
		q.Name = fmt.Sprintf("q%02d", 11-i)
		objects = append(objects, q)
	}
	f := flavor()
	w := newWorld(t, append(objects, f)...)
	w.reconcile(w.flavors, f)
	w.must(w.c.Delete(t.Context(), f))
	w.reconcile(w.flavors, f)
	if got := <-w.events.Events; !strings.HasSuffix(got, ": q00, q01, q02, q03, q04, q05, q06, q07, q08, q09") {
		t.Errorf("event %q", got)
	}
	away := errors.New("connection refused")
	for list, r := range map[string]reconcile.Reconciler{
		"list *v1beta2.ClusterQueueList": newFlavors(faulty(w, map[string]error{"list *v1beta2.ClusterQueueList": away}), w.events),
	} {
		if _, err := r.Reconcile(t.Context(), request(f)); !errors.Is(err, away) || !w.exists(f) {
			t.Errorf("%s: %v", list, err)
		}
	}
	topology := &kueue.Topology{
		ObjectMeta: metav1.ObjectMeta{Name: "racks", Finalizers: []string{kueue.ResourceInUseFinalizer}},
	}
	v := newWorld(t, topology)
	v.must(v.c.Delete(t.Context(), topology))
	r := newTopologies(faulty(v, map[string]error{"list *v1beta2.ResourceFlavorList": away}), v.events)
	if _, err := r.Reconcile(t.Context(), request(topology)); !errors.Is(err, away) || !v.exists(topology) {
		t.Errorf("a topology: %v", err)
	}
}

// Flavors whose nodes an autoscaler makes are never empty, and each is named once.
func TestSurroundings(t *testing.T) {
	q := clusterQueue()
	q.Spec.CohortName = ""
	second := *q.Spec.ResourceGroups[0].Flavors[0].DeepCopy()
	second.Name = "g"
	q.Spec.ResourceGroups = append(
		q.Spec.ResourceGroups,
		kueue.ResourceGroup{Flavors: []kueue.FlavorQuotas{second, {Name: "f"}}},
	)
	q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
		AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "on"}, {Name: "off"}, {Name: "gone"}},
	}
	check := func(name string, status metav1.ConditionStatus) *kueue.AdmissionCheck {
		c := &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: name}}
		apimeta.SetStatusCondition(
			&c.Status.Conditions,
			metav1.Condition{Type: kueue.AdmissionCheckActive, Status: status, Reason: "x"},
		)
		return c
	}
	racks := func(name string) *kueue.ResourceFlavor {
		f := flavor()
		f.Name, f.Spec.TopologyName, f.Spec.NodeLabels = name, new(
			kueue.TopologyReference("racks"),
		), map[string]string{
			"kind": name,
		}
		return f
	}
	w := newWorld(
		t,
		q,
		racks("f"),
		racks("g"),
		check("on", metav1.ConditionTrue),
		check("off", metav1.ConditionFalse),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"kind": "g"}}},
	)
	got, err := surroundingsOf(t.Context(), w.c, q)
	w.must(err)
	if diff := cmp.Diff(
		[][]string{{"gone"}, {"off"}, {"racks"}, {"f"}, nil, nil},
		[][]string{
			got.missingChecks,
			got.inactiveChecks,
			got.missingTopologies,
			got.emptyFlavors,
			got.missingFlavors,
			got.cohorts,
		},
	); diff != "" {
		t.Errorf(
			"missing checks, inactive checks, topologies, empty flavors, missing flavors, cohorts (-want +got):\n%s",
			diff,
		)
	}
}

// The feeder passes cohorts on whose share changed, and lets nothing get lost when it
// cannot look.
func TestFeederPassesCohortsOn(t *testing.T) {
	w := newWorld(
		t,
		&kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		&kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "unknown"}},
		clusterQueue(),
	)
	fails := map[string]error{}
	reader := faulty(w, fails)
	synctest.Test(t, func(t *testing.T) {
		numbers := newTallies()
		f := newFeeder(reader, Options{Numbers: numbers, Interval: DefaultInterval, Clock: clock.RealClock{}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Start(ctx) }()
		passed := func() (out []string) {
			for {
				select {
				case e := <-f.cohorts:
					out = append(out, "cohort "+e.Object.GetName())
				case e := <-f.queues:
					out = append(out, "queue "+e.Object.GetName())
				case <-time.After(time.Minute):
					return out
				}
			}
		}
		change := func(why string, want ...string) {
			t.Helper()
			numbers.changed <- struct{}{}
			if got := passed(); !slices.Equal(got, want) {
				t.Errorf("%s: passed on %v, want %v", why, got, want)
			}
		}
		numbers.cohorts["c"] = core.Share{Rounded: 1, Exact: 0.5}
		change("a share", "cohort c")
		change("nothing new")
		numbers.cohorts["c"] = core.Share{Rounded: 1, Exact: 0.75}
		change("another share", "cohort c")
		for _, list := range []string{"ClusterQueue", "LocalQueue", "Cohort"} {
			numbers.queues["q"], numbers.cohorts["c"] = core.Load{
				Pending: numbers.queues["q"].Pending + 1,
			}, core.Share{
				Rounded: numbers.cohorts["c"].Rounded + 1,
				Exact:   1,
			}
			fails["list *v1beta2."+list+"List"] = errors.New("connection refused")
			var first []string
			if list != "ClusterQueue" {
				first = []string{"queue q"} // it was passed on before
			}
			change(list+"s cannot be listed", first...)
			clear(fails)
			want := []string{"queue q", "cohort c"}
			if list != "ClusterQueue" {
				want = []string{"cohort c"}
			}
			change(list+"s can be listed again", want...)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDefaults(t *testing.T) {
	if _, err := (Options{}).withDefaults(); err == nil {
		t.Error("without numbers nothing can be told")
	}
	o, err := Options{Numbers: newTallies()}.withDefaults()
	if err != nil || o.Interval != DefaultInterval || o.Clock == nil || o.Gauges == nil {
		t.Errorf("%+v, %v", o, err)
	}
	o.Gauges.SetQueue(view.ClusterQueue{})
	mine := Options{Numbers: newTallies(), Interval: time.Hour, Clock: clock.RealClock{}, Gauges: &gauges{}}
	if o, err = mine.withDefaults(); err != nil || o.Interval != time.Hour || o.Gauges != mine.Gauges {
		t.Errorf("%+v, %v", o, err)
	}
}

// Without fair sharing a queue shows no share, also when it had one before.
func TestShareGoesWithFairSharing(t *testing.T) {
	q := clusterQueue()
	q.Status.FairSharing = &kueue.FairSharingStatus{WeightedShare: 7}
	active, now := metav1.Condition{
		Type:   kueue.ClusterQueueActive,
		Status: metav1.ConditionTrue,
		Reason: "Ready",
	}, time.Unix(
		1,
		0,
	)
	if got := queueStatus(q, active, &core.Load{}, now).FairSharing; got != nil {
		t.Errorf("fair sharing was turned off, and the share is %+v", got)
	}
	if got := queueStatus(q, active, nil, now).FairSharing; got == nil || got.WeightedShare != 7 {
		t.Errorf("nothing is known yet, and the share is %+v", got)
	}
}
