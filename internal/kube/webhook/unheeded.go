package webhook

import (
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// unheeded tells of what a job asks Kueue for and does not get here. It runs all the
// same; was may be nil.
func unheeded(was, is metav1.Object) []string {
	asks := func(o metav1.Object) bool { return o.GetAnnotations()[kueue.ElasticJobAnnotation] == "true" }
	if !asks(is) || (was != nil && asks(was)) {
		return nil
	}
	return []string{
		fmt.Sprintf(
			"%s has no effect: a job of another size is stopped and queued anew; Ray clusters with an autoscaler grow and shrink as they run without it",
			annotationPath(kueue.ElasticJobAnnotation),
		),
	}
}

// unheededRetries tells of a retry policy of a job whose kind has another way to say that; was may be nil.
func unheededRetries(k *jobs.Kind, was, is metav1.Object) []string {
	text := is.GetAnnotations()[kueue.RetryPolicyAnnotation]
	if text == "" || k.Running.Retries ||
		was != nil && was.GetAnnotations()[kueue.RetryPolicyAnnotation] == text {
		return nil
	}
	return []string{
		fmt.Sprintf(
			"%s has no effect: a %s says in its own fields what is tried again; wrap it in an AppWrapper that has the annotation",
			annotationPath(kueue.RetryPolicyAnnotation),
			k.GVK().Kind,
		),
	}
}

// unheededGroups tells of groups that pods of a job name besides. One of Sakkara's is heeded.
func unheededGroups(r jobs.Adapter, is jobs.Object) []string {
	facts, err := r.Read(is)
	if err != nil {
		return nil // that was refused
	}
	var templates []jobs.PodTemplate
	for i := range facts.PodSets {
		t := facts.PodSets[i].Template.DeepCopy()
		delete(t.Labels, sakkara.MemberLabel)
		templates = append(templates, jobs.PodTemplate{Template: t})
	}
	return groupsOf(templates)
}

// groupsOf tells of groups that pods of a job name besides: they start together with its other pods, as
// it was admitted, and are in no group.
func groupsOf(templates []jobs.PodTemplate) (out []string) {
	found := map[string]bool{}
	for _, t := range templates {
		for _, key := range podmeta.GroupLabels() {
			if t.Template.Labels[key] != "" {
				found["label "+key] = true
			}
		}
		for _, key := range podmeta.GroupAnnotations() {
			if t.Template.Annotations[key] != "" {
				found["annotation "+key] = true
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		text := what + " of pods has no effect: the pods of a queued job start together as it is admitted, in no other group"
		if what == "label "+sakkara.MemberLabel {
			text += "; say by annotations of the pods what its constraints say, such as " + kueue.PodSetRequiredTopologyAnnotation
		}
		out = append(out, text)
	}
	return out
}

// inGroup refuses pods of a job that Kubernetes would hold until a group of its own can start.
func inGroup(t jobs.PodTemplate) field.ErrorList {
	if t.Template.Spec.SchedulingGroup == nil {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(
			field.NewPath(t.Path, "spec", "schedulingGroup"),
			"its pods would wait for that group, and the pods of a queued job start together as it is admitted: remove it",
		),
	}
}

// unheededDomain tells of a new job that asks for a ComputeDomain which it does not get: it has no pods for
// it, or the cluster no ComputeDomains yet.
func (h *jobHandler) unheededDomain(job jobs.Object) ([]string, error) {
	facts, err := h.kind.Read(job)
	if err != nil {
		return nil, nil //nolint:nilerr // that was refused
	}
	asks := append(jobs.AsksComputeDomain(job.GetAnnotations(), facts.PodSets), facts.ComputeDomain...)
	if len(asks) == 0 && job.GetAnnotations()[kueue.ComputeDomainAnnotation] == "true" {
		return []string{fmt.Sprintf(
			"%s has no effect: no pods of the job request %s; set it on the pod templates that are meant",
			annotationPath(kueue.ComputeDomainAnnotation), core.GPU,
		)}, nil
	}
	if len(asks) == 0 {
		return nil, nil
	}
	gvk := jobs.ComputeDomainGVK()
	if _, err := h.cluster.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version); apimeta.IsNoMatchError(err) {
		return []string{"the job waits until there is what it asks for: " + jobs.NoComputeDomains()}, nil
	} else if err != nil {
		return nil, fmt.Errorf("find ComputeDomains: %w", err)
	}
	return nil, nil
}

// nearness refuses pods whose annotations say what cannot be meant of how near to each other they must be.
func nearness(t jobs.PodTemplate) field.ErrorList {
	key, fault := kueue.TopologyRequestFault(t.Template.Annotations)
	if fault == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(
		field.NewPath(t.Path, "metadata", "annotations").Key(key), t.Template.Annotations[key], fault,
	)}
}

// apart refuses pods whose annotations contradict what those of their job say of all of its pods.
func apart(job metav1.Object, templates []jobs.PodTemplate) (errs field.ErrorList) {
	all := jobs.OuterOf(job.GetAnnotations(), jobs.AllSets)
	for _, t := range templates {
		errs = append(errs, all.Contradicted(t, "the annotation "+kueue.KAIRequiredAnnotation+" of the job")...)
	}
	return errs
}

// nearnessOfAll refuses annotations of a job that say what cannot be meant of how near to each other its pods must be.
func nearnessOfAll(job metav1.Object) field.ErrorList {
	key, fault := kueue.KAITopologyRequestFault(job.GetAnnotations())
	if said := kueue.ComputeDomainFault(job.GetAnnotations()); said != "" {
		key, fault = kueue.ComputeDomainAnnotation, said
	}
	if fault == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(
		field.NewPath("metadata", "annotations").Key(key), job.GetAnnotations()[key], fault,
	)}
}
