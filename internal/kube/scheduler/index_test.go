package scheduler

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// handIndex is a podIndex whose informers are filled by hand, and whose
// handlers are called by hand, as late as the test wants.
type handIndex struct {
	*podIndex
	live  map[string]*corev1.Pod // what the API server has
	down  bool
	later []func()
}

func newHandIndex() *handIndex {
	informer := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, gangIndexers())
	}
	h := &handIndex{live: map[string]*corev1.Pod{}}
	h.podIndex = &podIndex{
		current:  informer(),
		finished: informer(),
		after:    func(_ time.Duration, f func()) { h.later = append(h.later, f) },
		told:     cache.NewIndexer(uidOf, gangIndexers()),
		missed:   map[types.UID]bool{},
		ask: func(_, name string) (*corev1.Pod, error) {
			switch p := h.live[name]; {
			case h.down:
				return nil, errors.New("connection refused")
			case p == nil:
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
			default:
				return p, nil
			}
		},
	}
	return h
}

func (h *handIndex) waker(g gang.Gang) *waker {
	known := newRegistry()
	known.put(g)
	return &waker{
		reservations: NewReservations(
			h,
			known,
			[]string{"s"},
			func() time.Time { return time.Time{} },
		),
		registry: known,
		pods:     h.podIndex,
		touched:  func(*corev1.Pod) {},
	}
}

// step lets the next question to the API server be asked and answered.
func (h *handIndex) step() {
	now := h.later
	h.later = nil
	for _, f := range now {
		f()
	}
}

// onNode is a pod of gang g's Workload as it is seen in some phase.
func onNode(name, node string, phase corev1.PodPhase) *corev1.Pod {
	p := pod("ns", name, 1)
	p = planned(p, "g", "main")
	p.UID, p.Spec.SchedulerName = types.UID(name), "s"
	p.Spec.NodeName, p.Status.Phase = node, phase
	return p
}

// Two pods on two places, and a third that the Job controller made by mistake. One
// of the two leaves the scheduler's watch in all the ways there are; the third must
// not get its place as long as it may have it.
func TestThirdPodGetsNoPlaceOfOneThatLeaves(t *testing.T) {
	const taken, free = 0, 1
	ended := onNode("a", "n1", corev1.PodSucceeded)
	steps := map[string]struct {
		why  string
		do   func(*handIndex, cache.ResourceEventHandler)
		room int
	}{
		"ended, and the handler is behind": {
			"the store has let it go before the handlers were told",
			func(h *handIndex, _ cache.ResourceEventHandler) { h.drop("a") }, taken,
		},
		"ended, and the other watch is behind": {
			"it left the current pods, and is not among the finished yet",
			func(h *handIndex, on cache.ResourceEventHandler) {
				h.live["a"] = ended
				on.OnDelete(h.drop("a"))
			}, taken,
		},
		"ended, and known to have": {
			"a pod that succeeded keeps its place in a job that ends once",
			func(h *handIndex, on cache.ResourceEventHandler) {
				on.OnDelete(h.drop("a"))
				_ = h.finished.GetIndexer().Add(ended)
				h.arrived(ended)
			}, taken,
		},
		"ended, asked": {
			"the API server says that it succeeded before the watch does",
			func(h *handIndex, on cache.ResourceEventHandler) {
				h.live["a"] = ended
				on.OnDelete(h.drop("a"))
				h.step()
				h.step()
			}, taken,
		},
		"failed, asked": {
			"a pod that failed is replaced",
			func(h *handIndex, on cache.ResourceEventHandler) {
				h.live["a"] = onNode("a", "n1", corev1.PodFailed)
				on.OnDelete(h.drop("a"))
				h.step()
			}, free,
		},
		"deleted by force": {
			"nothing of it is left, so that its place is free",
			func(h *handIndex, on cache.ResourceEventHandler) {
				on.OnDelete(h.drop("a"))
				h.step()
			}, free,
		},
		"deleted by force, and the API server is away": {
			"it is not known",
			func(h *handIndex, on cache.ResourceEventHandler) {
				h.down = true
				on.OnDelete(h.drop("a"))
				h.step()
				h.step()
			}, taken,
		},
		"deleted by force, and the API server was away": {
			"it is asked again until it answers",
			func(h *handIndex, on cache.ResourceEventHandler) {
				h.down = true
				on.OnDelete(h.drop("a"))
				h.step()
				h.down = false
				h.step()
			}, free,
		},
		"deleted in the ordinary way": {
			"its last word was that it goes",
			func(h *handIndex, on cache.ResourceEventHandler) {
				p := h.drop("a")
				p = p.DeepCopy()
				p.DeletionTimestamp = &metav1.Time{}
				on.OnDelete(p)
			}, free,
		},
		"made again by its name": {
			"the old one is gone, and the new one has no node",
			func(h *handIndex, on cache.ResourceEventHandler) {
				again := onNode("a", "", corev1.PodPending)
				again.UID = "a2"
				old := h.drop("a")
				_ = h.current.GetIndexer().Add(again)
				on.OnUpdate(old, again)
			}, free,
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			h := newHandIndex()
			w := h.waker(twoPlaces())
			on := w.podHandler()
			for _, p := range []*corev1.Pod{
				onNode("a", "n1", corev1.PodRunning), onNode("b", "n2", corev1.PodRunning), onNode("c", "", corev1.PodPending),
			} {
				_ = h.current.GetIndexer().Add(p)
				on.OnAdd(p, false)
			}
			step.do(h, on)
			if got := room(w); got != step.room {
				t.Errorf("room for %d more pods, want %d: %s", got, step.room, step.why)
			}
		})
	}
}

// A pod is being bound when the API server dies: the write was made, its answer got
// lost, the pod ran and ended, and all of that is seen only as a pod that is not
// listed any more. It was last seen without a node.
func TestPodBoundUnseenKeepsItsPlace(t *testing.T) {
	h := newHandIndex()
	w := h.waker(twoPlaces())
	on := w.podHandler()
	for _, p := range []*corev1.Pod{onNode("a", "", corev1.PodPending), onNode("b", "n2", corev1.PodRunning)} {
		_ = h.current.GetIndexer().Add(p)
		on.OnAdd(p, false)
	}
	k, _ := gang.KeyOf(onNode("a", "", corev1.PodPending))
	w.reservations.reserve(k, "a", "n1")
	h.down = true
	on.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: h.drop("a")})
	h.step()
	if got := room(w); got != 0 {
		t.Fatalf("room for %d more pods while it is not known what became of pod a", got)
	}
	ended := onNode("a", "n1", corev1.PodSucceeded)
	_ = h.finished.GetIndexer().Add(ended)
	if !h.arrived(ended) {
		t.Error("the pod was not missed")
	}
	w.went(ended)
	if got := room(w); got != 0 {
		t.Errorf("room for %d more pods after pod a has succeeded on n1", got)
	}
	if w.reservations.binds(k, "a") {
		t.Error("the reservation of a pod that has ended is kept")
	}
}

// A pod whose labels change belongs to its new gang alone.
func TestPodChangesItsGang(t *testing.T) {
	h := newHandIndex()
	on := h.waker(twoPlaces()).podHandler()
	old := onNode("a", "n1", corev1.PodRunning)
	on.OnAdd(old, false)
	moved := planned(old.DeepCopy(), "other", "main")
	on.OnUpdate(old, moved)
	got := map[string]int{}
	for _, name := range []string{"g", "other"} {
		got[name] = len(h.OfGang(gang.Key{Kind: gang.KindWorkload, Namespace: "ns", Name: name}))
	}
	if diff := cmp.Diff(map[string]int{"g": 0, "other": 1}, got); diff != "" {
		t.Errorf("pods of gangs (-want +got):\n%s", diff)
	}
}

// drop removes a pod from the store of current pods, as the informer does before it
// tells its handlers.
func (h *handIndex) drop(name string) *corev1.Pod {
	o, _, _ := h.current.GetIndexer().GetByKey("ns/" + name)
	p, _ := o.(*corev1.Pod)
	_ = h.current.GetIndexer().Delete(o)
	return p
}

func twoPlaces() gang.Gang {
	return gang.Gang{
		Key:      gang.Key{Kind: gang.KindWorkload, Namespace: "ns", Name: "g"},
		Admitted: true,
		Sets: []gang.Set{
			{Name: "main", Count: 2, Once: true, Places: []core.Place{placed("n1", 1), placed("n2", 1)}},
		},
	}
}

// room is how many more pods of the gang may have a node.
func room(w *waker) int {
	k := slices.Collect(maps.Keys(w.registry.gangs))[0]
	v := w.reservations.look(k)
	return gang.Room(v.gang, v.gang.Sets[0], v.members)
}
