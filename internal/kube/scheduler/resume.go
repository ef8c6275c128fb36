package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// resumeWait is how long other pods leave room, at most, to pods that go first.
const resumeWait = 10 * time.Second

// resumption finishes what an earlier process began. A scheduler that dies while
// it binds a group outside the queues leaves part of it on nodes; until the rest
// was tried once, no other pod takes the room that it had found for them. Pods of
// Workloads need not wait: their room is reserved by the plan. The zero value
// holds none.
type resumption struct {
	mu sync.Mutex
	// first are the pods that go first and have not been tried yet.
	first map[types.UID]gang.Key
	// held are the pods that were refused meanwhile, by namespace and name.
	held map[string]*corev1.Pod
}

// begin lets the unbound pods of groups go first that have bound ones. names are
// the scheduler names that are ours.
func (r *resumption) begin(pods []*corev1.Pod, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bound := map[gang.Key]bool{}
	for _, p := range pods {
		if k, ok := gang.KeyOf(
			p,
		); ok && k.Kind == gang.KindPodGroup && p.Spec.NodeName != "" &&
			p.DeletionTimestamp == nil {
			bound[k] = true
		}
	}
	r.first, r.held = map[types.UID]gang.Key{}, map[string]*corev1.Pod{}
	for _, p := range pods {
		waits := p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 &&
			slices.Contains(names, p.Spec.SchedulerName)
		if k, ok := gang.KeyOf(p); ok && bound[k] && waits {
			r.first[p.UID] = k
		}
	}
}

// refusal says why a pod has to wait, "" if it need not.
func (r *resumption) refusal(p *corev1.Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, goes := r.first[p.UID]; goes || len(r.first) == 0 {
		return ""
	}
	if k, ok := gang.KeyOf(p); ok && k.Kind == gang.KindWorkload {
		return ""
	}
	r.held[p.Namespace+"/"+p.Name] = p
	ahead := slices.MinFunc(slices.Collect(maps.Values(r.first)), func(a, b gang.Key) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return ahead.String() + " was being bound when the scheduler ended: the rest of it goes first"
}

// tried notes that a pod has a node, or found none, or is gone. After the last
// one it returns the pods that waited.
func (r *resumption) tried(uid types.UID) map[string]*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, goes := r.first[uid]; !goes {
		return nil
	}
	if delete(r.first, uid); len(r.first) > 0 {
		return nil
	}
	return r.end()
}

// end lets all go and returns the pods that waited.
func (r *resumption) end() map[string]*corev1.Pod {
	waited := r.held
	r.first, r.held = nil, nil
	return waited
}

// tried lets others go once the last of the pods that go first was tried.
func (p *gangPlugin) tried(uid types.UID) {
	if waited := p.reservations.resumed.tried(uid); len(waited) > 0 {
		p.handle.Activate(klog.Background(), waited)
	}
}

// resume has unfinished groups go first for a while.
func (p *process) resume(ctx context.Context) {
	var pods []*corev1.Pod
	for _, o := range p.pods.current.GetIndexer().List() {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	r := &p.reservations.resumed
	r.begin(pods, p.opts.SchedulerNames)
	timer := clock.RealClock{}.AfterFunc(resumeWait, func() {
		r.mu.Lock()
		waited := r.end()
		r.mu.Unlock()
		if plugin := p.waker.plugin(); plugin != nil && len(waited) > 0 {
			plugin.handle.Activate(klog.Background(), waited)
		}
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
}
