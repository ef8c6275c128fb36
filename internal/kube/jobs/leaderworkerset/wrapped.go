package leaderworkerset

import (
	"errors"
	"fmt"
	"strings"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// heldBack reports whether the pods at a path come once others are ready.
func heldBack(o map[string]any, path string) bool {
	spec, _ := o["spec"].(map[string]any)
	return spec["startupPolicy"] == string(api.LeaderReady) && strings.HasSuffix(path, "workerTemplate")
}

// wrappedPods are the pods of all groups of a set, as its author wrote it.
func wrappedPods(o map[string]any) ([]aw.AppWrapperPodSet, error) {
	const path = "template.spec.leaderWorkerTemplate."
	replicas, err := jobs.Number(o, 1, "spec", "replicas")
	size, sizeErr := jobs.Number(o, 1, "spec", "leaderWorkerTemplate", "size")
	if err = errors.Join(err, sizeErr); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	if size < 1 {
		return nil, errors.New("spec.leaderWorkerTemplate.size must be 1 or more: the leader is counted")
	}
	spec, _ := o["spec"].(map[string]any)
	template, _ := spec["leaderWorkerTemplate"].(map[string]any)
	if template["leaderTemplate"] == nil {
		all, err := jobs.Times(replicas, size)
		return []aw.AppWrapperPodSet{{Path: path + "workerTemplate", Replicas: &all}}, err
	}
	out := []aw.AppWrapperPodSet{{Path: path + "leaderTemplate", Replicas: &replicas}}
	n, err := jobs.Times(replicas, size-1)
	if n > 0 {
		out = append(out, aw.AppWrapperPodSet{Path: path + "workerTemplate", Replicas: &n})
	}
	return out, err
}
