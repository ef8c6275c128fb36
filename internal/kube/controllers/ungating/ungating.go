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
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Index is the name of the cache index from a Workload's name to those of its pods that wait to be
// told their node, or to be bound to it. Where mlbatch's scheduler binds all pods it is empty.
const Index = "mlbatch.dev/waits-for-node"

// IndexWaiting returns the Workload of a pod that waits, for Index.
func IndexWaiting(o client.Object) []string {
	p, is := o.(*corev1.Pod)
	if !is || p.Spec.NodeName != "" || p.DeletionTimestamp != nil || convert.PodState(p).Ended ||
		p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	if !podmeta.Unplaced(p) && told(p) == "" {
		return nil
	}
	return []string{p.Annotations[kueue.WorkloadAnnotation]}
}

// patience is how long a gang may take until it is said what it waits for: its pods are made
// one after the other. As often it is looked whether it still does: of pods that mlbatch's
// scheduler binds nobody tells this controller.
const patience = 5 * time.Second

// atOnce is how many pods of a gang are told their nodes, or what they wait for, at the same time.
const atOnce = 16

// mostSaid is how many pods are told what they wait for before others have their turn, and
// betweenSaid the pause until the next are: a tenant may have any number of them.
const (
	mostSaid    = 128
	betweenSaid = time.Second
)

// Options are what the controller works with.
type Options struct {
	Client client.Client
	Clock  clock.PassiveClock
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
}

// SetupWithManager starts the controller. The cache must have Index and PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{Options: opts, told: map[types.NamespacedName]map[types.UID]string{}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("ungating").
		For(&kueue.Workload{}, builder.WithPredicates(replanned())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod)).
		WithOptions(fairqueue.Options()).
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

// ofPod leads to the Workload of a pod that another scheduler binds, or that its author has made
// wait for its node: nobody else may let it go.
func (r *reconciler) ofPod(_ context.Context, o client.Object) []reconcile.Request {
	p, is := o.(*corev1.Pod)
	if !is || r.Schedulers.Own(p.Spec.SchedulerName) && !podmeta.Unplaced(p) ||
		p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []reconcile.Request{
		{
			NamespacedName: types.NamespacedName{
				Namespace: p.Namespace,
				Name:      p.Annotations[kueue.WorkloadAnnotation],
			},
		},
	}
}

// Reconcile tells the pods of one Workload their nodes, as far as they may start.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	wait, err := r.pods(ctx, req.NamespacedName, Index)
	if err != nil {
		return reconcile.Result{}, err
	}
	earlier := r.unseen(req.NamespacedName, wait)
	if len(wait) == 0 {
		return reconcile.Result{}, nil
	}
	pods, err := r.pods(ctx, req.NamespacedName, r.PodIndex)
	if err != nil {
		return reconcile.Result{}, err
	}
	w := &kueue.Workload{}
	if err := r.Client.Get(ctx, req.NamespacedName, w, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	g, in := gang.FromWorkload(w), ranked(w)
	if len(in) > 0 && len(earlier) > 0 {
		return reconcile.Result{RequeueAfter: unseenPause}, nil
	}
	out := plan(g, pods, earlier, r.Schedulers, in)
	if err := r.release(ctx, req.NamespacedName, out.releases); err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.move(ctx, w, pods, out.strays)
	if err != nil {
		return reconcile.Result{}, err
	}
	if out.waits == "" || !g.Admitted {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	look, err := r.say(ctx, g, pods, out.waits)
	return reconcile.Result{RequeueAfter: sooner(again, look)}, err
}

// pods are those of a Workload that an index has. They belong to the cache.
func (r *reconciler) pods(ctx context.Context, w types.NamespacedName, index string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(
		ctx,
		&list,
		client.InNamespace(w.Namespace),
		client.MatchingFields{index: w.Name},
		client.UnsafeDisableDeepCopy,
	); err != nil {
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
		if node, is := r.told[w][p.UID]; is && podmeta.Unplaced(p) {
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
			node := x.node
			if x.rank != "" && r.Schedulers.Own(x.pod.Spec.SchedulerName) {
				node = ""
			}
			err := r.Client.Patch(ctx, placed(x.pod, node, x.rank), patch)
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
func (r *reconciler) move(
	ctx context.Context,
	w *kueue.Workload,
	pods []*corev1.Pod,
	all []stray,
) (time.Duration, error) {
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

// say tells on the pods that wait what they wait for, once that is longer than a gang takes to
// come together: in the condition in which a scheduler says it of pods that it looks at. It says
// when to look again.
func (r *reconciler) say(
	ctx context.Context,
	g gang.Gang,
	pods []*corev1.Pod,
	why string,
) (time.Duration, error) {
	since := g.AdmittedAt
	var wait []*corev1.Pod
	for _, p := range pods {
		if !waiting(p) {
			continue
		}
		wait = append(wait, p)
		if made := p.CreationTimestamp.Time; made.After(since) {
			since = made
		}
	}
	if left := since.Add(patience).Sub(r.Clock.Now()); left > 0 {
		return left, nil
	}
	group, failed, more := errgroup.Group{}, make([]error, len(wait)), false
	group.SetLimit(atOnce)
	writes := 0
	for n, p := range wait {
		out, changed := explained(p, why, r.Clock.Now())
		if !changed {
			continue
		}
		if writes++; writes > mostSaid {
			more = true
			break
		}
		group.Go(func() error {
			patch := client.StrategicMergeFrom(p.DeepCopy(), client.MergeFromWithOptimisticLock{})
			if err := r.Client.Status().Patch(
				ctx,
				out,
				patch,
			); err != nil && !apierrors.IsNotFound(err) &&
				!apierrors.IsConflict(err) {
				failed[n] = fmt.Errorf("tell pod %s/%s what it waits for: %w", p.Namespace, p.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // they fail each on its own
	if more {
		return betweenSaid, errors.Join(failed...)
	}
	return patience, errors.Join(failed...)
}

// explained returns a pod that says what it waits for, and whether it did not say so already.
func explained(p *corev1.Pod, why string, now time.Time) (out *corev1.Pod, changed bool) {
	i := slices.IndexFunc(
		p.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled },
	)
	if i >= 0 && p.Status.Conditions[i].Message == why {
		return p, false
	}
	out = p.DeepCopy()
	if i < 0 {
		i = len(out.Status.Conditions)
		out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{
			Type:               corev1.PodScheduled,
			Status:             corev1.ConditionFalse,
			Reason:             corev1.PodReasonSchedulingGated,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	out.Status.Conditions[i].Message = why
	return out, true
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
