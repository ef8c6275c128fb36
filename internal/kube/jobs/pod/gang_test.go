package pod_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
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

// What PodGroups of each API say of their pods, and what of it cannot be kept.
func TestGangOf(t *testing.T) {
	gang := func(more map[string]any) map[string]any {
		out := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(4)}}}
		maps.Copy(out, more)
		return out
	}
	basic := map[string]any{"basic": map[string]any{}}
	near := map[string]any{"topology": []any{map[string]any{"key": "rack"}}}
	both := map[string]any{"topology": []any{map[string]any{"key": "rack"}, map[string]any{"key": "block"}}}
	const native = podmeta.NativeGroup
	for name, tc := range map[string]struct {
		group string
		spec  map[string]any
		want  pod.Gang
		wrong string // the field that is named
	}{
		"nothing":         {"scheduling.volcano.sh", nil, pod.Gang{Least: 1}, ""},
		"none":            {"scheduling.volcano.sh", map[string]any{"minMember": int64(0)}, pod.Gang{Least: 1}, ""},
		"four":            {"scheduling.x-k8s.io", map[string]any{"minMember": int64(4)}, pod.Gang{Least: 4}, ""},
		"too many":        {"scheduling.x-k8s.io", map[string]any{"minMember": int64(1) << 40}, pod.Gang{}, "no number"},
		"no number":       {"scheduling.x-k8s.io", map[string]any{"minMember": "4"}, pod.Gang{}, "no number"},
		"a gang":          {native, gang(nil), pod.Gang{Least: 4}, ""},
		"in one rack":     {native, gang(map[string]any{"schedulingConstraints": near}), pod.Gang{Least: 4, Near: inRack}, ""},
		"each by itself":  {native, map[string]any{"schedulingPolicy": basic}, pod.Gang{Least: 1, Single: true}, ""},
		"of another kind": {native, map[string]any{"minMember": int64(4)}, pod.Gang{Least: 1}, ""},
		"each by itself in one rack": {
			native,
			map[string]any{"schedulingPolicy": basic, "schedulingConstraints": near},
			pod.Gang{},
			"spec.schedulingConstraints.topology",
		},
		"in a rack and a block": {
			native, gang(map[string]any{"schedulingConstraints": both}), pod.Gang{}, "spec.schedulingConstraints.topology",
		},
		"a group of a group": {native, gang(map[string]any{"parentCompositePodGroupName": "all"}), pod.Gang{Least: 4}, ""},
		"with devices of its own": {
			native, gang(map[string]any{"resourceClaims": []any{map[string]any{"name": "nvlink"}}}), pod.Gang{}, "spec.resourceClaims",
		},
	} {
		got, err := pod.GangOf(tc.group, tc.spec, nil)
		if !cmp.Equal(got, tc.want) || (err != nil) != (tc.wrong != "") ||
			err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

var inRack = pod.Near{Required: "rack", Field: "spec.schedulingConstraints.topology"}

// Pods of a group that asks for one domain are in one whatever their roles. What they require themselves is within it, and
// that they may be anywhere contradicts it.
func TestPodsOfOneDomain(t *testing.T) {
	other := note(kueue.RoleHashAnnotation, "other")
	u := pod.NewUnit([]*corev1.Pod{aPod("a", 0), aPod("b", 1, other), aPod("c", 2)}, nil)
	u.As(pod.Gang{Least: 3, Near: inRack})
	sets := u.PodSets()
	if len(sets) != 2 || u.Wrong != "" {
		t.Fatalf("%d pod sets, %s", len(sets), u.Wrong)
	}
	for _, ps := range sets {
		if r := ps.TopologyRequest; r == nil || *r.Required != "rack" || r.PodSetGroupName == nil ||
			*r.PodSetGroupName != "all" {
			t.Errorf("pod set %s asks for %v", ps.Name, r)
		}
	}
	hosts := note(kueue.PodSetRequiredTopologyAnnotation, "host")
	u = pod.NewUnit([]*corev1.Pod{aPod("a", 0), aPod("b", 1, other, hosts)}, nil)
	u.As(pod.Gang{Least: 2, Near: inRack})
	sets = u.PodSets()
	if r := sets[1].TopologyRequest; u.Wrong != "" || *r.Required != "host" ||
		sets[1].Template.Annotations[kueue.TopologyGroupsAnnotation] != "rack=all" ||
		*sets[0].TopologyRequest.PodSetGroupName != "all" {
		t.Errorf("a host within the rack is %v, %q: %s", r, sets[1].Template.Annotations, u.Wrong)
	}
	anywhere := note(kueue.PodSetUnconstrainedTopologyAnnotation, "true")
	u = pod.NewUnit([]*corev1.Pod{aPod("a", 0), aPod("b", 1, anywhere)}, nil)
	u.As(pod.Gang{Least: 2, Near: inRack})
	for _, named := range []string{"pod b", kueue.PodSetUnconstrainedTopologyAnnotation, "rack", "spec.schedulingConstraints.topology"} {
		if !strings.Contains(u.Wrong, named) {
			t.Errorf("%q does not name %s", u.Wrong, named)
		}
	}
}

// Kubernetes' scheduler takes no pod of a group while another is held: of groups that it binds, all pods have to start
// together, or the first would hold their quota for nothing.
func TestGroupsThatKubernetesBinds(t *testing.T) {
	native := note(podmeta.PodGroupKindAnnotation, podmeta.NativeGroup)
	theirs := func(p *corev1.Pod) {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: kueue.TopologyGate})
	}
	for name, tc := range map[string]struct {
		change []func(*corev1.Pod)
		gang   pod.Gang
		wrong  string
	}{
		"all together":             {[]func(*corev1.Pod){native, theirs}, pod.Gang{Least: 2}, ""},
		"more than start together": {[]func(*corev1.Pod){native, theirs}, pod.Gang{Least: 1}, "minCount"},
		"one by one":               {[]func(*corev1.Pod){native, theirs}, pod.Gang{Least: 1, Single: true}, "schedulingPolicy.gang"},
		"one by one, bound here":   {[]func(*corev1.Pod){native}, pod.Gang{Least: 1, Single: true}, ""},
		"of Volcano": {
			[]func(*corev1.Pod){note(podmeta.PodGroupKindAnnotation, podmeta.VolcanoGroup), theirs}, pod.Gang{Least: 1}, "",
		},
	} {
		u := pod.NewUnit([]*corev1.Pod{aPod("a", 0, tc.change...), aPod("b", 1, tc.change...)}, nil)
		u.As(tc.gang)
		if (u.Wrong != "") != (tc.wrong != "") || !strings.Contains(u.Wrong, tc.wrong) ||
			u.Single != (tc.gang.Single && tc.wrong == "") {
			t.Errorf("%s: %q, single %v", name, u.Wrong, u.Single)
		}
	}
}
