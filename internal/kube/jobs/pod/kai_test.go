package pod_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// specOf reads the spec of a PodGroup.
func specOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// What a PodGroup of KAI Scheduler says of the groups that it consists of, and what of it cannot be kept.
func TestGangsOfKAI(t *testing.T) {
	const rack, block = "topology.example.com/rack", "topology.example.com/block"
	levels := []string{block, rack, "row.example.com/row", "hall.example.com/row"}
	near := func(required, preferred, at string) pod.Near {
		return pod.Near{
			Required: required, Preferred: preferred, Field: "spec." + at + "topologyConstraint.requiredTopologyLevel",
		}
	}
	sub := func(name string) string { return "subGroups[" + name + "]." }
	for name, tc := range map[string]struct {
		why, spec string
		want      pod.Gang
		wrong     []string
	}{
		"plain": {
			"all pods are one group", `{minMember: 4, queue: q, topologyConstraint: {topology: t, requiredTopologyLevel: ` + rack + `}}`,
			pod.Gang{Least: 4, Near: near(rack, "", "")},
			nil,
		},
		"two": {
			"each has so many pods, and all together their sum",
			`{subGroups: [{name: a, minMember: 2, topologyConstraint: {preferredTopologyLevel: rack}}, {name: b}]}`,
			pod.Gang{Least: 3, Near: near("", "", ""), Parts: []pod.Part{
				{Name: "a", Least: 2, Near: near("", rack, sub("a"))},
				{Name: "b", Least: 1, Near: near("", "", sub("b"))},
			}},
			nil,
		},
		"nested": {
			"a group of groups has no pods besides, wherever it is listed",
			`{minMember: 3, minSubGroup: 1, subGroups: [
				{name: a, parent: all, minMember: 1, topologyConstraint: {requiredTopologyLevel: rack}},
				{name: b, parent: all, minMember: 2},
				{name: all, minMember: 3, minSubGroup: 2, topologyConstraint: {requiredTopologyLevel: block}}]}`,
			pod.Gang{Least: 3, Near: near("", "", ""), Parts: []pod.Part{
				{Name: "a", Parent: "all", Least: 1, Near: near(rack, "", sub("a"))},
				{Name: "b", Parent: "all", Least: 2, Near: near("", "", sub("b"))},
				{Name: "all", Near: near(block, "", sub("all"))},
			}},
			nil,
		},
		"a level of two names": {
			"which is meant?", `{topologyConstraint: {requiredTopologyLevel: row}}`,
			pod.Gang{},
			[]string{"spec.topologyConstraint.requiredTopologyLevel", "row.example.com/row or hall.example.com/row"},
		},
		"no level": {
			"no node has such a label", `{subGroups: [{name: a, topologyConstraint: {preferredTopologyLevel: "one rack"}}]}`,
			pod.Gang{},
			[]string{"spec.subGroups[a].topologyConstraint.preferredTopologyLevel", "no label of nodes"},
		},
		"two Topologies": {
			"nodes are nested in one way", `{topologyConstraint: {topology: t}, subGroups: [{name: a, topologyConstraint: {topology: u}}]}`,
			pod.Gang{},
			[]string{"spec.subGroups[a].topologyConstraint.topology: it names Topology u", "spec.topologyConstraint.topology"},
		},
		"more pods than in its groups": {
			"so many never start", `{minMember: 4, subGroups: [{name: a, minMember: 3}]}`,
			pod.Gang{},
			[]string{"spec.minMember", "use 3 at most"},
		},
		"more pods than in the groups of a group": {
			"nor do these", `{subGroups: [{name: a, minMember: 4}, {name: b, parent: a, minMember: 3}]}`,
			pod.Gang{},
			[]string{"spec.subGroups[a].minMember", "use 3 at most"},
		},
		"fewer pods": {
			"more than that start together", `{minMember: 1, subGroups: [{name: a, minMember: 3}]}`,
			pod.Gang{Least: 3, Near: near("", "", ""), Parts: []pod.Part{{Name: "a", Least: 3, Near: near("", "", sub("a"))}}},
			nil,
		},
		"some of its groups": {
			"others would start later", `{minSubGroup: 1, subGroups: [{name: a}, {name: b}]}`,
			pod.Gang{},
			[]string{"spec.minSubGroup", "2 groups"},
		},
		"some of the groups of a group": {
			"so would these", `{subGroups: [{name: a, minSubGroup: 1}, {name: b, parent: a}, {name: c, parent: a}]}`,
			pod.Gang{},
			[]string{"spec.subGroups[a].minSubGroup", "2 groups"},
		},
		"no parent": {
			"it is in nothing", `{subGroups: [{name: a, parent: b}]}`, pod.Gang{}, []string{"spec.subGroups[a].parent", "no group b"},
		},
		"a circle": {
			"none is the outer one", `{subGroups: [{name: a, parent: b}, {name: b, parent: a}, {name: c}]}`,
			pod.Gang{},
			[]string{"spec.subGroups", "circle"},
		},
		"within itself": {"nor here", `{subGroups: [{name: a, parent: a}]}`, pod.Gang{}, []string{"circle"}},
		"twice":         {"of which are the pods?", `{subGroups: [{name: a}, {name: a}]}`, pod.Gang{}, []string{"spec.subGroups[1].name", "two called a"}},
		"no name":       {"no pod can name it", `{subGroups: [{minMember: 2}]}`, pod.Gang{}, []string{"spec.subGroups[0].name"}},
		"an odd name":   {"nor this", `{subGroups: [{name: "a b"}]}`, pod.Gang{}, []string{"spec.subGroups[0].name", podmeta.SubGroupLabel}},
		"no list":       {"it says nothing", `{subGroups: a}`, pod.Gang{}, []string{"spec.subGroups"}},
		"no number":     {"it says nothing", `{subGroups: [{name: a, minMember: many}]}`, pod.Gang{}, []string{"spec.subGroups[a].minMember"}},
		"no constraint": {"it says nothing", `{topologyConstraint: rack}`, pod.Gang{}, []string{"spec.topologyConstraint"}},
		"more than there are": {
			"sums are no small numbers", `{subGroups: [{name: a, minMember: 2147483647}, {name: b, minMember: 2147483647}]}`,
			pod.Gang{},
			[]string{"spec.subGroups", "no number of pods"},
		},
		"a crowd": {
			"whoever writes it has others wait for it",
			"{subGroups: [" + strings.Repeat("{name: a}, ", 65) + "]}",
			pod.Gang{},
			[]string{"spec.subGroups", "64 at most"},
		},
	} {
		got, err := pod.GangOf(podmeta.KAIGroup, specOf(t, tc.spec), levels)
		if len(tc.wrong) == 0 && err == nil {
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
			}
			continue
		}
		if (err != nil) != (len(tc.wrong) > 0) {
			t.Errorf("%s: %s: %v", name, tc.why, err)
		}
		for _, w := range tc.wrong {
			if err != nil && !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %s: %q does not say %q", name, tc.why, err, w)
			}
		}
	}
}

// in makes a pod one of a group within its PodGroup.
func in(group, role string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel], p.Labels[podmeta.SubGroupLabel] = "g", group
		p.Annotations[podmeta.PodGroupKindAnnotation] = podmeta.KAIGroup
		p.Annotations[kueue.RoleHashAnnotation] = role
	}
}

// kaiUnit is a unit as a PodGroup of KAI Scheduler says.
func kaiUnit(t *testing.T, spec string, pods ...*corev1.Pod) pod.Unit {
	t.Helper()
	gang, err := pod.GangOf(podmeta.KAIGroup, specOf(t, spec), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := pod.NewUnit(pods, nil)
	u.As(gang)
	return u
}

const pipeline = `{topologyConstraint: {requiredTopologyLevel: zone}, subGroups: [
	{name: model, topologyConstraint: {requiredTopologyLevel: block}},
	{name: prefill, parent: model, minMember: 2, topologyConstraint: {requiredTopologyLevel: rack}},
	{name: decode, parent: model, minMember: 2, topologyConstraint: {requiredTopologyLevel: rack}},
	{name: router}]}`

// Each group within a PodGroup is in a domain of its own, within that of the group around it.
func TestGroupsWithinAPodGroupNest(t *testing.T) {
	u := kaiUnit(
		t,
		pipeline,
		aPod("p0", 0, in("prefill", "prefill-1")),
		aPod("p1", 1, in("prefill", "prefill-1")),
		aPod(
			"d0",
			2,
			in("decode", "decode-1"),
		),
		aPod("d1", 3, in("decode", "decode-2"), note(kueue.PodSetRequiredTopologyAnnotation, "host")),
		aPod("r0", 4, in("router", "router-1")),
	)
	if u.Wrong != "" || u.Missing() != 0 || u.Total != 5 {
		t.Fatalf("%d pods, %d are missing: %s", u.Total, u.Missing(), u.Wrong)
	}
	got := map[string]string{}
	for _, ps := range u.PodSets() {
		group := ""
		if g := ps.TopologyRequest.PodSetGroupName; g != nil {
			group = *g
		}
		got[string(ps.Name)] = fmt.Sprintf(
			"%d: %s %s in %s",
			ps.Count,
			*ps.TopologyRequest.Required,
			group,
			ps.Template.Annotations[kueue.TopologyGroupsAnnotation],
		)
	}
	want := map[string]string{
		"prefill-1": "2: rack  in zone=all,block=subgroup-model",
		"decode-1":  "1: rack subgroup-decode in zone=all,block=subgroup-model",
		"decode-2":  "1: host  in zone=all,block=subgroup-model,rack=subgroup-decode",
		"router-1":  "1: zone all in ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// So many of each group start as it says: one that lacks pods has all wait, however many others have, and those that it has
// on top come later.
func TestEachGroupWithinAPodGroupIsComplete(t *testing.T) {
	const spec = `{minMember: 3, subGroups: [{name: a, minMember: 2}, {name: b, minMember: 1}]}`
	u := kaiUnit(
		t,
		spec,
		aPod(
			"a0",
			0,
			in("a", "a-1"),
		),
		aPod("a1", 1, in("a", "a-1")),
		aPod("a2", 2, in("a", "a-1")),
		aPod("a3", 3, in("a", "a-1")),
	)
	if u.Wrong != "" || u.Missing() != 1 {
		t.Errorf("%d are missing: %s", u.Missing(), u.Wrong)
	}
	early := note(kueue.PodGroupFastAdmissionAnnotation, "true")
	u = kaiUnit(t, spec, aPod("a0", 0, in("a", "a-1"), early))
	if u.Missing() != 2 {
		t.Errorf("what those of b ask for is not known, and %d are missing", u.Missing())
	}
	u = kaiUnit(
		t,
		spec,
		aPod(
			"a0",
			0,
			in("a", "a-1"),
		),
		aPod("a1", 1, in("a", "a-1")),
		aPod("a2", 2, in("a", "a-1")),
		aPod("b0", 3, in("b", "b-1")),
	)
	got := map[string]int32{}
	for _, ps := range u.PodSets() {
		got[string(ps.Name)] = ps.Count
	}
	if d := cmp.Diff(map[string]int32{"a-1": 2, "b-1": 1}, got); d != "" || u.Missing() != 0 {
		t.Errorf("%d are missing (-want +got):\n%s", u.Missing(), d)
	}
}

// A pod that is in none of the groups, or says that it may be anywhere, has all of them wait, and is named with the key.
func TestPodsInNoGroupWithinAPodGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"none":    {aPod("x", 1, in("", "x")), []string{"pod x", podmeta.SubGroupLabel, "does not say"}},
		"unknown": {aPod("x", 1, in("encode", "x")), []string{"pod x", "encode", "no such group"}},
		"of groups": {
			aPod("x", 1, in("model", "x")), []string{"pod x", "model", "consists of others"},
		},
		"anywhere": {
			aPod("x", 1, in("prefill", "x"), note(kueue.PodSetUnconstrainedTopologyAnnotation, "true")),
			[]string{"pod x", kueue.PodSetUnconstrainedTopologyAnnotation, "rack", "spec.subGroups[prefill].topologyConstraint.requiredTopologyLevel"},
		},
		"anywhere, though its own group says nothing": {
			aPod("x", 1, in("router", "x"), note(kueue.PodSetUnconstrainedTopologyAnnotation, "true")),
			[]string{"pod x", "zone", "spec.topologyConstraint.requiredTopologyLevel"},
		},
		"in too many groups": {
			aPod("x", 1, in("prefill", "x"), note(kueue.TopologyGroupsAnnotation, "rack=a,host=b"), note(kueue.PodSetRequiredTopologyAnnotation, "host")),
			[]string{"pod set x", kueue.TopologyGroupsAnnotation, "4 groups at most"},
		},
	} {
		u := kaiUnit(t, pipeline, aPod("r0", 0, in("router", "router-1")), tc.pod)
		for _, w := range tc.want {
			if !strings.Contains(u.Wrong, w) {
				t.Errorf("%s: %q does not say %q", name, u.Wrong, w)
			}
		}
	}
}

// Pods of two groups are two pod sets, whatever they ask for, and people see of which.
func TestRolesOfGroupsWithinAPodGroup(t *testing.T) {
	of := func(group, within string) string {
		p := aPod("a", 0)
		p.Labels[podmeta.SubGroupLabel] = within
		if group != "" {
			p.Annotations["pod-group-name"] = group
		}
		return podmeta.Role(p)
	}
	plain := of("", "")
	long := strings.Repeat("a", 63)
	for _, tc := range []struct{ why, got, want string }{
		{"it is in no PodGroup", of("", "a"), plain},
		{"it is in no group", of("g", ""), plain},
		{"the name says it", of("g", "a"), "a-" + plain},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s", tc.why, tc.got)
		}
	}
	seen := map[string]bool{}
	for _, within := range []string{"a", "b", long, long[1:] + "b", "A.b"} {
		role := of("g", within)
		if seen[role] || len(role) > 63 || strings.ToLower(role) != role || strings.Contains(role, ".") {
			t.Errorf("pods of group %s are of %s", within, role)
		}
		seen[role] = true
	}
}
