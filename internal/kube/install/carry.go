package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// CarryOver brings what earlier versions kept of jobs in the field status.recovery of the jobs into
// JobRecoveries, before definitions are applied that do not have that field: with them, the API server
// shows nobody what it held. Of kinds whose definition is as it was left there is nothing to bring.
func (r *Record) CarryOver(
	ctx context.Context,
	c client.Client,
	definitions []*unstructured.Unstructured,
) error {
	due, own := r.due(definitions)
	if len(due) == 0 || own == nil {
		return nil
	}
	there := &metav1.PartialObjectMetadataList{}
	there.SetGroupVersionKind(definitionKind().GroupVersion().WithKind("CustomResourceDefinitionList"))
	if err := c.List(ctx, there); err != nil {
		return fmt.Errorf("list the definitions that there are: %w", err)
	}
	for i := range there.Items {
		k := due[there.Items[i].Name]
		if k == nil {
			continue
		}
		if err := r.carryKind(ctx, c, k, own); err != nil {
			return err
		}
	}
	return nil
}

// carryKind is CarryOver for jobs of a kind. own is the definition of JobRecoveries.
func (r *Record) carryKind(
	ctx context.Context,
	c client.Client,
	k *jobs.Kind,
	own *unstructured.Unstructured,
) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(k.ListGVK())
	err := c.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // that version is not served
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", k.Naming.Resource, err)
	}
	for i := range list.Items {
		job := &list.Items[i]
		o := carried(k, job)
		if o == nil {
			continue
		}
		if err := r.Put(ctx, c, own); err != nil { // once
			return fmt.Errorf("install the definition of JobRecoveries: %w", err)
		}
		if err := createOnceServed(ctx, c, o); err != nil {
			return fmt.Errorf(
				"carry over what is remembered of %s %s/%s: %w",
				k.GVK().Kind,
				job.GetNamespace(),
				job.GetName(),
				err,
			)
		}
	}
	return nil
}

// due are the kinds whose jobs are run here and whose definitions are about to be applied, by the names of
// these, and own is the definition of JobRecoveries.
func (r *Record) due(
	definitions []*unstructured.Unstructured,
) (due map[string]*jobs.Kind, own *unstructured.Unstructured) {
	operated := map[string]*jobs.Kind{}
	all := kinds.All()
	for i := range all {
		if all[i].Running.Operator != nil {
			operated[all[i].Naming.Resource+"."+all[i].GVK().Group] = &all[i]
		}
	}
	due = map[string]*jobs.Kind{}
	for _, d := range definitions {
		if d.GroupVersionKind() != definitionKind() {
			continue
		}
		name := d.GetName()
		switch k := operated[name]; {
		case name == recovery.Resource+"."+recovery.GroupVersion.Group:
			own = d
		case k != nil && !r.Holds(d):
			due[name] = k
		}
	}
	return due, own
}

// carried is the JobRecovery of a job that has the old field; nil if it has not.
func carried(k *jobs.Kind, job *unstructured.Unstructured) *unstructured.Unstructured {
	kept, _, err := unstructured.NestedMap(job.Object, "status", "recovery")
	if err != nil || len(kept) == 0 {
		return nil
	}
	delete(kept, "ready") // which the rest of the status says
	o := &unstructured.Unstructured{Object: kept}
	o.SetGroupVersionKind(recovery.GroupVersion.WithKind("JobRecovery"))
	o.SetNamespace(job.GetNamespace())
	o.SetName(string(job.GetUID()))
	o.SetLabels(map[string]string{recovery.JobLabel: string(job.GetUID())})
	o.SetAnnotations(map[string]string{recovery.CarriedAnnotation: job.GetResourceVersion()})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(job, k.GVK())})
	return o
}

// createOnceServed creates an object of a kind that was defined a moment ago. What is there already was
// written by somebody who knows more.
func createOnceServed(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	const pause, longest = 100 * time.Millisecond, time.Minute
	var last error
	err := wait.PollUntilContextTimeout(ctx, pause, longest, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, o.DeepCopy())
		switch {
		case last == nil || apierrors.IsAlreadyExists(last):
			return true, nil
		case apierrors.HasStatusCause(last, corev1.NamespaceTerminatingCause):
			return true, nil // the job goes, too
		case meta.IsNoMatchError(last) || apierrors.IsNotFound(last):
			return false, nil
		}
		return false, last
	})
	if err != nil && !errors.Is(err, last) {
		return errors.Join(err, last)
	}
	return err //nolint:wrapcheck // it is the API server's, or says how long it took
}
