package trainjob

import (
	"fmt"
	"maps"
	"slices"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// admission is who wrote an override or a patch that an admission made.
const admission = "mlbatch.dev/admission"

// inject writes what an admission gives pods into the job, which another controller runs, as
// changes of its runtime: in the generation of fields that the job uses, so that it is one
// which that controller knows.
func inject(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	t, err := cast(o)
	if err != nil {
		return nil, err
	}
	r, err := rendered(t)
	if err != nil {
		return nil, err
	}
	out := t.DeepCopy()
	var all []podChange
	for i := range r.set.Spec.ReplicatedJobs {
		j := &r.set.Spec.ReplicatedJobs[i]
		given := slices.IndexFunc(infos, func(x jobs.PodSetInfo) bool { return x.Name == jobs.PodSetName(j.Name) })
		if given < 0 {
			return nil, fmt.Errorf("its admission says nothing of pods %s", j.Name)
		}
		info, pods := &infos[given], j.Template.Spec.Template.DeepCopy()
		if err := info.Inject(pods); err != nil {
			return nil, fmt.Errorf("pods %s: %w", j.Name, err)
		}
		change := api.PodTemplatePatch{
			Metadata: &api.Metadata{Labels: maps.Clone(info.Labels), Annotations: maps.Clone(info.Annotations)},
			Spec:     &api.PodSpecPatch{NodeSelector: maps.Clone(info.NodeSelector)},
		}
		if len(info.Tolerations) > 0 {
			change.Spec.Tolerations = pods.Spec.Tolerations // they take the place of the runtime's
		}
		all = append(all, podChange{j.Name, change})
	}
	changePods(out, admission, all)
	return out, nil
}

// podChange is what changes in the pods of a replicated job.
type podChange struct {
	job    string
	change api.PodTemplatePatch
}

// changePods adds changes to a job, in the generation of fields that it uses. They are made
// after all of its author's.
func changePods(out *api.TrainJob, manager string, all []podChange) {
	if len(out.Spec.RuntimePatches) == 0 {
		for _, c := range all {
			out.Spec.PodTemplateOverrides = append(out.Spec.PodTemplateOverrides, api.PodTemplateOverride{
				Manager: &manager, TargetJobs: []api.TargetJob{{Name: c.job}}, PodTemplatePatch: c.change,
			})
		}
		return
	}
	patch := api.JobSetSpecPatch{}
	for _, c := range all {
		patch.ReplicatedJobs = append(patch.ReplicatedJobs, api.ReplicatedJobPatch{
			Name: c.job, Template: &api.JobTemplatePatch{Spec: &api.JobSpecPatch{Template: &c.change}},
		})
	}
	out.Spec.RuntimePatches = append(out.Spec.RuntimePatches, api.RuntimePatch{
		Manager:             manager,
		TrainingRuntimeSpec: &api.TrainingRuntimeSpecPatch{Template: &api.JobSetTemplatePatch{Spec: &patch}},
	})
}

func overrideOfAdmission(o api.PodTemplateOverride) bool {
	return o.Manager != nil && *o.Manager == admission
}

func patchOfAdmission(p api.RuntimePatch) bool { return p.Manager == admission }

// withdraw takes out what an admission wrote.
func withdraw(o jobs.Object, _ []kueue.PodSet) jobs.Object {
	t, err := cast(o)
	if err != nil ||
		!slices.ContainsFunc(t.Spec.PodTemplateOverrides, overrideOfAdmission) &&
			!slices.ContainsFunc(t.Spec.RuntimePatches, patchOfAdmission) {
		return o
	}
	out := t.DeepCopy()
	out.Spec.PodTemplateOverrides = slices.DeleteFunc(out.Spec.PodTemplateOverrides, overrideOfAdmission)
	out.Spec.RuntimePatches = slices.DeleteFunc(out.Spec.RuntimePatches, patchOfAdmission)
	if len(out.Spec.PodTemplateOverrides) == 0 {
		out.Spec.PodTemplateOverrides = nil
	}
	if len(out.Spec.RuntimePatches) == 0 {
		out.Spec.RuntimePatches = nil
	}
	return out
}

// keepInjected leaves what an admission wrote in a job that its author writes again. What its
// author writes in its name is none of it.
func keepInjected(was, is jobs.Object, _ []kueue.PodSet) jobs.Object {
	before, err := cast(was)
	if err != nil {
		return is
	}
	out, err := cast(withdraw(is, nil))
	if err != nil {
		return is
	}
	out = out.DeepCopy()
	for i := range before.Spec.PodTemplateOverrides {
		if o := &before.Spec.PodTemplateOverrides[i]; overrideOfAdmission(*o) {
			out.Spec.PodTemplateOverrides = append(out.Spec.PodTemplateOverrides, *o.DeepCopy())
		}
	}
	for i := range before.Spec.RuntimePatches {
		if p := &before.Spec.RuntimePatches[i]; patchOfAdmission(*p) {
			out.Spec.RuntimePatches = append(out.Spec.RuntimePatches, *p.DeepCopy())
		}
	}
	return out
}
