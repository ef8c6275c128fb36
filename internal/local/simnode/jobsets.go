package simnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// byJobSet indexes pods that have an agent by their JobSet.
const byJobSet = "jobset"

// agentPause is when to look again at a pod whose JobSet is not seen yet.
const agentPause = 200 * time.Millisecond

func jobSetIndex(o any) ([]string, error) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Labels[jobSetKey] == "" || !hasAgent(p) {
		return nil, nil
	}
	return []string{p.Namespace + "/" + p.Labels[jobSetKey]}, nil
}

// jobSets are the JobSets that agents watch, from when there is a pod with one: the definition of JobSets may come later
// than the nodes.
type jobSets struct {
	client dynamic.Interface
	once   sync.Once
	wanted chan struct{}
	mu     sync.Mutex
	all    cache.SharedIndexInformer
}

// want has JobSets watched, and is what is seen of them; nil if nothing is yet.
func (j *jobSets) want() cache.SharedIndexInformer {
	if j.client == nil {
		return nil
	}
	j.once.Do(func() { close(j.awaited()) })
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all == nil || !j.all.HasSynced() {
		return nil
	}
	return j.all
}

// awaited is closed once somebody wants JobSets.
func (j *jobSets) awaited() chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wanted == nil {
		j.wanted = make(chan struct{})
	}
	return j.wanted
}

// watchJobSets watches JobSets once somebody wants them, until ctx ends.
func (s *simulator) watchJobSets(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.jobSets.awaited():
	}
	resource := schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	all := dynamicinformer.NewDynamicSharedInformerFactory(s.jobSets.client, 0).ForResource(resource).Informer()
	tell := func(o any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
		if err != nil {
			return
		}
		if pods, err := s.pods.GetIndexer().IndexKeys(byJobSet, key); err == nil {
			for _, pod := range pods {
				s.podQueue.Add(pod)
			}
		}
	}
	_, _ = all.AddEventHandler(cache.ResourceEventHandlerFuncs{ // it has not begun: there is no error
		AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell,
	})
	s.jobSets.mu.Lock()
	s.jobSets.all = all
	s.jobSets.mu.Unlock()
	all.RunWithContext(ctx)
}

// agentOf is what the agent of a pod knows. known is false while it is not seen what JobSets there are.
func (s *simulator) agentOf(pod *corev1.Pod) (f AgentFacts, known bool) {
	if !hasAgent(pod) {
		return f, true
	}
	all := s.jobSets.want()
	if all == nil {
		return f, s.jobSets.client == nil
	}
	s.mu.Lock()
	f, told := s.agents[pod.UID]
	s.mu.Unlock()
	if !told { // another process played it
		f = resumed(pod)
	}
	js, ok := get[*unstructured.Unstructured](all, pod.Namespace+"/"+pod.Labels[jobSetKey])
	if !ok {
		return f, true
	}
	f.Known = true
	strategy, _, _ := unstructured.NestedString(js.Object, "spec", "failurePolicy", "restartStrategy")
	_, off := js.GetAnnotations()[bypassKey]
	f.Bypass = off || strategy != "InPlaceRestart"
	f.Current = attemptIn(js, "currentInPlaceRestartAttempt")
	f.Previous = attemptIn(js, "previousInPlaceRestartAttempt")
	return f, true
}

func attemptIn(js *unstructured.Unstructured, field string) *int32 {
	n, found, err := unstructured.NestedInt64(js.Object, "status", field)
	if !found || err != nil {
		return nil
	}
	return new(int32(n)) //nolint:gosec // the API has it as such a number
}

// resumed is what an agent knew whose pod runs already: what it said, and that its worker runs.
func resumed(pod *corev1.Pod) (f AgentFacts) {
	n, err := parseAttempt(pod.Annotations[attemptKey])
	if err != nil || !Started(pod) {
		return f
	}
	for _, cs := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if c.Name != cs.Name || agentOf(c) == nil || cs.State.Running == nil {
				continue
			}
			f.Run, f.Claimed = cs.RestartCount, &n
			if cs.Started != nil && *cs.Started {
				f.Lifted = cs.State.Running.StartedAt.Time
			}
		}
	}
	return f
}

// actAgent writes what the agent of a pod says, and keeps what it knows from then on.
func (s *simulator) actAgent(
	ctx context.Context,
	key string,
	pod *corev1.Pod,
	f *AgentFacts,
	v *PodAction,
	now time.Time,
) error {
	if v.Claim == nil && !v.Lifted {
		return nil
	}
	next := *f
	if v.Claim != nil {
		p, err := s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"uid":%q,"annotations":{%q:"%d"}}}`, pod.UID, attemptKey, *v.Claim), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("write the attempt of pod %s: %w", key, err)
		}
		p.ManagedFields = nil
		next.Claimed, next.Run, next.Lifted = v.Claim, runOfAgent(p), time.Time{}
		s.mu.Lock()
		s.written[key] = p
		s.mu.Unlock()
	}
	if v.Lifted {
		next.Lifted, next.Run = now, v.run(pod)
	}
	s.mu.Lock()
	s.agents[pod.UID] = next
	s.mu.Unlock()
	s.podQueue.Add(key)
	return nil
}

// run is of which run of the agent a decision is.
func (v *PodAction) run(pod *corev1.Pod) int32 {
	p := *pod
	if v.Status != nil {
		p.Status = *v.Status
	}
	return runOfAgent(&p)
}

// runOfAgent is how often the agent of a pod was started again.
func runOfAgent(pod *corev1.Pod) int32 {
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if agentOf(c) == nil {
			continue
		}
		for _, cs := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if cs.Name == c.Name {
				return cs.RestartCount
			}
		}
	}
	return 0
}
