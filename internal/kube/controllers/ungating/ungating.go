// Package ungating has the pods of admitted jobs bound where their job was given nodes although
// a scheduler of others binds them. Such pods are made with a scheduling gate, kueue.TopologyGate,
// so that their scheduler does not look at them. When their gang may start, which gang.Decide
// says as it does for mlbatch's scheduler, each is told its node, by node affinity that it has to
// have, and the gate is taken out in the same write.
//
// What another scheduler does with nodes meanwhile is not ours to hold: if a node has no room
// when the pod is told it, the pod waits there, and its job is judged by the rules for jobs whose
// pods are not ready. A pod whose job has been given other nodes since is evicted, if its job
// survives that, and made anew for one of those.
package ungating

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/eviction"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/turns"
)

// WaitingForNode is the reason of the event on a pod that has waited for its node for longer than its
// gang takes to come together.
const WaitingForNode = "WaitingForNode"

// patience is how long a gang may take until it is said what it waits for: its pods are made
// one after the other. As often it is looked whether it still does: of pods that mlbatch's
// scheduler binds nobody tells this controller.
const patience = 10 * time.Second

// atOnce is how many pods of a gang are told their nodes at the same time.
const atOnce = 16

// Options are what the controller works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Schedulers say which pods are not ours to bind.
	Schedulers jobs.Schedulers
	// Evictor evicts pods that were told a node which their job has lost.
	Evictor eviction.Evictor
	// PodIndex is the name of the cache index from a Workload's name to its pods.
	PodIndex string
}

type reconciler struct {
	Options
	mu sync.Mutex
	// told are the nodes that pods were told and that the cache does not show yet, by Workload.
	told map[types.NamespacedName]map[types.UID]string
	// said is what was said last of Workloads that wait.
	said map[types.NamespacedName]string
}

// SetupWithManager starts the controller. The cache must have PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{Options: opts, told: map[types.NamespacedName]map[types.UID]string{}, said: map[types.NamespacedName]string{}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("ungating").
		For(&kueue.Workload{}, builder.WithPredicates(replanned())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		WithOptions(turns.Options()).
		Complete(r)
}

// replanned lets through Workloads that have nodes, or quota, from now on or others.
func replanned() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return admitted(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return admitted(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

func admitted(o client.Object) bool {
	w, is := o.(*kueue.Workload)
	return is && convert.Admitted(w)
}

// ofPod leads to the Workload of a pod that another scheduler binds.
func (r *reconciler) ofPod(_ context.Context, o client.Object) []reconcile.Request {
	p, is := o.(*corev1.Pod)
	if !is || r.Schedulers.Own(p.Spec.SchedulerName) || p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Annotations[kueue.WorkloadAnnotation]}}}
}

// Reconcile tells the pods of one Workload their nodes, as far as they may start.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pods, err := r.pods(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	earlier := r.unseen(req.NamespacedName, pods)
	if !r.concerns(pods) {
		r.quiet(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	w := &kueue.Workload{}
	if err := r.Client.Get(ctx, req.NamespacedName, w, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	g := gang.FromWorkload(w)
	out := plan(g, pods, earlier, r.Schedulers)
	if err := r.release(ctx, req.NamespacedName, out.releases); err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.move(ctx, w, pods, out.strays)
	if err != nil {
		return reconcile.Result{}, err
	}
	if out.waits == "" || !g.Admitted {
		r.quiet(req.NamespacedName)
	} else {
		again = sooner(again, r.say(req.NamespacedName, g, pods, out.waits))
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// concerns reports whether a pod waits to be told its node, or to be bound to it.
func (r *reconciler) concerns(pods []*corev1.Pod) bool {
	for _, p := range pods {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !convert.PodState(p).Ended && (pod.Unplaced(p) || told(p) != "") {
			return true
		}
	}
	return false
}

// pods are those of a Workload. They belong to the cache.
func (r *reconciler) pods(ctx context.Context, w types.NamespacedName) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingFields{r.PodIndex: w.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of workload %s: %w", w, err)
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// unseen are the nodes that pods were told and that the cache does not show yet. What it shows
// is forgotten.
func (r *reconciler) unseen(w types.NamespacedName, pods []*corev1.Pod) map[types.UID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := map[types.UID]string{}
	for _, p := range pods {
		if node, is := r.told[w][p.UID]; is && pod.Unplaced(p) {
			left[p.UID] = node
		}
	}
	if r.told[w] = left; len(left) == 0 {
		delete(r.told, w)
	}
	return left
}

// remember notes what a pod is told, forget takes it back.
func (r *reconciler) remember(w types.NamespacedName, x release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := maps.Clone(r.told[w]) // what was given out is not changed
	if now == nil {
		now = map[types.UID]string{}
	}
	now[x.pod.UID] = x.node
	r.told[w] = now
}

func (r *reconciler) forget(w types.NamespacedName, x release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told[w], x.pod.UID)
}

// release tells pods their nodes. One that has changed meanwhile is looked at again when the
// cache shows it.
func (r *reconciler) release(ctx context.Context, w types.NamespacedName, all []release) error {
	group, failed := errgroup.Group{}, make([]error, len(all))
	group.SetLimit(atOnce)
	for i, x := range all {
		r.remember(w, x)
		group.Go(func() error {
			patch := client.MergeFromWithOptions(x.pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
			err := r.Client.Patch(ctx, placed(x.pod, x.node), patch)
			if err != nil {
				r.forget(w, x)
			}
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				failed[i] = fmt.Errorf("tell pod %s/%s its node %s: %w", x.pod.Namespace, x.pod.Name, x.node, err)
			}
			return nil
		})
	}
	_ = group.Wait() // they fail each on its own
	return errors.Join(failed...)
}

// move evicts strays. It says when to look again.
func (r *reconciler) move(ctx context.Context, w *kueue.Workload, pods []*corev1.Pod, all []stray) (time.Duration, error) {
	if len(all) == 0 {
		return 0, nil
	}
	going := make([]eviction.Leaver, len(all))
	for i, x := range all {
		going[i] = eviction.Leaver{Pod: x.pod, Why: x.why}
	}
	have := make([]corev1.Pod, len(pods))
	for i, p := range pods {
		have[i] = *p
	}
	return r.Evictor.Evict(ctx, w, have, going)
}

// quiet notes that a Workload does not wait.
func (r *reconciler) quiet(w types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, w)
}

// news reports whether something was not said of a Workload yet, and takes it for said.
func (r *reconciler) news(w types.NamespacedName, why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, is := r.said[w]
	r.said[w] = why
	return !is || was != why
}

// say tells on the pod that has waited longest what all wait for, once that is longer than a gang
// takes to come together. It says when to look again.
func (r *reconciler) say(w types.NamespacedName, g gang.Gang, pods []*corev1.Pod, why string) time.Duration {
	var first *corev1.Pod
	since := g.AdmittedAt
	for _, p := range pods {
		if !waiting(p) {
			continue
		}
		if first == nil || p.CreationTimestamp.Time.Before(first.CreationTimestamp.Time) {
			first = p
		}
		if made := p.CreationTimestamp.Time; made.After(since) {
			since = made
		}
	}
	if first == nil {
		return 0
	}
	if left := since.Add(patience).Sub(r.Clock.Now()); left > 0 {
		return left
	}
	if r.news(w, why) {
		r.Recorder.Eventf(first, nil, corev1.EventTypeNormal, WaitingForNode, WaitingForNode, "It is told no node yet: %s", why)
	}
	return patience
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
