package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// ValidateLabels checks the labels and annotations by which a job of any kind is queued.
func ValidateLabels(o metav1.Object) field.ErrorList {
	labels := field.NewPath("metadata", "labels")
	var errs field.ErrorList
	if v, ok := o.GetLabels()[kueue.QueueNameLabel]; ok {
		for _, msg := range validation.IsDNS1123Subdomain(v) {
			errs = append(errs, field.Invalid(labels.Key(kueue.QueueNameLabel), v, msg))
		}
	}
	if v, ok := o.GetLabels()[kueue.MaxExecTimeSecondsLabel]; ok {
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || n <= 0 {
			errs = append(
				errs,
				field.Invalid(labels.Key(kueue.MaxExecTimeSecondsLabel), v, "use a whole number of seconds above 0"),
			)
		}
	}
	if name, at := PrebuiltAt(o); name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(at, name, msg))
		}
	}
	errs = append(errs, ValidateRetryPolicy(o.GetAnnotations())...)
	list := o.GetAnnotations()[kueue.AfterAnnotation]
	if _, err := ParseDependencies(list, o.GetName()); err != nil {
		errs = append(
			errs,
			field.Invalid(field.NewPath("metadata", "annotations").Key(kueue.AfterAnnotation), list, err.Error()),
		)
	}
	if said, has := o.GetAnnotations()[kueue.StopNoticeAnnotation]; has {
		if d, err := time.ParseDuration(said); err != nil || d < time.Second {
			errs = append(errs, field.Invalid(
				field.NewPath("metadata", "annotations").Key(kueue.StopNoticeAnnotation),
				said, "use a duration of 1s or more, such as 60s; recovery.maxStopNotice of the configuration bounds it",
			))
		}
	}
	_, wrong := StepsOf(o)
	return append(errs, wrong...)
}

// PrebuiltAt is the name of a job's prebuilt Workload and where it says so.
func PrebuiltAt(o metav1.Object) (string, *field.Path) {
	name := Prebuilt(o)
	if o.GetAnnotations()[kueue.PrebuiltWorkloadLabel] == name {
		return name, field.NewPath("metadata", "annotations").Key(kueue.PrebuiltWorkloadLabel)
	}
	return name, field.NewPath("metadata", "labels").Key(kueue.PrebuiltWorkloadLabel)
}

// ValidateTemplate refuses pods of any kind, in a namespace ("" if it is not known yet), that would go
// around the queue, keep pods of others off nodes, or outlive an eviction for longer than the
// installation allows.
func (l Limits) ValidateTemplate(t PodTemplate, namespace string) field.ErrorList {
	spec, at := &t.Template.Spec, field.NewPath(t.Path, "spec")
	var errs field.ErrorList
	if spec.NodeName != "" {
		errs = append(errs, field.Forbidden(
			at.Child("nodeName"),
			fmt.Sprintf(
				"it goes around the scheduler: use nodeSelector {%s: %s} to ask for a node",
				corev1.LabelHostname,
				spec.NodeName,
			),
		))
	}
	errs = append(errs, ValidateAffinity(spec.Affinity, at.Child("affinity"), namespace)...)
	if list := t.Template.Finalizers; len(list) > 0 {
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath(t.Path, "metadata", "finalizers"),
				"they would keep pods that have to go: remove them",
			),
		)
	}
	if grace, most := ptr.Deref(
		spec.TerminationGracePeriodSeconds,
		0,
	), int64(
		l.Termination.Seconds(),
	); most > 0 &&
		grace > most {
		errs = append(errs, field.Invalid(
			at.Child("terminationGracePeriodSeconds"),
			grace,
			fmt.Sprintf(
				"an evicted job may keep its pods for %d seconds at most here (tenants.maxTerminationTime of the configuration): use less",
				most,
			),
		))
	}
	return errs
}

// ValidateAffinity refuses pods that would keep pods of other namespaces off the nodes, or whole zones,
// that they run in: what a pod says of others that it must not run beside holds for those
// that come later as well, whoever they belong to. Preferences harm nobody.
func ValidateAffinity(a *corev1.Affinity, at *field.Path, namespace string) field.ErrorList {
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	const cure = ": leave it out, then the term is about pods of this namespace, or put it among the preferred ones"
	var errs field.ErrorList
	for i, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		at := at.Child("podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution").Index(i)
		if t.NamespaceSelector != nil {
			errs = append(
				errs,
				field.Forbidden(at.Child("namespaceSelector"), "it would keep pods of other namespaces away"+cure),
			)
		}
		if slices.ContainsFunc(t.Namespaces, func(n string) bool { return namespace != "" && n != namespace }) {
			errs = append(
				errs,
				field.Forbidden(at.Child("namespaces"), "it would keep pods of other namespaces away"+cure),
			)
		}
	}
	return errs
}
