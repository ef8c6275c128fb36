package ungating

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// rankOfPod gives a pod the rank that it was told earlier.
func rankOfPod(rank string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[sakkara.RankLabel] = rank }
}

func numberOf(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels["index"] = n }
}

// Pods of a group are told their ranks when they are let go: by the place that each is given, none twice, the master's
// first.
func TestRanks(t *testing.T) {
	ours := by("sakkara-scheduler")
	indexed := func(s gang.Set) gang.Set {
		s.Ranks = gang.Ranks{Label: "index"}
		return s
	}
	for name, tc := range map[string]struct {
		why  string
		gang gang.Gang
		pods []*corev1.Pod
		in   []string
		want string
	}{
		"in order": {
			"neighbours are on one node",
			of(set("main", 4, at("n2", 2), at("n1", 2))),
			[]*corev1.Pod{a("w-3", "main", held, ours), a("w-1", "main", held, ours), a("w-0", "main", held, ours), a("w-2", "main", held, ours)},
			[]string{"main"},
			"w-0@n2=0 w-1@n2=1 w-2@n1=2 w-3@n1=3",
		},
		"by index": {
			"a pod's own number is its rank",
			of(indexed(set("main", 2, at("n1", 1), at("n2", 1)))),
			[]*corev1.Pod{a("x", "main", held, ours, numberOf("1")), a("y", "main", held, ours, numberOf("0"))},
			[]string{"main"},
			"x@n2=1 y@n1=0",
		},
		"without nodes": {
			"no places are planned, and ranks go by names",
			of(set("main", 2)),
			[]*corev1.Pod{a("w-10", "main", held, ours), a("w-9", "main", held, ours)},
			[]string{"main"},
			"w-10@=1 w-9@=0",
		},
		"a master": {
			"rank 0 is its, whatever comes first in the job",
			of(set("worker", 2, at("n1", 2)), set("master", 1, at("n2", 1))),
			[]*corev1.Pod{a("t-worker-0", "worker", held, ours), a("t-worker-1", "worker", held, ours), a("t-master-0", "master", held, ours)},
			[]string{"worker", "master"},
			"t-master-0@n2=0 t-worker-0@n1=1 t-worker-1@n1=2",
		},
		"others beside": {
			"who is of no group has no rank, and takes none",
			of(set("logger", 1, at("n1", 1)), set("worker", 1, at("n1", 1))),
			[]*corev1.Pod{a("l", "logger", held, ours), a("w", "worker", held, ours)},
			[]string{"worker"},
			"l@n1= w@n1=0",
		},
		"a replacement": {
			"it has the rank of the one that is gone",
			of(set("main", 3, at("n1", 2), at("n2", 1))),
			[]*corev1.Pod{a("w-0", "main", on("n1"), rankOfPod("0")), a("w-2", "main", on("n2"), rankOfPod("2")), a("w-7", "main", held, ours)},
			[]string{"main"},
			"w-7@n1=1",
		},
		"one that failed": {
			"its rank is free, also while it is there",
			of(set("main", 2, at("n1", 2))),
			[]*corev1.Pod{a("w-0", "main", on("n1"), rankOfPod("0"), phase(corev1.PodFailed)), a("w-1", "main", on("n1"), rankOfPod("1")), a("w-2", "main", held, ours)},
			[]string{"main"},
			"w-2@n1=0",
		},
		"one that succeeded": {
			"its rank is taken only where no other is left",
			of(set("main", 2, at("n1", 2))),
			[]*corev1.Pod{a("w-0", "main", on("n1"), rankOfPod("0"), phase(corev1.PodSucceeded)), a("w-1", "main", held, ours)},
			[]string{"main"},
			"w-1@n1=1",
		},
		"a rank of its own": {
			"what it has stays",
			of(set("main", 1, at("n1", 1))),
			[]*corev1.Pod{a("w-0", "main", held, ours, rankOfPod("7"))},
			[]string{"main"},
			"w-0@n1=",
		},
		"nonsense": {
			"a label is anybody's",
			of(set("main", 2, at("n1", 2))),
			[]*corev1.Pod{a("w-0", "main", on("n1"), rankOfPod("-9223372036854775808")), a("w-1", "main", held, ours)},
			[]string{"main"},
			"w-1@n1=0",
		},
	} {
		in := map[string]bool{}
		for _, s := range tc.in {
			in[s] = true
		}
		for range 2 {
			var got []string
			for _, r := range plan(tc.gang, tc.pods, nil, others(), in).releases {
				got = append(got, r.pod.Name+"@"+r.node+"="+r.rank)
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("%s: %s: %s, want %s", name, tc.why, text, tc.want)
			}
			slices.Reverse(tc.pods)
		}
	}
}

// Which pod sets are of a group is what their templates say.
func TestRanked(t *testing.T) {
	w := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{Name: "a"}, {Name: "b"}}}}
	w.Spec.PodSets[1].Template.Labels = map[string]string{sakkara.MemberLabel: "g"}
	if got := ranked(w); len(got) != 1 || !got["b"] {
		t.Errorf("they are %v", got)
	}
}

// A pod that mlbatch's scheduler binds is told its rank and no node: it binds by the same order.
func TestRankWithoutNode(t *testing.T) {
	p := placed(a("w-0", "main", held), "", "3")
	if p.Labels[sakkara.RankLabel] != "3" || len(p.Spec.SchedulingGates) > 0 || p.Spec.Affinity != nil {
		t.Errorf("it is %+v", p)
	}
}
