package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
)

// node is the name of the only role of a job.
const node = "node"

func newSet(meta metav1.ObjectMeta) *jobset.JobSet {
	return &jobset.JobSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: jobset.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: *meta.DeepCopy(),
	}
}

// settled fills in what goes without saying, so that JobSets can be compared.
func settled(s *jobset.JobSet) *jobset.JobSet {
	for i := range s.Spec.ReplicatedJobs {
		j := &s.Spec.ReplicatedJobs[i]
		j.Replicas = new(ptr.Deref(j.Replicas, 1))
		in := &j.Template.Spec
		in.Parallelism = new(ptr.Deref(in.Parallelism, 1))
		if ptr.Deref(in.CompletionMode, batchv1.IndexedCompletion) == batchv1.IndexedCompletion {
			in.Completions = new(ptr.Deref(in.Completions, *in.Parallelism))
		}
		if ptr.Deref(in.CompletionMode, batchv1.IndexedCompletion) == batchv1.IndexedCompletion {
			in.CompletionMode = nil
		}
		if in.Template.Spec.RestartPolicy == "" {
			in.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}
	}
	if p := s.Spec.StartupPolicy; p != nil && p.StartupPolicyOrder == jobset.AnyOrder {
		s.Spec.StartupPolicy = nil
	}
	return s
}

func readJobSet(o runtime.Object, _ []runtime.Object) (*jobset.JobSet, error) {
	s, is := o.DeepCopyObject().(*jobset.JobSet)
	if !is || len(s.Spec.ReplicatedJobs) == 0 {
		return nil, errors.New("has no replicatedJobs")
	}
	s.Status = jobset.JobSetStatus{}
	return settled(s), nil
}

func writeJobSet(s *jobset.JobSet) ([]runtime.Object, error) { return []runtime.Object{s}, nil }

func readJob(o runtime.Object, _ []runtime.Object) (*jobset.JobSet, error) {
	j, is := o.DeepCopyObject().(*batchv1.Job)
	if !is {
		return nil, fmt.Errorf("is a %T", o)
	}
	s := newSet(j.ObjectMeta)
	s.Spec.Suspend, s.Spec.TTLSecondsAfterFinished, s.Spec.ManagedBy = j.Spec.Suspend, j.Spec.TTLSecondsAfterFinished, j.Spec.ManagedBy
	j.Spec.Suspend, j.Spec.TTLSecondsAfterFinished, j.Spec.ManagedBy = nil, nil, nil
	// Pods of a JobSet have an index if nothing is said, those of a Job do not.
	switch n := ptr.Deref(j.Spec.Parallelism, 1); {
	case j.Spec.CompletionMode != nil:
	case j.Spec.Completions == nil && n > 1, ptr.Deref(j.Spec.Completions, n) != n:
		j.Spec.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if t := &j.Spec.Template; t.Spec.Subdomain == j.Name && j.Name != "" { // found by the Service of its name
		t.Spec.Subdomain = ""
		replaceHost(t, j.Name+"-0."+j.Name, host(j.Name, node))
	}
	s.Spec.ReplicatedJobs = []jobset.ReplicatedJob{{Name: node, Template: batchv1.JobTemplateSpec{Spec: j.Spec}}}
	return settled(s), nil
}

// replaceHost changes where pods look for the first one; it reports whether any does.
func replaceHost(t *corev1.PodTemplateSpec, from, to string) bool {
	found := false
	for i := range t.Spec.Containers {
		for n := range t.Spec.Containers[i].Env {
			if e := &t.Spec.Containers[i].Env[n]; e.Value == from {
				e.Value, found = to, true
			}
		}
	}
	return found
}

// writeJob makes a Job and, if its pods have to find each other, the Service for it.
func writeJob(s *jobset.JobSet) ([]runtime.Object, error) {
	if n := len(s.Spec.ReplicatedJobs); n != 1 {
		return nil, fmt.Errorf("has %d kinds of pods, and a Job has one: use --to jobset", n)
	}
	r := &s.Spec.ReplicatedJobs[0]
	if n := ptr.Deref(r.Replicas, 1); n != 1 {
		return nil, fmt.Errorf("consists of %d Jobs: use --to jobset", n)
	}
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: *s.ObjectMeta.DeepCopy(),
		Spec:       *r.Template.Spec.DeepCopy(),
	}
	j.Spec.Suspend, j.Spec.TTLSecondsAfterFinished, j.Spec.ManagedBy = s.Spec.Suspend, s.Spec.TTLSecondsAfterFinished, s.Spec.ManagedBy
	if j.Spec.CompletionMode == nil {
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	if !replaceHost(&j.Spec.Template, host(s.Name, r.Name), s.Name+"-0."+s.Name) {
		return []runtime.Object{j}, nil
	}
	j.Spec.Template.Spec.Subdomain = s.Name
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{
			APIVersion: "v1",
			Kind:       "Service",
		},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{batchv1.JobNameLabel: s.Name},
		},
	}
	return []runtime.Object{service, j}, nil
}

// readTrainJob has the JobSet made that the job would run as.
func readTrainJob(o runtime.Object, others []runtime.Object) (*jobset.JobSet, error) {
	t, is := o.DeepCopyObject().(*trainer.TrainJob)
	if !is {
		return nil, fmt.Errorf("is a %T", o)
	}
	k := native.All().Find(trainer.GroupVersion.WithKind(trainer.TrainJobKind))
	ref := k.Queueing.Basis.Of(t)
	i := slices.IndexFunc(others, func(r runtime.Object) bool {
		meta, is := r.(metav1.Object)
		return is && isRuntime(r) && meta.GetName() == ref.Name &&
			r.GetObjectKind().GroupVersionKind().Kind == ref.Kind
	})
	if i < 0 {
		return nil, fmt.Errorf(
			"its %s %s, which says what it consists of, is not among the files: add it",
			ref.Kind,
			ref.Name,
		)
	}
	basis, _ := others[i].DeepCopyObject().(jobs.Object)
	plan, err := k.Running.Operator.Compile(k.Queueing.Basis.With(t, basis, jobs.Schedulers{}))
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	made, err := plan.Make[0](podplan.Member{Role: "jobset"}, &podplan.RetryState{}, nil)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	from, is := made.(*jobset.JobSet)
	if !is {
		return nil, fmt.Errorf("it makes a %T", made)
	}
	s := newSet(t.ObjectMeta)
	s.Labels, s.Annotations = joined(from.Labels, t.Labels), joined(from.Annotations, t.Annotations)
	s.Spec = *from.Spec.DeepCopy()
	s.Spec.Suspend = t.Spec.Suspend
	for i := range s.Spec.ReplicatedJobs { // which of them trains, says nothing elsewhere
		delete(s.Spec.ReplicatedJobs[i].Template.Labels, trainer.AncestorLabel)
		delete(s.Spec.ReplicatedJobs[i].Template.Spec.Template.Labels, trainer.AncestorLabel)
	}
	return settled(s), nil
}

// joined are two maps, the second of which wins; nil if there is nothing.
func joined(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	if len(out) == 0 {
		return nil
	}
	return out
}

// writeTrainJob makes a TrainJob, and a runtime of its name that is the JobSet.
func writeTrainJob(s *jobset.JobSet) ([]runtime.Object, error) {
	if s.Name == "" {
		return nil, errNoName
	}
	r := &trainer.TrainingRuntime{
		TypeMeta: metav1.TypeMeta{
			APIVersion: trainer.GroupVersion.String(),
			Kind:       trainer.TrainingRuntimeKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace},
	}
	r.Spec.Template.Spec = *s.Spec.DeepCopy()
	r.Spec.Template.Spec.Suspend = nil
	t := &trainer.TrainJob{
		TypeMeta: metav1.TypeMeta{
			APIVersion: trainer.GroupVersion.String(),
			Kind:       trainer.TrainJobKind,
		},
		ObjectMeta: *s.ObjectMeta.DeepCopy(),
		Spec: trainer.TrainJobSpec{
			RuntimeRef: trainer.RuntimeRef{
				APIGroup: new(trainer.GroupVersion.Group),
				Kind:     new(trainer.TrainingRuntimeKind),
				Name:     s.Name,
			},
			Suspend: s.Spec.Suspend,
		},
	}
	return []runtime.Object{r, t}, nil
}

// errNoName is about jobs whose pods find each other by it.
var errNoName = errors.New(
	"has no name, by which its pods would find each other: give it one instead of generateName",
)
