package webhook

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// queued is what the rules for all kinds of jobs need to know of one.
type queued struct {
	metav1.Object
	suspended bool
}

func labelPath(key string) *field.Path { return field.NewPath("metadata", "labels").Key(key) }

func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// validateLabels checks the labels by which a job is queued.
func validateLabels(o metav1.Object) field.ErrorList {
	var errs field.ErrorList
	if v, ok := o.GetLabels()[kueue.QueueNameLabel]; ok {
		for _, msg := range validation.IsDNS1123Subdomain(v) {
			errs = append(errs, field.Invalid(labelPath(kueue.QueueNameLabel), v, msg))
		}
	}
	if v, ok := o.GetLabels()[kueue.MaxExecTimeSecondsLabel]; ok {
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || n <= 0 {
			errs = append(errs, field.Invalid(labelPath(kueue.MaxExecTimeSecondsLabel), v, "use a whole number of seconds above 0"))
		}
	}
	return errs
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
		errs = append(errs, field.Invalid(labelPath(kueue.QueueNameLabel), to,
			fmt.Sprintf("cannot be removed where jobs have the default queue %q: name another queue", kueue.DefaultLocalQueueName)))
	}
	if before[kueue.MaxExecTimeSecondsLabel] != after[kueue.MaxExecTimeSecondsLabel] && (!was.suspended || !is.suspended) {
		errs = append(errs, field.Invalid(labelPath(kueue.MaxExecTimeSecondsLabel), after[kueue.MaxExecTimeSecondsLabel], suspendFirst))
	}
	switch from, to := before[kueue.PriorityClassLabel], after[kueue.PriorityClassLabel]; {
	case from != "" && to == "":
		errs = append(errs, field.Invalid(labelPath(kueue.PriorityClassLabel), to, "cannot be removed: name another WorkloadPriorityClass"))
	case from == "" && to != "" && !is.suspended:
		errs = append(errs, field.Invalid(labelPath(kueue.PriorityClassLabel), to, suspendFirst))
	}
	return errs
}

// checkLabels checks that the queue and the class that a job names exist, where
// they are not those it had before (was may be nil).
func (c Cluster) checkLabels(ctx context.Context, namespace string, was, is metav1.Object) (field.ErrorList, error) {
	var errs field.ErrorList
	for _, l := range []struct {
		key   string
		check func(string, *field.Path) (field.ErrorList, error)
	}{
		{kueue.QueueNameLabel, func(name string, at *field.Path) (field.ErrorList, error) {
			return c.checkQueue(ctx, namespace, name, at)
		}},
		{kueue.PriorityClassLabel, func(name string, at *field.Path) (field.ErrorList, error) {
			return c.checkWorkloadPriorityClass(ctx, name, at)
		}},
	} {
		name := is.GetLabels()[l.key]
		if name == "" || (was != nil && was.GetLabels()[l.key] == name) {
			continue
		}
		found, err := l.check(name, labelPath(l.key))
		if err != nil {
			return nil, err
		}
		errs = append(errs, found...)
	}
	return errs, nil
}

// hasDefaultQueue reports whether jobs of a namespace that name no queue get
// one.
func (c Cluster) hasDefaultQueue(ctx context.Context, namespace string) (bool, error) {
	key := client.ObjectKey{Namespace: namespace, Name: string(kueue.DefaultLocalQueueName)}
	return c.exists(ctx, key, &kueue.LocalQueue{})
}
