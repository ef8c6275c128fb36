package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/trim"
)

// Names of the indexes over pods.
const (
	byGang  = "mlbatch/gang"
	byGroup = "mlbatch/podgroup"
)

// podIndex finds the pods of a gang. The scheduler's own informer leaves
// finished pods out, so a second one keeps the little that is needed of them.
//
// A pod that ends goes from one to the other, and they are watched apart: either
// may be behind, for seconds after an API server died. A pod that is in neither may
// have ended, or be gone, or even have been bound without our seeing it. Until it is
// known which, it counts as last seen: another one would get its place that was made
// in its stead, before its maker noticed that it is one too many.
type podIndex struct {
	current, finished cache.SharedIndexInformer
	// ask reads a pod from the API server.
	ask func(namespace, name string) (*corev1.Pod, error)
	// after calls a function in a while.
	after func(time.Duration, func())

	// told are the pods that current told our handler of and that are not known to
	// have ended or to be gone, by UID.
	told cache.Indexer

	mu sync.Mutex
	// missed are those of them that have left current, and are not in finished yet.
	missed map[types.UID]bool
}

// askAfter is how long the informer of finished pods has to tell of one that left
// current before the API server is asked, and then between questions.
const askAfter = time.Second

// came notes a pod that current has.
func (x *podIndex) came(p *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.missed, p.UID)
	x.note(p)
}

// note keeps the last known state of a pod.
func (x *podIndex) note(p *corev1.Pod) {
	_ = x.told.Update(p) // fails only for what has no key, and pods have one
}

// left notes that a pod is not in current any more, and reports whether nothing of
// it is left to wait for. Otherwise it arrives in finished, or gone is called.
// mayBeBound says that it may have a node though it was last seen without.
func (x *podIndex) left(p *corev1.Pod, mayBeBound bool, gone func()) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	held := p.Spec.NodeName != "" || mayBeBound
	if p.DeletionTimestamp != nil || !held || x.isFinished(p) {
		x.forget(p)
		return true
	}
	x.missed[p.UID] = true
	x.after(askAfter, func() { x.look(p, gone) })
	return false
}

// look asks the API server what became of a pod that is missed, until it knows.
func (x *podIndex) look(p *corev1.Pod, gone func()) {
	if !x.misses(p) {
		return
	}
	live, err := x.ask(p.Namespace, p.Name)
	switch {
	case errors.Is(err, context.Canceled):
		return // so is the scheduler
	case apierrors.IsNotFound(err), err == nil && live.UID != p.UID:
		if x.arrived(p) {
			gone()
		}
		return
	case err == nil:
		x.mu.Lock()
		if x.missed[p.UID] {
			x.note(live)
		}
		x.mu.Unlock()
	}
	x.after(askAfter, func() { x.look(p, gone) })
}

func (x *podIndex) misses(p *corev1.Pod) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.missed[p.UID]
}

// vanished notes that a pod is gone.
func (x *podIndex) vanished(p *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(p)
}

// arrived notes that it is known what became of a pod, and reports whether it was
// missed.
func (x *podIndex) arrived(p *corev1.Pod) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.missed[p.UID] {
		return false
	}
	x.forget(p)
	return true
}

// forget drops a pod that has ended or is gone.
func (x *podIndex) forget(p *corev1.Pod) {
	delete(x.missed, p.UID)
	_ = x.told.Delete(p)
}

func (x *podIndex) isFinished(p *corev1.Pod) bool {
	o, known, err := x.finished.GetIndexer().GetByKey(p.Namespace + "/" + p.Name)
	f, is := o.(*corev1.Pod)
	return err == nil && known && is && f.UID == p.UID
}

func newPodIndex(
	ctx context.Context,
	client kubernetes.Interface,
	current cache.SharedIndexInformer,
) (*podIndex, error) {
	x := &podIndex{
		current: current, finished: finishedPods(client),
		told: cache.NewIndexer(uidOf, gangIndexers()), missed: map[types.UID]bool{},
		ask: func(namespace, name string) (*corev1.Pod, error) {
			return client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		after: func(d time.Duration, f func()) { clock.RealClock{}.AfterFunc(d, f) },
	}
	for _, inf := range []cache.SharedIndexInformer{x.current, x.finished} {
		if err := inf.AddIndexers(gangIndexers()); err != nil {
			return nil, fmt.Errorf("index pods by gang: %w", err)
		}
	}
	if err := x.current.SetTransform(trim.SharePods()); err != nil {
		return nil, fmt.Errorf("set up informer for pods: %w", err)
	}
	if err := x.finished.SetTransform(slimPod); err != nil {
		return nil, fmt.Errorf("set up informer for finished pods: %w", err)
	}
	return x, nil
}

// finishedPods watches the pods that the scheduler's informer leaves out.
func finishedPods(client kubernetes.Interface) cache.SharedIndexInformer {
	selector := fmt.Sprintf("status.phase!=%s,status.phase!=%s,status.phase!=%s",
		corev1.PodPending, corev1.PodRunning, corev1.PodUnknown)
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return pods.Watch(ctx, o)
		},
	}
	return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
}

// slimPod keeps of a finished pod whose it was, where it was and how it ended.
func slimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	p.ManagedFields = nil
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
	p.Status = corev1.PodStatus{Phase: p.Status.Phase}
	return p, nil
}

func gangIndexers() cache.Indexers {
	return cache.Indexers{byGang: indexBy(gang.KeyOf), byGroup: indexBy(gang.GroupOf)}
}

// uidOf is the key of pods where two of one name are two.
func uidOf(obj any) (string, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return "", fmt.Errorf("%T is no pod", obj)
	}
	return string(p.UID), nil
}

func indexBy(key func(*corev1.Pod) (gang.Key, bool)) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			if k, ok := key(p); ok {
				return []string{k.String()}, nil
			}
		}
		return nil, nil
	}
}

// OfGang lists the pods of a gang.
func (x *podIndex) OfGang(k gang.Key) []*corev1.Pod { return x.lookup(byGang, k) }

// ofGroup lists the pods with the label of a PodGroup, planned ones too.
func (x *podIndex) ofGroup(k gang.Key) []*corev1.Pod { return x.lookup(byGroup, k) }

// lookup joins both informers and the pods that are in neither. A pod that is just
// moving from one to the other may be seen by both; what is finished counts.
func (x *podIndex) lookup(index string, k gang.Key) []*corev1.Pod {
	var out []*corev1.Pod
	x.mu.Lock()
	defer x.mu.Unlock()
	known := map[types.UID]bool{}
	for _, store := range []cache.Indexer{x.finished.GetIndexer(), x.current.GetIndexer(), x.told} {
		for _, p := range indexed(store, index, k) {
			if !known[p.UID] {
				known[p.UID] = true
				out = append(out, p)
			}
		}
	}
	return out
}

func indexed(store cache.Indexer, index string, k gang.Key) []*corev1.Pod {
	objs, err := store.ByIndex(index, k.String())
	if err != nil {
		return nil // the index exists from the start
	}
	out := make([]*corev1.Pod, 0, len(objs))
	for _, o := range objs {
		if p, ok := o.(*corev1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}
