package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// groupStatusDelay gathers the changes of many pods into one write.
const groupStatusDelay = 250 * time.Millisecond

// groupStatus keeps the status of PodGroups: one write when it changes.
type groupStatus struct {
	pods   *podIndex
	groups cache.SharedIndexInformer
	client rest.Interface
	queue  workqueue.TypedRateLimitingInterface[gang.Key]
}

func newGroupStatus(pods *podIndex, groups cache.SharedIndexInformer, client rest.Interface) *groupStatus {
	return &groupStatus{
		pods: pods, groups: groups, client: client,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[gang.Key]()),
	}
}

// touched plans a look at the group of a pod.
func (s *groupStatus) touched(p *corev1.Pod) {
	if k, ok := gang.GroupOf(p); ok {
		s.queue.AddAfter(k, groupStatusDelay)
	}
}

// handler plans a look at new groups.
func (s *groupStatus) handler() cache.ResourceEventHandler {
	look := func(obj any) {
		if p, ok := obj.(*podgroup.PodGroup); ok {
			s.queue.AddAfter(gang.Key{Kind: gang.KindPodGroup, Namespace: p.Namespace, Name: p.Name}, groupStatusDelay)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look}
}

// run works until the context ends.
func (s *groupStatus) run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	for {
		k, quit := s.queue.Get()
		if quit {
			return
		}
		if err := s.write(ctx, k); err != nil {
			klog.FromContext(ctx).Error(err, "Write the status of a PodGroup", "podGroup", k.String())
			s.queue.AddRateLimited(k)
		} else {
			s.queue.Forget(k)
		}
		s.queue.Done(k)
	}
}

// write stores the status of one group if it has changed.
func (s *groupStatus) write(ctx context.Context, k gang.Key) error {
	obj, ok, err := s.groups.GetIndexer().GetByKey(k.Namespace + "/" + k.Name)
	if err != nil || !ok {
		return err
	}
	g, ok := obj.(*podgroup.PodGroup)
	if !ok {
		return nil
	}
	want := statusOf(g, s.pods.ofGroup(k), metav1.Now())
	if equality.Semantic.DeepEqual(g.Status, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": want})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	err = s.client.Patch(types.MergePatchType).Namespace(k.Namespace).Resource(podGroupResource).Name(k.Name).
		SubResource("status").Body(patch).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// statusOf counts the pods of a group and says where the group stands. Groups
// that have finished stay so, although their pods are deleted some day.
func statusOf(g *podgroup.PodGroup, pods []*corev1.Pod, now metav1.Time) podgroup.PodGroupStatus {
	if g.Status.Phase == podgroup.PodGroupFinished {
		return g.Status
	}
	st := podgroup.PodGroupStatus{OccupiedBy: g.Status.OccupiedBy, ScheduleStartTime: g.Status.ScheduleStartTime}
	live := int32(0)
	for _, p := range pods {
		if o := metav1.GetControllerOf(p); o != nil && st.OccupiedBy == "" {
			st.OccupiedBy = p.Namespace + "/" + o.Name
		}
		switch p.Status.Phase {
		case corev1.PodSucceeded:
			st.Succeeded++
		case corev1.PodFailed:
			st.Failed++
		case corev1.PodRunning:
			st.Running++
			live++
		case corev1.PodPending, corev1.PodUnknown:
			live++
		}
		if p.Spec.NodeName != "" {
			st.Scheduled++
		}
	}
	st.Phase = phaseOf(max(1, g.Spec.MinMember), live, st)
	if st.ScheduleStartTime.IsZero() && st.Phase != podgroup.PodGroupPending {
		start := metav1.NewTime(now.Truncate(time.Second))
		st.ScheduleStartTime = &start
	}
	return st
}

// phaseOf takes the first phase that fits, ends before beginnings.
func phaseOf(need, live int32, st podgroup.PodGroupStatus) podgroup.PodGroupPhase {
	over := st.Succeeded + st.Failed
	switch {
	case st.Succeeded >= need:
		return podgroup.PodGroupFinished
	case st.Failed > 0 && over+st.Running >= need:
		return podgroup.PodGroupFailed
	case st.Running+st.Succeeded >= need:
		return podgroup.PodGroupRunning
	case st.Scheduled >= need:
		return podgroup.PodGroupScheduled
	case st.Scheduled > 0:
		return podgroup.PodGroupScheduling
	case live+over >= need:
		return podgroup.PodGroupPreScheduling
	default:
		return podgroup.PodGroupPending
	}
}
