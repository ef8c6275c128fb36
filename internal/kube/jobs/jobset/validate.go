package jobset

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const (
	// mostPods is more than any cluster has.
	mostPods = 1_000_000
	// mostRoles is how many pod sets a Workload can have.
	mostRoles = 18
	// longestRule is the length of the name of a rule.
	longestRule = 128
)

// validate finds what is wrong with a JobSet.
func validate(js *api.JobSet) field.ErrorList { return check(read(js)) }

func check(r *reading) field.ErrorList {
	s, at := &r.js.Spec, field.NewPath("spec")
	errs := r.checkRoles(at.Child("replicatedJobs"))
	if len(errs) > 0 {
		return errs // the rest is about them
	}
	errs = slices.Concat(
		r.checkOrder(at),
		r.checkSuccess(at.Child("successPolicy")),
		r.checkFailure(at.Child("failurePolicy")),
		r.checkInPlace(at),
		r.checkCoordinator(
			at.Child("coordinator"),
		),
		r.checkClaims(at.Child("volumeClaimPolicies")),
		r.checkExclusive(),
	)
	if n := s.TTLSecondsAfterFinished; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *n, "use a number from 0"))
	}
	if wrong := validation.IsDNS1035Label(s.Network.Subdomain); s.Network.Subdomain != "" && len(wrong) > 0 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("network", "subdomain"),
				s.Network.Subdomain,
				"it is the name of a service: "+strings.Join(wrong, ", "),
			),
		)
	}
	return errs
}

func (r *reading) checkRoles(at *field.Path) field.ErrorList {
	switch {
	case len(r.roles) == 0:
		return field.ErrorList{field.Required(at, "a JobSet is made of Jobs: add one")}
	case len(r.roles) > mostRoles:
		return field.ErrorList{field.TooMany(at, len(r.roles), mostRoles)}
	}
	var errs field.ErrorList
	names, pods := map[string]bool{}, int64(0)
	for i := range r.roles {
		x := &r.roles[i]
		if names[x.Name] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), x.Name))
		}
		names[x.Name] = true
		errs = append(errs, r.checkRole(x, at.Index(i))...)
		pods += int64(x.count) * int64(x.pods)
	}
	if len(errs) == 0 && (pods < 1 || pods > mostPods) {
		errs = append(
			errs,
			field.Invalid(
				at,
				pods,
				fmt.Sprintf(
					"the Jobs of all roles have from 1 to %d pods together: change replicas, or parallelism",
					mostPods,
				),
			),
		)
	}
	return errs
}

func (r *reading) checkRole(x *role, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if x.count < 0 || x.count > mostPods {
		errs = append(
			errs,
			field.Invalid(at.Child("replicas"), x.count, fmt.Sprintf("use a number from 0 to %d", mostPods)),
		)
	}
	if wrong := validation.IsDNS1035Label(x.GroupName); len(wrong) > 0 {
		errs = append(errs, field.Invalid(at.Child("groupName"), x.GroupName, strings.Join(wrong, ", ")))
	}
	if len(x.Template.Finalizers) > 0 {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("template", "metadata", "finalizers"),
				"they would keep Jobs that have to go, and their pods: remove them",
			),
		)
	}
	errs = append(errs, checkJob(&x.Template.Spec, at.Child("template", "spec"))...)
	if len(errs) == 0 {
		errs = r.checkNames(x, at)
	}
	return errs
}

// checkJob refuses what no Job can be.
func checkJob(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value *int32
	}{{"parallelism", s.Parallelism}, {"completions", s.Completions}} {
		if n.value != nil && (*n.value < 0 || *n.value > mostPods) {
			errs = append(
				errs,
				field.Invalid(at.Child(n.name), *n.value, fmt.Sprintf("use a number from 0 to %d", mostPods)),
			)
		}
	}
	modes := []batchv1.CompletionMode{batchv1.IndexedCompletion, batchv1.NonIndexedCompletion}
	switch {
	case !slices.Contains(modes, *s.CompletionMode):
		errs = append(errs, field.NotSupported(at.Child("completionMode"), *s.CompletionMode, modes))
	case indexed(s) && s.Completions == nil && s.Parallelism != nil:
		errs = append(errs, field.Required(at.Child("completions"), fmt.Sprintf(
			"the Jobs of a JobSet are Indexed if they do not say otherwise: set completions to %d, or completionMode to NonIndexed",
			*s.Parallelism,
		)))
	}
	policies := []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}
	if p := s.Template.Spec.RestartPolicy; !slices.Contains(policies, p) {
		errs = append(errs, field.NotSupported(at.Child("template", "spec", "restartPolicy"), p, policies))
	}
	return errs
}

// nameSuffix is as long as what Kubernetes adds to the names of pods.
const nameSuffix = "-abcde"

// checkNames refuses names that are too long, or no names, for the Jobs and pods that have
// them with their role and number.
func (r *reading) checkNames(x *role, at *field.Path) field.ErrorList {
	name, where := r.js.Name, field.NewPath("metadata", "name")
	if name == "" {
		name, where = r.js.GenerateName+"xxxxx", field.NewPath("metadata", "generateName")
	}
	if wrong := validation.IsDNS1123Label(x.Name); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(at.Child("name"), x.Name, "it is in the names of its Jobs: "+strings.Join(wrong, ", ")),
		}
	}
	rest, what := "-"+x.Name+"-"+strconv.Itoa(int(max(x.count, 1)-1)), "Jobs"
	if s := &x.Template.Spec; indexed(s) {
		rest += "-" + strconv.Itoa(int(max(ptr.Deref(s.Completions, 1), 1)-1)) + nameSuffix
		what = "pods"
	}
	if n := len(name) + len(rest); n > validation.DNS1035LabelMaxLength {
		return field.ErrorList{field.Invalid(where, name, fmt.Sprintf(
			"the %s of role %s are called NAME%s, which is %d characters longer than the 63 that there may be: use a shorter name of the JobSet or of the role",
			what,
			x.Name,
			rest,
			n-validation.DNS1035LabelMaxLength,
		))}
	}
	if wrong := validation.IsDNS1035Label(name + rest); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(
				where,
				name,
				fmt.Sprintf("its %s have it in their names: %s", what, strings.Join(wrong, ", ")),
			),
		}
	}
	return nil
}

// checkOrder refuses orders in which Jobs would wait for ever, or that nobody knows.
func (r *reading) checkOrder(at *field.Path) field.ErrorList {
	order := r.js.Spec.StartupPolicy.StartupPolicyOrder
	if orders := []api.StartupPolicyOptions{api.AnyOrder, api.InOrder}; !slices.Contains(orders, order) {
		return field.ErrorList{field.NotSupported(at.Child("startupPolicy", "startupPolicyOrder"), order, orders)}
	}
	var errs field.ErrorList
	before := map[string]bool{}
	for i := range r.roles {
		seen := map[string]bool{}
		for j, d := range r.roles[i].DependsOn {
			on := at.Child("replicatedJobs").Index(i).Child("dependsOn").Index(j)
			switch {
			case order == api.InOrder:
				errs = append(
					errs,
					field.Forbidden(on, "the order is that of spec.startupPolicy already: remove one of them"),
				)
			case r.role(d.Name) == nil:
				errs = append(errs, field.NotSupported(on.Child("name"), d.Name, r.names()))
			case !before[d.Name]:
				errs = append(errs, field.Invalid(on.Child("name"), d.Name, fmt.Sprintf(
					"roles wait for those before them in the list, so that none waits for itself: put %s before %s",
					d.Name,
					r.roles[i].Name,
				)))
			case seen[d.Name]:
				errs = append(errs, field.Duplicate(on.Child("name"), d.Name))
			}
			if all := []api.DependsOnStatus{
				api.DependencyReady,
				api.DependencyComplete,
			}; !slices.Contains(
				all,
				d.Status,
			) {
				errs = append(errs, field.NotSupported(on.Child("status"), d.Status, all))
			}
			seen[d.Name] = true
		}
		before[r.roles[i].Name] = true
	}
	return errs
}

func (r *reading) names() []string {
	var out []string
	for i := range r.roles {
		out = append(out, r.roles[i].Name)
	}
	return out
}

// checkTargets refuses roles that there are not.
func (r *reading) checkTargets(targets []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range targets {
		if r.role(name) == nil {
			errs = append(errs, field.NotSupported(at.Index(i), name, r.names()))
		}
	}
	return errs
}

func (r *reading) checkSuccess(at *field.Path) field.ErrorList {
	p := r.js.Spec.SuccessPolicy
	if all := []api.Operator{api.OperatorAll, api.OperatorAny}; !slices.Contains(all, p.Operator) {
		return field.ErrorList{field.NotSupported(at.Child("operator"), p.Operator, all)}
	}
	targets := at.Child("targetReplicatedJobs")
	errs := r.checkTargets(p.TargetReplicatedJobs, targets)
	if len(errs) > 0 || len(p.TargetReplicatedJobs) == 0 {
		return errs
	}
	for _, name := range p.TargetReplicatedJobs {
		if r.role(name).count > 0 {
			return nil
		}
	}
	return field.ErrorList{
		field.Invalid(
			targets,
			strings.Join(p.TargetReplicatedJobs, ", "),
			"none of them has a Job that could succeed: name a role whose replicas are at least 1",
		),
	}
}

func (r *reading) checkFailure(at *field.Path) field.ErrorList {
	f := r.js.Spec.FailurePolicy
	if f == nil {
		return nil
	}
	var errs field.ErrorList
	if f.MaxRestarts < 0 {
		errs = append(errs, field.Invalid(at.Child("maxRestarts"), f.MaxRestarts, "use a number from 0"))
	}
	strategies := []api.RestartStrategy{api.Recreate, api.BlockingRecreate, api.InPlaceRestart}
	if !slices.Contains(strategies, f.RestartStrategy) {
		errs = append(errs, field.NotSupported(at.Child("restartStrategy"), f.RestartStrategy, strategies))
	}
	names := map[string]bool{}
	for i := range f.Rules {
		on := at.Child("rules").Index(i)
		if name := f.Rules[i].Name; names[name] {
			errs = append(errs, field.Duplicate(on.Child("name"), name))
		}
		names[f.Rules[i].Name] = true
		errs = append(errs, r.checkRule(&f.Rules[i], on)...)
	}
	return errs
}

// ruleName is how rules may be called: their names are in the reasons of conditions.
var ruleName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func (r *reading) checkRule(x *api.FailurePolicyRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(x.Name) > longestRule || !ruleName.MatchString(x.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), x.Name, fmt.Sprintf(
			"use at most %d letters and digits, '_', ',' and ':', a letter first, and at the end neither ',' nor ':'",
			longestRule,
		)))
	}
	actions := []api.FailurePolicyAction{
		api.FailJobSet,
		api.RestartJobSet,
		api.RestartJobSetAndIgnoreMaxRestarts,
		api.RestartJob,
		api.RestartJobAndIgnoreMaxRestarts,
	}
	if !slices.Contains(actions, x.Action) {
		errs = append(errs, field.NotSupported(at.Child("action"), x.Action, actions))
	}
	reasons := []string{
		batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded, batchv1.JobReasonFailedIndexes,
		batchv1.JobReasonMaxFailedIndexesExceeded, batchv1.JobReasonPodFailurePolicy,
	}
	for i, reason := range x.OnJobFailureReasons {
		if !slices.Contains(reasons, reason) {
			errs = append(errs, field.NotSupported(at.Child("onJobFailureReasons").Index(i), reason, reasons))
		}
	}
	for i, m := range x.OnJobFailureMessagePatterns {
		if _, err := regexp.Compile(m); err != nil {
			errs = append(
				errs,
				field.Invalid(
					at.Child("onJobFailureMessagePatterns").Index(i),
					m,
					"it is no regular expression of RE2: "+err.Error(),
				),
			)
		}
	}
	return append(errs, r.checkTargets(x.TargetReplicatedJobs, at.Child("targetReplicatedJobs"))...)
}

func (r *reading) checkCoordinator(at *field.Path) field.ErrorList {
	c := r.js.Spec.Coordinator
	if c == nil {
		return nil
	}
	x := r.role(c.ReplicatedJob)
	if x == nil {
		return field.ErrorList{field.NotSupported(at.Child("replicatedJob"), c.ReplicatedJob, r.names())}
	}
	var errs field.ErrorList
	if c.JobIndex < 0 || c.JobIndex >= x.count {
		errs = append(
			errs,
			field.Invalid(
				at.Child("jobIndex"),
				c.JobIndex,
				fmt.Sprintf("role %s has %d Jobs: use an index below", x.Name, x.count),
			),
		)
	}
	s := &x.Template.Spec
	switch pods := ptr.Deref(s.Completions, 1); {
	case !indexed(s):
		errs = append(
			errs,
			field.Invalid(
				at.Child("replicatedJob"),
				c.ReplicatedJob,
				"pods have addresses in Jobs that are Indexed: set the completionMode of the role to it",
			),
		)
	case c.PodIndex < 0 || c.PodIndex >= pods:
		errs = append(
			errs,
			field.Invalid(
				at.Child("podIndex"),
				c.PodIndex,
				fmt.Sprintf("Jobs of role %s have %d completions: use an index below", x.Name, pods),
			),
		)
	}
	return errs
}

// checkClaims refuses volumes that nobody could have, and volumes that nobody mounts.
func (r *reading) checkClaims(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range r.js.Spec.VolumeClaimPolicies {
		for j := range r.js.Spec.VolumeClaimPolicies[i].Templates {
			c, on := &r.js.Spec.VolumeClaimPolicies[i].Templates[j], at.Index(i).
				Child("templates").
				Index(j).
				Child("metadata")
			switch wrong := validation.IsDNS1123Label(c.Name); {
			case c.Namespace != "":
				errs = append(
					errs,
					field.Forbidden(on.Child("namespace"), "claims are in the namespace of the JobSet: remove it"),
				)
			case c.Name == "":
				errs = append(errs, field.Required(on.Child("name"), "pods mount it by this name"))
			case len(wrong) > 0:
				errs = append(errs, field.Invalid(on.Child("name"), c.Name, strings.Join(wrong, ", ")))
			case names[c.Name]:
				errs = append(errs, field.Duplicate(on.Child("name"), c.Name))
			case !slices.ContainsFunc(r.roles, func(x role) bool { return mounts(&x.Template.Spec.Template.Spec, c.Name) }):
				errs = append(
					errs,
					field.Invalid(
						on.Child("name"),
						c.Name,
						"no container mounts it: add a volumeMount of this name, or remove the claim",
					),
				)
			}
			names[c.Name] = true
		}
	}
	return append(errs, r.checkVolumes(names)...)
}

// checkVolumes refuses volumes of the names of claims.
func (r *reading) checkVolumes(claims map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for i := range r.roles {
		for j, v := range r.roles[i].Template.Spec.Template.Spec.Volumes {
			if claims[v.Name] {
				errs = append(
					errs,
					field.Duplicate(
						field.NewPath("spec", "replicatedJobs").
							Index(i).
							Child("template", "spec", "template", "spec", "volumes").
							Index(j).
							Child("name"),
						v.Name,
					),
				)
			}
		}
	}
	return errs
}

func (r *reading) checkExclusive() field.ErrorList {
	for i := range r.roles {
		key := r.exclusive(&r.roles[i])
		if wrong := validation.IsQualifiedName(key); key != "" && len(wrong) > 0 {
			at := field.NewPath("metadata", "annotations")
			if r.js.Annotations[api.ExclusiveKey] == "" {
				at = field.NewPath("spec", "replicatedJobs").Index(i).Child("template", "metadata", "annotations")
			}
			return field.ErrorList{
				field.Invalid(
					at.Key(api.ExclusiveKey),
					key,
					"it is the key of a label of nodes: "+strings.Join(wrong, ", "),
				),
			}
		}
	}
	return nil
}

// validateChange finds what is wrong with a change. What a JobSet is made of stays, but for
// the size of its Jobs (resizes); while it is suspended its pods may become others in what
// decides where they run.
func validateChange(was, is *api.JobSet) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	if ptr.Deref(was.Spec.ManagedBy, "") != ptr.Deref(is.Spec.ManagedBy, "") {
		errs = append(
			errs,
			field.Forbidden(at.Child("managedBy"), "it cannot be changed: delete the JobSet and create it anew"),
		)
	}
	a, b := &withDefaults(was).Spec, &withDefaults(is).Spec
	if suspended(was) || suspended(is) {
		for i := range min(len(a.ReplicatedJobs), len(b.ReplicatedJobs)) {
			copyDirectives(&b.ReplicatedJobs[i], &a.ReplicatedJobs[i])
		}
	}
	for i := range min(len(a.ReplicatedJobs), len(b.ReplicatedJobs)) {
		from, to := &a.ReplicatedJobs[i].Template.Spec, &b.ReplicatedJobs[i].Template.Spec
		if podsOf(to) > podsOf(from) && restartsUnstopped(was, is) {
			errs = append(errs, field.Forbidden(
				at.Child("replicatedJobs").Index(i).Child("template", "spec", "parallelism"),
				"a JobSet with restartStrategy InPlaceRestart and without a queue does not grow while it runs, since pods "+
					"that begin later have all others begin anew: suspend it, change it, and resume it",
			))
		}
		if metav1.GetControllerOf(is) == nil && resizes(from) && resizes(to) { // else it was admitted as a part
			to.Parallelism, to.Completions = from.Parallelism, from.Completions
		}
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"replicatedJobs", a.ReplicatedJobs, b.ReplicatedJobs},
		{"network", a.Network, b.Network},
		{"successPolicy", a.SuccessPolicy, b.SuccessPolicy},
		{"failurePolicy", a.FailurePolicy, b.FailurePolicy},
		{"startupPolicy", a.StartupPolicy, b.StartupPolicy},
		{"coordinator", a.Coordinator, b.Coordinator},
		{"volumeClaimPolicies", a.VolumeClaimPolicies, b.VolumeClaimPolicies},
	} {
		if !equality.Semantic.DeepEqual(f.was, f.is) {
			cure := "it cannot be changed: delete the JobSet and create it anew"
			if f.name == "replicatedJobs" {
				cure += "; parallelism and completions can be, together, where they are equal in an Indexed Job, " +
					"and of a suspended one the labels, annotations, nodeSelector, tolerations and schedulingGates of pods"
			}
			errs = append(errs, field.Forbidden(at.Child(f.name), cure))
		}
	}
	if len(errs) == 0 && len(validate(was)) == 0 {
		return validate(is) // of what else may change
	}
	return errs
}

// restartsUnstopped reports whether the pods of a JobSet restart in place and run through a change of it: one that is queued
// is stopped if it grows.
func restartsUnstopped(was, is *api.JobSet) bool {
	return is.Labels[kueue.QueueNameLabel] == "" && !suspended(was) && !suspended(is) &&
		read(is).inPlace() != nil
}

// resizes reports whether a Job may get another number of pods: each has a part of the work
// that it is told by its index.
func resizes(s *batchv1.JobSpec) bool {
	n := ptr.Deref(s.Parallelism, 1)
	return indexed(s) && n > 0 && n == ptr.Deref(s.Completions, 1)
}
