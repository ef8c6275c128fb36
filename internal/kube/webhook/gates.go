package webhook

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// longestGate is the longest name of a gate of an admission, as in the
// field managedBy of Jobs.
const longestGate = 63

// validateGates checks a list of the gates of an admission.
func validateGates(list string) field.ErrorList {
	if list == "" {
		return nil
	}
	at := annotationPath(kueue.AdmissionGatedByAnnotation)
	var errs field.ErrorList
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		switch {
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		case len(name) > longestGate:
			errs = append(errs, field.TooLong(at, name, longestGate))
		default:
			for _, e := range validation.IsDomainPrefixedPath(at, name) {
				e.Detail += ": give names like example.com/gate, separated by commas"
				errs = append(errs, e)
			}
		}
		seen[name] = true
	}
	return errs
}

// validateGateChange lets gates only become fewer.
func validateGateChange(was, is string) field.ErrorList {
	if is == "" || was == is {
		return nil
	}
	at := annotationPath(kueue.AdmissionGatedByAnnotation)
	if was == "" {
		return field.ErrorList{
			field.Forbidden(at, "cannot be added after the job was created: delete the job and submit it anew"),
		}
	}
	before := strings.Split(was, ",")
	for name := range strings.SplitSeq(is, ",") {
		if !slices.Contains(before, name) {
			return field.ErrorList{
				field.Forbidden(
					at,
					fmt.Sprintf("%s cannot be added after the job was created, names can only be removed", name),
				),
			}
		}
	}
	return nil
}

// gateRules check the gates of the admission of a job.
type gateRules struct {
	off bool // the annotation means nothing
}

func (r gateRules) create(o metav1.Object) field.ErrorList {
	if r.off {
		return nil
	}
	return validateGates(o.GetAnnotations()[kueue.AdmissionGatedByAnnotation])
}

func (r gateRules) update(was, is metav1.Object) field.ErrorList {
	if r.off {
		return nil
	}
	before, after := was.GetAnnotations()[kueue.AdmissionGatedByAnnotation], is.GetAnnotations()[kueue.AdmissionGatedByAnnotation]
	return append(validateGates(after), validateGateChange(before, after)...)
}

// startsAtOnce refuses what only jobs can have: to be after others, and a ComputeDomain. What else is queued
// would start without, and nobody would know that it should not have.
func startsAtOnce(o metav1.Object) (errs field.ErrorList) {
	for _, of := range []struct{ key, what string }{
		{kueue.AfterAnnotation, "wait for others"},
		{kueue.ComputeDomainAnnotation, "have a ComputeDomain of their own"},
	} {
		if o.GetAnnotations()[of.key] == "" {
			continue
		}
		errs = append(errs, field.Forbidden(
			annotationPath(of.key),
			"only jobs can "+of.what+": make it a Job or another kind of job, or remove the annotation",
		))
	}
	return errs
}

// unheededAfter tells the author of a job that is not queued that it starts at once; was is nil
// for a new one.
func unheededAfter(was, job jobs.Object) []string {
	after := job.GetAnnotations()[kueue.AfterAnnotation]
	if after == "" || was != nil && was.GetAnnotations()[kueue.AfterAnnotation] == after {
		return nil
	}
	return []string{
		fmt.Sprintf(
			"the annotation %s has no effect, because the job waits for no queue: it starts at once",
			kueue.AfterAnnotation,
		),
	}
}
