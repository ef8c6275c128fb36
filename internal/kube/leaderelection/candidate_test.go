package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// store is an API server with one Lease.
type store struct {
	mu       sync.Mutex
	version  int
	lease    *coordinationv1.Lease
	watchers map[chan watch.Event]bool
	updates  int
}

func newStore() *store { return &store{watchers: map[chan watch.Event]bool{}} }

// put changes the Lease as another client would.
func (s *store) put(change func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lease.DeepCopy()
	change(l)
	s.set(l)
}

func (s *store) set(l *coordinationv1.Lease) {
	s.version++
	l.ResourceVersion = strconv.Itoa(s.version)
	s.lease = l
	for w := range s.watchers {
		w <- watch.Event{Type: watch.Modified, Object: l.DeepCopy()}
	}
}

func (s *store) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return ptr.Deref(s.lease.Spec.HolderIdentity, "")
}

func (s *store) announced() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parse(s.lease)
}

// via is the way of one process to the store. While it is cut, requests hang until they
// are given up; late ones arrive when it is whole again, as those that a stopped process had
// sent.
type via struct {
	*store
	mu  sync.Mutex
	cut chan struct{} // nil while whole
	// one lets a request through although the way is cut.
	one chan struct{}
}

func (v *via) Cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut = make(chan struct{})
}

func (v *via) Heal() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.cut)
	v.cut = nil
}

func (v *via) pass(ctx context.Context) error {
	v.mu.Lock()
	cut := v.cut
	v.mu.Unlock()
	if cut == nil {
		return ctx.Err()
	}
	select {
	case <-cut:
		return nil
	case <-v.one:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *via) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := v.pass(ctx); err != nil {
		return nil, err
	}
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if v.lease == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	return v.lease.DeepCopy(), nil
}

func (v *via) Create(
	ctx context.Context,
	l *coordinationv1.Lease,
	_ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if err := v.pass(ctx); err != nil {
		return nil, err
	}
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if v.lease != nil {
		return nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), l.Name)
	}
	v.set(l.DeepCopy())
	return v.lease.DeepCopy(), nil
}

func (v *via) Update(
	ctx context.Context,
	l *coordinationv1.Lease,
	_ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := v.pass(ctx); err != nil {
		return nil, err
	}
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if v.lease == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), l.Name)
	}
	if l.ResourceVersion != v.lease.ResourceVersion {
		return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), l.Name, errors.New("another version"))
	}
	v.updates++
	v.set(l.DeepCopy())
	return v.lease.DeepCopy(), nil
}

func (v *via) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := v.pass(ctx); err != nil {
		return nil, err
	}
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	ch := make(chan watch.Event, 100)
	v.watchers[ch] = true
	if v.lease != nil && v.lease.ResourceVersion != o.ResourceVersion {
		ch <- watch.Event{Type: watch.Modified, Object: v.lease.DeepCopy()}
	}
	return watched{v.store, ch}, nil
}

type watched struct {
	s  *store
	ch chan watch.Event
}

func (w watched) ResultChan() <-chan watch.Event { return w.ch }

func (w watched) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.watchers, w.ch)
}

// process is a candidate that runs.
type process struct {
	*Candidate
	via  *via
	done chan error
	end  context.CancelFunc
}

func (s *store) join(t *testing.T, name string) *process {
	t.Helper()
	return s.joinWhen(t, name, nil)
}

// joinWhen starts a process that can lead when ready is closed.
func (s *store) joinWhen(t *testing.T, name string, ready <-chan struct{}) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{via: &via{store: s, one: make(chan struct{})}, done: make(chan error, 1), end: cancel}
	p.Candidate = New(
		Options{
			Leases:    p.via,
			Namespace: "mlbatch-system",
			Name:      "x",
			Identity:  name,
			Clock:     clock.RealClock{},
			Ready:     ready,
		},
	)
	go func() { p.done <- p.Run(ctx) }()
	t.Cleanup(cancel)
	return p
}

func (p *process) leads() bool {
	select {
	case <-p.Won():
		return p.Valid() == nil
	default:
		return false
	}
}

func (p *process) standsBy() bool {
	select {
	case <-p.StandsBy():
		return true
	default:
		return false
	}
}

// A process that is cut off is silent before another one leads, and the other leads within the
// duration of the Lease. When it is back it is told that it lost.
func TestSilentBeforeAnotherLeads(t *testing.T) {
	for offset := time.Duration(0); offset < DefaultRetry; offset += 90 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			a := s.join(t, "a")
			synctest.Wait()
			b := s.join(t, "b")
			time.Sleep(10*time.Second + offset)
			if !a.leads() || b.leads() {
				t.Fatalf("a leads: %v, b: %v", a.leads(), b.leads())
			}
			if a.standsBy() || !b.standsBy() {
				t.Fatalf("a stands by: %v, b: %v", a.standsBy(), b.standsBy())
			}
			a.via.Cut()
			began := time.Now()
			for !b.leads() {
				time.Sleep(10 * time.Millisecond)
				if a.leads() && b.leads() {
					t.Fatal("both lead")
				}
				if since := time.Since(began); since > DefaultDuration+20*time.Millisecond {
					t.Fatalf("nobody leads for %s", since)
				}
			}
			if took := time.Since(began); took < DefaultDuration-DefaultRetry-10*time.Millisecond {
				t.Errorf("it took the lead %s after the other's last sign at most %s ago", took, DefaultRetry)
			}
			if err := a.Valid(); !errors.Is(err, ErrUnsure) {
				t.Errorf("the one that is cut off may write: %v", err)
			}
			a.via.Heal()
			if err := <-a.done; !errors.Is(err, ErrLost) || !errors.Is(a.Valid(), ErrLost) {
				t.Errorf("back again, it is told %v, and %v of writes", err, a.Valid())
			}
			if b.Term() != 2 || !b.leads() {
				t.Errorf("term %d, leads: %v", b.Term(), b.leads())
			}
		})
	}
}

// A process whose API server is away is silent, and goes on when it is back and nobody else
// has led: it does not end, which would help nobody.
func TestGoesOnAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		time.Sleep(2500 * time.Millisecond)
		a.via.Cut()
		time.Sleep(time.Minute)
		if err := a.Valid(); !errors.Is(err, ErrUnsure) {
			t.Fatalf("after a minute without renewals: %v", err)
		}
		a.via.Heal()
		time.Sleep(time.Second)
		if err := a.Valid(); err != nil || a.Term() != 1 {
			t.Errorf("a second after it is back: %v, term %d", err, a.Term())
		}
		a.end()
		if err := <-a.done; err != nil {
			t.Error(err)
		}
	})
}

// A process that is not ready takes nothing, and waits for a silent holder meanwhile: it leads as soon as
// it is ready if the holder has been silent for long enough by then, and no sooner if not.
func TestWaitsWhileItGetsReady(t *testing.T) {
	for name, tc := range map[string]struct {
		dies  time.Duration // after the start; negative: there is no Lease
		ready time.Duration
		leads time.Duration
	}{
		"no lease yet":                          {-1, 20 * time.Second, 20 * time.Second},
		"the holder is gone already":            {0, 20 * time.Second, 20 * time.Second},
		"ready at once, it waits all the time":  {0, 0, 4 * time.Second},
		"ready soon, it waits for what is left": {0, 3 * time.Second, 4 * time.Second},
		"the holder goes just before":           {19500 * time.Millisecond, 20 * time.Second, 23 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var a *process
				if tc.dies >= 0 {
					a = s.join(t, "a")
					synctest.Wait()
				}
				ready := make(chan struct{})
				b := s.joinWhen(t, "b", ready)
				began := time.Now()
				if a != nil {
					time.AfterFunc(tc.dies, a.end)
				}
				time.AfterFunc(tc.ready, func() { close(ready) })
				for !b.leads() {
					if since := time.Since(began); since > tc.leads {
						t.Fatalf("it does not lead after %s, want %s", since, tc.leads)
					}
					if time.Since(began) < tc.ready && (s.holder() == "b" || b.standsBy()) {
						t.Fatalf("before it was ready: held by %q, stands by: %v", s.holder(), b.standsBy())
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took < tc.leads-20*time.Millisecond {
					t.Errorf("it leads after %s, want %s", took, tc.leads)
				}
				if waited := tc.leads > tc.ready; b.standsBy() != waited {
					t.Errorf("it stood by when it was ready: %v, want %v", b.standsBy(), waited)
				}
			})
		})
	}
}

// What is given back is taken at once.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		b := s.join(t, "b")
		time.Sleep(1500 * time.Millisecond)
		if err := b.Release(t.Context()); err != nil || s.holder() != "a" {
			t.Fatalf("one that does not lead gave it back: %v, held by %q", err, s.holder())
		}
		a.end()
		if err := <-a.done; err != nil {
			t.Fatal(err)
		}
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Valid() == nil {
			t.Error("who gave it back may write")
		}
		synctest.Wait()
		if !b.leads() {
			t.Errorf("it is held by %q", s.holder())
		}
	})
}

// The Lease is taken from the holder that was seen, not from one that renewed meanwhile, and
// others may write to it.
func TestOthersWriteTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		b := s.join(t, "b")
		for range 100 {
			time.Sleep(130 * time.Millisecond)
			s.put(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"seen": time.Now().String()} })
		}
		if !a.leads() || b.leads() || a.Term() != 1 {
			t.Errorf("a leads: %v, b: %v, term %d", a.leads(), b.leads(), a.Term())
		}
		s.put(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("c") })
		if err := <-a.done; !errors.Is(err, ErrLost) {
			t.Errorf("it was taken from it: %v", err)
		}
	})
}

// What is announced is in the Lease before the write is sent, by a write of the Lease that began
// after the announcement; a name leaves when it is known what became of it.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		outcomes := map[string][]WriteResult{
			"blue/stored": {
				Settled,
			},
			"blue/refused":      {Refused},
			"blue/lost":         {Unknown},
			"blue/lost-refused": {Unknown, Refused},
			"blue/lost-stored":  {Unknown, Settled},
			"blue/gone":         {Unknown},
		}
		for name, of := range outcomes {
			for _, o := range of {
				before := s.updates
				done, err := a.Announce(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if s.updates == before {
					t.Errorf("%s: an earlier write of the Lease was taken for this one", name)
				}
				if !slices.Contains(s.announced(), name) {
					t.Errorf("%s is not in the Lease: %v", name, s.announced())
				}
				done(o)
			}
		}
		a.Gone("blue/gone")
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"blue/lost", "blue/lost-refused"}, s.announced()); d != "" {
			t.Errorf("announced in the end (-want +got):\n%s", d)
		}
	})
}

// Many announcements share writes of the Lease.
func TestAnnouncementsShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		a.via.Cut()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				name := fmt.Sprintf("blue/%d", i)
				done, err := a.Announce(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Contains(s.announced(), name) {
					t.Errorf("%s is not in the Lease: a write that had begun before was taken for its own", name)
				}
				done(Settled)
			})
			if i == 0 {
				synctest.Wait() // a write of the Lease is under way
			}
		}
		synctest.Wait()
		before := s.updates
		a.via.one <- struct{}{} // what had begun before the others asked
		synctest.Wait()
		a.via.Heal()
		all.Wait()
		if n := s.updates - before; n > 2 {
			t.Errorf("200 announcements took %d writes", n)
		}
	})
}

// A successor finds what was announced, until it has seen to it: also if it ends before that.
func TestSuccessorsInherit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		b := s.join(t, "b")
		if _, err := a.Announce(t.Context(), "blue/w"); err != nil {
			t.Fatal(err)
		}
		a.via.Cut()
		<-b.Won()
		if d := cmp.Diff([]string{"blue/w"}, b.Inherited()); d != "" {
			t.Errorf("inherited (-want +got):\n%s", d)
		}
		c := s.join(t, "c")
		time.Sleep(5 * time.Second) // it renews
		if _, err := b.Announce(t.Context(), "red/w"); err != nil {
			t.Fatal(err)
		}
		b.via.Cut()
		<-c.Won()
		if d := cmp.Diff([]string{"blue/w", "red/w"}, c.Inherited()); d != "" {
			t.Errorf("inherited twice (-want +got):\n%s", d)
		}
		c.Settled()
		time.Sleep(2 * time.Second)
		if got := append(c.Inherited(), s.announced()...); len(got) > 0 {
			t.Errorf("still announced when seen to: %v", got)
		}
		a.via.Heal()
		b.via.Heal()
		_, _ = <-a.done, <-b.done
	})
}

// A process that lost the lead announces nothing, even if it asked before: nothing that it
// was about to write is sent.
func TestNoAnnouncementAfterTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		synctest.Wait()
		b := s.join(t, "b")
		synctest.Wait()
		a.via.Cut()
		asked := make(chan error, 1)
		go func() { _, err := a.Announce(t.Context(), "blue/w"); asked <- err }()
		<-b.Won()
		a.via.Heal()
		if err := <-asked; !errors.Is(err, ErrLost) {
			t.Errorf("announced: %v", err)
		}
		if _, err := a.Announce(t.Context(), "blue/w"); !errors.Is(err, ErrLost) {
			t.Errorf("announced later: %v", err)
		}
		if got := s.announced(); len(got) > 0 {
			t.Errorf("in the Lease of the other: %v", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		b.via.Cut()
		if _, err := b.Announce(ended, "blue/w"); !errors.Is(err, context.Canceled) {
			t.Errorf("one that is told to end: %v", err)
		}
		b.via.Heal()
	})
}

// The Lease cannot outgrow what the API takes.
func TestAnnouncementsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStore().join(t, "a")
		synctest.Wait()
		for i := range mostAnnounced {
			done, err := a.Announce(t.Context(), fmt.Sprintf("blue/%d", i))
			if err != nil {
				t.Fatal(err)
			}
			done(Unknown)
		}
		if _, err := a.Announce(t.Context(), "blue/more"); err == nil {
			t.Error("one more was announced")
		}
		if _, err := a.Announce(t.Context(), "blue/7"); err != nil {
			t.Errorf("one of them: %v", err)
		}
	})
}
