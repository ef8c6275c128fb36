package leaderworkerset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// heldBack reports whether the pods at a path come once others are ready.
func heldBack(o map[string]any, path string) bool {
	spec, _ := o["spec"].(map[string]any)
	return spec["startupPolicy"] == string(api.LeaderReady) && strings.HasSuffix(path, "workerTemplate")
}

// wrappedParts are the parts into which the pods of the worker template are cut in each group of a set, where all are
// equal: what an AppWrapper plans is one pod set for each template, so that parts with one pod more cannot be said.
func wrappedParts(o map[string]any) (t *Template, equal bool) {
	var l api.LeaderWorkerSet
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o, &l) != nil {
		return nil, false // it is told elsewhere
	}
	t = Of(&l)
	if !t.parted() {
		return t, false
	}
	c := t.cut()
	if t.Leader == nil {
		return t, c.even() && c.size%c.of == 0
	}
	return t, c.excluded && c.size > 1 && (c.size-1)%c.of == 0
}

// writeParts notes on the worker template of a set with subgroup-exclusive-topology which of its pods are in one domain.
func writeParts(o map[string]any) {
	t, equal := wrappedParts(o)
	if !equal {
		return
	}
	t.slice(&t.Worker, t.cut().of)
	notes := map[string]any{}
	for key, value := range t.Worker.Annotations {
		notes[key] = value
	}
	_ = unstructured.SetNestedMap( // it was read as one
		o, notes, "spec", "leaderWorkerTemplate", "workerTemplate", "metadata", "annotations",
	)
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
		out := aw.AppWrapperPodSet{Path: path + "workerTemplate", Replicas: &all}
		if _, equal := wrappedParts(o); equal { // their numbers say in which they are
			out.Annotations = map[string]string{
				aw.TASPodIndexLabelAnnotation:      api.WorkerIndexLabel,
				aw.TASSubGroupIndexLabelAnnotation: api.GroupIndexLabel,
				aw.TASSubGroupCountAnnotation:      strconv.Itoa(int(replicas)),
			}
		}
		return []aw.AppWrapperPodSet{out}, err
	}
	out := []aw.AppWrapperPodSet{{Path: path + "leaderTemplate", Replicas: &replicas}}
	n, err := jobs.Times(replicas, size-1)
	if n > 0 {
		out = append(out, aw.AppWrapperPodSet{Path: path + "workerTemplate", Replicas: &n})
	}
	return out, err
}
