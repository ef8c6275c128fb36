package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Labels and annotations by which jobs tell KAI Scheduler and Run:ai what mlbatch is told otherwise, with what to do
// instead. Those that are heeded are in kueue.KAIAnnotations.
const kaiPrefix = "kai.scheduler/"

func kaiQueues() map[string]string {
	queue := "the queue is that of the label " + kueue.QueueNameLabel
	nodes := "nodes are chosen by node selectors and affinity of the pods, and by the flavors of the queue"
	return map[string]string{
		kaiPrefix + "queue":     queue,
		"runai/queue":           queue,
		kaiPrefix + "node-pool": nodes,
		"runai/node-pool":       nodes,
		"priorityClassName": "the priority is that of the label " + kueue.PriorityClassLabel +
			", or of spec.priorityClassName of the pods",
		kaiPrefix + "preemptibility": "the policies of the ClusterQueue say for whom a job may be stopped",
	}
}

// kaiShares are annotations of pods that ask for a part of a GPU.
func kaiShares() []string {
	return []string{"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"}
}

// unheededKAI tells of what an object, or one of its pods, tells KAI Scheduler and is not heeded here. inGroup says
// that a PodGroup may have groups that its pods name.
func unheededKAI( //nolint:revive // a fact
	o metav1.Object,
	templates []jobs.PodTemplate,
	inGroup bool,
) []string {
	found := map[string]string{} // what, and why not
	add := func(kind, of, key, why string) { found[kind+" "+key+of] = why }
	look := func(labels, annotations map[string]string, of string) {
		for key, why := range kaiQueues() {
			if labels[key] != "" {
				add("label", of, key, why)
			}
		}
		for _, key := range kaiShares() {
			if annotations[key] != "" {
				add(
					"annotation",
					of,
					key,
					"pods get whole GPUs, or partitions that nodes offer as resources of their own: "+
						"request "+core.GPU+" or such a resource",
				)
			}
		}
		if annotations[kaiPrefix+"topology"] != "" {
			add(
				"annotation",
				of,
				kaiPrefix+"topology",
				"which Topology counts is that of the flavor (spec.topologyName)",
			)
		}
		for _, in := range []struct {
			kind string
			keys map[string]string
		}{{"label", labels}, {"annotation", annotations}} {
			for key := range in.keys {
				if strings.HasPrefix(key, kaiPrefix) && !kaiKnown(in.kind, key) {
					add(in.kind, of, key, "mlbatch does not know it")
				}
			}
		}
	}
	look(o.GetLabels(), o.GetAnnotations(), "")
	for key, why := range contradictedKAI(o.GetAnnotations(), len(templates) > 0) {
		add("annotation", "", key, why)
	}
	for _, t := range templates {
		const of = " of pods"
		look(t.Template.Labels, t.Template.Annotations, of)
		if t.Template.Labels[podmeta.SubGroupLabel] != "" && !inGroup {
			add("label", of, podmeta.SubGroupLabel,
				"the pods of a queued job are in no PodGroup: name groups by "+kueue.TopologyGroupsAnnotation)
		}
		for key, why := range contradictedKAI(t.Template.Annotations, false) {
			add("annotation", of, key, why)
		}
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(found)) {
		out = append(out, fmt.Sprintf("%s has no effect: %s", what, found[what]))
	}
	return out
}

// unheededKAI is what a job, or its pods, tell KAI Scheduler and is not heeded; nil is no job. Of one that is not queued
// nothing is.
func (h *jobHandler) unheededKAI(job jobs.Object) []string {
	if job == nil || job.GetLabels()[kueue.QueueNameLabel] == "" {
		return nil
	}
	templates := h.templates(job)
	if h.kind.Queueing.Components != nil {
		templates = slices.Concat(templates, h.components(job).templates())
	}
	return unheededKAI(job, templates, false)
}

// kaiKnown reports whether a label or an annotation is heeded, or told of by itself.
func kaiKnown(kind, key string) bool {
	if kind == "label" {
		return kaiQueues()[key] != "" || key == podmeta.SubGroupLabel
	}
	return key == kaiPrefix+"topology" || slices.Contains(kueue.KAIAnnotations(), key)
}

// contradictedKAI are those of KAI Scheduler's annotations that do not count because of others beside them; of a job
// whose pods have templates those of segments are none of its own.
func contradictedKAI(annotations map[string]string, ofJob bool) map[string]string { //nolint:revive // a fact
	out := map[string]string{}
	segments := []string{
		kueue.KAISegmentSizeAnnotation, kueue.KAISegmentRequiredAnnotation, kueue.KAISegmentPreferredAnnotation,
	}
	if ofJob {
		for _, key := range segments {
			if annotations[key] != "" {
				out[key] = "segments are of the pods of one template: set it there"
			}
		}
		return out
	}
	if own := kueueNearness(annotations); own != "" {
		for _, key := range kueue.KAIAnnotations() {
			if annotations[key] != "" {
				out[key] = "the annotation " + own + " beside it counts"
			}
		}
		return out
	}
	if annotations[kueue.KAISegmentSizeAnnotation] != "" &&
		annotations[kueue.KAISegmentRequiredAnnotation] == "" {
		out[kueue.KAISegmentSizeAnnotation] = "it needs " + kueue.KAISegmentRequiredAnnotation +
			", the level of which one domain must hold each segment"
	}
	if annotations[kueue.KAIPreferredAnnotation] != "" &&
		annotations[kueue.KAISegmentPreferredAnnotation] != "" &&
		annotations[kueue.KAIPreferredAnnotation] != annotations[kueue.KAISegmentPreferredAnnotation] {
		out[kueue.KAISegmentPreferredAnnotation] = "the annotation " + kueue.KAIPreferredAnnotation + " beside it counts"
	}
	return out
}

// kueueNearness is an annotation of Kueue's that says how near pods must be; "" if there is none.
func kueueNearness(annotations map[string]string) string {
	for _, key := range []string{
		kueue.PodSetRequiredTopologyAnnotation, kueue.PodSetPreferredTopologyAnnotation,
		kueue.PodSetUnconstrainedTopologyAnnotation, kueue.PodSetSliceRequiredTopologyAnnotation,
		kueue.PodSetSliceRequiredTopologyConstraintsAnnotation,
	} {
		if annotations[key] != "" {
			return key
		}
	}
	return ""
}
