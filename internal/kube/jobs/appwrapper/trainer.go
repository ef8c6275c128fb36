package appwrapper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// podsOfPyTorchJob finds the pods of each role. The training operator reads the
// names of roles in any case. Roles that it does not know are left to the search
// for uncounted pods.
func podsOfPyTorchJob(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	roles, _, err := unstructured.NestedMap(t, "spec", "pytorchReplicaSpecs")
	if err != nil {
		return nil, fmt.Errorf("read the roles: %w", err)
	}
	var out []aw.AppWrapperPodSet
	for _, known := range []string{"Master", "Worker"} {
		for _, role := range slices.Sorted(maps.Keys(roles)) {
			if !strings.EqualFold(role, known) {
				continue
			}
			n, err := jobs.Number(t, 1, "spec", "pytorchReplicaSpecs", role, "replicas")
			if err != nil {
				return nil, err
			}
			out = append(out, aw.AppWrapperPodSet{
				Path: "template.spec.pytorchReplicaSpecs." + role + ".template", Replicas: &n,
				Annotations: map[string]string{aw.TASPodIndexLabelAnnotation: trainerIndexLabel},
			})
		}
	}
	return out, nil
}

// elasticPyTorchJob finds out whether workers can become more while they run.
func elasticPyTorchJob(t map[string]any) []jobs.Growth {
	most, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "elasticPolicy", "maxReplicas")
	if !ok || most == nil {
		return nil
	}
	roles, _, _ := unstructured.NestedMap(t, "spec", "pytorchReplicaSpecs")
	workers := int32(0)
	for role := range roles {
		if n, err := jobs.Number(t, 1, "spec", "pytorchReplicaSpecs", role, "replicas"); err == nil && strings.EqualFold(role, "Worker") {
			workers = n
		}
	}
	if n, isInt := most.(int64); isInt && n <= int64(workers) {
		return nil
	}
	return []jobs.Growth{{
		Path: "template.spec.elasticPolicy.maxReplicas", Value: most,
		Cure: fmt.Sprintf("workers that become more while they run cannot be queued yet: use at most %d, the replicas of the role Worker", workers),
	}}
}
