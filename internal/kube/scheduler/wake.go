package scheduler

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// waker brings pods back into the queue when something changed that the queue
// does not see: a plan, or the other pods of a gang. Pods that it activates skip
// the queue's backoff.
type waker struct {
	reservations *Reservations
	registry     *registry
	// handle is any profile's: they share the queue and the waiting pods.
	handle atomic.Pointer[fwk.Handle]
	// touched is told of every pod that changed.
	touched func(*corev1.Pod)
	// refused is told which planned nodes refuse a pod.
	refused func(*corev1.Pod, found)
	// later calls a function in a while.
	later func(time.Duration, func())
	// pods is told of every pod that came, and that left.
	pods *podIndex
}

func (w *waker) connect(h fwk.Handle) { w.handle.CompareAndSwap(nil, &h) }

// plugin acts on the gang as the plugin would.
func (w *waker) plugin() *gangPlugin {
	h := w.handle.Load()
	if h == nil {
		return nil
	}
	return &gangPlugin{reservations: w.reservations, handle: *h, refused: w.refused, later: w.later}
}

// restart drops the attempt of a gang, since it was made for other facts, and
// lets its pods try again.
func (w *waker) restart(k gang.Key, why string) {
	p := w.plugin()
	if p == nil {
		return
	}
	p.sendBack(k, why)
	w.reservations.clearRejection(k)
	p.wake(k)
}

// gangHandler follows the objects of one source.
func (w *waker) gangHandler(s source) cache.ResourceEventHandler {
	put := func(obj any) {
		if g, ok := s.gang(obj); ok && w.registry.put(g) {
			w.restart(g.Key, g.Key.String()+" has changed")
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, obj any) { put(obj) },
		DeleteFunc: func(obj any) {
			if g, ok := s.gang(last(obj)); ok {
				w.registry.drop(g.Key)
				w.restart(g.Key, g.Key.String()+" was deleted")
			}
		},
	}
}

// podHandler follows pods that are not finished.
func (w *waker) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if p, ok := obj.(*corev1.Pod); ok {
				w.touched(p)
				w.pods.came(p)
				w.came(p)
			}
		},
		UpdateFunc: func(old, obj any) {
			o, ok1 := old.(*corev1.Pod)
			p, ok2 := obj.(*corev1.Pod)
			if !ok1 || !ok2 {
				return
			}
			w.touched(p)
			w.pods.came(p)
			if o.UID == p.UID {
				w.moved(o, p)
				return
			}
			// Deleted and made again by the same name while it was not watched.
			w.pods.vanished(o)
			w.went(o)
			w.came(p)
		},
		DeleteFunc: func(obj any) {
			p, ok := last(obj).(*corev1.Pod)
			if !ok {
				return
			}
			w.touched(p)
			if w.pods.left(p, w.mayBeBound(obj, p), func() { w.went(p) }) {
				w.went(p)
			}
		},
	}
}

// mayBeBound reports whether a pod that left may have had a node all the same: it
// was being bound when it was last seen, and how it left was not seen.
func (w *waker) mayBeBound(obj any, p *corev1.Pod) bool {
	_, unwatched := obj.(cache.DeletedFinalStateUnknown)
	k, ok := gang.KeyOf(p)
	return ok && unwatched && w.reservations.binds(k, p.UID)
}

// came wakes the siblings of the pod that makes a gang complete. Each earlier
// pod was held back when it came.
func (w *waker) came(p *corev1.Pod) {
	k, ok := gang.KeyOf(p)
	if !ok || p.Spec.NodeName != "" {
		return
	}
	if w.reservations.look(k).decision.Act == gang.Together && !w.reservations.inTry(k, p.UID) {
		w.wake(k)
	}
}

func (w *waker) moved(old, p *corev1.Pod) {
	k, ok := gang.KeyOf(p)
	switch {
	case !ok:
	case old.DeletionTimestamp == nil && p.DeletionTimestamp != nil:
		w.went(p)
	case old.Spec.NodeName == "" && p.Spec.NodeName != "":
		w.reservations.forget(k, p.UID)
		if w.reservations.refused(k) { // since it was on its way to its node, maybe
			w.reservations.clearRejection(k)
			w.wake(k)
		}
	case len(old.Spec.SchedulingGates) > 0 && len(p.Spec.SchedulingGates) == 0:
		w.came(p)
	case awaitsClaims(old) && !awaitsClaims(p):
		w.came(p)
	}
}

// went ends an attempt that counted on the pod, and offers its place.
func (w *waker) went(p *corev1.Pod) {
	k, ok := gang.KeyOf(p)
	if !ok {
		return
	}
	if plugin := w.plugin(); plugin != nil {
		plugin.tried(p.UID)
	}
	inTry := w.reservations.inTry(k, p.UID)
	w.reservations.forget(k, p.UID)
	if inTry {
		w.restart(k, k.String()+" starts as a whole: pod "+p.Name+" is gone")
	} else {
		w.wake(k)
	}
}

func (w *waker) wake(k gang.Key) {
	if p := w.plugin(); p != nil {
		p.wake(k)
	}
}

// last unwraps the last known state of a deleted object.
func last(obj any) any {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return d.Obj
	}
	return obj
}
