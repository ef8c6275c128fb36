package podgroup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// open reads how many pods of a unit start together, where a PodGroup says it. Once quota
// was reserved, it is for as many as it was reserved for.
func (r *reconciler) open(ctx context.Context, s *facts) error {
	group := s.unit.OfPodGroup()
	if group == "" {
		return nil
	}
	if w := s.workload; w != nil && w.Status.Admission != nil {
		n := int32(0)
		for i := range w.Spec.PodSets {
			n += w.Spec.PodSets[i].Count
		}
		s.unit.AtLeast(n, "")
		return nil
	}
	if group == podmeta.SakkaraGroup {
		return r.openSakkara(ctx, s)
	}
	kind, known := podmeta.GangKind(group)
	if !known { // somebody changed it
		s.unit.AtLeast(1, fmt.Sprintf("PodGroups of %s are not known", group))
		return nil
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	if apimeta.IsNoMatchError(err) {
		s.unit.AtLeast(1, fmt.Sprintf("this cluster has no PodGroups of %s: create the pods anew", group))
		return nil
	}
	if err != nil {
		return fmt.Errorf("find PodGroups of %s: %w", group, err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	key := types.NamespacedName{Namespace: s.unit.Pods[0].Namespace, Name: s.unit.Name}
	err = r.Live.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		s.unit.AtLeast(1, fmt.Sprintf("there is no PodGroup %s of %s: create it", key.Name, group))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PodGroup %s: %w", key, err)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	least, err := pod.Least(group, spec)
	if err != nil {
		s.unit.AtLeast(1, fmt.Sprintf("PodGroup %s: %v", key.Name, err))
		return nil
	}
	s.unit.AtLeast(least, "")
	return nil
}
