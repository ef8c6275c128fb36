package jobset

import (
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// comeBack is how long pods may take to restart in place before all Jobs are made anew. That a node has died is believed
// after nearly six minutes, and then its pod is made anew on another.
const comeBack = 10 * time.Minute

// asksInPlace reports whether a JobSet asks for restarts in place.
func (r *reading) asksInPlace() bool {
	f := r.js.Spec.FailurePolicy
	return f != nil && f.RestartStrategy == api.InPlaceRestart
}

// inPlace is how pods restart in place; nil if they do not. Agents go by the annotation, too.
func (r *reading) inPlace() *podplan.InPlace {
	if _, off := r.js.Annotations[api.DisableInPlaceRestartKey]; off || !r.asksInPlace() {
		return nil
	}
	out := &podplan.InPlace{Patience: comeBack, Each: map[string]int32{}}
	for i := range r.roles {
		out.Pods += r.roles[i].count * r.roles[i].pods
		out.Each[podSet(r.roles[i].Name)] = r.roles[i].pods
	}
	return out
}

// checkInPlace refuses JobSets whose pods could not restart in place.
func (r *reading) checkInPlace(at *field.Path) field.ErrorList {
	if !r.asksInPlace() {
		return nil
	}
	var errs field.ErrorList
	if r.js.Spec.StartupPolicy.StartupPolicyOrder == api.InOrder {
		errs = append(errs, field.Forbidden(
			at.Child("startupPolicy", "startupPolicyOrder"),
			"with restartStrategy InPlaceRestart no worker runs before all pods are there: use AnyOrder, or another strategy",
		))
	}
	for i := range r.roles {
		x, on := &r.roles[i], at.Child("replicatedJobs").Index(i)
		if len(x.DependsOn) > 0 {
			errs = append(errs, field.Forbidden(
				on.Child("dependsOn"),
				"with restartStrategy InPlaceRestart no worker runs before all pods are there: remove it, or use another strategy",
			))
		}
		errs = append(errs, checkJobInPlace(&x.Template.Spec, on.Child("template", "spec"))...)
	}
	return errs
}

// checkJobInPlace refuses Jobs that fail with a pod, or whose pods could not restart in place.
func checkJobInPlace(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	const why = "restartStrategy InPlaceRestart needs "
	if n := s.BackoffLimit; n == nil || *n != math.MaxInt32 {
		errs = append(
			errs,
			field.Invalid(at.Child("backoffLimit"), n, why+"2147483647, so that no Job fails with a pod"),
		)
	}
	if is := s.PodReplacementPolicy; is == nil || *is != batchv1.Failed {
		errs = append(errs, field.Invalid(at.Child("podReplacementPolicy"), ptr.Deref(is, ""),
			why+"Failed, so that no pod is there twice"))
	}
	if s.Completions == nil || s.Parallelism == nil || *s.Completions != *s.Parallelism {
		errs = append(errs, field.Invalid(at.Child("completions"), ptr.Deref(s.Completions, 0),
			why+"it to be said, and to be the same as parallelism: all pods restart together"))
	}
	if !restartsByRule(&s.Template.Spec) {
		errs = append(errs, field.Required(
			at.Child("template", "spec", "initContainers"),
			why+"an agent in each pod: a container with a restartPolicyRule of action RestartAllContainers or Restart. See docs/kinds/jobset.md",
		))
	}
	return errs
}

// restartsByRule reports whether a container of a pod may be its agent: one that restarts all by its exit code, or itself.
func restartsByRule(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c corev1.Container) bool {
		return len(c.RestartPolicyRules) > 0
	})
}

// replaces is how many more of a JobSet's pods can be taken away: those that restart in place wait for one that is made
// anew. What a Job of others makes of an evicted pod is its own to say, and a Job that gives up begins all of the JobSet
// anew: these are moved as a whole.
func replaces(o jobs.Object, _ []corev1.Pod) (n int32, open bool) {
	js, err := cast(o)
	if err != nil || suspended(js) || finished(&js.Status) != nil {
		return 0, false
	}
	r := read(js)
	if r.inPlace() == nil || slices.ContainsFunc(r.roles, func(x role) bool { return !x.spares() }) {
		return 0, false
	}
	return math.MaxInt32, false
}

// spares reports whether Jobs of a role survive that pods are evicted: without a policy of their own for failures they do,
// as often as they may be tried again (checkJobInPlace).
func (x *role) spares() bool {
	s := &x.Template.Spec
	return s.PodFailurePolicy == nil && s.BackoffLimitPerIndex == nil
}
