package podmeta

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Role is the name of a pod's pod set: a fingerprint of what it asks of the cluster, with the group within its PodGroup
// that it is in. Pods of a group with the same one are of one.
func Role(p *corev1.Pod) string {
	hash := jobs.Fingerprint(&p.Spec)
	group, _ := Named(p)
	within := p.Labels[SubGroupLabel]
	if group != KAIGroup || within == "" {
		return hash
	}
	return RoleWithin(within, hash)
}

// RoleWithin is the role of a pod within the group that it is in (Within), by what it would be otherwise.
func RoleWithin(within, hash string) string {
	if name := within + "-" + hash; len(validation.IsDNS1123Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(within + "/" + hash))
	return hex.EncodeToString(sum[:])[:roleLength]
}

// RoleWithout is what RoleWithin made a role of a pod out of, by the group and the pod; a role that it did not make, or of
// which that cannot be told, stays.
func RoleWithout(within, role string, spec *corev1.PodSpec) string {
	if own, is := strings.CutPrefix(role, within+"-"); is && own != "" {
		return own
	}
	if own := jobs.Fingerprint(spec); RoleWithin(within, own) == role {
		return own
	}
	return role
}

// roleLength is the length of the name of a pod set that says nothing to people.
const roleLength = 10

// Validate checks what a new pod says of its group. counted: a controller knows how
// many pods the group has.
func Validate(p metav1.Object, counted bool) field.ErrorList {
	var errs field.ErrorList
	notes, at := p.GetAnnotations(), field.NewPath("metadata", "annotations")
	name, grouped := p.GetLabels()[kueue.PodGroupNameLabel]
	if grouped {
		where := field.NewPath("metadata", "labels").Key(kueue.PodGroupNameLabel)
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(where, name, msg))
		}
	}
	total, says := notes[kueue.PodGroupTotalCountAnnotation]
	where := at.Key(kueue.PodGroupTotalCountAnnotation)
	switch n, err := strconv.ParseInt(total, 10, 32); {
	case says && !grouped:
		errs = append(
			errs,
			field.Forbidden(
				where,
				fmt.Sprintf("it is for pods of a group: set the label %s, too", kueue.PodGroupNameLabel),
			),
		)
	case says && (err != nil || n < 1):
		errs = append(
			errs,
			field.Invalid(where, total, "use the number of pods of the group, a whole number from 1"),
		)
	case grouped && !says && !counted && notes[PodGroupKindAnnotation] == "":
		errs = append(errs, field.Required(where, "say how many pods the group has, all pods the same"))
	}
	for _, key := range []string{kueue.PodGroupFastAdmissionAnnotation, kueue.PodGroupServingAnnotation, kueue.RetriableInGroupAnnotation} {
		if v, ok := notes[key]; ok && v != "true" && v != "false" {
			errs = append(errs, field.NotSupported(at.Key(key), v, []string{"true", "false"}))
		}
	}
	if label := notes[kueue.PodGroupPodIndexLabelAnnotation]; label != "" {
		for _, msg := range validation.IsQualifiedName(label) {
			errs = append(errs, field.Invalid(at.Key(kueue.PodGroupPodIndexLabelAnnotation), label, msg))
		}
	}
	return errs
}

// ValidateChange checks what becomes of a managed pod that a user changes.
func ValidateChange(was, is *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	if Gated(was) && !Gated(is) {
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath("spec", "schedulingGates"),
				"the gate "+kueue.AdmissionGate+" goes when the pod is admitted: leave it",
			),
		)
	}
	errs = append(errs, ValidatePlaced(was, is)...)
	if Kept(was) && !Kept(is) {
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath("metadata", "finalizers"),
				"the finalizer "+kueue.PodFinalizer+" goes when the pod was counted: leave it",
			),
		)
	}
	labels, annotations := kept(was)
	for _, key := range labels {
		if was.Labels[key] != is.Labels[key] {
			errs = append(
				errs,
				field.Forbidden(
					field.NewPath("metadata", "labels").Key(key),
					"it cannot be changed: create the pod anew",
				),
			)
		}
	}
	for _, key := range annotations {
		if was.Annotations[key] != is.Annotations[key] {
			errs = append(
				errs,
				field.Forbidden(
					field.NewPath("metadata", "annotations").Key(key),
					"it cannot be changed: create the pod anew",
				),
			)
		}
	}
	return errs
}

// ValidatePlaced checks that a pod which waits to be told its node does not go without.
func ValidatePlaced(was, is *corev1.Pod) field.ErrorList {
	if !Unplaced(was) || Unplaced(is) {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(
			field.NewPath("spec", "schedulingGates"),
			"the gate "+kueue.TopologyGate+" goes when the pod has its node: leave it",
		),
	}
}

// ValidateCounted checks that a pod which counts against the quota of a job stays what its
// controller knows it as. One that was forgotten would outlive the job's eviction and keep
// the quota, whoever waits for it.
func ValidateCounted(was, is *corev1.Pod) field.ErrorList {
	if was.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	const why = "the controller of the job knows the pod by it: leave it as it is"
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(metav1.GetControllerOf(was), metav1.GetControllerOf(is)) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "ownerReferences"), why))
	}
	for _, key := range slices.Sorted(maps.Keys(was.Labels)) {
		if is.Labels[key] != was.Labels[key] {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(key), why))
		}
	}
	return errs
}

// kept are the labels and annotations of a managed pod that are not its author's to
// change. A pod that waits may still go to another queue.
func kept(p *corev1.Pod) (labels, annotations []string) {
	labels, annotations = Injected()
	labels = append(labels, kueue.ManagedLabel, kueue.PodGroupNameLabel, SubGroupLabel, jobs.UserLabel)
	if !Gated(p) {
		labels = append(labels, kueue.QueueNameLabel)
	}
	return labels, append(
		annotations,
		kueue.RoleHashAnnotation,
		kueue.PodGroupTotalCountAnnotation,
		kueue.PodGroupFastAdmissionAnnotation,
		kueue.PodGroupServingAnnotation,
		kueue.PodSuspendingParentAnnotation,
		kueue.SubmittedAtAnnotation,
		PodGroupKindAnnotation,
		jobs.UserLabel,
	)
}

// KeptEntries are the labels and annotations that stay as they are in every managed pod.
func KeptEntries() (labels, annotations []string) {
	return kept(
		&corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: kueue.AdmissionGate}}}},
	)
}

// Guarded is true, in the API server's CEL, of a change of a pod that touches what
// ValidateChange keeps.
func Guarded() string {
	const gate = "spec.?schedulingGates.orValue([]).exists(g, g.name == '" + kueue.AdmissionGate + "')"
	const place = "spec.?schedulingGates.orValue([]).exists(g, g.name == '" + kueue.TopologyGate + "')"
	const finalizer = "metadata.?finalizers.orValue([]).exists(f, f == '" + kueue.PodFinalizer + "')"
	const counted = "oldObject.metadata.?annotations[?'" + kueue.WorkloadAnnotation + "'].orValue('') != ''"
	const forgotten = "object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([]) || " +
		"oldObject.metadata.?labels.orValue({}).exists(k, object.metadata.?labels[?k].orValue('') != oldObject.metadata.labels[k])"
	rules := []string{
		"oldObject." + gate + " && !object." + gate,
		"oldObject." + place + " && !object." + place,
		"oldObject." + finalizer + " && !object." + finalizer,
		counted + " && (" + forgotten + ")",
	}
	labels, annotations := kept(&corev1.Pod{})
	labels = append(labels, kueue.PriorityClassLabel) // whether it may depends on what it is
	for _, part := range []struct {
		field string
		keys  []string
	}{{"labels", labels}, {"annotations", annotations}} {
		for _, key := range part.keys {
			at := "metadata.?" + part.field + "[?'" + key + "'].orValue('')"
			rules = append(rules, "object."+at+" != oldObject."+at)
		}
	}
	return strings.Join(rules, " || ")
}
