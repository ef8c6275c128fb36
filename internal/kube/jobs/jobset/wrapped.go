package jobset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// wrapped is what AppWrappers have to know of JobSets.
func wrapped() *jobs.Wrapping {
	return &jobs.Wrapping{
		PodSets:     wrappedPodSets,
		Outcome:     jobs.ConditionsOutcome(api.JobSetCompleted, api.JobSetFailed),
		SameOutcome: jobs.OfBoth(sameConditions),
		HeldBack:    heldBack,
		Dropped:     jobs.SuspendAndTTL("spec"),
		EndsOnce:    wrappedEndsOnce,
	}
}

// sameConditions reports whether a change is none of a JobSet's conditions.
func sameConditions(was, is *api.JobSet) bool {
	if len(was.Status.Conditions) != len(is.Status.Conditions) {
		return false
	}
	for i := range is.Status.Conditions {
		if a, b := &was.Status.Conditions[i], &is.Status.Conditions[i]; a.Type != b.Type || a.Status != b.Status {
			return false
		}
	}
	return true
}

// wrappedPodSets are the pods of each role: so many times what each of its Jobs runs.
func wrappedPodSets(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	roles, err := jobs.Objects(t, "spec", "replicatedJobs")
	var out []aw.AppWrapperPodSet
	for i, g := range roles {
		replicas, rErr := jobs.Number(g, 1, "replicas")
		pods, pErr := job.PodsAtOnce(g, "template", "spec")
		n, tErr := jobs.Times(replicas, pods)
		if err = errors.Join(err, rErr, pErr, tErr); err != nil {
			return nil, fmt.Errorf("spec.replicatedJobs[%d]: %w", i, err)
		}
		out = append(out, aw.AppWrapperPodSet{
			Path: fmt.Sprintf("template.spec.replicatedJobs[%d].template.spec.template", i), Replicas: &n,
			Annotations: map[string]string{
				aw.TASPodIndexLabelAnnotation:      job.IndexLabel,
				aw.TASSubGroupIndexLabelAnnotation: api.JobIndexKey,
				aw.TASSubGroupCountAnnotation:      fmt.Sprint(replicas),
			},
		})
	}
	return out, err
}

// wrappedEndsOnce reports whether the Jobs of a JobSet make all their pods at once, and are
// not made again when one of them fails.
func wrappedEndsOnce(t map[string]any) bool {
	restarts, rErr := jobs.Number(t, 0, "spec", "failurePolicy", "maxRestarts")
	rules, fErr := jobs.Objects(t, "spec", "failurePolicy", "rules")
	roles, gErr := jobs.Objects(t, "spec", "replicatedJobs")
	return errors.Join(rErr, fErr, gErr) == nil && restarts == 0 && len(rules) == 0 &&
		!slices.ContainsFunc(roles, func(g map[string]any) bool {
			template, _, err := unstructured.NestedMap(g, "template")
			return err != nil || !job.OneWave(template)
		})
}

// heldBack reports whether a JobSet waits for others of its roles before it creates the one
// at path: those before it if the order is InOrder, and those it depends on.
func heldBack(o map[string]any, path string) bool {
	roles, err := jobs.Objects(o, "spec", "replicatedJobs")
	if err != nil {
		return false
	}
	self := -1
	for i := range roles {
		if strings.HasPrefix(path, fmt.Sprintf("template.spec.replicatedJobs[%d].", i)) {
			self = i
		}
	}
	if self < 0 {
		return false
	}
	order, _, _ := unstructured.NestedString(o, "spec", "startupPolicy", "startupPolicyOrder")
	if order == string(api.InOrder) {
		for _, g := range roles[:self] {
			if !reached(o, g, api.DependencyReady) {
				return true
			}
		}
	}
	needs, err := jobs.Objects(roles[self], "dependsOn")
	if err != nil {
		return false
	}
	for _, need := range needs {
		i := slices.IndexFunc(
			roles,
			func(g map[string]any) bool { return jobs.Text(g, "name") == jobs.Text(need, "name") },
		)
		if i >= 0 && !reached(o, roles[i], api.DependsOnStatus(jobs.Text(need, "status"))) {
			return true
		}
	}
	return false
}

// reached reports whether all Jobs of a role are Ready or Complete.
func reached(o, role map[string]any, state api.DependsOnStatus) bool {
	want, err := jobs.Number(role, 1, "replicas")
	if err != nil {
		return false
	}
	statuses, err := jobs.Objects(o, "status", "replicatedJobsStatus")
	if err != nil {
		return false
	}
	for _, s := range statuses {
		if jobs.Text(s, "name") != jobs.Text(role, "name") {
			continue
		}
		ready, rErr := jobs.Number(s, 0, "ready")
		succeeded, sErr := jobs.Number(s, 0, "succeeded")
		if rErr != nil || sErr != nil {
			return false
		}
		if state == api.DependencyComplete {
			return succeeded >= want
		}
		return ready+succeeded >= want
	}
	return want == 0
}
