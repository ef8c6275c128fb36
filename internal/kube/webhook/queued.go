package webhook

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// queued is what the rules for all kinds of jobs need to know of one.
type queued struct {
	metav1.Object
	suspended bool
}

// validateLabelChanges checks what a job may change of how it is queued.
func validateLabelChanges(was, is queued, hasDefaultQueue bool) field.ErrorList {
	var errs field.ErrorList
	const suspendFirst = "cannot be changed while the job is not suspended: delete the job and submit it anew"
	before, after := was.GetLabels(), is.GetLabels()
	switch from, to := before[kueue.QueueNameLabel], after[kueue.QueueNameLabel]; {
	case from == to:
	case !is.suspended:
		errs = append(errs, field.Invalid(labelPath(kueue.QueueNameLabel), to, suspendFirst))
	case to == "" && hasDefaultQueue:
		errs = append(errs, field.Invalid(
			labelPath(kueue.QueueNameLabel),
			to,
			fmt.Sprintf(
				"cannot be removed where jobs have the default queue %q: name another queue",
				kueue.DefaultLocalQueueName,
			),
		))
	}
	if from, _ := jobs.PrebuiltAt(was); !is.suspended {
		if to, at := jobs.PrebuiltAt(is); from != to {
			errs = append(errs, field.Invalid(at, to, suspendFirst))
		}
	}
	if before[kueue.MaxExecTimeSecondsLabel] != after[kueue.MaxExecTimeSecondsLabel] &&
		(!was.suspended || !is.suspended) {
		errs = append(
			errs,
			field.Invalid(
				labelPath(kueue.MaxExecTimeSecondsLabel),
				after[kueue.MaxExecTimeSecondsLabel],
				suspendFirst,
			),
		)
	}
	cure := suspendFirst
	if is.suspended {
		cure = ""
	}
	return append(errs, classChange(before[kueue.PriorityClassLabel], after[kueue.PriorityClassLabel], cure)...)
}

// classChange checks a change of the WorkloadPriorityClass of anything that is queued: of one that runs
// a class may follow another, and it has none for good if it began without. cure says why it may get
// no first one, and what helps; "" lets it.
func classChange(from, to, cure string) field.ErrorList {
	switch {
	case from != "" && to == "":
		return field.ErrorList{
			field.Invalid(
				labelPath(kueue.PriorityClassLabel),
				to,
				"cannot be removed: name another WorkloadPriorityClass",
			),
		}
	case from == "" && to != "" && cure != "":
		return field.ErrorList{field.Invalid(labelPath(kueue.PriorityClassLabel), to, cure)}
	}
	return nil
}

// clears reports whether a change takes a job's queue away.
func clears(was, is metav1.Object) bool {
	return was.GetLabels()[kueue.QueueNameLabel] != "" && is.GetLabels()[kueue.QueueNameLabel] == ""
}

// joins reports whether a change gives a job its first queue: until then nobody may have judged it as one.
func joins(was, is metav1.Object) bool {
	return was.GetLabels()[kueue.QueueNameLabel] == "" && is.GetLabels()[kueue.QueueNameLabel] != ""
}

// news are warnings about an object that were not due before it was changed.
func news(was, is []string) []string {
	return slices.DeleteFunc(is, func(s string) bool { return slices.Contains(was, s) })
}

// missingOf tells what the queue and the class that a job names are missing,
// where they are not those it had before (was may be nil), and what else it asks
// for in vain. That refuses nothing:
// the order in which manifests are applied does not matter, and the user of a
// job that waits is told again by its Workload.
func (c Cluster) missingOf(ctx context.Context, namespace string, was, is metav1.Object) ([]string, error) {
	var out []string
	for _, l := range []struct {
		key  string
		tell func(name string) (string, error)
	}{
		{kueue.QueueNameLabel, func(name string) (string, error) { return c.missingQueue(ctx, namespace, name) }},
		{kueue.PriorityClassLabel, func(name string) (string, error) { return c.missingWorkloadPriorityClass(ctx, name) }},
	} {
		name := is.GetLabels()[l.key]
		if name == "" || (was != nil && was.GetLabels()[l.key] == name) {
			continue
		}
		told, err := l.tell(name)
		if err != nil {
			return nil, err
		}
		if told != "" {
			out = append(out, fmt.Sprintf("%s: %s", labelPath(l.key), told))
		}
	}
	return append(out, unheeded(was, is)...), nil
}

// keepsQueue reports whether a change takes a job's queue away in a namespace
// where jobs always have one.
func (c Cluster) keepsQueue(ctx context.Context, namespace string, was, is metav1.Object) (bool, error) {
	if !clears(was, is) {
		return false, nil
	}
	return c.hasDefaultQueue(ctx, namespace)
}

// hasDefaultQueue reports whether jobs of a namespace that name no queue get
// one.
func (c Cluster) hasDefaultQueue(ctx context.Context, namespace string) (bool, error) {
	key := client.ObjectKey{Namespace: namespace, Name: string(kueue.DefaultLocalQueueName)}
	return c.exists(ctx, key, &kueue.LocalQueue{})
}

// defaultClass is the WorkloadPriorityClass of jobs that name none.
const defaultClass = "default"

// addPriorityClass names the WorkloadPriorityClass called default in a job that
// names none, where there is one. Only the cache is asked: it is one question
// per job.
func (c Cluster) addPriorityClass(ctx context.Context, e *edit, o metav1.Object) error {
	if o.GetLabels()[kueue.PriorityClassLabel] != "" {
		return nil
	}
	err := c.Cached.Get(ctx, client.ObjectKey{Name: defaultClass}, &kueue.WorkloadPriorityClass{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look up WorkloadPriorityClass %s: %w", defaultClass, err)
	}
	return e.label(kueue.PriorityClassLabel, defaultClass)
}

// covers reports whether a job with this queue name waits for admission.
func (c Cluster) covers(ctx context.Context, scope jobs.Scope, namespace, queue string) (bool, error) {
	if scope.Namespaces == nil && (queue != "" || scope.WithoutQueue) {
		return true, nil
	}
	for _, reader := range []client.Reader{c.Cached, c.Live} {
		ns := &corev1.Namespace{}
		if err := reader.Get(ctx, client.ObjectKey{Name: namespace}, ns); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("look up namespace %s: %w", namespace, err)
		}
		if ns.Name != "" {
			return scope.Covers(ns, queue), nil
		}
	}
	return false, nil
}
