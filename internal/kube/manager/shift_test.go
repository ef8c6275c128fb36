package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// While it is not certain that this process leads nothing is written, in any of the ways to write; it
// may ask who somebody is and what they may do, and read.
func TestNothingIsWrittenWithoutTheLead(t *testing.T) {
	wrote := 0
	count := func() error { wrote++; return nil }
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return count() },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return count() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return count()
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return count() },
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return count()
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return count()
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return count()
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return count()
		},
	}).Build()
	var may error
	g := guarded{c, func() error { return may }}
	pod := func() client.Object { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "p"}} }
	patch := client.RawPatch("application/merge-patch+json", []byte("{}"))
	ctx := t.Context()
	ways := map[string]func() error{
		"create":       func() error { return g.Create(ctx, pod()) },
		"update":       func() error { return g.Update(ctx, pod()) },
		"patch":        func() error { return g.Patch(ctx, pod(), patch) },
		"delete":       func() error { return g.Delete(ctx, pod()) },
		"delete all":   func() error { return g.DeleteAllOf(ctx, pod()) },
		"status":       func() error { return g.Status().Update(ctx, pod()) },
		"status patch": func() error { return g.Status().Patch(ctx, pod(), patch) },
		"evict":        func() error { return g.SubResource("eviction").Create(ctx, pod(), pod()) },
	}
	for _, err := range []error{leaderelection.ErrUnsure, leaderelection.ErrLost, nil} {
		may, wrote = err, 0
		for way, try := range ways {
			if got := try(); !errors.Is(got, err) {
				t.Errorf("%s with %v: %v", way, err, got)
			}
		}
		if want := map[bool]int{true: len(ways)}[err == nil]; wrote != want {
			t.Errorf("with %v %d ways wrote, want %d", err, wrote, want)
		}
	}
	may, wrote = leaderelection.ErrLost, 0
	if err := g.Create(ctx, &authorizationv1.SubjectAccessReview{}); err != nil || wrote != 1 {
		t.Errorf("a question was not asked: %v", err)
	}
	if err := g.Create(ctx, pod(), client.DryRunAll); err != nil || wrote != 2 {
		t.Errorf("whether a pod could be created was not asked: %v", err)
	}
}

// leases is a namespace with one Lease, nil before it is made.
type leases struct {
	leaderelection.Leases // panics if asked to watch: nobody else holds it
	stored                *coordinationv1.Lease
}

func (l *leases) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.stored == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	return l.stored.DeepCopy(), nil
}

func (l *leases) Create(
	_ context.Context,
	o *coordinationv1.Lease,
	_ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	l.stored = o
	return l.stored.DeepCopy(), nil
}

func (l *leases) Update(
	_ context.Context,
	o *coordinationv1.Lease,
	_ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	l.stored = o
	return l.stored.DeepCopy(), nil
}

func newTestShift(t *testing.T, of *leases) *shift {
	t.Helper()
	filled := make(chan struct{})
	s := &shift{
		candidate: leaderelection.New(
			leaderelection.Options{Leases: of, Name: "x", Identity: "a", Clock: clock.RealClock{}, Ready: filled},
		),
		filled: filled,
		result: make(chan error, 1),
	}
	s.over, s.end = context.WithCancel(t.Context())
	return s
}

// A process competes from its start, takes the lead only when its caches are filled, and gives it back
// when its manager begins to end, however long that takes.
func TestLeadsWhenFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &leases{}
		s := newTestShift(t, of)
		filled, broken := make(chan struct{}), errors.New("broken")
		var ends, released time.Time
		done := make(chan error, 1)
		go func() {
			done <- s.run(t.Context(), func(ctx context.Context) error {
				<-filled
				own, end := context.WithCancel(ctx)
				defer end()
				started := make(chan error, 1)
				go func() { started <- s.Start(own) }()
				<-s.candidate.Won()
				ends = time.Now()
				end() // something has failed, and the manager ends what it has started
				if err := <-started; err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // requests are still answered
				return broken
			}, 0)
		}()
		time.Sleep(time.Minute)
		if of.stored != nil {
			t.Errorf("it took the lease before its caches were filled: %v", of.stored)
		}
		close(filled)
		for released.IsZero() {
			time.Sleep(10 * time.Millisecond)
			if of.stored != nil && *of.stored.Spec.HolderIdentity == "" {
				released = time.Now()
			}
		}
		if took := released.Sub(ends); took > 100*time.Millisecond {
			t.Errorf("the lead is given back %s after the manager began to end", took)
		}
		if s.ready(nil) == nil {
			t.Error("it is ready while it ends")
		}
		if err := <-done; !errors.Is(err, broken) {
			t.Errorf("it ended with %v", err)
		}
		if n := *of.stored.Spec.LeaseTransitions; n != 1 {
			t.Errorf("it led %d times", n)
		}
	})
}

// A process that is told to end while the API server is away ends, although its manager waits for caches.
func TestEndsBeforeItIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &leases{}
		s := newTestShift(t, of)
		ctx, cancel := context.WithCancel(t.Context())
		hangs := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- s.run(ctx, func(context.Context) error { <-hangs; return nil }, time.Minute)
		}()
		time.Sleep(time.Hour)
		told := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(told) > 0 {
			t.Errorf("it ended after %s, with %v", time.Since(told), err)
		}
		if of.stored != nil {
			t.Errorf("it took the lease: %v", of.stored)
		}
		close(hangs)
	})
}

// A process that is told to end is not ready, ends first what needs the lead, and goes on answering
// for a while.
func TestEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestShift(t, &leases{})
		ctx, cancel := context.WithCancel(t.Context())
		var ended, answered time.Time
		done := make(chan error, 1)
		go func() {
			done <- s.run(ctx, func(ctx context.Context) error {
				s.begin()
				go func() { <-s.over.Done(); time.Sleep(time.Second); ended = time.Now(); s.running.Done() }()
				<-ctx.Done()
				answered = time.Now()
				return nil
			}, 5*time.Second)
		}()
		close(s.filled)
		synctest.Wait()
		if s.ready(nil) != nil {
			t.Error("it is not ready")
		}
		told := time.Now()
		cancel()
		synctest.Wait()
		if s.ready(nil) == nil || s.begin() {
			t.Error("it is ready, or begins something, when it was told to end")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if ended.Sub(told) != time.Second || answered.Sub(told) != 5*time.Second {
			t.Errorf("what needs the lead ended after %s, webhooks after %s", ended.Sub(told), answered.Sub(told))
		}
	})
}

// A controller that was warmed up while it waited for the lead ends with the lead, and so does what
// its workers wait for: its queue is told to end by the context of Warmup. Otherwise the lead
// is given back only when the whole process has ended.
func TestWarmedUpEndsWithTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestShift(t, &leases{})
		r := &warmed{ended: make(chan struct{})}
		if err := (waiting{r, s}).Warmup(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-r.ended:
			t.Fatal("it ended before the lead did")
		default:
		}
		s.stop()
		synctest.Wait()
		select {
		case <-r.ended:
		default:
			t.Error("it goes on when the lead is over")
		}
	})
}

// What reads alone is started by a process that waits for the lead, too: controllers that warm up
// wait for their caches, and end the process if these are not filled in two minutes.
func TestCachesNeedNoLead(t *testing.T) {
	for name, tc := range map[string]struct {
		runnable manager.Runnable
		waits    bool
	}{
		"a controller":                    {&warmed{}, true},
		"a cache of a controller":         {ownCache{}, false},
		"what says that it needs no lead": {&shift{}, false},
	} {
		has := &adding{}
		if err := (led{has, &shift{}}).Add(tc.runnable); err != nil {
			t.Fatal(err)
		}
		if _, waits := has.added.(waiting); waits != tc.waits {
			t.Errorf("%s waits for the lead: %t, want %t", name, waits, tc.waits)
		}
	}
}

// adding is a manager that remembers what was added.
type adding struct {
	manager.Manager
	added manager.Runnable
}

func (a *adding) Add(r manager.Runnable) error {
	a.added = r
	return nil
}

// ownCache is a cache that a controller has for itself.
type ownCache struct{ cache.Cache }

func (c ownCache) GetCache() cache.Cache { return c.Cache }

// warmed is a runnable whose queue ends with the context of Warmup.
type warmed struct{ ended chan struct{} }

func (w *warmed) Warmup(ctx context.Context) error {
	context.AfterFunc(ctx, func() { close(w.ended) })
	return nil
}

func (w *warmed) Start(ctx context.Context) error { <-ctx.Done(); return nil }
