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

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
)

// leaderWorkerSet reads how many pods a group of a LeaderWorkerSet has, and what they
// ask for: none if it is not wanted any more. one is any of its pods, nil if it has none.
func (r *reconciler) leaderWorkerSet(ctx context.Context, namespace, name string, index int32, one *corev1.Pod) (*maker, error) {
	out := &maker{gvk: leaderworkerset.GVK(), name: name, whole: true}
	// The StatefulSet of the leaders knows of groups that there are for a while only.
	var leaders appsv1.StatefulSet
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &leaders); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read StatefulSet %s/%s: %w", namespace, name, err)
	}
	owner := metav1.GetControllerOf(&leaders)
	if owner == nil || owner.Kind != api.Kind {
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
	t, err := r.template(ctx, namespace, name, one.Labels[api.RevisionLabel])
	if err != nil || t == nil {
		return out, err
	}
	out.replicas, out.sets, out.later = t.Size, t.PodSets(name, index), t.Later()
	return out, nil
}

// template reads the template of a revision; nil if it is not kept.
func (r *reconciler) template(ctx context.Context, namespace, name, hash string) (*leaderworkerset.Template, error) {
	var l api.LeaderWorkerSet
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &l); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read LeaderWorkerSet %s/%s: %w", namespace, name, err)
	}
	if t := leaderworkerset.Of(&l); t.Hash() == hash {
		return t, nil
	}
	var kept appsv1.ControllerRevision
	key := types.NamespacedName{Namespace: namespace, Name: leaderworkerset.RevisionName(name, hash)}
	if err := r.Live.Get(ctx, key, &kept); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", key, err)
	}
	if kept.Name == "" {
		return nil, nil //nolint:nilnil // it is not kept
	}
	return leaderworkerset.Recorded(&kept)
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
	given := s.workload.Spec.PodSets[0].Template.Annotations[leaderworkerset.ShapeAnnotation]
	return slices.ContainsFunc(s.held(), func(p *corev1.Pod) bool {
		shape := p.Annotations[leaderworkerset.ShapeAnnotation]
		return shape != "" && shape != given && metav1.GetControllerOf(p) != nil
	})
}
