package raycluster

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// wrapped is what AppWrappers have to know of clusters.
func wrapped() *jobs.Wrapping {
	return &jobs.Wrapping{
		PodSets: WrappedPods(
			"spec",
		),
		Dropped:   [][]string{{"spec", "suspend"}},
		Unbounded: Grows("spec"),
		Direct:    true,
	}
}

// WrappedPods finds the pods of a cluster's spec, which is at a path of an object. A job
// that uses a cluster which exists already has none of its own.
func WrappedPods(spec ...string) func(map[string]any) ([]aw.AppWrapperPodSet, error) {
	path := "template." + strings.Join(spec, ".")
	return func(t map[string]any) ([]aw.AppWrapperPodSet, error) {
		at := func(more ...string) []string { return append(slices.Clip(spec), more...) }
		if _, ok, _ := unstructured.NestedFieldNoCopy(t, at("headGroupSpec")...); !ok {
			return nil, nil
		}
		out := []aw.AppWrapperPodSet{{Path: path + ".headGroupSpec.template", Replicas: new(int32(1))}}
		groups, err := jobs.Objects(t, at("workerGroupSpecs")...)
		for i, g := range groups {
			n, nErr := WrappedWorkers(g)
			if nErr != nil {
				return nil, fmt.Errorf("workerGroupSpecs[%d]: %w", i, nErr)
			}
			out = append(
				out,
				aw.AppWrapperPodSet{Path: fmt.Sprintf("%s.workerGroupSpecs[%d].template", path, i), Replicas: &n},
			)
		}
		return out, err
	}
}

// WrappedWorkers is how many pods a group of workers has: each replica is one pod on each
// of its hosts, and there are no fewer replicas than the least and no more than the most.
func WrappedWorkers(group map[string]any) (int32, error) {
	least, err := jobs.Number(group, 0, "minReplicas")
	if err != nil {
		return 0, err
	}
	most, err := jobs.Number(group, math.MaxInt32, "maxReplicas")
	if err != nil {
		return 0, err
	}
	replicas, err := jobs.Number(group, least, "replicas")
	if err != nil {
		return 0, err
	}
	hosts, err := jobs.Number(group, 1, "numOfHosts")
	if err != nil {
		return 0, err
	}
	return jobs.Times(min(max(replicas, least), most), max(hosts, 1))
}

// Grows finds out whether a cluster, whose spec is at a path of an object, grows by itself.
// Its autoscaler is a container beside the head besides, which nothing counts.
func Grows(spec ...string) func(map[string]any) []jobs.Growth {
	return func(t map[string]any) []jobs.Growth {
		v, _, _ := unstructured.NestedFieldNoCopy(t, append(slices.Clip(spec), "enableInTreeAutoscaling")...)
		if v == nil || v == false {
			return nil
		}
		return []jobs.Growth{
			{
				Path:  "template." + strings.Join(spec, ".") + ".enableInTreeAutoscaling",
				Value: v,
				Cure:  "a cluster that grows by itself cannot be part of an AppWrapper: use false, and as many replicas as it needs, or queue the cluster by itself",
			},
		}
	}
}
