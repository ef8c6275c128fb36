package kubeflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// wrapped is what AppWrappers have to know of a variant.
func (v *Variant) wrapped() *jobs.Wrapping {
	w := &jobs.Wrapping{
		PodSets: v.podSets, Outcome: v.outcome,
		SameOutcome: jobs.OfBoth(sameConditions), Dropped: jobs.SuspendAndTTL("spec", "runPolicy"),
		Direct: true, EndsOnce: func(map[string]any) bool { return true },
	}
	if v.Elastic != nil {
		w.Unbounded = v.grows
	}
	return w
}

// outcome is how far a job is by its conditions. What its AppWrapper says of it begins with
// the job and that it failed already, and goes on behind.
func (v *Variant) outcome(o map[string]any) (lifecycle.Outcome, string) {
	how, message := jobs.ConditionsOutcome(string(api.JobSucceeded), string(api.JobFailed))(o)
	u := unstructured.Unstructured{Object: o}
	message = strings.TrimPrefix(
		message,
		fmt.Sprintf("%s %s/%s failed: ", v.Kind, u.GetNamespace(), u.GetName()),
	)
	return how, strings.TrimSuffix(message, ".")
}

// podSets finds the pods of each role, whose names are read in any case. Roles that the
// kind does not know are left to the search for uncounted pods.
func (v *Variant) podSets(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	roles, _, err := unstructured.NestedMap(t, "spec", v.Field)
	if err != nil {
		return nil, fmt.Errorf("read the roles: %w", err)
	}
	var out []aw.AppWrapperPodSet
	for i := range v.Roles {
		for _, key := range slices.Sorted(maps.Keys(roles)) {
			if v.role(api.ReplicaType(key)) != &v.Roles[i] {
				continue
			}
			n, err := jobs.Number(t, v.Roles[i].otherwise(), "spec", v.Field, key, "replicas")
			if err != nil {
				return nil, err
			}
			out = append(out, aw.AppWrapperPodSet{
				Path: "template.spec." + v.Field + "." + key + ".template", Replicas: &n,
				Annotations: map[string]string{aw.TASPodIndexLabelAnnotation: api.ReplicaIndexLabel},
			})
		}
	}
	return out, nil
}

// grows finds out whether workers can become more while they run.
func (v *Variant) grows(t map[string]any) []jobs.Growth {
	most, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "elasticPolicy", "maxReplicas")
	if !ok || most == nil {
		return nil
	}
	roles, _, _ := unstructured.NestedMap(t, "spec", v.Field)
	workers := int32(0)
	for key := range roles { // each adds what it has
		if v.role(api.ReplicaType(key)) != v.main() {
			continue
		}
		if n, err := jobs.Number(t, 1, "spec", v.Field, key, "replicas"); err == nil {
			workers += n
		}
	}
	if n, isInt := most.(int64); isInt && n <= int64(workers) {
		return nil
	}
	return []jobs.Growth{
		{
			Path:  "template.spec.elasticPolicy.maxReplicas",
			Value: most,
			Cure: fmt.Sprintf(
				"workers that become more while they run cannot be queued yet: use at most %d, the replicas of the role Worker",
				workers,
			),
		},
	}
}

// sameConditions reports whether a change is none of a job's conditions.
func sameConditions(was, is api.Job) bool {
	return slices.EqualFunc(was.State().Conditions, is.State().Conditions, func(a, b api.JobCondition) bool {
		return a.Type == b.Type && a.Status == b.Status
	})
}
