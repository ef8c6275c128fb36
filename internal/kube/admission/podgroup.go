package admission

import (
	"context"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// PodGroup is how it stands with the PodGroup of Kubernetes by which other programs know the pods of a Workload as one
// gang. It has the name of the Workload, which controls it.
type PodGroup int

// The standings.
const (
	// NoPodGroup: there is none, and none comes.
	NoPodGroup PodGroup = iota
	// Awaited: it will be written.
	Awaited
	// Written: it is there, and pods may name it.
	Written
	// Taken: its name is another one's, which is left alone.
	Taken
)

// IsGang reports whether a PodGroup is written for a Workload, where they are: it is a group of pods', or a job's with
// more pods than one. Pods that a CompositePodGroup makes one are in PodGroups of their own.
func IsGang(w *kueue.Workload) bool {
	n := int32(0)
	for i := range w.Spec.PodSets {
		if w.Spec.PodSets[i].Template.Annotations[podmeta.PodGroupKindAnnotation] == podmeta.CompositeGroup {
			return false
		}
		n += w.Spec.PodSets[i].Count
	}
	return convert.OfGroup(w) || n > 1 && metav1.GetControllerOf(w) != nil
}

// PodGroupOf looks for the PodGroup of a Workload. One that the Job controller has made for the job takes its place.
// The cache must have JobIndex of PodGroups.
func PodGroupOf(ctx context.Context, c client.Reader, w *kueue.Workload, o Labels) (PodGroup, error) {
	if !o.PodGroups || !IsGang(w) {
		return NoPodGroup, nil
	}
	theirs, err := HasOtherPodGroup(ctx, c, w)
	if err != nil || theirs {
		return NoPodGroup, err
	}
	var g schedulingv1beta1.PodGroup
	switch err := c.Get(ctx, client.ObjectKeyFromObject(w), &g); {
	case apierrors.IsNotFound(err):
		return Awaited, nil
	case err != nil:
		return NoPodGroup, fmt.Errorf("read PodGroup %s/%s: %w", w.Namespace, w.Name, err)
	case OfWorkload(&g) != w.Name:
		return Taken, nil
	case g.DeletionTimestamp != nil || !metav1.IsControlledBy(&g, w):
		return Awaited, nil // it is an earlier one's, and goes
	}
	return Written, nil
}

// HasOtherPodGroup reports whether the job of a Workload has a PodGroup of its own, which the Job controller made.
func HasOtherPodGroup(ctx context.Context, c client.Reader, w *kueue.Workload) (bool, error) {
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return false, nil
	}
	var all schedulingv1beta1.PodGroupList
	if err := c.List(
		ctx,
		&all,
		client.InNamespace(w.Namespace),
		client.MatchingFields{JobIndex: string(owner.UID)},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return false, fmt.Errorf("list PodGroups of job %s/%s: %w", w.Namespace, owner.Name, err)
	}
	return len(all.Items) > 0, nil
}

// OfWorkload is the Workload for which a PodGroup was written, "" if somebody else wrote it.
func OfWorkload(g metav1.Object) string {
	owner := metav1.GetControllerOf(g)
	if owner == nil || owner.Kind != "Workload" || owner.Name != g.GetName() ||
		owner.APIVersion != kueue.GroupVersion.String() {
		return ""
	}
	return owner.Name
}
