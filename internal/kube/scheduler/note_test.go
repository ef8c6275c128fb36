package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// A pod that is held out of the queue is told what it waits for, once, and is looked
// at again later: the reason may change without it.
func TestNote(t *testing.T) {
	const why = "Workload blue/job starts as a whole: 1 of 2 pods exist"
	condition := func(status corev1.ConditionStatus, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "another matter"},
				{Type: corev1.PodScheduled, Status: status, Message: message},
			}
		}
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("another uid"))
	cases := map[string]struct {
		why     string
		change  func(*corev1.Pod)
		answers error
		writes  bool
		later   bool
		fails   bool
	}{
		"held": {"the framework is silent about it", func(*corev1.Pod) {}, nil, true, true, false},
		"told before": {
			"a write would say nothing new",
			condition(corev1.ConditionFalse, why),
			nil,
			false,
			true,
			false,
		},
		"told otherwise": {
			"what it waits for has changed",
			condition(corev1.ConditionFalse, "is not admitted yet"),
			nil,
			true,
			true,
			false,
		},
		"said to be there": {
			"the condition is wrong, whatever its words",
			condition(corev1.ConditionTrue, why),
			nil,
			true,
			true,
			false,
		},
		"has a node": {
			"it waits for nothing",
			func(p *corev1.Pod) { p.Spec.NodeName = "n" },
			nil,
			false,
			false,
			false,
		},
		"is deleted": {
			"no user reads it",
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
			nil,
			false,
			false,
			false,
		},
		"gated": {
			"it waits for the controller that gated it",
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			nil,
			false,
			false,
			false,
		},
		"no gang": {
			"nothing holds it",
			func(p *corev1.Pod) { p.Annotations = nil },
			nil,
			false,
			false,
			false,
		},
		"may go": {
			"its gang is complete",
			func(p *corev1.Pod) { planned(p, "whole", "main") },
			nil,
			false,
			false,
			false,
		},
		"gone":       {"there is nothing to say", func(*corev1.Pod) {}, gone, true, true, false},
		"made again": {"it is another pod", func(*corev1.Pod) {}, conflict, true, true, false},
		"server away": {
			"it is tried again",
			func(*corev1.Pod) {},
			errors.New("connection refused"),
			true,
			true,
			true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			g := d.gang("job", "a")
			g.Sets[0].Count = 2
			d.gangs[g.Key] = g
			d.gang("whole", "a", "b")
			p := planned(pod("blue", "a", 0), "job", "main")
			p.UID = "a"
			c.change(p)
			n, client, queue := newTestNoter(t, d, p)
			client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return c.answers != nil, nil, c.answers
			})
			err := n.note(t.Context(), types.NamespacedName{Namespace: "blue", Name: "a"})
			if (err != nil) != c.fails {
				t.Errorf("%v: %s", err, c.why)
			}
			if writes := len(client.Actions()) > 0; writes != c.writes {
				t.Errorf("writes %v, want %v: %s", writes, c.writes, c.why)
			}
			if len(queue.later) > 0 != c.later {
				t.Errorf("looks again: %v, want %v: %s", queue.later, c.later, c.why)
			}
			if !c.writes || c.answers != nil {
				return
			}
			got, err := client.CoreV1().Pods("blue").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, c := range got.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					said = append(said, string(c.Status)+" "+c.Reason+": "+c.Message)
				}
			}
			if diff := cmp.Diff([]string{"False SchedulingGated: " + why}, said); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("unknown pod", func(t *testing.T) {
		n, client, _ := newTestNoter(t, newDesk())
		if err := n.note(
			t.Context(),
			types.NamespacedName{Namespace: "blue", Name: "a"},
		); err != nil ||
			len(client.Actions()) != 0 {
			t.Errorf("%v, %v", err, client.Actions())
		}
	})
}

// Only pods that may be held back here are looked at.
func TestNoteIsPlanned(t *testing.T) {
	ours := planned(pod("blue", "a", 0), "job", "main")
	change := func(f func(*corev1.Pod)) *corev1.Pod { p := ours.DeepCopy(); f(p); return p }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"of a gang":  {ours, 1},
		"no gang":    {pod("blue", "a", 0), 0},
		"has a node": {change(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), 0},
		"is deleted": {change(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), 0},
		"another's":  {change(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			n, _, queue := newTestNoter(t, newDesk())
			if n.touched(c.pod); len(queue.later) != c.want {
				t.Errorf("looks at it: %v, want %d", queue.later, c.want)
			}
		})
	}
}

// What is noted is tried again until it is written.
func TestNoterTriesAgain(t *testing.T) {
	d := newDesk()
	p := planned(pod("blue", "a", 0), "nobody", "main")
	n, client, _ := newTestNoter(t, d, p)
	wrote := make(chan struct{}, 10)
	failures := 1
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures--; failures >= 0 {
			return true, nil, errors.New("connection refused")
		}
		wrote <- struct{}{}
		return false, nil, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.run(ctx); close(ended) }()
	n.queue.Add(types.NamespacedName{Namespace: "blue", Name: "a"})
	<-wrote
	stop()
	<-ended
}

// laterQueue notes what is to be looked at later instead of waiting for it.
type laterQueue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	later []T
}

func (q *laterQueue[T]) AddAfter(item T, _ time.Duration) { q.later = append(q.later, item) }

func newTestNoter(
	t *testing.T,
	d *desk,
	pods ...*corev1.Pod,
) (*noter, *fake.Clientset, *laterQueue[types.NamespacedName]) {
	t.Helper()
	store, client := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), fake.NewClientset()
	for _, p := range pods {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
		k, _ := gang.KeyOf(p)
		if len(d.pods[k]) == 0 {
			d.pods[k] = []*corev1.Pod{p}
		}
	}
	n := newNoter(
		d.Reservations,
		client,
		corelisters.NewPodLister(store),
		func(name string) bool { return name == testScheduler },
	)
	queue := &laterQueue[types.NamespacedName]{TypedRateLimitingInterface: n.queue}
	n.queue = queue
	t.Cleanup(queue.ShutDown)
	return n, client, queue
}

// Events tell people something new: not that a pod of a gang got its planned node, nor
// to each pod what its gang was told.
func TestEventsThatSaySomething(t *testing.T) {
	d := newDesk()
	g := d.gang("job", "a", "b")
	d.refuse(g.Key, "a", "too big")
	of := func(name string) *corev1.Pod {
		p := planned(pod("blue", name, 0), "job", "main")
		p.UID = types.UID(name)
		return p
	}
	for name, c := range map[string]struct {
		about runtime.Object
		kind  string
		told  bool
	}{
		"the leader pod is refused": {of("a"), corev1.EventTypeWarning, true},
		"another is refused":        {of("b"), corev1.EventTypeWarning, false},
		"it got its node":           {of("a"), corev1.EventTypeNormal, false},
		"no gang, refused":          {pod("blue", "p", 0), corev1.EventTypeWarning, true},
		"no gang, got a node":       {pod("blue", "p", 0), corev1.EventTypeNormal, true},
		"no pod":                    {&corev1.Node{}, corev1.EventTypeNormal, true},
	} {
		t.Run(name, func(t *testing.T) {
			sink := events.NewFakeRecorder(1)
			recorder{
				sink,
				d.Reservations,
			}.WithLogger(klog.Background()).
				Eventf(c.about, nil, c.kind, "Reason", "Action", "%d of %d pods", 1, 2)
			var got []string
			for len(sink.Events) > 0 {
				got = append(got, <-sink.Events)
			}
			var want []string
			if c.told {
				want = []string{c.kind + " Reason 1 of 2 pods"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
