package job

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// validate checks what a new Job says of how many of its pods start, and where.
func validate(j *batchv1.Job) field.ErrorList {
	return append(validateParallelism(j), validateScheduling(j)...)
}

// validateChange is validate for a change: what was there before may stay.
func validateChange(was, is *batchv1.Job) field.ErrorList {
	return append(validateParallelismChange(was, is), validateSchedulingChange(was, is)...)
}

// validateParallelism checks the annotations by which a Job may start with
// fewer pods than it asks for.
func validateParallelism(j *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	pods := ptr.Deref(j.Spec.Parallelism, 1)
	if v, ok := j.Annotations[kueue.JobMinParallelismAnnotation]; ok {
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || n <= 0 || n >= int64(pods) {
			errs = append(errs, field.Invalid(annotationPath(kueue.JobMinParallelismAnnotation), v,
				fmt.Sprintf("use a whole number between 0 and %d, which is one less than spec.parallelism", pods-1)))
		}
	}
	if v, ok := j.Annotations[kueue.JobCompletionsEqualParallelismAnnotation]; ok {
		at := annotationPath(kueue.JobCompletionsEqualParallelismAnnotation)
		on, err := strconv.ParseBool(v)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, v, "use true or false"))
		case on && ptr.Deref(j.Spec.CompletionMode, "") != batchv1.IndexedCompletion:
			errs = append(errs, field.Invalid(at, v, "needs spec.completionMode Indexed"))
		case on && ptr.Deref(j.Spec.Completions, 0) != pods:
			errs = append(errs, field.Invalid(at, v, "needs spec.completions equal to spec.parallelism"))
		}
	}
	return errs
}

func validateParallelismChange(was, is *batchv1.Job) field.ErrorList {
	var errs field.ErrorList
	fewest := kueue.JobMinParallelismAnnotation
	same := kueue.JobCompletionsEqualParallelismAnnotation
	if was.Annotations[fewest] != is.Annotations[fewest] || was.Annotations[same] != is.Annotations[same] {
		errs = append(errs, validateParallelism(is)...)
	}
	if was.Annotations[same] != is.Annotations[same] && !suspended(was) && !suspended(is) {
		errs = append(errs, field.Forbidden(annotationPath(same), "cannot be changed while the Job runs"))
	}
	if _, partial := was.Annotations[fewest]; partial && !suspended(was) && !suspended(is) &&
		ptr.Deref(was.Spec.Parallelism, 1) != ptr.Deref(is.Spec.Parallelism, 1) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "parallelism"),
			"cannot be changed while the Job runs, since its admission set it"))
	}
	return errs
}

func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }
