package leaderworkerset

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// templatePath is where the template of a group is.
func templatePath() *field.Path { return field.NewPath("spec", "leaderWorkerTemplate") }

// Templates are the pod templates of a set.
func Templates(l *api.LeaderWorkerSet) []jobs.PodTemplate {
	var out []jobs.PodTemplate
	if t := l.Spec.LeaderWorkerTemplate.LeaderTemplate; t != nil {
		out = append(out, jobs.PodTemplate{Path: templatePath().Child("leaderTemplate").String(), Template: t})
	}
	return append(
		out,
		jobs.PodTemplate{
			Path:     templatePath().Child("workerTemplate").String(),
			Template: &l.Spec.LeaderWorkerTemplate.WorkerTemplate,
		},
	)
}

// Validate says what is wrong with a set.
func Validate(l *api.LeaderWorkerSet) field.ErrorList {
	errs := validateName(l)
	spec := &l.Spec.LeaderWorkerTemplate
	size := ptr.Deref(spec.Size, 1)
	if size < 1 {
		errs = append(
			errs,
			field.Invalid(templatePath().Child("size"), size, "use 1 or more: the leader is counted"),
		)
	}
	if r := Replicas(l); r < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), r, "use 0 or more"))
	} else if int64(r)*int64(size) > math.MaxInt32 {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("spec", "replicas"),
				r,
				fmt.Sprintf("with groups of %d there would be more pods than can be counted: use less", size),
			),
		)
	}
	errs = append(errs, validateParts(l, size)...)
	errs = append(errs, validateRollout(l)...)
	if n := l.Spec.NetworkConfig; n != nil && len(n.LeaderServicePorts) > 0 {
		errs = append(
			errs,
			field.Forbidden(field.NewPath("spec", "networkConfig", "leaderServicePorts"), fmt.Sprintf(
				"no Service of leaders alone is made: make one that selects %s: %s and %s: \"0\", and remove it",
				api.NameLabel,
				l.Name,
				api.WorkerIndexLabel,
			)),
		)
	}
	for i, v := range spec.VolumeClaimTemplates {
		if v.Name == "" {
			errs = append(
				errs,
				field.Required(
					templatePath().Child("volumeClaimTemplates").Index(i).Child("metadata", "name"),
					"name the volume as containers mount it",
				),
			)
		}
	}
	for _, t := range Templates(l) {
		if p := t.Template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
			errs = append(
				errs,
				field.NotSupported(
					field.NewPath(t.Path, "spec", "restartPolicy"),
					p,
					[]corev1.RestartPolicy{corev1.RestartPolicyAlways},
				),
			)
		}
		if t.Template.Spec.ActiveDeadlineSeconds != nil {
			errs = append(
				errs,
				field.Forbidden(
					field.NewPath(t.Path, "spec", "activeDeadlineSeconds"),
					"pods that serve have no end: remove it",
				),
			)
		}
	}
	return errs
}

// validateName refuses names of which those of the StatefulSets would be too long.
func validateName(l *api.LeaderWorkerSet) field.ErrorList {
	const longestSet = 52 // a label of its pods is 11 characters longer
	at := field.NewPath("metadata", "name")
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1035Label(l.Name) {
		errs = append(errs, field.Invalid(at, l.Name, "it is the name of a Service: "+msg))
	}
	// The names of pods, which are longer by a number at most, fit if those of sets do.
	leader := l.Name + "-" + strconv.Itoa(int(max(Replicas(l)-1, 0)))
	if len(errs) == 0 && len(leader) > longestSet {
		errs = append(
			errs,
			field.Invalid(
				at,
				l.Name,
				fmt.Sprintf("it is too long by %d characters for the StatefulSet %s", len(leader)-longestSet, leader),
			),
		)
	}
	return errs
}

// validateParts checks how groups are parted.
func validateParts(l *api.LeaderWorkerSet, size int32) field.ErrorList {
	p, at := l.Spec.LeaderWorkerTemplate.SubGroupPolicy, templatePath().Child("subGroupPolicy", "subGroupSize")
	if p == nil {
		if l.Annotations[api.SubGroupExclusiveTopologyAnnotation] != "" {
			return field.ErrorList{
				field.Forbidden(
					field.NewPath("metadata", "annotations").Key(api.SubGroupExclusiveTopologyAnnotation),
					"groups have no parts: set spec.leaderWorkerTemplate.subGroupPolicy, too",
				),
			}
		}
		return nil
	}
	n := ptr.Deref(p.SubGroupSize, 0)
	switch {
	case p.SubGroupSize == nil:
		return field.ErrorList{field.Required(at, "say how many pods are in a part")}
	case n < 1 || n > size:
		return field.ErrorList{
			field.Invalid(at, n, fmt.Sprintf("use a number from 1 to %d, the size of a group", size)),
		}
	case p.Type == api.LeaderExcluded && (size-1)%n != 0:
		return field.ErrorList{
			field.Invalid(
				at,
				n,
				fmt.Sprintf("the %d workers cannot be parted like this: use a divisor of their number", size-1),
			),
		}
	case size%n != 0 && (size-1)%n != 0:
		return field.ErrorList{
			field.Invalid(
				at,
				n,
				fmt.Sprintf(
					"neither %d pods nor %d workers can be parted like this: use a divisor of either number",
					size,
					size-1,
				),
			),
		}
	}
	return nil
}

// validateRollout checks how many groups are replaced at a time.
func validateRollout(l *api.LeaderWorkerSet) field.ErrorList {
	c := l.Spec.RolloutStrategy.RollingUpdateConfiguration
	if c == nil {
		return nil
	}
	at := field.NewPath("spec", "rolloutStrategy", "rollingUpdateConfiguration")
	var errs field.ErrorList
	if p := ptr.Deref(c.Partition, 0); p < 0 {
		errs = append(errs, field.Invalid(at.Child("partition"), p, "use 0 or more"))
	}
	zero := func(name string, v *intstr.IntOrString, otherwise int, most int) bool {
		n := otherwise
		if v != nil {
			var err error
			if n, err = intstr.GetScaledValueFromIntOrPercent(
				v,
				100,
				true,
			); err != nil || n < 0 ||
				v.Type == intstr.String && n > most {
				errs = append(
					errs,
					field.Invalid(
						at.Child(name),
						v.String(),
						fmt.Sprintf("use a number from 0, or a share from 0%% to %d%%", most),
					),
				)
				return false
			}
		}
		return n == 0
	}
	const all, many = 100, 100
	if zero("maxUnavailable", c.MaxUnavailable, 1, all) && zero("maxSurge", c.MaxSurge, 0, many) {
		errs = append(
			errs,
			field.Invalid(
				at.Child("maxUnavailable"),
				c.MaxUnavailable.String(),
				"no group could ever be replaced: set it or maxSurge to more than 0",
			),
		)
	} else if c.MaxSurge != nil {
		zero("maxSurge", c.MaxSurge, 0, many)
	}
	return errs
}

// ValidateChange says what of a change is wrong.
func ValidateChange(was, is *api.LeaderWorkerSet) field.ErrorList {
	var errs field.ErrorList
	if from, to := was.Labels[kueue.QueueNameLabel], is.Labels[kueue.QueueNameLabel]; from != to &&
		Replicas(was) > 0 {
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath("metadata", "labels").Key(kueue.QueueNameLabel),
				"cannot be changed while there are pods: scale to 0 first",
			),
		)
	}
	if !equality.Semantic.DeepEqual(
		was.Spec.LeaderWorkerTemplate.VolumeClaimTemplates,
		is.Spec.LeaderWorkerTemplate.VolumeClaimTemplates,
	) {
		errs = append(
			errs,
			field.Forbidden(templatePath().Child("volumeClaimTemplates"), "cannot be changed: create another set"),
		)
	}
	if Part(was) && Of(was).fingerprint() != Of(is).fingerprint() {
		errs = append(
			errs,
			field.Forbidden(templatePath(), "the job that this is a part of was admitted with it: change the job"),
		)
	}
	return errs
}
