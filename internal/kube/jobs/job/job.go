// Package job translates batch/v1 Jobs. It owns how a Job is read, started and
// stopped as one gang of equal pods; it makes no decisions and no API calls.
package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// PodSet is the name of a Job's only pod set.
const PodSet = "main"

// Adapter translates batch/v1 Jobs; the zero value is ready.
type Adapter struct{}

var _ jobs.Adapter = Adapter{}

// GVK is batch/v1 Job.
func (Adapter) GVK() schema.GroupVersionKind { return batchv1.SchemeGroupVersion.WithKind("Job") }

// New returns an empty Job.
func (Adapter) New() jobs.Object { return &batchv1.Job{} }

// Ours implements jobs.Adapter.
func (Adapter) Ours(o jobs.Object) bool {
	j, ok := o.(*batchv1.Job)
	return ok && Ours(j)
}

// Ours reports whether a Job is left to the controller of Kubernetes, and so
// waits for us to start it.
func Ours(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName
}

// Read extracts the facts of a Job.
func (Adapter) Read(o jobs.Object) (jobs.Facts, error) {
	j, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	facts := jobs.Facts{
		Suspended: ptr.Deref(j.Spec.Suspend, false),
		PodSets: []kueue.PodSet{{
			Name:     PodSet,
			Count:    pods(j),
			MinCount: fewest(j),
			Template: *j.Spec.Template.DeepCopy(),
		}},
		Reclaimable: reclaimable(j),
		Active:      j.Status.Active != 0 || ptr.Deref(j.Status.Terminating, 0) != 0,
		Ready:       ready(j),
		Finished:    finished(j),
		EndsOnce:    ptr.Deref(j.Spec.Completions, 0) <= ptr.Deref(j.Spec.Parallelism, 1),
	}
	maps.DeleteFunc(
		facts.PodSets[0].Template.Labels,
		func(key, _ string) bool { return slices.Contains(ownLabels(), key) },
	)
	index := ""
	if ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
		index = IndexLabel
		facts.Indexes = map[kueue.PodSetReference]string{PodSet: index}
	}
	jobs.Near(facts.PodSets, index)
	outer(level(j), index).Around(facts.PodSets)
	return facts, nil
}

// Maker is what decides whether more pods of a Job may come.
func (Adapter) Maker(o jobs.Object) core.MakerState {
	j, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{
		Stopped:  ptr.Deref(j.Spec.Suspend, false),
		Ended:    finished(j) != nil,
		Deleting: j.DeletionTimestamp != nil,
	}
}

var _ jobs.Whole = Adapter{}

// PartOf denies all: a Job makes pods and nothing else.
func (Adapter) PartOf(jobs.Object, schema.GroupVersionKind, metav1.Object) jobs.Part {
	return jobs.Stranger
}

// Start returns the Job unsuspended, with what was assigned in its template.
func (Adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil {
		return nil, err
	}
	if !ptr.Deref(j.Spec.Suspend, false) {
		return j, nil
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf(
			"start job %s/%s: admission has %d pod sets, a Job has 1",
			j.Namespace,
			j.Name,
			len(infos),
		)
	}
	out := j.DeepCopy()
	if err := infos[0].Inject(&out.Spec.Template); err != nil {
		return nil, fmt.Errorf("start job %s/%s: %w", j.Namespace, j.Name, err)
	}
	if shrinks(j) {
		resize(out, infos[0].Count)
	}
	out.Spec.Suspend = new(false)
	return out, nil
}

// Stop returns the Job one step closer to suspended and restored: Kubernetes
// lets a template change only in a Job that is already suspended without
// active pods, so the first step suspends and the next one restores. A template
// that Start did not change, or that was restored, is its author's.
func (Adapter) Stop(o jobs.Object, original []kueue.PodSet) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil {
		return nil, err
	}
	out := j.DeepCopy()
	if !ptr.Deref(j.Spec.Suspend, false) {
		out.Spec.Suspend = new(true)
		return out, nil
	}
	if len(original) != 1 {
		return j, nil
	}
	if shrinks(j) {
		resize(out, original[0].Count)
	}
	if _, injected := j.Spec.Template.Labels[kueue.PodSetLabel]; !injected || !templateMutable(j) {
		return out, nil
	}
	was := original[0].Template
	out.Spec.Template.Labels = withOwn(was.Labels, j.Spec.Template.Labels)
	out.Spec.Template.Annotations = jobs.AuthoredAnnotations(was.Annotations, j.Spec.Template.Annotations)
	out.Spec.Template.Spec.NodeSelector = maps.Clone(was.Spec.NodeSelector)
	out.Spec.Template.Spec.Tolerations = slices.Clone(was.Spec.Tolerations)
	return out, nil
}

// ownLabels are the labels that the API server gives the template of a Job. They say
// which Job it is, and nothing about its pods.
func ownLabels() []string {
	return []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"}
}

// withOwn returns labels with the ones that the API server gave the template of a
// Job: a Workload lacks them.
func withOwn(labels, template map[string]string) map[string]string {
	out := maps.Clone(labels)
	for _, key := range ownLabels() {
		v, given := template[key]
		if _, known := out[key]; !given || known {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = v
	}
	return out
}

// templateMutable mirrors the API server's rule for scheduling directives of
// suspended Jobs (Kubernetes 1.36, KEP-5440).
func templateMutable(j *batchv1.Job) bool {
	return (j.Status.StartTime == nil || saysSuspended(j)) && j.Status.Active == 0
}

// saysSuspended reports whether the controller of a Job has seen that it is suspended.
func saysSuspended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
}

func cast(o jobs.Object) (*batchv1.Job, error) {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return nil, fmt.Errorf("read job: %T is not a batch/v1 Job", o)
	}
	return j, nil
}

// pods is the number of pods that run at the same time.
func pods(j *batchv1.Job) int32 {
	p := ptr.Deref(j.Spec.Parallelism, 1)
	return min(p, ptr.Deref(j.Spec.Completions, p))
}

func ready(j *batchv1.Job) bool {
	n := j.Status.Succeeded + ptr.Deref(j.Status.Ready, 0)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		n += int32(len(u.Succeeded)) //nolint:gosec // a Job has far fewer pods than 2^31
	}
	return n >= pods(j)
}

// reclaimable counts the pods that ended and will not be replaced: what
// parallelism exceeds the completions still missing. Which
// completions a waiting Job will have, whose admission may reduce them, is not
// known; so none of it counts as done.
func reclaimable(j *batchv1.Job) []kueue.ReclaimablePod {
	if ptr.Deref(j.Spec.Suspend, false) && shrinks(j) && reducesWork(j) {
		return nil
	}
	if ptr.Deref(j.Spec.Parallelism, 1) <= 1 || j.Spec.Completions == nil {
		return nil
	}
	done := ended(j)
	if done == 0 {
		return nil
	}
	left := max(*j.Spec.Completions-done, 0)
	if free := pods(j) - left; free > 0 {
		return []kueue.ReclaimablePod{{Name: PodSet, Count: free}}
	}
	return nil
}

func finished(j *batchv1.Job) *jobs.Outcome {
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return &jobs.Outcome{Success: true, Message: cmp.Or(c.Message, "Job finished successfully")}
		case batchv1.JobFailed:
			return &jobs.Outcome{Message: cmp.Or(c.Message, "Job failed")}
		case batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
			// Pods may still be ending.
		}
	}
	return nil
}
