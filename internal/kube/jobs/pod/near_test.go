package pod_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// member makes a pod one of a group of Sakkara's.
func member(role string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel], p.Labels[sakkara.MemberLabel] = "g", "g"
		p.Annotations[podmeta.PodGroupKindAnnotation] = podmeta.SakkaraGroup
		p.Annotations[kueue.RoleHashAnnotation] = role
	}
}

// rankedAs makes a pod one that has its rank.
func rankedAs(rank string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[sakkara.RankLabel], p.Spec.SchedulingGates = rank, nil
	}
}

// What a group asks for is in its pod sets, and so is the label by which places follow ranks.
func TestNearOfAGroup(t *testing.T) {
	u := pod.NewUnit([]*corev1.Pod{aPod("a", 0, member("x")), aPod("b", 1, member("x"))}, nil)
	u.AtLeast(2, "")
	u.Near = map[string]string{kueue.PodSetRequiredTopologyAnnotation: "rack"}
	sets := u.PodSets()
	if r := sets[0].TopologyRequest; len(sets) != 1 || r == nil || *r.Required != "rack" ||
		*r.PodIndexLabel != sakkara.RankLabel {
		t.Errorf("alike pods ask for %+v", sets)
	}
	if u.Pods[0].Annotations[kueue.PodSetRequiredTopologyAnnotation] != "" {
		t.Error("the pods were changed")
	}
	u.Near = nil
	if r := u.PodSets()[0].TopologyRequest; r == nil || r.Required != nil ||
		*r.PodIndexLabel != sakkara.RankLabel {
		t.Errorf("places of pods that may be anywhere do not follow ranks: %+v", r)
	}
	u = pod.NewUnit([]*corev1.Pod{aPod("a", 0, member("x")), aPod("b", 1, member("y"))}, nil)
	u.AtLeast(2, "")
	u.Near = map[string]string{kueue.PodSetRequiredTopologyAnnotation: "rack"}
	for _, ps := range u.PodSets() {
		if r := ps.TopologyRequest; *r.Required != "rack" || *r.PodSetGroupName == "" || r.PodIndexLabel != nil {
			t.Errorf("pods of two roles ask for %+v", r)
		}
	}
}

// Ranks go by name, the master first, and a pod that takes the place of another takes its rank.
func TestRank(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		pods []*corev1.Pod
		want string
	}{
		"by name":       {"numbers in names count", []*corev1.Pod{aPod("w-10", 0, member("x")), aPod("w-2", 1, member("x"))}, "w-10=1 w-2=0"},
		"master":        {"the others call it", []*corev1.Pod{aPod("a", 0, member("x")), aPod("the-master-0", 1, member("x"))}, "a=1 the-master-0=0"},
		"master's role": {"its pod set comes first", []*corev1.Pod{aPod("a-0", 0, member("x")), aPod("a-1", 1, member("x")), aPod("master", 2, member("y"))}, "a-0=1 a-1=2 master=0"},
		"one failed": {"the others keep theirs", []*corev1.Pod{
			aPod("a", 0, member("x"), rankedAs("0"), runs),
			aPod("b", 1, member("x"), rankedAs("1"), ended(corev1.PodFailed)),
			aPod("c", 2, member("x"), rankedAs("2"), ended(corev1.PodSucceeded)),
			aPod("z", 3, member("x")),
		}, "z=1"},
		"forged": {"what is written on a held pod is not what it was told", []*corev1.Pod{
			aPod("a", 0, member("x"), func(p *corev1.Pod) { p.Labels[sakkara.RankLabel] = "7" }), aPod("b", 1, member("x")),
		}, "a=0 b=1"},
	} {
		u := pod.NewUnit(tc.pods, nil)
		n := int32(len(tc.pods))
		u.AtLeast(n, "")
		var start []*corev1.Pod
		for _, p := range tc.pods {
			if podmeta.Gated(p) {
				start = append(start, p.DeepCopy())
			}
		}
		sets := []kueue.PodSet{{Name: "x", Count: n}, {Name: "y", Count: 1}}
		u.Rank(start, sets)
		got := ""
		for _, p := range start {
			got += fmt.Sprintf("%s=%s ", p.Name, p.Labels[sakkara.RankLabel])
		}
		if d := cmp.Diff(tc.want+" ", got); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
}

// Ranks are told to groups of Sakkara's, to those that name it as their scheduler, and to no others.
func TestRanked(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		change func(*corev1.Pod)
		want   bool
	}{
		"Sakkara's": {"its label asks for it", member("x"), true},
		"PodGroup of its scheduler": {"so does its scheduler, with PodGroups", func(p *corev1.Pod) {
			member("x")(p)
			p.Annotations[podmeta.PodGroupKindAnnotation], p.Spec.SchedulerName = "scheduling.x-k8s.io", "sakkara"
		}, true},
		"PodGroup of its other name": {"its chart calls it so", func(p *corev1.Pod) {
			member("x")(p)
			p.Annotations[podmeta.PodGroupKindAnnotation], p.Spec.SchedulerName = "scheduling.x-k8s.io", "sakkara-scheduler"
		}, true},
		"PodGroup": {"nobody asks", func(p *corev1.Pod) {
			member("x")(p)
			p.Annotations[podmeta.PodGroupKindAnnotation] = "scheduling.x-k8s.io"
		}, false},
		"alone": {"it has no others", func(*corev1.Pod) {}, false},
	} {
		u := pod.NewUnit([]*corev1.Pod{aPod("a", 0, tc.change)}, nil)
		if u.Ranked() != tc.want {
			t.Errorf("%s: %s", name, tc.why)
		}
	}
}
