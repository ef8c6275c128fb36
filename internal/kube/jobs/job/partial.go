package job

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// fewest is the smallest number of pods that a Job says it can start with, nil
// if it needs all of them. What is no number between none and all is refused by
// the webhook, and says nothing here.
func fewest(j *batchv1.Job) *int32 {
	n, err := strconv.ParseInt(j.Annotations[kueue.JobMinParallelismAnnotation], 10, 32)
	if err != nil || n <= 0 || n >= int64(pods(j)) {
		return nil
	}
	return new(int32(n))
}

// shrinks reports whether a Job may be started with fewer pods than it asks for.
func shrinks(j *batchv1.Job) bool {
	_, ok := j.Annotations[kueue.JobMinParallelismAnnotation]
	return ok
}

// resize gives a Job another number of pods, and of completions where its
// author wants them to be equal.
func resize(j *batchv1.Job, count int32) {
	j.Spec.Parallelism = new(count)
	if reducesWork(j) {
		j.Spec.Completions = new(count)
	}
}

// reducesWork reports whether a Job with fewer pods has fewer completions too.
func reducesWork(j *batchv1.Job) bool {
	same, _ := strconv.ParseBool(j.Annotations[kueue.JobCompletionsEqualParallelismAnnotation])
	return same
}

// ended is how many of a Job's pods ended and will not be replaced: pods that
// succeeded or, with indexes, those whose index is done with, well or not.
func ended(j *batchv1.Job) int32 {
	if ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion {
		return j.Status.Succeeded
	}
	done := podplan.ParseIndexes(j.Status.CompletedIndexes)
	if j.Status.FailedIndexes != nil {
		done = podplan.Union(done, podplan.ParseIndexes(*j.Status.FailedIndexes))
	}
	return done.Below(ptr.Deref(j.Spec.Completions, 0))
}
