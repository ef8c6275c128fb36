package appwrapper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

var service = schema.GroupVersionKind{Version: "v1", Kind: "Service"}

// deletions notes what is deleted and how, and lets some of it fail.
type deletions struct {
	mu    sync.Mutex
	all   []string
	fails map[string]error
}

func (d *deletions) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			var how client.DeleteOptions
			how.ApplyOptions(opts)
			text := o.GetName() + " " + string(*how.Preconditions.UID)
			if how.PropagationPolicy != nil {
				text += " " + string(*how.PropagationPolicy)
			}
			if how.GracePeriodSeconds != nil {
				text += fmt.Sprintf(" in %d s", *how.GracePeriodSeconds)
			}
			d.all = append(d.all, text)
			return d.fails[o.GetName()]
		},
	})
}

func (d *deletions) taken() []string {
	out := slices.Sorted(slices.Values(d.all))
	d.all = nil
	return out
}

// What goes, how, and in what order.
func TestWhatIsDeleted(t *testing.T) {
	d := &deletions{fails: map[string]error{}}
	x := newWorld(t, wrapper(jobManifest))
	x.r.client = d.client(x.server)
	a := &attempt{reconciler: x.r, w: wrapper(jobManifest), uids: []types.UID{"u-one", "u-two", "u-three"}}
	for _, name := range []string{"one", "two", "three"} {
		a.components = append(a.components, appwrapper.Component{GVK: service, Namespace: "blue", Name: name})
	}
	a.facts.Components = []lifecycle.Component{{Exists: true}, {Exists: true, Deleting: true}, {}}
	a.facts.Pods = []lifecycle.Pod{{Name: "p", UID: "u-p"}, {Name: "q", UID: "u-q", Deleting: true}}

	a.step.Action = lifecycle.Delete
	look := func(why string, wantErr string, want ...string) {
		t.Helper()
		err := a.delete(t.Context())
		if (err != nil) != (wantErr != "") || err != nil && err.Error() != wantErr {
			t.Errorf("%s: %v, want %q", why, err, wantErr)
		}
		if diff := cmp.Diff(want, d.taken()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	look("what is there and does not go yet", "", "one u-one Background", "p u-p")

	a.step.Action = lifecycle.ForceDelete
	look("by force: pods at once, and no controller dies before what it made", "",
		"one u-one Foreground", "p u-p in 0 s", "q u-q in 0 s", "two u-two Foreground")
	pods := a.facts.Pods
	a.facts.Pods = nil
	look("by force, when no pod is left", "", "one u-one Foreground in 0 s", "two u-two Foreground in 0 s")

	a.facts.Pods, a.step.Action = pods, lifecycle.Delete
	a.facts.Components[1].Deleting = false
	d.fails["one"], d.fails["p"] = errors.New("connection refused"), errors.New("connection reset")
	look("what can go goes", "delete Service one: connection refused\ndelete pod p: connection reset",
		"one u-one Background", "p u-p", "two u-two Background")
	d.fails["one"] = apierrors.NewForbidden(
		schema.GroupResource{Resource: "services"},
		"one",
		errors.New("no rule"),
	)
	d.fails["p"] = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	look("rights that were there are waited for", `delete Service one: services "one" is forbidden: no rule`,
		"one u-one Background", "p u-p", "two u-two Background")
	a.facts.Components[0].Unreadable = "forbidden"
	look("what may not even be read is left", "", "one u-one Background", "p u-p", "two u-two Background")
	d.fails["one"] = errors.New("connection refused")
	look(
		"but not for any error",
		"delete Service one: connection refused",
		"one u-one Background",
		"p u-p",
		"two u-two Background",
	)
	a.step.Action = lifecycle.Nothing
	look("nothing is asked for", "")
}

// No more pods than the API server should have to delete at once, and all of them.
func TestManyPodsAreDeleted(t *testing.T) {
	x := newWorld(t, wrapper(jobManifest))
	var mu sync.Mutex
	now, most, all := 0, 0, 0
	full := make(chan struct{})
	x.r.client = interceptor.NewClient(x.server, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			mu.Lock()
			now, all = now+1, all+1
			most = max(most, now)
			if now == parallelDeletes && all == parallelDeletes {
				close(full)
			}
			mu.Unlock()
			<-full // the first sixteen wait for each other
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		},
	})
	a := &attempt{reconciler: x.r, w: wrapper(jobManifest)}
	for i := range 3 * parallelDeletes {
		a.facts.Pods = append(a.facts.Pods, lifecycle.Pod{Name: fmt.Sprintf("p%d", i)})
	}
	if err := a.deletePods(t.Context()); err != nil || most != 16 || all != 48 {
		t.Errorf("%d pods were deleted, %d at once, %v", all, most, err)
	}
}

// An object of a component's name may be ours, another owner's, or on its way out.
func TestWhoseObjectItIs(t *testing.T) {
	name := running(t, jobManifest).jobs()[0].Name
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "appwrappers"}, "short", errors.New("x"))
	for what, c := range map[string]struct {
		why   string
		setUp func(x *world, a *attempt, j *batchv1.Job)
		uid   types.UID
		err   error // nil for none
		left  bool  // the object
	}{
		"another's":          {"it is not ours to take", func(_ *world, _ *attempt, j *batchv1.Job) { j.OwnerReferences = nil }, "", errForeign, true},
		"on its way out":     {"it is waited for", func(_ *world, _ *attempt, j *batchv1.Job) { j.Finalizers = []string{holder} }, "", errGoing, true},
		"recorded":           {"the cache did not show it", func(_ *world, a *attempt, j *batchv1.Job) { a.components[0].UID = j.UID }, "there", nil, true},
		"made by us":         {"it could not be recorded", func(x *world, a *attempt, j *batchv1.Job) { a.made.add(x.key, j.UID) }, "there", nil, true},
		"not recorded":       {"a user who may write owners may have made it", func(*world, *attempt, *batchv1.Job) {}, "", errGoing, false},
		"recorded meanwhile": {"the AppWrapper that we know is an older one", func(_ *world, a *attempt, _ *batchv1.Job) { a.w.ResourceVersion = "1" }, "", conflict, true},
	} {
		t.Run(what, func(t *testing.T) {
			x := newWorld(t, wrapper(jobManifest))
			x.reconcileAll()
			x.admit()
			if err := x.reconcile(); err != nil || x.phase() != "Resuming" {
				t.Fatal(x.phase(), err)
			}
			a := &attempt{reconciler: x.r, w: x.get(), failedAt: -1}
			if err := a.gather(t.Context(), cached); err != nil {
				t.Fatal(err)
			}
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, UID: "there"}}
			j.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(x.get(), awv1beta2.GroupVersion.WithKind("AppWrapper")),
			}
			c.setUp(x, a, j)
			if err := x.server.Create(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			if len(j.Finalizers) > 0 {
				if err := x.server.Delete(t.Context(), j.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			uid, err := a.createOne(t.Context(), a.components[0])
			switch {
			case apierrors.IsConflict(c.err):
				if !apierrors.IsConflict(err) {
					t.Errorf("%v, want a conflict: %s", err, c.why)
				}
			case !errors.Is(err, c.err):
				t.Errorf("%v, want %v: %s", err, c.err, c.why)
			}
			if uid != c.uid {
				t.Errorf("UID %q, want %q: %s", uid, c.uid, c.why)
			}
			if left := len(x.jobs()) > 0; left != c.left {
				t.Errorf("it is left: %v, want %v: %s", left, c.left, c.why)
			}
		})
	}
}

// Components are created in order, up to the first that cannot be; those that exist
// are left.
func TestCreationStopsAtTheFirstError(t *testing.T) {
	second := strings.ReplaceAll(serviceManifest, "front", "back")
	x := newWorld(t, wrapper(podManifest, serviceManifest, second))
	x.reconcileAll()
	x.admit()
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	a := &attempt{reconciler: x.r, w: x.get(), failedAt: -1}
	if err := a.gather(t.Context(), cached); err != nil {
		t.Fatal(err)
	}
	if err := x.server.Create(
		t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "front"}},
	); err != nil {
		t.Fatal(err)
	}
	a.create(t.Context())
	want := lifecycle.CreateError{Component: "Service front", Message: errForeign.Error(), Fatal: true}
	if a.failedAt != 1 || a.facts.CreateError == nil || !cmp.Equal(want, *a.facts.CreateError) {
		t.Errorf("failed at %d with %+v", a.failedAt, a.facts.CreateError)
	}
	if diff := cmp.Diff(map[string]int{"alone": 1}, x.created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if !a.facts.Components[0].Exists || a.uids[0] == "" || a.facts.Components[1].Exists ||
		a.facts.Components[2].Exists {
		t.Errorf("facts %+v, UIDs %v", a.facts.Components, a.uids)
	}
	if err := x.server.Delete(
		t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "front"}},
	); err != nil {
		t.Fatal(err)
	}
	a.facts.CreateError, a.failedAt = nil, -1
	a.create(t.Context())
	if diff := cmp.Diff(
		map[string]int{"alone": 1, "front": 1, "back": 1},
		x.created,
	); diff != "" ||
		a.facts.CreateError != nil {
		t.Errorf("%+v; created (-want +got):\n%s", a.facts.CreateError, diff)
	}
}
