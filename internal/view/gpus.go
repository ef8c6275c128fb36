package view

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// IsGPU reports whether a resource is GPUs of whatever make, or parts of them.
func IsGPU(resource string) bool {
	_, name, extended := strings.Cut(resource, "/")
	return extended && (strings.Contains(name, "gpu") || strings.HasPrefix(name, "mig-"))
}

// Slice returns what people call a resource that is parts of GPUs, such as mig-1g.5gb; "" for others.
func Slice(resource string) string {
	_, name, extended := strings.Cut(resource, "/")
	if extended && strings.HasPrefix(name, "mig-") {
		return name
	}
	return ""
}

// Devices are GPUs: whole ones, and parts of them by their sort, such as mig-1g.5gb.
type Devices struct {
	GPUs   int64
	Slices map[string]int64
}

// DevicesOf are the GPUs that a pod asks for, of whatever make.
func DevicesOf(spec *corev1.PodSpec) (out Devices) {
	for _, r := range convert.PodRequests(spec) {
		switch name := Slice(r.Resource); {
		case name != "" && r.Amount > 0:
			out.Slices = AddSlices(out.Slices, map[string]int64{name: int64(r.Amount)})
		case name == "" && IsGPU(r.Resource):
			out.GPUs = add(out.GPUs, int64(r.Amount))
		}
	}
	return out
}

// Times are the devices of n pods.
func (d Devices) Times(n int32) (out Devices) {
	out.GPUs = times(d.GPUs, n)
	for name, k := range d.Slices {
		if n > 0 {
			out.Slices = AddSlices(out.Slices, map[string]int64{name: times(k, n)})
		}
	}
	return out
}

// GPUs is how many whole GPUs a pod asks for.
func GPUs(spec *corev1.PodSpec) (n int64) { return DevicesOf(spec).GPUs }

// Slices is how many parts of GPUs of each sort a pod asks for, times n; nil if none.
func Slices(spec *corev1.PodSpec, n int32) (out map[string]int64) {
	return DevicesOf(spec).Times(n).Slices
}

// AddSlices returns the sum of two numbers of parts of GPUs by their sort.
func AddSlices(a, b map[string]int64) map[string]int64 {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]int64{}
	}
	for name, n := range b {
		out[name] = add(out[name], n)
	}
	return out
}

// add and times stay at the most that an amount can be: sums that come round to less than
// nothing cannot be written down.
func add(a, b int64) int64 { return int64(core.Amount(a).Add(core.Amount(b))) }

func times(a int64, n int32) int64 { return int64(core.Amount(a).Mul(int64(n))) }

// Size is how many pods and GPUs a Workload was admitted with or, if it is not, asks for.
func Size(w *kueue.Workload) (pods int32, gpus int64) {
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		n := Count(w, set)
		pods = int32(min(int64(pods)+int64(n), math.MaxInt32)) //nolint:gosec // it is bounded
		gpus = add(gpus, times(GPUs(&set.Template.Spec), n))
	}
	return pods, gpus
}

// SlicesOf is how many parts of GPUs of each sort a Workload was admitted with or, if it is not,
// asks for; nil if none.
func SlicesOf(w *kueue.Workload) (out map[string]int64) {
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		out = AddSlices(out, Slices(&set.Template.Spec, Count(w, set)))
	}
	return out
}

// Count is how many pods of a pod set were admitted or, of a Workload that is not, are asked for.
func Count(w *kueue.Workload, set *kueue.PodSet) int32 {
	if w.Status.Admission != nil {
		for _, a := range w.Status.Admission.PodSetAssignments {
			if a.Name == set.Name && a.Count != nil {
				return *a.Count
			}
		}
	}
	return set.Count
}

// Culprit is the container of a pod that failed first, and how; nil if none failed by itself.
func Culprit(pod *corev1.Pod) (container string, first *corev1.ContainerStateTerminated) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			t := list[i].State.Terminated
			if t != nil && t.ExitCode != 0 && (first == nil || t.FinishedAt.Time.Before(first.FinishedAt.Time)) {
				container, first = list[i].Name, t
			}
		}
	}
	return container, first
}

// FailedAt is when the first container of a pod failed; later than anything that happens if none says so.
func FailedAt(pod *corev1.Pod) time.Time {
	if _, t := Culprit(pod); t != nil {
		return t.FinishedAt.Time
	}
	return time.Unix(1<<40, 0)
}

// NotStarted is why a runtime cannot start a container of a pod, in its words: the image or the command
// is not there, or what the container needs; "" if it can.
func NotStarted(pod *corev1.Pod) string {
	cannot := []string{
		"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
		"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun",
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Running != nil {
			continue // it could at last
		}
		for _, x := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			switch w, t := x.Waiting, x.Terminated; {
			case w != nil && slices.Contains(cannot, w.Reason):
				return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
			case t != nil && slices.Contains(cannot, t.Reason):
				return strings.TrimSuffix(t.Reason+": "+t.Message, ": ")
			}
		}
	}
	return ""
}

// SliceSum is how many parts there are of all sorts.
func SliceSum(parts map[string]int64) (n int64) {
	for _, of := range parts {
		n += of
	}
	return n
}
