package trim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func aPod() *corev1.Pod {
	asks := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "p",
			Labels:      map[string]string{"a": "b"},
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "x"},
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j"}},
		},
		Spec: corev1.PodSpec{
			NodeName:        "n",
			SchedulerName:   "s",
			Volumes:         []corev1.Volume{{Name: "v"}},
			Overhead:        corev1.ResourceList{"cpu": resource.MustParse("1")},
			NodeSelector:    map[string]string{"zone": "z"},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "g"}},
			InitContainers: []corev1.Container{
				{
					Name:          "i",
					RestartPolicy: &always,
					Resources:     corev1.ResourceRequirements{Requests: asks},
					Command:       []string{"x"},
				},
			},
			Containers: []corev1.Container{
				{
					Name:      "c",
					Image:     "image",
					Ports:     []corev1.ContainerPort{{ContainerPort: 1}},
					Resources: corev1.ResourceRequirements{Requests: asks},
					Env: []corev1.EnvVar{
						{Name: "A", Value: "B"},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "v"}},
					Args:         []string{"x"},
				},
			},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name:         "c",
					ImageID:      "long",
					RestartCount: 3,
					State:        corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}},
				},
			},
		},
	}
}

// Of a pod that is not queued itself all stays that is counted, compared or shown, and the
// rest goes; one that is queued stays whole.
func TestPodsInTheCache(t *testing.T) {
	got, err := (&resourceLists{}).trimPod(aPod())
	if err != nil {
		t.Fatal(err)
	}
	p, _ := got.(*corev1.Pod)
	was := aPod()
	if d := cmp.Diff(convert.PodRequests(&was.Spec), convert.PodRequests(&p.Spec)); d != "" {
		t.Errorf("what it asks for (-was +is):\n%s", d)
	}
	want := aPod()
	want.ManagedFields, want.Spec.Volumes = nil, nil
	want.Spec.InitContainers[0].Command = nil
	c := &want.Spec.Containers[0]
	c.Env, c.VolumeMounts, c.Args = nil, nil, nil
	want.Status.ContainerStatuses[0].ImageID = ""
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	queued, want := aPod(), aPod()
	queued.Labels[kueue.ManagedLabel], want.Labels[kueue.ManagedLabel] = "true", "true"
	want.ManagedFields = nil
	if got, err = (&resourceLists{}).trimPod(queued); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("one that is queued (-want +got):\n%s", d)
	}
	if _, err := (&resourceLists{}).trimPod(&corev1.Node{}); err == nil {
		t.Error("a node was taken for a pod")
	}
}

// Of a node goes what nothing counts.
func TestNodesInTheCache(t *testing.T) {
	node := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "n",
				Labels:      map[string]string{"a": "b"},
				Annotations: map[string]string{"c": "d"},
			},
			Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "t"}}},
			Status: corev1.NodeStatus{
				Capacity: corev1.ResourceList{
					"cpu": resource.MustParse("1"),
				},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1")},
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady},
				},
				Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
			},
		}
	}
	full := node()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	full.Status.NodeInfo.KernelVersion = "6"
	got, err := trimNode(full)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(node(), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
