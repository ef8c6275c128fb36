package jobs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

func TestPodSetOf(t *testing.T) {
	spec := func(image, gpus string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{
			{
				Name:  "main",
				Image: image,
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)},
				},
			},
		}}
	}
	set := func(name string, s corev1.PodSpec) kueue.PodSet {
		return kueue.PodSet{Name: kueue.PodSetReference(name), Count: 1, Template: corev1.PodTemplateSpec{Spec: s}}
	}
	pod := func(s corev1.PodSpec, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s}
	}
	role := func(v string) map[string]string {
		return map[string]string{"training.kubeflow.org/replica-type": v}
	}
	sidecar := spec("train", "2")
	sidecar.Containers = append(sidecar.Containers, corev1.Container{Name: "proxy", Image: "mesh"})
	for name, tc := range map[string]struct {
		why  string
		sets []kueue.PodSet
		pod  *corev1.Pod
		room map[kueue.PodSetReference]int32
		want kueue.PodSetReference
	}{
		"only one":    {"there is no choice", []kueue.PodSet{set("main", spec("a", "1"))}, pod(spec("other", "3"), nil), nil, "main"},
		"by role":     {"equal templates", []kueue.PodSet{set("Master", spec("a", "1")), set("Worker", spec("a", "1"))}, pod(spec("a", "1"), role("worker")), nil, "Worker"},
		"by contents": {"an AppWrapper numbers its pod sets", []kueue.PodSet{set("w-0", spec("a", "1")), set("w-1", spec("b", "1"))}, pod(spec("b", "1"), role("worker")), nil, "w-1"},
		"by requests": {"one image for all", []kueue.PodSet{set("w-0", spec("a", "1")), set("w-1", spec("a", "8"))}, pod(spec("a", "8"), nil), nil, "w-1"},
		"by room": {
			"an AppWrapper around a PyTorchJob of one template",
			[]kueue.PodSet{set("w-0", spec("a", "1")), set("w-1", spec("a", "1"))},
			pod(spec("a", "1"), nil),
			map[kueue.PodSetReference]int32{"w-1": 3},
			"w-1",
		},
		"sidecar": {"a webhook of others added it", []kueue.PodSet{set("w-0", spec("head", "2")), set("w-1", spec("train", "2"))}, pod(sidecar, nil), nil, "w-1"},
		"none":    {"a pod that is none of these is not counted as one", []kueue.PodSet{set("w-0", spec("a", "1")), set("w-1", spec("b", "1"))}, pod(spec("c", "1"), nil), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PodSetOf(tc.sets, tc.pod, tc.room); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.why, got, tc.want)
			}
		})
	}
}
