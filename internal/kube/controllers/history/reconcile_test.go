package history

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var errDied = errors.New("the process died")

// dying lets a number of writes through and fails from then on, the first of those after it was
// made if late: a process may die before the answer comes.
type dying struct {
	left int
	late bool
}

func (d *dying) write(do func() error) error {
	d.left--
	switch {
	case d.left >= 0:
		return do()
	case d.left == -1 && d.late:
		return errors.Join(errDied, do())
	}
	return errDied
}

// cluster has jobs that ended, with a client whose writes may fail.
func cluster(d *dying, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithIndex(&kueue.Workload{}, Index, IndexWorkload).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return d.write(func() error { return c.Create(ctx, o, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return d.write(func() error { return c.Update(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return d.write(func() error { return c.Patch(ctx, o, p, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return d.write(func() error { return c.Delete(ctx, o, opts...) })
			},
		}).Build()
}

const forever = 1 << 30

func reconcilerOf(c client.Client, r Retention) *reconciler {
	return &reconciler{
		Options{
			Client:    c,
			Live:      c,
			Clock:     testclock.NewFakePassiveClock(at(20).Time),
			Kinds:     kinds.All(),
			Retention: r,
			Recorded:  func(*api.JobRecord) {},
		},
	}
}

// settle reconciles until there is nothing left to do.
func settle(t *testing.T, r *reconciler) error {
	t.Helper()
	for range 100 {
		result, err := r.Reconcile(
			t.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Name: "blue"}},
		)
		if err != nil {
			return err
		}
		if result.RequeueAfter == 0 {
			return nil
		}
	}
	t.Fatal("it does not come to an end")
	return nil
}

// recorded counts the records of each Workload, in all pages.
func recorded(t *testing.T, c client.Client) map[types.UID]int {
	t.Helper()
	var list api.JobHistoryList
	if err := c.List(t.Context(), &list, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	out := map[types.UID]int{}
	for i := range list.Items {
		if n := len(list.Items[i].Records); n > api.MaxRecords {
			t.Errorf("page %s has %d records", list.Items[i].Name, n)
		}
		for _, r := range list.Items[i].Records {
			out[r.UID]++
		}
	}
	return out
}

// many are Workloads of jobs that succeeded.
func many(n int) []client.Object {
	var out []client.Object
	for i := range n {
		w := train(fmt.Sprintf("n%03d", i), running, finished("Succeeded", ""))
		w.UID = types.UID(fmt.Sprintf("w%03d", i))
		out = append(out, w)
	}
	return out
}

var month = Retention{AfterEnded: 30 * 24 * time.Hour, PerNamespace: 2048}

// TestNothingIsLost: wherever the process dies, before or after a write, in the end every job that
// ended is recorded once, and its Workload may go.
func TestNothingIsLost(t *testing.T) {
	const n = api.MaxRecords + 3 // more than a page
	for _, died := range []int{1, 40, n + 1} {
		for _, late := range []bool{false, true} {
			d := &dying{left: died, late: late}
			c := cluster(d, many(n)...)
			err := settle(t, reconcilerOf(c, month))
			if !errors.Is(err, errDied) && died < n+2 {
				t.Fatalf("it did not die at write %d: %v", died, err)
			}
			d.left = forever
			if err := settle(t, reconcilerOf(c, month)); err != nil {
				t.Fatal(err)
			}
			got := recorded(t, c)
			for uid, times := range got {
				if times != 1 {
					t.Errorf("death at write %d (late %v): %s is recorded %d times", died, late, uid, times)
				}
			}
			if len(got) != n {
				t.Errorf("death at write %d (late %v): %d of %d are recorded", died, late, len(got), n)
			}
			var left kueue.WorkloadList
			if err := c.List(
				t.Context(),
				&left,
				client.MatchingFields{Index: toRecord},
			); err != nil ||
				len(left.Items) > 0 {
				t.Errorf("death at write %d (late %v): %d Workloads are still kept, %v", died, late, len(left.Items), err)
			}
		}
	}
}

// TestNoReleaseWithoutRecord: a Workload goes only after its record is there.
func TestNoReleaseWithoutRecord(t *testing.T) {
	c := cluster(&dying{left: 0}, many(1)...)
	if err := settle(t, reconcilerOf(c, month)); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	var w kueue.Workload
	if err := c.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: "job-n000"},
		&w,
	); err != nil ||
		!controllerutil.ContainsFinalizer(&w, api.Finalizer) {
		t.Errorf("it was let go unrecorded: %v, %v", w.Finalizers, err)
	}
}

// TestWhatEnds: which Workloads stand for a job that ended.
func TestWhatEnds(t *testing.T) {
	leaving := func(w *kueue.Workload) { w.DeletionTimestamp = new(at(7)) }
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "j"}}
	other := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "later"}}
	group := func(w *kueue.Workload) {
		w.OwnerReferences, w.Annotations[kueue.IsGroupWorkloadAnnotation], w.Name = nil, "true", "pair"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "pair-0",
			Labels:    map[string]string{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: "pair"},
		},
	}
	for name, tc := range map[string]struct {
		why     string
		w       *kueue.Workload
		objects []client.Object
		keep    Retention
		records int
		kept    bool
	}{
		"runs":            {"it goes on", train("train", running), nil, month, 0, true},
		"finished":        {"whether its job is still there or not", train("train", running, finished("Succeeded", "")), []client.Object{job}, month, 1, false},
		"job deleted":     {"that ends it", train("train", running, leaving), nil, month, 1, false},
		"job replaced":    {"another one of that name is not it", train("train", running, leaving), []client.Object{other}, month, 1, false},
		"made anew":       {"only its Workload is deleted, and the job is queued again", train("train", running, leaving), []client.Object{job}, month, 0, false},
		"group deleted":   {"its pods are gone", train("pair", leaving, group), nil, month, 1, false},
		"group is there":  {"its Workload is made anew", train("pair", leaving, group), []client.Object{pod}, month, 0, false},
		"nothing is kept": {"Workloads must not wait for what is never written", train("train", finished("Succeeded", "")), nil, Retention{}, 0, false},
		"without it":      {"it runs, and was made by somebody else", train("train", running, func(w *kueue.Workload) { w.Finalizers = nil }), nil, month, 0, true},
		"recorded":        {"without the finalizer, it was recorded before", train("train", finished("Succeeded", ""), func(w *kueue.Workload) { w.Finalizers = nil }), nil, month, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(&dying{left: forever}, append(tc.objects, tc.w)...)
			if err := settle(t, reconcilerOf(c, tc.keep)); err != nil {
				t.Fatal(err)
			}
			var w kueue.Workload
			err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.w), &w)
			if kept := err == nil &&
				controllerutil.ContainsFinalizer(&w, api.Finalizer); kept != tc.kept ||
				len(recorded(t, c)) != tc.records {
				t.Errorf("%s: %d records, kept %v", tc.why, len(recorded(t, c)), kept)
			}
		})
	}
}

// TestNamespaceGoes: in a namespace that is being deleted nothing can be written, and nothing may
// be kept.
func TestNamespaceGoes(t *testing.T) {
	c := cluster(&dying{left: forever}, many(1)...)
	r := reconcilerOf(c, month)
	r.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			err := apierrors.NewForbidden(
				schema.GroupResource{Resource: api.Resource},
				"jobs-00000001",
				errors.New("it is being terminated"),
			)
			err.ErrStatus.Details.Causes = append(
				err.ErrStatus.Details.Causes,
				metav1.StatusCause{Type: corev1.NamespaceTerminatingCause},
			)
			return err
		},
	})
	if err := settle(t, r); err != nil {
		t.Fatal(err)
	}
	var left kueue.WorkloadList
	if err := c.List(
		t.Context(),
		&left,
		client.MatchingFields{Index: toRecord},
	); err != nil ||
		len(left.Items) > 0 {
		t.Errorf("%d Workloads keep the namespace, %v", len(left.Items), err)
	}
}

// TestRetention: records go by age and by number, a page at a time, and others' objects stay.
func TestRetention(t *testing.T) {
	page := func(n, newest int) *api.JobHistory {
		h := &api.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: pageName(n), Annotations: map[string]string{}},
		}
		h.Annotations[api.NewestAnnotation] = at(newest).UTC().Format(time.RFC3339)
		return h
	}
	foreign := &api.JobHistory{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "mine"}}
	for name, tc := range map[string]struct {
		why  string
		keep Retention
		want int
	}{
		"all are young":  {"", Retention{time.Hour, 1000}, 4},
		"some are old":   {"now is minute 20", Retention{15 * time.Minute, 1000}, 3},
		"too many":       {"the oldest go", Retention{time.Hour, 2 * api.MaxRecords}, 3},
		"a part of one":  {"one page is there at least", Retention{time.Hour, 1}, 2},
		"nothing at all": {"what was kept before goes", Retention{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(&dying{left: forever}, page(1, 2), page(2, 12), page(10, 19), foreign)
			if err := reconcilerOf(c, tc.keep).pruneAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			var list api.JobHistoryList
			if err := c.List(t.Context(), &list); err != nil || len(list.Items) != tc.want {
				t.Errorf("%s: %d objects are left, want %d; %v", tc.why, len(list.Items), tc.want, err)
			}
		})
	}
}

// TestFill: where records go.
func TestFill(t *testing.T) {
	record := func(n, minutes int) api.JobRecord {
		return api.JobRecord{UID: types.UID(fmt.Sprint(n)), Ended: at(minutes)}
	}
	var full []api.JobRecord
	for i := range api.MaxRecords {
		full = append(full, record(i, 1))
	}
	page := func(n int, records ...api.JobRecord) *api.JobHistory {
		return &api.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Name: pageName(n), ResourceVersion: "1"},
			Records:    records,
		}
	}
	all := func(*api.JobRecord) bool { return true }
	if p, _ := fill(
		"blue",
		nil,
		nil,
		[]api.JobRecord{record(1, 3), record(2, 2)},
		all,
	); p.Name != "jobs-00000001" || p.Records[0].UID != "2" ||
		p.Annotations[api.NewestAnnotation] != "2026-01-01T00:03:00Z" {
		t.Errorf("the first page: %+v", p)
	}
	if p, rest := fill(
		"blue",
		page(9, full[:62]...),
		nil,
		[]api.JobRecord{record(100, 3), record(101, 4), record(102, 5)},
		all,
	); len(p.Records) != 64 || len(rest) != 1 ||
		rest[0].UID != "102" {
		t.Errorf("%d records, and %d found no room", len(p.Records), len(rest))
	}
	if p, _ := fill(
		"blue",
		page(9, full...),
		nil,
		[]api.JobRecord{record(100, 3)},
		all,
	); p.Name != "jobs-00000010" || p.ResourceVersion != "" ||
		len(p.Records) != 1 {
		t.Errorf("after a full page: %+v", p)
	}
	if p, rest := fill(
		"blue",
		page(9, record(100, 3)),
		page(8, full...),
		[]api.JobRecord{record(100, 3), record(7, 1)},
		all,
	); p != nil ||
		rest != nil {
		t.Errorf("what is there already is written again: %+v", p)
	}
	young := func(r *api.JobRecord) bool { return r.Ended.After(at(2).Time) }
	if p, _ := fill(
		"blue",
		page(9, record(1, 1), record(2, 3)),
		nil,
		[]api.JobRecord{record(3, 4)},
		young,
	); len(
		p.Records,
	) != 2 {
		t.Errorf("what is too old goes when its page is written: %+v", p.Records)
	}
}
