package pod_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// The ways in which other schedulers' pods name their groups.
func TestNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*corev1.Pod)
		group, want string
	}{
		"none":               {func(*corev1.Pod) {}, "", ""},
		"scheduler plugins":  {func(p *corev1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "a" }, "scheduling.x-k8s.io", "a"},
		"older plugins":      {func(p *corev1.Pod) { p.Labels["pod-group.scheduling.sigs.k8s.io"] = "a" }, "scheduling.x-k8s.io", "a"},
		"Volcano":            {note("scheduling.k8s.io/group-name", "a"), "scheduling.volcano.sh", "a"},
		"Volcano, otherwise": {note("scheduling.volcano.sh/group-name", "a"), "scheduling.volcano.sh", "a"},
		"Kubernetes":         {func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("a")} }, "scheduling.k8s.io", "a"},
		"Sakkara":            {func(p *corev1.Pod) { p.Labels["sakkara.group.name"] = "a" }, "sakkara.group", "a"},
		"Sakkara goes first": {func(p *corev1.Pod) {
			p.Labels["sakkara.group.name"], p.Labels["scheduling.x-k8s.io/pod-group"] = "a", "b"
		}, "sakkara.group", "a"},
	} {
		if group, got := podmeta.Named(aPod("p", 0, tc.change)); group != tc.group || got != tc.want {
			t.Errorf("%s: %q of %q", name, got, group)
		}
		if _, known := podmeta.GangKind(tc.group); known != (tc.group != "" && tc.group != podmeta.SakkaraGroup) {
			t.Errorf("%s: known is %v", name, known)
		}
	}
}

// How many pods start together, as PodGroups of each API say it.
func TestLeast(t *testing.T) {
	for name, tc := range map[string]struct {
		group string
		spec  map[string]any
		want  int32
		wrong bool
	}{
		"nothing":         {"scheduling.volcano.sh", nil, 1, false},
		"none":            {"scheduling.volcano.sh", map[string]any{"minMember": int64(0)}, 1, false},
		"four":            {"scheduling.x-k8s.io", map[string]any{"minMember": int64(4)}, 4, false},
		"too many":        {"scheduling.x-k8s.io", map[string]any{"minMember": int64(1) << 40}, 0, true},
		"no number":       {"scheduling.x-k8s.io", map[string]any{"minMember": "4"}, 0, true},
		"a gang":          {"scheduling.k8s.io", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(4)}}}, 4, false},
		"one for itself":  {"scheduling.k8s.io", map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}}}, 1, false},
		"of another kind": {"scheduling.k8s.io", map[string]any{"minMember": int64(4)}, 1, false},
	} {
		got, err := pod.Least(tc.group, tc.spec)
		if got != tc.want || (err != nil) != tc.wrong {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
