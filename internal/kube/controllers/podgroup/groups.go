package podgroup

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// group reads how many pods a group of an object has, and what they ask for: none if it is not
// wanted any more. one is any of its pods, nil if it has none.
func (r *reconciler) group(
	ctx context.Context,
	k *jobs.GroupedKind,
	object types.NamespacedName,
	index int32,
	one *corev1.Pod,
) (*maker, error) {
	out := &maker{gvk: k.GVK, name: object.Name, whole: true}
	// The StatefulSet of the leaders knows of groups that there are for a while only.
	var leaders appsv1.StatefulSet
	if err := r.Live.Get(ctx, object, &leaders); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", object, err)
	}
	owner := metav1.GetControllerOf(&leaders)
	if owner == nil || owner.Kind != k.GVK.Kind {
		return out, nil
	}
	out.uid = owner.UID
	if leaders.DeletionTimestamp != nil || index >= ptr.Deref(leaders.Spec.Replicas, 1) {
		return out, nil
	}
	out.replicas = 1
	if one == nil {
		return out, nil
	}
	size, err := r.groupSize(ctx, k, object, index, one)
	if err != nil || size == nil {
		return out, err
	}
	out.replicas, out.sets, out.later = size.Pods, size.PodSets, size.Later
	return out, nil
}

// groupSize reads what a group asks for by the template of which one is a pod; nil if that is not kept.
func (r *reconciler) groupSize(
	ctx context.Context,
	k *jobs.GroupedKind,
	object types.NamespacedName,
	index int32,
	one *corev1.Pod,
) (*jobs.GroupSize, error) {
	o := k.New()
	if err := r.Client.Get(ctx, object, o); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read %s %s: %w", k.GVK.Kind, object, err)
	}
	size, name := k.Queueing.Size(o, object.Name, index, one)
	if size != nil {
		return size, nil
	}
	var kept appsv1.ControllerRevision
	key := types.NamespacedName{Namespace: object.Namespace, Name: name}
	if err := r.Live.Get(ctx, key, &kept); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", key, err)
	}
	if kept.Name == "" {
		return nil, nil //nolint:nilnil // it is not kept
	}
	return k.Queueing.Kept(&kept, object.Name, index, one)
}

// later are the pod sets of the unit for which the others do not wait.
func (s *facts) later() string {
	if s.maker == nil {
		return ""
	}
	return s.maker.later
}

// reshaped reports whether the pods of a group that waits ask for something else than
// what its Workload was given: its template changed.
func reshaped(s facts) bool {
	if !s.whole() {
		return false
	}
	given := s.workload.Spec.PodSets[0].Template.Annotations[jobs.GroupShapeAnnotation]
	return slices.ContainsFunc(s.held(), func(p *corev1.Pod) bool {
		shape := p.Annotations[jobs.GroupShapeAnnotation]
		return shape != "" && shape != given && metav1.GetControllerOf(p) != nil
	})
}
