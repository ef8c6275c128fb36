package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// source is a cache with one informer, which tells what a test wants it to.
type source struct {
	cache.Cache
	cache.Informer
	own, apart      []toolscache.ResourceEventHandler
	synced, stopped bool
}

func (s *source) IsStopped() bool { return s.stopped }

func (s *source) GetInformer(
	context.Context,
	client.Object,
	...cache.InformerGetOption,
) (cache.Informer, error) {
	return s, nil
}

func (s *source) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler,
	o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if s.stopped {
		return nil, errors.New("stopped")
	}
	if o.ResyncPeriod != nil {
		s.apart = append(s.apart, h)
		return apart{s}, nil
	}
	s.own = append(s.own, h)
	return syncing{s}, nil
}

func (s *source) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	s.apart = nil
	return nil
}

type syncing struct{ s *source }

func (s syncing) HasSynced() bool                          { return s.s.synced }
func (s syncing) HasSyncedChecker() toolscache.DoneChecker { return nil }

type apart struct{ *source }

// follower is a handler that knows what there is, and what was told wrongly.
type follower struct {
	is      map[string]string // version by name
	wrong   []string
	initial int
}

//nolint:revive // flag-parameter: the signature is the interface's
func (f *follower) OnAdd(o any, initially bool) {
	p := o.(*corev1.Pod)
	if was, known := f.is[p.Name]; known {
		f.wrong = append(f.wrong, fmt.Sprintf("%s was added, but it was there as %s", p.Name, was))
	}
	if initially {
		f.initial++
	}
	f.is[p.Name] = p.ResourceVersion
}

func (f *follower) OnUpdate(was, is any) {
	w, p := was.(*corev1.Pod), is.(*corev1.Pod)
	if f.is[p.Name] != w.ResourceVersion {
		f.wrong = append(
			f.wrong,
			fmt.Sprintf("%s changed from %q, but it was %q", p.Name, w.ResourceVersion, f.is[p.Name]),
		)
	}
	f.is[p.Name] = p.ResourceVersion
}

func (f *follower) OnDelete(o any) {
	if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
		o = gone.Obj
	}
	p := o.(*corev1.Pod)
	if _, known := f.is[p.Name]; !known {
		f.wrong = append(f.wrong, p.Name+" is gone, but it was not there")
	}
	delete(f.is, p.Name)
}

// Whenever a handler comes, it is told what there is and then every change once, in order, and nothing
// after it was removed; the informer below has one handler.
func TestFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &source{}
		c := Cache(s)
		informer := func() cache.Informer {
			i, err := c.GetInformer(context.Background(), &corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
		there := map[string]*corev1.Pod{}
		type member struct {
			*follower
			r toolscache.ResourceEventHandlerRegistration
		}
		var told []member
		var left []*follower
		atLeaving := map[*follower]map[string]string{}
		version := 0
		pod := func(name string) *corev1.Pod {
			version++
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, ResourceVersion: strconv.Itoa(version)},
			}
		}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"changes": func(t *rapid.T) {
				if len(s.own) == 0 {
					t.Skip("nobody wants to know")
				}
				n := name.Draw(t, "name")
				was := there[n]
				switch gone := rapid.Bool().Draw(t, "gone"); {
				case was == nil:
					there[n] = pod(n)
					s.own[0].OnAdd(there[n], rapid.Bool().Draw(t, "initially"))
				case gone && rapid.Bool().Draw(t, "seen late"):
					delete(there, n)
					s.own[0].OnDelete(toolscache.DeletedFinalStateUnknown{Key: "blue/" + n, Obj: was})
				case gone:
					delete(there, n)
					s.own[0].OnDelete(was)
				default:
					there[n] = pod(n)
					s.own[0].OnUpdate(was, there[n])
				}
			},
			"comes": func(t *rapid.T) {
				f := &follower{is: map[string]string{}}
				r, err := informer().AddEventHandler(f)
				if err != nil {
					t.Fatal(err)
				}
				if f.initial != len(there) {
					t.Fatalf("of %d objects it was told of %d", len(there), f.initial)
				}
				told = append(told, member{f, r})
			},
			"goes": func(t *rapid.T) {
				if len(told) == 0 {
					t.Skip("nobody is there")
				}
				i := rapid.IntRange(0, len(told)-1).Draw(t, "who")
				if err := informer().RemoveEventHandler(told[i].r); err != nil {
					t.Fatal(err)
				}
				left = append(left, told[i].follower)
				atLeaving[told[i].follower] = maps.Clone(told[i].is)
				told = slices.Delete(told, i, i+1)
			},
			"": func(t *rapid.T) {
				want := map[string]string{}
				for n, p := range there {
					want[n] = p.ResourceVersion
				}
				for _, m := range told {
					if !maps.Equal(m.is, want) || len(m.wrong) > 0 {
						t.Fatalf("one knows %v, there is %v; told wrongly: %v", m.is, want, m.wrong)
					}
				}
				for _, f := range left {
					if !maps.Equal(f.is, atLeaving[f]) {
						t.Fatalf("one that left knew %v, and knows %v", atLeaving[f], f.is)
					}
				}
				if len(s.own) > 1 {
					t.Fatalf("the informer below has %d handlers", len(s.own))
				}
			},
		})
	})
}

// A handler has been told all when the informer below has told all, and one that is to be told again and
// again has a queue of its own.
func TestRegistrations(t *testing.T) {
	s := &source{}
	i, err := Cache(s).GetInformer(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.AddEventHandler(&follower{})
	if err != nil {
		t.Fatal(err)
	}
	if r.HasSynced() {
		t.Error("it was told all before the informer had told anything")
	}
	s.synced = true
	if !r.HasSynced() {
		t.Error("it was not told all")
	}
	again, err := i.AddEventHandlerWithResyncPeriod(&follower{}, time.Minute)
	if err != nil || len(s.apart) != 1 {
		t.Fatalf("%d handlers apart, %v", len(s.apart), err)
	}
	if err := i.RemoveEventHandler(again); err != nil || s.apart != nil {
		t.Errorf("%d handlers apart, %v", len(s.apart), err)
	}
	s.stopped = true
	if _, err := i.AddEventHandler(&follower{}); err == nil {
		t.Error("an informer that has stopped took a handler, which would never be told anything")
	}
}

// A handler that comes while changes are told misses none and is told none twice.
func TestComesMeanwhile(t *testing.T) {
	s := &source{}
	i, err := Cache(s).GetInformer(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.AddEventHandler(&follower{is: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		var was *corev1.Pod
		for n := range 10_000 {
			is := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: strconv.Itoa(n)}}
			if was == nil {
				s.own[0].OnAdd(is, true)
			} else {
				s.own[0].OnUpdate(was, is)
			}
			was = is
		}
	})
	told := make([]*follower, 100)
	for n := range told {
		told[n] = &follower{is: map[string]string{}}
		all.Go(func() {
			if _, err := i.AddEventHandler(told[n]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for n, f := range told {
		if f.is["a"] != "9999" || len(f.wrong) > 0 {
			t.Errorf("handler %d ends with version %s; told wrongly: %v", n, f.is["a"], f.wrong)
		}
	}
}
