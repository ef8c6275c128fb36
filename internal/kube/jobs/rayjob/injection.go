package rayjob

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// injection is how an admission gets into the pods of a job that KubeRay runs. A submitter that
// its author does not describe is described as long as the job runs, as there is no other
// place for it.
func injection() *jobs.Injection {
	in := jobs.InTemplates(places)
	add, remove, keep := in.Add, in.Remove, in.Keep
	in.Add = func(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
		return add(jobs.Changing(func(j *api.RayJob) {
			if hasSubmitter(infos) {
				j.Spec.SubmitterPodTemplate = submitter(j).DeepCopy()
			}
		})(o), infos)
	}
	in.Remove = func(o jobs.Object, original []kueue.PodSet) jobs.Object {
		out := remove(o, original)
		if out == o {
			return o
		}
		return jobs.Changing(func(j *api.RayJob) {
			written := j.Spec.SubmitterPodTemplate
			j.Spec.SubmitterPodTemplate = nil
			if !equality.Semantic.DeepEqual(written, submitter(j)) {
				j.Spec.SubmitterPodTemplate = written
			}
		})(out)
	}
	in.Keep = func(was, is jobs.Object, original []kueue.PodSet) jobs.Object {
		before, typed := was.(*api.RayJob)
		if !typed {
			return is
		}
		return keep(was, jobs.Changing(func(j *api.RayJob) {
			if t := before.Spec.SubmitterPodTemplate; j.Spec.SubmitterPodTemplate == nil && t != nil &&
				jobs.Injected(t) {
				j.Spec.SubmitterPodTemplate = t.DeepCopy()
			}
		})(is), original)
	}
	return in
}

// hasSubmitter reports whether a job was admitted with a pod that submits it.
func hasSubmitter(infos []jobs.PodSetInfo) bool {
	return slices.ContainsFunc(infos, func(i jobs.PodSetInfo) bool { return i.Name == submitterRole })
}

// places are the templates that a job has of its pods.
func places(j *api.RayJob) []jobs.Place {
	var out []jobs.Place
	if s := j.Spec.RayClusterSpec; s != nil {
		out = raycluster.Places(s)
	}
	if t := j.Spec.SubmitterPodTemplate; t != nil {
		out = append(out, jobs.Place{PodSet: submitterRole, Template: t})
	}
	return out
}
