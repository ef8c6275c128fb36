package simnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	podWorkers  = 16
	nodeWorkers = 4
	// Leases have workers of their own, many: what else is written waits longer than they may.
	leaseWorkers = 32
	// byNode indexes pods by the node that they are bound to.
	byNode = "node"
)

// simulator plays all simulated nodes.
type simulator struct {
	client kubernetes.Interface
	clock  clock.Clock
	scale  float64
	// fleet is what the nodes are like, port where their kubelets answer, 0 for nowhere.
	fleet Fleet
	port  int32

	pods, nodes, claims, volumes cache.SharedIndexInformer

	podQueue, nodeQueue, leaseQueue, claimQueue, volumeQueue workQueue

	mu sync.Mutex
	// written are pods as last written here, by key, until the watch shows them:
	// what comes next must build on that, or the API server refuses it.
	written map[string]*corev1.Pod
	// began holds when containers were started, exactly, by pod and container.
	began map[types.UID]map[string]time.Time
	// admitted are pods that were taken in and whose status may not have come
	// back yet, by the node that runs them.
	admitted map[types.UID]string
	// leases are the nodes' leases as they were last written.
	leases map[types.UID]*coordinationv1.Lease
	// heard: all nodes had leases at a time.
	heard bool
	// launchers are pods that need others, and needed by which a host is.
	launchers map[types.UID]launcher
	needed    map[string]map[types.UID]string
}

// workQueue holds keys of objects to look at.
type workQueue = workqueue.TypedRateLimitingInterface[string]

func newSimulator(cl kubernetes.Interface, c clock.Clock, o options) (*simulator, error) {
	s := &simulator{
		client: cl, clock: c, scale: o.scale, fleet: o.fleet, port: o.kubelets.port(),
		written: map[string]*corev1.Pod{}, began: map[types.UID]map[string]time.Time{},
		admitted: map[types.UID]string{}, leases: map[types.UID]*coordinationv1.Lease{},
		launchers: map[types.UID]launcher{}, needed: map[string]map[types.UID]string{},
		podQueue:    newQueue("pods"),
		nodeQueue:   newQueue("nodes"),
		leaseQueue:  newQueue("leases"),
		claimQueue:  newQueue("claims"),
		volumeQueue: newQueue("volumes"),
	}
	s.pods = informers.NewSharedInformerFactoryWithOptions(
		cl,
		0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
	).Core().V1().Pods().Informer()
	core := informers.NewSharedInformerFactory(cl, 0).Core().V1()
	s.nodes, s.claims, s.volumes = core.Nodes().
		Informer(),
		core.PersistentVolumeClaims().
			Informer(),
		core.PersistentVolumes().
			Informer()
	return s, errors.Join(s.watch(), s.watchVolumes())
}

func newQueue(name string) workQueue {
	const first, longest = 5 * time.Millisecond, 5 * time.Second
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, longest),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
}

// watch lets changes of pods and nodes reach the queues.
func (s *simulator) watch() error {
	_, err := s.pods.AddEventHandler(enqueue(s.podQueue, func(o any) {
		if p, ok := o.(*corev1.Pod); ok {
			s.forget(p.UID)
		}
	}))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err = s.pods.AddEventHandler(s.onHost()); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err = s.nodes.AddEventHandler(enqueue(s.nodeQueue, func(o any) {
		if n, ok := o.(*corev1.Node); ok {
			s.setLease(n.UID, nil)
		}
	})); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if _, err = s.nodes.AddEventHandler(enqueue(s.leaseQueue, func(any) {})); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if _, err = s.nodes.AddEventHandler(s.onReturn()); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	for _, i := range []cache.SharedIndexInformer{s.pods, s.nodes} {
		if err := i.SetTransform(dropManagedFields); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	err = s.pods.AddIndexers(cache.Indexers{byHost: hostIndex, byNode: func(o any) ([]string, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return []string{p.Spec.NodeName}, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	return nil
}

// onReturn lets the pods of a node go on when it appears or comes back to
// life: nothing else may happen to them.
func (s *simulator) onReturn() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if n, ok := o.(*corev1.Node); ok {
				s.enqueuePodsOf(n.Name)
			}
		},
		UpdateFunc: func(before, after any) {
			b, ok1 := before.(*corev1.Node)
			a, ok2 := after.(*corev1.Node)
			if ok1 && ok2 && !s.plays(b) && s.plays(a) {
				s.enqueuePodsOf(a.Name)
			}
		},
	}
}

// dropManagedFields saves memory: they are not read here.
func dropManagedFields(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	return o, nil
}

func enqueue(q workQueue, gone func(any)) cache.ResourceEventHandlerFuncs {
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			q.Add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o) },
		DeleteFunc: func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			gone(o)
			add(o)
		},
	}
}

// run simulates until ctx ends.
func (s *simulator) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{s.nodes, s.pods, s.claims, s.volumes} {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), s.nodes.HasSynced, s.pods.HasSynced) {
		for range leaseWorkers {
			wg.Go(func() { work(ctx, s.leaseQueue, s.syncLease) })
		}
		for range podWorkers {
			wg.Go(func() { work(ctx, s.podQueue, s.syncPod) })
		}
		for range nodeWorkers {
			wg.Go(func() { work(ctx, s.nodeQueue, s.syncNode) })
		}
		wg.Go(func() { work(ctx, s.claimQueue, s.provision) })
		wg.Go(func() { work(ctx, s.volumeQueue, s.reclaim) })
	}
	<-ctx.Done()
	for _, q := range []workQueue{s.podQueue, s.nodeQueue, s.leaseQueue, s.claimQueue, s.volumeQueue} {
		q.ShutDown()
	}
	wg.Wait()
}

// ready says whether the simulator knows its nodes and pods, and all nodes have been heard of once.
func (s *simulator) ready() bool {
	if !s.nodes.HasSynced() || !s.pods.HasSynced() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard {
		return true
	}
	for _, o := range s.nodes.GetStore().List() {
		if n, ok := o.(*corev1.Node); ok && s.plays(n) && s.leases[n.UID] == nil {
			return false
		}
	}
	s.heard = true
	return true
}

// work handles keys until the queue is shut down. A key whose handling fails
// comes back later.
func work(ctx context.Context, q workQueue, sync func(context.Context, string) (time.Duration, error)) {
	for {
		key, quit := q.Get()
		if quit {
			return
		}
		again, err := sync(ctx, key)
		switch {
		case err != nil:
			if !apierrors.IsConflict(err) && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Simulating", "key", key)
			}
			q.AddRateLimited(key)
		case again > 0:
			q.Forget(key)
			q.AddAfter(key, again)
		default:
			q.Forget(key)
		}
		q.Done(key)
	}
}

// syncPod brings one pod to where it should be now, and says when to look
// again.
func (s *simulator) syncPod(ctx context.Context, key string) (time.Duration, error) {
	pod, ok := get[*corev1.Pod](s.pods, key)
	if pod = s.newest(key, pod); !ok {
		return 0, nil
	}
	node, ok := get[*corev1.Node](s.nodes, pod.Spec.NodeName)
	if !ok || !s.plays(node) {
		return 0, nil
	}
	hosts, err := s.hostsOf(ctx, pod)
	if err != nil {
		return 0, err
	}
	now := s.clock.Now()
	v := Decide(
		Facts{
			Pod:     pod,
			Began:   s.startsOf(pod.UID),
			Hosts:   hosts,
			Now:     now,
			Scale:   s.scale,
			Refusal: s.admit(node, pod),
			BadGPUs: node.Annotations[AnnotationSimulate] == BadGPUs,
		},
	)
	if v.Status != nil {
		if err := s.writePod(ctx, key, pod, v.Status, now); err != nil {
			return 0, err
		}
	}
	if v.Remove {
		if err := s.removePod(ctx, pod); err != nil {
			return 0, err
		}
	}
	if v.Wake.IsZero() {
		return 0, nil
	}
	return max(v.Wake.Sub(s.clock.Now()), time.Millisecond), nil
}

func (s *simulator) writePod(
	ctx context.Context,
	key string,
	pod *corev1.Pod,
	st *corev1.PodStatus,
	now time.Time,
) error {
	p := pod.DeepCopy()
	p.Status = *st
	p, err := s.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	p.ManagedFields = nil
	s.remember(pod.UID, st, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[key] = p
	return nil
}

// newest is the pod as the watch shows it (nil if it does not), or as it was
// written here since.
func (s *simulator) newest(key string, pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.written[key]
	if w != nil && pod != nil && w.UID == pod.UID {
		if order, err := resourceversion.CompareResourceVersion(
			pod.ResourceVersion,
			w.ResourceVersion,
		); err == nil &&
			order < 0 {
			return w
		}
	}
	delete(s.written, key)
	return pod
}

func (s *simulator) removePod(ctx context.Context, pod *corev1.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	// A conflict means that another pod has this name now.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// admit says why the node cannot take the pod in; once it has, it always can.
func (s *simulator) admit(node *corev1.Node, pod *corev1.Pod) string {
	if Started(pod) || ended(pod) || pod.DeletionTimestamp != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.admitted[pod.UID]; ok {
		return ""
	}
	others, err := s.pods.GetIndexer().ByIndex(byNode, node.Name)
	if err != nil {
		return ""
	}
	var taken []*corev1.Pod
	for _, o := range others {
		p, ok := o.(*corev1.Pod)
		if !ok || p.UID == pod.UID || ended(p) {
			continue
		}
		if _, in := s.admitted[p.UID]; in || Started(p) {
			taken = append(taken, p)
		}
	}
	why := refusal(node, taken, pod)
	if why == "" {
		s.admitted[pod.UID] = node.Name
	}
	return why
}

// remember notes exactly when containers were started.
func (s *simulator) remember(pod types.UID, st *corev1.PodStatus, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cs := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if r := cs.State.Running; r != nil && r.StartedAt.Time.Equal(now) {
			if s.began[pod] == nil {
				s.began[pod] = map[string]time.Time{}
			}
			s.began[pod][cs.Name] = now
		}
	}
	if isTerminal(st.Phase) {
		delete(s.began, pod)
	}
}

func (s *simulator) startsOf(pod types.UID) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.began[pod])
}

func (s *simulator) forget(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.began, pod)
	delete(s.admitted, pod)
	s.forgetLauncher(pod)
}

// syncNode keeps a node's status right.
func (s *simulator) syncNode(ctx context.Context, key string) (time.Duration, error) {
	node, ok := get[*corev1.Node](s.nodes, key)
	if !ok || !s.plays(node) {
		return 0, nil
	}
	now := s.clock.Now()
	if patch := missingLabels(node, s.self(node, now)); patch != nil {
		if _, err := s.client.CoreV1().Nodes().Patch(
			ctx,
			node.Name,
			types.MergePatchType,
			patch,
			metav1.PatchOptions{},
		); err != nil {
			return 0, fmt.Errorf("label node %s: %w", node.Name, err)
		}
		return 0, nil // it is seen with its labels next
	}
	if st := nodeStatus(node, s.self(node, now), now); st != nil {
		n := node.DeepCopy()
		n.Status = *st
		if _, err := s.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			return 0, fmt.Errorf("write the status of node %s: %w", n.Name, err)
		}
	}
	return 0, nil
}

// syncLease renews a node's lease. When a node comes back, its pods go on.
func (s *simulator) syncLease(ctx context.Context, key string) (time.Duration, error) {
	node, ok := get[*corev1.Node](s.nodes, key)
	if !ok || !s.plays(node) {
		return 0, nil
	}
	return s.renew(ctx, node, s.clock.Now())
}

func (s *simulator) enqueuePodsOf(node string) {
	keys, err := s.pods.GetIndexer().IndexKeys(byNode, node)
	if err != nil {
		return
	}
	slices.Sort(keys)
	for _, k := range keys {
		s.podQueue.Add(k)
	}
}

// renew writes the lease if it is time to, and returns when it is again.
func (s *simulator) renew(ctx context.Context, node *corev1.Node, now time.Time) (time.Duration, error) {
	every := s.renewal(node)
	last := s.leaseOf(node)
	if last != nil {
		if age := now.Sub(last.Spec.RenewTime.Time); age < every {
			return every - age, nil
		}
	}
	lease, err := s.writeLease(ctx, node, last, now)
	if err != nil {
		s.setLease(node.UID, nil) // the next attempt reads it
		return 0, fmt.Errorf("renew the lease of node %s: %w", node.Name, err)
	}
	s.setLease(node.UID, lease)
	return every, nil
}

// writeLease renews the lease as it was last written, or as it is found.
func (s *simulator) writeLease(
	ctx context.Context,
	node *corev1.Node,
	last *coordinationv1.Lease,
	now time.Time,
) (*coordinationv1.Lease, error) {
	leases, lease := s.client.CoordinationV1().Leases(leaseNamespace), s.newLease(node, now)
	if last == nil {
		found, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		if err != nil {
			return nil, err
		}
		last = found
	}
	lease.ResourceVersion = last.ResourceVersion
	return leases.Update(ctx, lease, metav1.UpdateOptions{})
}

func (s *simulator) leaseOf(node *corev1.Node) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[node.UID]
}

// setLease notes a node's lease; nil forgets it.
func (s *simulator) setLease(node types.UID, l *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil {
		delete(s.leases, node)
		return
	}
	s.leases[node] = l
}

func get[T any](i cache.SharedIndexInformer, key string) (T, bool) {
	var zero T
	o, ok, err := i.GetIndexer().GetByKey(key)
	if err != nil || !ok {
		return zero, false
	}
	t, ok := o.(T)
	return t, ok
}
