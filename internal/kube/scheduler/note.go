package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// noteAfter is how long a pod is held back before its condition says so. Most
// are held for an instant, and a write for each would cost more than it tells.
const noteAfter = 2 * time.Second

// noter writes on pods that are held out of the queue what they wait for: the
// framework is silent about them. It also writes what planned nodes answered pods.
type noter struct {
	reservations *Reservations
	client       kubernetes.Interface
	pods         corelisters.PodLister
	queue        workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// ours tells whether a scheduler name is answered by this process.
	ours func(schedulerName string) bool
	mu   sync.Mutex
	// answers are what planned nodes answered pods, until it is written.
	answers map[types.NamespacedName]answer
}

func newNoter(
	reservations *Reservations,
	client kubernetes.Interface,
	pods corelisters.PodLister,
	ours func(string) bool,
) *noter {
	return &noter{
		reservations: reservations,
		client:       client,
		pods:         pods,
		ours:         ours,
		answers:      map[types.NamespacedName]answer{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName](),
		),
	}
}

// touched plans a look at a pod that may be held back.
func (n *noter) touched(p *corev1.Pod) {
	if _, ok := gang.KeyOf(
		p,
	); ok && p.Spec.NodeName == "" && p.DeletionTimestamp == nil &&
		n.ours(p.Spec.SchedulerName) {
		n.queue.AddAfter(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, noteAfter)
	}
}

// run works until the context ends.
func (n *noter) run(ctx context.Context) {
	defer context.AfterFunc(ctx, n.queue.ShutDown)()
	for {
		name, quit := n.queue.Get()
		if quit {
			return
		}
		if err := n.note(ctx, name); err != nil {
			klog.FromContext(ctx).Error(err, "Write why a pod is held back", "pod", name)
			n.queue.AddRateLimited(name)
		} else {
			n.queue.Forget(name)
		}
		n.queue.Done(name)
	}
}

// note writes the reason on one pod if it is still held back and the reason is
// not there yet. It looks again later: the reason may change without any event
// on the pod.
func (n *noter) note(ctx context.Context, name types.NamespacedName) error {
	if err := n.tellAnswer(ctx, name); err != nil {
		return err
	}
	pod, err := n.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil ||
		len(pod.Spec.SchedulingGates) > 0 {
		return nil //nolint:nilerr // a pod that is gone needs no note
	}
	k, ok := gang.KeyOf(pod)
	if !ok {
		return nil
	}
	v := n.reservations.look(k).decision
	if v.Act != gang.Hold {
		return nil
	}
	n.queue.AddAfter(name, 5*noteAfter)
	if noted(pod, v.Why) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse,
			"reason": corev1.PodReasonSchedulingGated, "message": v.Why,
			"lastTransitionTime": metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode condition: %w", err)
	}
	_, err = n.client.CoreV1().
		Pods(name.Namespace).
		Patch(ctx, name.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another pod of that name, or none: nothing to say
	}
	return err
}

func noted(pod *corev1.Pod, why string) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Message == why
		}
	}
	return false
}
