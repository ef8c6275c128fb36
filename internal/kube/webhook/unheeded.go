package webhook

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
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

// unheededPlaces tells of what pods have to have in common, as their templates say in
// annotations, and need not here.
func unheededPlaces(r jobs.Adapter, is jobs.Object) []string {
	facts, err := r.Read(is)
	if err != nil {
		return nil // that was refused
	}
	var templates []jobs.PodTemplate
	for i := range facts.PodSets {
		templates = append(templates, jobs.PodTemplate{Template: &facts.PodSets[i].Template})
	}
	return append(placesOf(templates), groupsOf(templates)...)
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
		out = append(
			out,
			what+" of pods has no effect: the pods of a queued job start together as it is admitted, in no other group",
		)
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

// placesOf does so for templates.
func placesOf(templates []jobs.PodTemplate) []string {
	found := map[string]bool{}
	for _, t := range templates {
		for _, key := range []string{
			kueue.PodSetRequiredTopologyAnnotation, kueue.PodSetSliceRequiredTopologyAnnotation, kueue.PodSetSliceRequiredTopologyConstraintsAnnotation,
		} {
			if t.Template.Annotations[key] != "" {
				found[key] = true
			}
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(
			out,
			fmt.Sprintf(
				"annotation %s of pods has no effect: nodes are chosen for all pods of a job together, whatever their rack",
				key,
			),
		)
	}
	return out
}
