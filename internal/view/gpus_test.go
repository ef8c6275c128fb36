package view_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// What a job asks for is its author's to write. A sum that came round to less than nothing
// could not be recorded, and then nothing that ended in the namespace was.
func TestSizeStaysAtTheMost(t *testing.T) {
	const most = "9223372036854775807"
	container := func(gpus string) corev1.Container {
		return corev1.Container{
			Name: "c",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)},
			},
		}
	}
	set := func(count int32, containers ...corev1.Container) kueue.PodSet {
		return kueue.PodSet{
			Count:    count,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers}},
		}
	}
	for name, c := range map[string]struct {
		sets []kueue.PodSet
		pods int32
		gpus int64
	}{
		"pods of one set":    {[]kueue.PodSet{set(2, container(most))}, 2, math.MaxInt64},
		"two sets":           {[]kueue.PodSet{set(1, container(most)), set(1, container(most))}, 2, math.MaxInt64},
		"two containers":     {[]kueue.PodSet{set(1, container(most), container(most))}, 1, math.MaxInt64},
		"more pods than 32":  {[]kueue.PodSet{set(math.MaxInt32, container("1")), set(math.MaxInt32, container("1"))}, math.MaxInt32, 2 * math.MaxInt32},
		"what there will be": {[]kueue.PodSet{set(3, container("8")), set(1, container("1"))}, 4, 25},
	} {
		w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: c.sets}}
		if pods, gpus := view.Size(w); pods != c.pods || gpus != c.gpus {
			t.Errorf("%s: %d pods with %d GPUs, want %d with %d", name, pods, gpus, c.pods, c.gpus)
		}
	}
}

// A container that runs could be started, whatever it was like before.
func TestNotStarted(t *testing.T) {
	cannot := &corev1.ContainerStateTerminated{Reason: "StartError", Message: "no such file"}
	for name, c := range map[string]struct {
		is   corev1.ContainerStatus
		want string
	}{
		"no image":        {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}, "ErrImagePull: not found"},
		"no command":      {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: cannot}}, "StartError: no such file"},
		"it waits again":  {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: cannot}}, "StartError: no such file"},
		"at last it runs": {corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: corev1.ContainerState{Terminated: cannot}}, ""},
		"it begins":       {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}, ""},
		"it crashes":      {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}}, ""},
	} {
		if got := view.NotStarted(
			&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c.is}}},
		); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
