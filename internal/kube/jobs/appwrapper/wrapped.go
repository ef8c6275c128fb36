package appwrapper

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayservice"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// foreign are the kinds of others that AppWrappers can wrap. What users of a team
// may wrap although they may not create all of it directly goes through a queue that
// way, or gives no right that they do not have. A ServiceAccount, for one, is not
// among them.
func foreign() []jobs.Wrappable {
	gvk := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	out := []jobs.Wrappable{
		{
			GVK:      gvk("", "v1", "Pod"),
			Resource: "pods",
			RunsPods: true,
			Wrapping: &jobs.Wrapping{PodSets: podOf, Direct: true, EndsOnce: always},
		},
		{GVK: gvk("", "v1", "Service"), Resource: "services"},
		{GVK: gvk("", "v1", "ConfigMap"), Resource: "configmaps"},
		{GVK: gvk("", "v1", "Secret"), Resource: "secrets"},
		{GVK: gvk("", "v1", "PersistentVolumeClaim"), Resource: "persistentvolumeclaims"},
		{
			GVK:      gvk("apps", "v1", "Deployment"),
			Resource: "deployments",
			RunsPods: true,
			Wrapping: &jobs.Wrapping{PodSets: podsOfReplicas},
		},
		{
			GVK:      gvk("apps", "v1", "StatefulSet"),
			Resource: "statefulsets",
			RunsPods: true,
			Wrapping: &jobs.Wrapping{PodSets: podsOfReplicas, Direct: true},
		},
		{
			GVK:        gvk("apps", "v1", "ReplicaSet"),
			Resource:   "replicasets",
			RunsPods:   true,
			NotByTeams: true,
			Wrapping:   &jobs.Wrapping{PodSets: podsOfReplicas, Direct: true},
		},
		{GVK: gvk("scheduling.x-k8s.io", "v1alpha1", "PodGroup"), Resource: "podgroups"},
		{
			GVK:      gvk("kubeflow.org", "v1", "PyTorchJob"),
			Resource: "pytorchjobs",
			RunsPods: true,
			Wrapping: pytorchjob.Kind().Queueing.Wrapped,
		},
		{
			GVK:      gvk("ray.io", "v1", "RayCluster"),
			Resource: "rayclusters",
			RunsPods: true,
			Wrapping: raycluster.Kind().Queueing.Wrapped,
		},
		{
			GVK:      gvk("ray.io", "v1", "RayJob"),
			Resource: "rayjobs",
			RunsPods: true,
			Wrapping: rayjob.Kind().Queueing.Wrapped,
		},
		{
			GVK:      gvk("ray.io", "v1", "RayService"),
			Resource: "rayservices",
			RunsPods: true,
			Wrapping: rayservice.Kind().Queueing.Wrapped,
		},
		{
			GVK:      gvk("jobset.x-k8s.io", "v1alpha2", "JobSet"),
			Resource: "jobsets",
			RunsPods: true,
			Wrapping: jobset.Kind().Queueing.Wrapped,
		},
	}
	for _, k := range serving.Grouped() {
		out = append(out, jobs.Wrappable{GVK: k.GVK, Resource: k.Resource, RunsPods: true, Wrapping: k.Wrapped})
	}
	return out
}

// known are the kinds whose pods are known: native ones as their own folders say.
type known map[schema.GroupVersionKind]jobs.Wrapping

// wraps is the table for the kinds that there are, made once and only read.
var wraps = tableOf(native.All(), foreign()) //nolint:gochecknoglobals // every look at a component asks it

func tableOf(natives jobs.Kinds, others []jobs.Wrappable) known {
	out := known{}
	for _, w := range append(slices.Clone(others), natives.Wrappable()...) {
		if w.Wrapping != nil {
			out[w.GVK] = *w.Wrapping
		}
	}
	return out
}

// kindOf returns what is known of a kind, and whether anything is.
func kindOf(gvk schema.GroupVersionKind) (jobs.Wrapping, bool) {
	k, known := wraps[gvk]
	return k, known
}

// readBy is the kind that is based on objects of another, "" if none is.
func readBy(gvk schema.GroupVersionKind) string {
	reader := ""
	for k, w := range wraps {
		if w.Basis == nil || reader != "" && reader < k.Kind {
			continue
		}
		if b := w.Basis.Kind(jobs.BasisRef{Kind: gvk.Kind}); b != nil && b.GVK == gvk {
			reader = k.Kind
		}
	}
	return reader
}

// believedElsewhere reports whether the pods of a kind are known here and nowhere else.
// Other AppWrapper controllers believe what is declared of it, so that there are
// manifests which declare the wrong number.
func believedElsewhere(gvk schema.GroupVersionKind) bool {
	switch gvk.GroupKind().String() {
	case "Pod", "Deployment.apps", "StatefulSet.apps", "ReplicaSet.apps", "Job.batch", "JobSet.jobset.x-k8s.io",
		"PyTorchJob.kubeflow.org", "RayCluster.ray.io", "RayJob.ray.io":
		return false
	}
	return true
}

// knownVersion is the version in which a kind is known, "" if it is in none, and the
// first by name if it is in several.
func knownVersion(k schema.GroupKind) string {
	version := ""
	for gvk := range wraps {
		if gvk.GroupKind() == k && (version == "" || cmp.Less(gvk.Version, version)) {
			version = gvk.Version
		}
	}
	return version
}

func podOf(map[string]any) ([]aw.AppWrapperPodSet, error) {
	return []aw.AppWrapperPodSet{{Path: "template", Replicas: new(int32(1))}}, nil
}

func podsOfReplicas(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	n, err := jobs.Number(t, 1, "spec", "replicas")
	return []aw.AppWrapperPodSet{{Path: "template.spec.template", Replicas: &n}}, err
}
