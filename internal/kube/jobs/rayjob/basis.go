package rayjob

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// headAnnotation of a job is what the head of the cluster is, which its clusterSelector names, as
// far as the pod that submits the job is made of it.
const headAnnotation = "mlbatch.dev/ray-head"

// headOf is what is recorded of a cluster's head.
type headOf struct {
	// Cluster is its name: a job may be changed to name another.
	Cluster          string                        `json:"cluster"`
	Image            string                        `json:"image"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// basis is the cluster that a job names, where the pod that submits the job is to have its image.
func basis() *jobs.Basis {
	return &jobs.Basis{
		Annotation: headAnnotation, Awaited: true,
		Kinds: []jobs.BasisKind{{
			GVK: api.GroupVersion.WithKind(api.RayClusterKind), Resource: "rayclusters", Namespaced: true,
			New: raycluster.Child().New,
		}},
		Of: jobs.Of(func(j *api.RayJob) jobs.BasisRef {
			return jobs.BasisRef{
				Kind: api.RayClusterKind,
				Name: clusterName(j),
				At:   field.NewPath("spec", "clusterSelector").Key(api.ClusterLabel),
			}
		}),
		Missing: jobs.Of(waits),
		With:    with,
	}
}

// waits reports whether the image of the pod that submits a job is not known yet.
func waits(j *api.RayJob) bool {
	return j.Spec.RayClusterSpec == nil && clusterName(j) != "" && j.Spec.SubmitterPodTemplate == nil &&
		mode(j) == api.K8sJobMode &&
		recorded(j).Image == "" &&
		finished(j) == nil
}

// recorded is what is recorded of the cluster that a job names; nothing if it is not.
func recorded(j *api.RayJob) headOf {
	var h headOf
	text, is := j.Annotations[headAnnotation]
	if !is || j.Spec.RayClusterSpec != nil || json.Unmarshal([]byte(text), &h) != nil ||
		h.Cluster != clusterName(j) {
		return headOf{}
	}
	return h
}

// with records the head of a cluster in a job.
func with(job, cluster jobs.Object, _ jobs.Schedulers) jobs.Object {
	j, err := cast(job)
	c, is := cluster.(*api.RayCluster)
	if err != nil || !is || len(c.Spec.HeadGroupSpec.Template.Spec.Containers) == 0 {
		return job
	}
	pod := &c.Spec.HeadGroupSpec.Template.Spec
	text, err := json.Marshal(
		headOf{
			Cluster:          c.Name,
			Image:            pod.Containers[0].Image,
			ImagePullSecrets: slices.Clone(pod.ImagePullSecrets),
		},
	)
	if err != nil {
		return job // these can be written
	}
	out := j.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, headAnnotation, string(text))
	return out
}
