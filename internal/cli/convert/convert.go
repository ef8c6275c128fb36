// Package convert turns jobs of one kind into another that says the same. All kinds are read as
// a JobSet (hub), and written from one; what a JobSet made of the result does not say as that
// of the original is lost, and told with its path. So nothing can be lost without being told.
//
// Pods are told about each other in the words of torchrun, whatever the kind (contract.go).
package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// Loss is something of the original that the result does not say.
type Loss struct {
	// Path of the field, in the original if it has it, or else in the JobSet that it stands for.
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Converted is what became of a document.
type Converted struct {
	// Document is the original.
	Document manifest.Document
	// Objects are the result: the job, before it what it needs. Of a document that is no such
	// job they are nil: it stays as it is.
	Objects []map[string]any
	Losses  []Loss
}

// form is a kind that can be read and written.
type form struct {
	kind string
	read func(o runtime.Object, others []runtime.Object) (*jobset.JobSet, error)
	// write makes objects of a JobSet, the job last.
	write func(s *jobset.JobSet) ([]runtime.Object, error)
	// whole is true if reading leaves nothing out.
	whole bool
}

func forms() []form {
	return []form{
		{"JobSet", readJobSet, writeJobSet, true},
		{"Job", readJob, writeJob, false},
		{"PyTorchJob", readPyTorchJob, writePyTorchJob, false},
		{"TrainJob", readTrainJob, writeTrainJob, true},
	}
}

// Targets are the kinds that there are, as people type them.
func Targets() []string {
	var out []string
	for _, f := range forms() {
		out = append(out, strings.ToLower(f.kind))
	}
	return out
}

func formOf(kind string) *form {
	all := forms()
	i := slices.IndexFunc(all, func(f form) bool { return strings.EqualFold(f.kind, kind) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// To converts what can be converted among documents; to is one of Targets. Other documents
// stay, but for runtimes of TrainJobs, which become part of what they are for.
func To(docs []manifest.Document, to string) ([]Converted, error) {
	typed := make([]runtime.Object, len(docs))
	for i := range docs {
		o, err := typedOf(&docs[i])
		if err != nil {
			return nil, err
		}
		typed[i] = o
	}
	var out []Converted
	found := false
	for i := range docs {
		if isRuntime(typed[i]) && formOf(to).kind != "TrainJob" {
			continue
		}
		one := Converted{Document: docs[i]}
		if from := formOf(docs[i].Object.GetKind()); from != nil && typed[i] != nil {
			found = true
			if from.kind != formOf(to).kind {
				var err error
				if one.Objects, one.Losses, err = convert(typed[i], typed, from, formOf(to)); err != nil {
					return nil, strict.Failed(
						docs[i].File,
						[]strict.Problem{{Position: docs[i].At(""), Path: docs[i].Title(), Text: err.Error()}},
					)
				}
			}
		}
		out = append(out, one)
	}
	if !found {
		return nil, fmt.Errorf(
			"there is nothing to convert: use files with a %s; what is in an AppWrapper is converted by itself, and wrapped again with mlbatch wrap",
			strings.Join(Targets(), ", "),
		)
	}
	return out, nil
}

func isRuntime(o runtime.Object) bool {
	switch o.(type) {
	case *trainer.TrainingRuntime, *trainer.ClusterTrainingRuntime:
		return true
	}
	return false
}

// typedOf decodes what is converted, strictly; nil of other kinds.
func typedOf(d *manifest.Document) (runtime.Object, error) {
	var o runtime.Object
	switch gvk := d.GVK(); {
	case gvk.Kind == "JobSet" && gvk.Group == jobset.GroupVersion.Group:
		o = &jobset.JobSet{}
	case gvk.Kind == "Job" && gvk.Group == "batch":
		o = &batchv1.Job{}
	case gvk.Kind == kubeflow.PyTorchJobKind && gvk.Group == kubeflow.GroupVersion.Group:
		o = &kubeflow.PyTorchJob{}
	case gvk.Kind == trainer.TrainJobKind:
		o = &trainer.TrainJob{}
	case gvk.Kind == trainer.TrainingRuntimeKind:
		o = &trainer.TrainingRuntime{}
	case gvk.Kind == trainer.ClusterTrainingRuntimeKind:
		o = &trainer.ClusterTrainingRuntime{}
	default:
		return nil, nil //nolint:nilnil // it stays
	}
	if problems := d.Decode(o); len(problems) > 0 {
		return nil, strict.Failed(d.File, problems)
	}
	if meta, is := o.(metav1.Object); is {
		asWritten(meta)
	}
	return o, nil
}

// asWritten takes out what the API server adds to what people write.
func asWritten(o metav1.Object) {
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetCreationTimestamp(metav1.Time{})
	o.SetManagedFields(nil)
	o.SetOwnerReferences(nil)
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if j, is := o.(*batchv1.Job); is {
		j.Spec.Selector = nil
		for _, key := range []string{"controller-uid", "job-name", batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
			delete(j.Spec.Template.Labels, key)
		}
	}
}

func convert(o runtime.Object, others []runtime.Object, from, to *form) ([]map[string]any, []Loss, error) {
	// 1. What does it say, as a JobSet?
	hub, err := from.read(o, others)
	if err != nil {
		return nil, nil, err
	}
	// 2. Say it in the other kind, which must be one that can run.
	made, err := to.write(hub.DeepCopy())
	if err != nil {
		return nil, nil, err
	}
	if err := valid(made); err != nil {
		return nil, nil, err
	}
	// 3. What did not get into the JobSet, and what not out of it?
	var losses []Loss
	if !from.whole {
		back, err := from.write(hub.DeepCopy())
		if err != nil {
			return nil, nil, err
		}
		o = o.DeepCopyObject()
		if j, is := o.(*kubeflow.PyTorchJob); is {
			settledPyTorch(j)
		}
		losses = lost(plain(o), plain(back[len(back)-1]), "")
	}
	again, err := to.read(made[len(made)-1], made)
	if err != nil {
		return nil, nil, fmt.Errorf("as a %s it cannot be read: %w", to.kind, err)
	}
	for _, l := range lost(plain(bare(hub)), plain(bare(again)), "") {
		if from.kind != "JobSet" {
			l.Message += " (of the JobSet that it stands for)"
		}
		losses = append(losses, l)
	}
	out := make([]map[string]any, len(made))
	for i := range made {
		out[i] = plain(made[i])
	}
	return out, losses, nil
}

// bare is a JobSet without what its pods are told about each other, which each kind tells in
// its own way.
func bare(s *jobset.JobSet) *jobset.JobSet {
	out, c := s.DeepCopy(), contractOf(s)
	for i := range out.Spec.ReplicatedJobs {
		j := &out.Spec.ReplicatedJobs[i]
		c.untell(j.Name, &j.Template.Spec.Template)
	}
	return out
}

// valid asks the rules of the webhooks.
func valid(made []runtime.Object) error {
	last, is := made[len(made)-1].(jobs.Object)
	if !is {
		return nil
	}
	for _, k := range kinds.All() {
		if k.GVK() != last.GetObjectKind().GroupVersionKind() || k.Admission.Validate == nil {
			continue
		}
		check, is := last.DeepCopyObject().(jobs.Object)
		if !is {
			return nil
		}
		if k.Queueing.Basis != nil {
			if basis, is := made[0].(jobs.Object); is {
				check = k.Queueing.Basis.With(check, basis, jobs.Schedulers{})
			}
		}
		if check.GetName() == "" {
			check.SetName("x")
		}
		if errs := k.Admission.Validate(check); len(errs) > 0 {
			return fmt.Errorf(
				"as a %s it would be refused: %w",
				last.GetObjectKind().GroupVersionKind().Kind,
				errs.ToAggregate(),
			)
		}
	}
	return nil
}

// plain is an object as people would write it.
func plain(o runtime.Object) map[string]any {
	data, err := json.Marshal(o)
	if err != nil {
		return nil // API types can be written
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil
	}
	delete(out, "status")
	prune(out)
	return out
}

// prune takes out what typed objects write although nobody said it.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			prune(child)
			m, is := child.(map[string]any)
			if child == nil ||
				is && len(m) == 0 &&
					slices.Contains([]string{"resources", "metadata", "runPolicy", "strategy", "spec"}, key) {
				delete(v, key)
			}
		}
	case []any:
		for _, child := range v {
			prune(child)
		}
	}
}
