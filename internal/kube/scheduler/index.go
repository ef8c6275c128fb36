package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Names of the indexes over pods.
const (
	byGang  = "mlbatch/gang"
	byGroup = "mlbatch/podgroup"
)

// podIndex finds the pods of a gang. The scheduler's own informer leaves
// finished pods out, so a second one keeps the little that is needed of them.
//
// A pod that ends goes from one to the other, and they are watched apart: after an
// API server died one may be seconds behind. Until then the pod keeps its place, or
// another would get it that was made twice.
type podIndex struct {
	current, finished cache.SharedIndexInformer

	mu sync.Mutex
	// between are pods with a node that have left current without having been
	// deleted, and are not in finished yet.
	between map[types.UID]*corev1.Pod
}

// longestBetween is how long a pod is waited for that never comes: one that was
// deleted by force leaves without a word.
const longestBetween = 10 * time.Second

// left notes that a pod is not in current any more; gone is called if it does not
// come to be in finished.
func (x *podIndex) left(p *corev1.Pod, gone func()) {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isFinished(p) {
		return
	}
	x.between[p.UID] = p
	clock.RealClock{}.AfterFunc(longestBetween, func() {
		if x.arrived(p) {
			gone()
		}
	})
}

// arrived notes that a pod is between no more, and reports whether it was.
func (x *podIndex) arrived(p *corev1.Pod) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, was := x.between[p.UID]
	delete(x.between, p.UID)
	return was
}

func (x *podIndex) isFinished(p *corev1.Pod) bool {
	o, known, err := x.finished.GetIndexer().GetByKey(p.Namespace + "/" + p.Name)
	f, is := o.(*corev1.Pod)
	return err == nil && known && is && f.UID == p.UID
}

func newPodIndex(client kubernetes.Interface, current cache.SharedIndexInformer) (*podIndex, error) {
	x := &podIndex{current: current, finished: finishedPods(client), between: map[types.UID]*corev1.Pod{}}
	for _, inf := range []cache.SharedIndexInformer{x.current, x.finished} {
		if err := inf.AddIndexers(cache.Indexers{byGang: indexBy(KeyOf), byGroup: indexBy(groupOf)}); err != nil {
			return nil, fmt.Errorf("index pods by gang: %w", err)
		}
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

func indexBy(key func(*corev1.Pod) (Key, bool)) cache.IndexFunc {
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
func (x *podIndex) OfGang(k Key) []*corev1.Pod { return x.lookup(byGang, KeyOf, k) }

// ofGroup lists the pods with the label of a PodGroup, planned ones too.
func (x *podIndex) ofGroup(k Key) []*corev1.Pod { return x.lookup(byGroup, groupOf, k) }

// lookup joins both informers. A pod that is just moving from one to the other
// may be seen by both; what is finished counts.
func (x *podIndex) lookup(index string, of func(*corev1.Pod) (Key, bool), k Key) []*corev1.Pod {
	var out []*corev1.Pod
	x.mu.Lock()
	defer x.mu.Unlock()
	over := map[string]bool{}
	for _, obj := range indexed(x.finished, index, k) {
		over[string(obj.UID)] = true
		out = append(out, obj)
	}
	for _, obj := range indexed(x.current, index, k) {
		if !over[string(obj.UID)] {
			over[string(obj.UID)] = true
			out = append(out, obj)
		}
	}
	for _, p := range x.between { // the order of members says nothing
		if key, ok := of(p); ok && key == k && !over[string(p.UID)] {
			out = append(out, p)
		}
	}
	return out
}

func indexed(inf cache.SharedIndexInformer, index string, k Key) []*corev1.Pod {
	objs, err := inf.GetIndexer().ByIndex(index, k.String())
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
