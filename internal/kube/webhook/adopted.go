package webhook

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// adopted is the Workload that a new pod is counted with although its template does not say so;
// nil if there is none. Jobs that Kueue started go on under mlbatch with the templates that they
// have, which cannot be changed while they run: their controllers make pods that say nothing.
//
// A controller of Kubernetes, or an operator, is believed about which object the pod is of. That
// is the job that was admitted, or an object that an AppWrapper which was admitted has recorded as
// a component: owner references of objects are written by users.
func (h *podHandler) adopted(
	ctx context.Context,
	req admission.Request,
	p *corev1.Pod,
) (*kueue.Workload, error) {
	owner := metav1.GetControllerOf(p)
	if owner == nil || p.Annotations[kueue.WorkloadAnnotation] != "" {
		return nil, nil //nolint:nilnil // it is not
	}
	if !slices.Contains(kubeControllers(), req.UserInfo.Username) {
		operator, err := h.cluster.byOperator(ctx, req)
		if !operator || err != nil {
			return nil, err
		}
	}
	w, err := h.cluster.admitted(ctx, req.Namespace, owner.UID)
	if w != nil || err != nil {
		return w, err
	}
	name := p.Labels[aw.AppWrapperLabel]
	if name == "" {
		return nil, nil //nolint:nilnil // it is not
	}
	return h.cluster.admittedWith(ctx, req.Namespace, name, owner)
}

// admitted is the admitted Workload of a job, nil if there is none.
func (c Cluster) admitted(ctx context.Context, namespace string, job types.UID) (*kueue.Workload, error) {
	var all kueue.WorkloadList
	if err := c.Cached.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.MatchingLabels{kueue.JobUIDLabel: string(job)},
	); err != nil {
		return nil, fmt.Errorf("look for the Workload of job %s: %w", job, err)
	}
	for i := range all.Items {
		w := &all.Items[i]
		if owner := metav1.GetControllerOf(
			w,
		); owner != nil && owner.UID == job && convert.Admitted(w) && !convert.Evicted(w) &&
			!convert.Finished(w) {
			return w, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// admittedWith is the admitted Workload of an AppWrapper of which an object is a component.
func (c Cluster) admittedWith(
	ctx context.Context,
	namespace, wrapper string,
	part *metav1.OwnerReference,
) (*kueue.Workload, error) {
	var whole aw.AppWrapper
	if err := c.Cached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: wrapper}, &whole); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	gvk := schema.FromAPIVersionAndKind(part.APIVersion, part.Kind)
	component := &metav1.PartialObjectMetadata{}
	component.SetGroupVersionKind(gvk)
	err := c.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: part.Name}, component)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil //nolint:nilnil // it is gone, or may not be looked at: nobody vouches for it
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", part.Kind, namespace, part.Name, err)
	}
	if component.UID != part.UID || !metav1.IsControlledBy(component, &whole) ||
		(appwrapper.Adapter{}).PartOf(&whole, gvk, component) != jobs.Own {
		return nil, nil //nolint:nilnil // it only says so
	}
	return c.admitted(ctx, namespace, whole.UID)
}

// adopt writes on a pod whose it is.
func adopt(e *edit, p *corev1.Pod, w *kueue.Workload) error {
	if err := e.set(w.Name, "metadata", "annotations", kueue.WorkloadAnnotation); err != nil {
		return err
	}
	if set := appwrapper.PodSetOf(w, p, nil); set != "" {
		return e.label(kueue.PodSetLabel, set)
	}
	return nil
}
