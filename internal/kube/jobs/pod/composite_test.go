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

// composite reads a CompositePodGroup and what it consists of.
func composite(t *testing.T, text string) *pod.Composite {
	t.Helper()
	var out pod.Composite
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// What a CompositePodGroup says of the PodGroups that it consists of, and what of it cannot be kept.
func TestGangsOfComposites(t *testing.T) {
	const rack, block = "topology.example.com/rack", "topology.example.com/block"
	gang := func(of int, more string) string {
		return fmt.Sprintf(
			"{workloadRef: {workloadName: w}, schedulingPolicy: {gang: {minGroupCount: %d}}%s}",
			of,
			more,
		)
	}
	in := func(level string) string { return ", schedulingConstraints: {topology: [{key: " + level + "}]}" }
	group := func(name string, least int, more string) string {
		return fmt.Sprintf(
			"{name: %s, workload: w, spec: {schedulingPolicy: {gang: {minCount: %d}}%s}}",
			name,
			least,
			more,
		)
	}
	near := func(level, of string) pod.Near {
		return pod.Near{Required: level, Field: "spec.schedulingConstraints.topology of " + of}
	}
	for name, tc := range map[string]struct {
		why, is string
		want    pod.Gang
		wrong   []string
	}{
		"two": {
			"each has so many pods, and all together their sum",
			"{name: train, spec: " + gang(2, "") + ", groups: [" + group("a", 2, "") + ", " + group("b", 3, "") + "]}",
			pod.Gang{Least: 5, Parts: []pod.Part{{Name: "a", Least: 2}, {Name: "b", Least: 3}}},
			nil,
		},
		"domains": {
			"a rack for each of them, in a block for all",
			"{name: train, spec: " + gang(2, in(block)) + ", groups: [" + group("a", 2, in(rack)) + ", " + group("b", 1, "") + "]}",
			pod.Gang{Least: 3, Near: near(block, "CompositePodGroup train"), Parts: []pod.Part{
				{Name: "a", Least: 2, Near: near(rack, "PodGroup a")}, {Name: "b", Least: 1},
			}},
			nil,
		},
		"nested": {
			"a group of groups has no pods besides, and a PodGroup may be called as one is that it is within",
			"{name: train, spec: " + gang(2, "") + ", groups: [" + group("train", 1, "") + "], composites: [{name: train-2, spec: " +
				gang(1, in(block)) + ", groups: [" + group("train-2", 4, "") + "]}]}",
			pod.Gang{Least: 5, Parts: []pod.Part{
				{Name: "composite/train-2", Near: near(block, "CompositePodGroup train-2")},
				{Name: "train-2", Parent: "composite/train-2", Least: 4},
				{Name: "train", Least: 1},
			}},
			nil,
		},
		"some of its groups": {
			"others would start later",
			"{name: train, spec: " + gang(1, "") + ", groups: [" + group("a", 2, "") + ", " + group("b", 3, "") + "]}",
			pod.Gang{},
			[]string{"CompositePodGroup train: spec.schedulingPolicy.gang.minGroupCount", "with minGroupCount 2"},
		},
		"some of the groups of a group": {
			"so would these",
			"{name: train, spec: " + gang(1, "") + ", composites: [{name: in, spec: " + gang(1, "") + ", groups: [" +
				group("a", 2, "") + ", " + group("b", 3, "") + "]}]}",
			pod.Gang{},
			[]string{"CompositePodGroup in: spec.schedulingPolicy.gang.minGroupCount"},
		},
		"groups are missing": {
			"they are awaited", "{name: train, spec: " + gang(2, "") + ", groups: [" + group("a", 2, "") + "]}",
			pod.Gang{},
			[]string{"CompositePodGroup train: spec.schedulingPolicy.gang.minGroupCount is 2", "create the others"},
		},
		"pods that start one by one": {
			"they would start with the others",
			"{name: train, spec: " + gang(1, "") + ", groups: [{name: a, spec: {schedulingPolicy: {basic: {}}}}]}",
			pod.Gang{},
			[]string{"PodGroup a: spec.schedulingPolicy.basic", "use schedulingPolicy.gang"},
		},
		"groups that start one by one": {
			"so would these",
			"{name: train, spec: " + gang(1, "") + ", composites: [{name: in, spec: {schedulingPolicy: {basic: {}}}, groups: [" +
				group("a", 2, "") + "]}]}",
			pod.Gang{},
			[]string{"CompositePodGroup in: spec.schedulingPolicy.basic"},
		},
		"shared devices": {
			"what cannot be kept of a PodGroup cannot be kept here",
			"{name: train, spec: " + gang(1, "") + ", groups: [" + group("a", 2, ", resourceClaims: [{name: x}]") + "]}",
			pod.Gang{},
			[]string{"PodGroup a: spec.resourceClaims"},
		},
		"another job's": {
			"its pods would wait for each other",
			"{name: train, spec: " + gang(1, "") + ", groups: [{name: a, workload: other, spec: {schedulingPolicy: {gang: {minCount: 1}}}}]}",
			pod.Gang{},
			[]string{"PodGroup a: spec.workloadRef.workloadName is other", "CompositePodGroup train"},
		},
		"more than there are": {
			"sums are no small numbers",
			"{name: train, spec: " + gang(2, "") + ", groups: [" + group("a", 2147483647, "") + ", " + group("b", 2147483647, "") + "]}",
			pod.Gang{},
			[]string{"CompositePodGroup train", "no number of pods"},
		},
		"a crowd": {
			"whoever makes it has others wait for it",
			"{name: train, spec: " + gang(1, "") + ", composites: [{name: in, spec: " + gang(64, "") + ", groups: [" +
				strings.Repeat(group("a", 1, "")+", ", 64) + "]}]}",
			pod.Gang{},
			[]string{"CompositePodGroup train consists of more than 64 groups"},
		},
	} {
		got, err := pod.GangOfComposite(composite(t, tc.is))
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

// ofComposite is a held pod of a PodGroup within CompositePodGroup train.
func ofComposite(name, group string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name = name
	p.Labels = map[string]string{kueue.PodGroupNameLabel: "train", kueue.ManagedLabel: "true"}
	p.Annotations = map[string]string{
		podmeta.PodGroupKindAnnotation: podmeta.CompositeGroup,
		kueue.RoleHashAnnotation:       podmeta.RoleWithin(group, "1"),
	}
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	for _, c := range change {
		c(p)
	}
	return p
}

// The pods of a CompositePodGroup are one unit: a pod set for each PodGroup, a rack for each in a block for all, whatever
// the PodGroups are called; pods on top of one do not stand in for those of another.
func TestUnitsOfComposites(t *testing.T) {
	const rack, block = "topology.example.com/rack", "topology.example.com/block"
	long := strings.Repeat("long.", 40) + "name"
	is := composite(
		t,
		`{name: train, spec: {schedulingPolicy: {gang: {minGroupCount: 2}}, schedulingConstraints: {topology: [{key: `+
			block+`}]}}, groups: [{name: a, spec: {schedulingPolicy: {gang: {minCount: 1}}, schedulingConstraints: {topology: [{key: `+rack+
			`}]}}}, {name: `+long+`, spec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: `+rack+`}]}}}]}`,
	)
	gang, err := pod.GangOfComposite(is)
	if err != nil {
		t.Fatal(err)
	}
	unit := func(pods ...*corev1.Pod) pod.Unit {
		u := pod.NewUnit(pods, nil)
		u.As(gang)
		return u
	}
	u := unit(ofComposite("1", "a"), ofComposite("2", "a"), ofComposite("3", long))
	if u.Wrong != "" || u.Missing() != 1 {
		t.Fatalf("%d are missing, wrong is %q", u.Missing(), u.Wrong)
	}
	u = unit(ofComposite("1", "a"), ofComposite("2", long), ofComposite("3", long))
	sets := u.PodSets()
	if u.Wrong != "" || u.Missing() != 0 || len(sets) != 2 {
		t.Fatalf("wrong is %q, %d are missing, its pod sets are %v", u.Wrong, u.Missing(), sets)
	}
	for i, want := range []int32{1, 2} {
		ps := sets[i]
		groups := kueue.TopologyGroupsOf(ps.Template.Annotations)
		if ps.Count != want || *ps.TopologyRequest.Required != rack || len(groups) != 1 ||
			groups[0].Level != block {
			t.Errorf("pod set %s of %d asks for %v within %v", ps.Name, ps.Count, ps.TopologyRequest, groups)
		}
	}
	native := func(p *corev1.Pod) { p.Annotations[podmeta.PodGroupKindAnnotation] = podmeta.NativeGroup }
	anywhere := func(p *corev1.Pod) { p.Annotations[kueue.PodSetUnconstrainedTopologyAnnotation] = "true" }
	for name, tc := range map[string]struct {
		p    *corev1.Pod
		want []string
	}{
		"a PodGroup that is none of it":      {ofComposite("x", "other"), []string{"pod x", "PodGroup other"}},
		"a PodGroup that is called as it is": {ofComposite("x", "train", native), []string{"pod x", "another name"}},
		"a pod that may be anywhere": {
			ofComposite("x", "a", anywhere),
			[]string{"pod x", kueue.PodSetUnconstrainedTopologyAnnotation, "CompositePodGroup train", "PodGroup a"},
		},
	} {
		u := unit(ofComposite("1", "a"), ofComposite("2", long), ofComposite("3", long), tc.p)
		for _, want := range tc.want {
			if !strings.Contains(u.Wrong, want) {
				t.Errorf("%s: %q does not say %q", name, u.Wrong, want)
			}
		}
	}
}

// A pod that moves into a CompositePodGroup has a role there that tells its PodGroup, keeps that in another one, and has its
// own again in its PodGroup, as pods have that come to this.
func TestJoin(t *testing.T) {
	group := "a"
	p := &corev1.Pod{}
	p.Labels = map[string]string{kueue.PodGroupNameLabel: "a"}
	p.Annotations = map[string]string{
		podmeta.PodGroupKindAnnotation: podmeta.NativeGroup, kueue.RoleHashAnnotation: "1",
	}
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	in := pod.Join(p, podmeta.CompositeGroup, "train")
	if got := in.Labels[kueue.PodGroupNameLabel]; got != "train" || pod.Role(in) != "a-1" ||
		in.Annotations[podmeta.PodGroupKindAnnotation] != podmeta.CompositeGroup {
		t.Errorf("it is in group %s as %s", got, pod.Role(in))
	}
	if other := pod.Join(in, podmeta.CompositeGroup, "other"); pod.Role(other) != "a-1" {
		t.Errorf("in another one it is %s", pod.Role(other))
	}
	back := pod.Join(in, podmeta.NativeGroup, "a")
	if got := back.Labels[kueue.PodGroupNameLabel]; got != "a" || podmeta.Within(back, &back.Spec) != "" {
		t.Errorf("it is back in group %s, within %q", got, podmeta.Within(back, &back.Spec))
	}
	if pod.Role(back) != "1" || pod.Role(pod.Join(back, podmeta.NativeGroup, "a")) != "1" {
		t.Errorf("it is back as %s, and was 1", pod.Role(back))
	}
	group = strings.Repeat("long.", 40) + "name" // of which no role begins
	own := podmeta.Role(p)
	p.Annotations[kueue.RoleHashAnnotation] = own
	in = pod.Join(p, podmeta.CompositeGroup, "train")
	if own := kueue.PodSetReference(own); pod.Role(in) == own ||
		pod.Role(pod.Join(in, podmeta.NativeGroup, group)) != own {
		t.Errorf("it is back as %s, and was %s", pod.Role(pod.Join(in, podmeta.NativeGroup, group)), own)
	}
	in.Annotations[kueue.RoleHashAnnotation] = "given" // by the template of what made it
	if got := pod.Role(pod.Join(in, podmeta.NativeGroup, group)); got != "given" {
		t.Errorf("it is back as %s, and what it was cannot be told", got)
	}
}
