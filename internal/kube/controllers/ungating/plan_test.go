package ungating

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

var admittedAt = time.Unix(1000, 0)

// others binds the pods, and mlbatch's scheduler may run beside it.
func others() jobs.Schedulers {
	return jobs.Schedulers{Given: corev1.DefaultSchedulerName, Ours: jobs.SchedulerNames()}
}

// a is a pod of a pod set in some state.
func a(name, set string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:         "blue",
		Name:              name,
		UID:               types.UID(name),
		CreationTimestamp: metav1.NewTime(admittedAt.Add(time.Second)),
		Labels: map[string]string{
			kueue.PodSetLabel: set,
		},
		Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
	}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	for _, change := range changes {
		change(p)
	}
	return p
}

func gates(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: n})
		}
	}
}

var held = gates(kueue.TopologyGate)

func toldOf(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { *p = *placed(p, node, "") }
}

func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

func by(scheduler string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler }
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: admittedAt} }

func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func set(name string, count int, places ...core.Place) gang.Set {
	return gang.Set{Name: name, Count: count, Places: places}
}

func at(node string, count int32) core.Place { return core.Place{Node: node, Count: count} }

func of(sets ...gang.Set) gang.Gang {
	return gang.Gang{
		Key:        gang.Key{Kind: gang.KindWorkload, Namespace: "blue", Name: "w"},
		Admitted:   true,
		AdmittedAt: admittedAt,
		Sets:       sets,
	}
}

// text is an outcome in a line.
func text(o outcome) string {
	var out []string
	for _, r := range o.releases {
		out = append(out, r.pod.Name+"@"+r.node)
	}
	for _, s := range o.strays {
		out = append(out, s.pod.Name+" leaves")
	}
	if o.waits != "" {
		out = append(out, "waits: "+o.waits)
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	tests := map[string]struct {
		why     string
		gang    gang.Gang
		pods    []*corev1.Pod
		earlier map[types.UID]string
		want    string
	}{
		"whole": {
			why:  "the first pods by number have the first places",
			gang: of(set("s", 3, at("n1", 2), at("n2", 1))),
			pods: []*corev1.Pod{a("p-10", "s", held), a("p-2", "s", held), a("p-1", "s", held)},
			want: "p-1@n1, p-2@n1, p-10@n2",
		},
		"a pod is missing": {
			why:  "nothing of a gang starts before all of it is there",
			gang: of(set("s", 3, at("n1", 2), at("n2", 1))),
			pods: []*corev1.Pod{a("p-1", "s", held), a("p-2", "s", held)},
			want: "waits: Workload blue/w starts as a whole: 2 of 3 pods exist",
		},
		"not admitted": {
			why: "its nodes are those of others by now",
			gang: gang.Gang{
				Key:  gang.Key{Kind: gang.KindWorkload, Namespace: "blue", Name: "w"},
				Sets: []gang.Set{set("s", 1, at("n1", 1))},
			},
			pods: []*corev1.Pod{a("p-1", "s", held)},
			want: "waits: Workload blue/w is not admitted yet",
		},
		"a gate of its author": {
			why:  "it takes part when its author lets it go, and so does the gang",
			gang: of(set("s", 2, at("n1", 2))),
			pods: []*corev1.Pod{a("p-1", "s", held), a("p-2", "s", held, gates("example.com/mine"))},
			want: "waits: Workload blue/w starts as a whole: 1 of 2 pods exist",
		},
		"without places": {
			why:  "where no nodes are looked for, the scheduler chooses",
			gang: of(set("s", 2)),
			pods: []*corev1.Pod{a("p-1", "s", held), a("p-2", "s", held)},
			want: "p-1@, p-2@",
		},
		"two pod sets": {
			why:  "each has its own places",
			gang: of(set("head", 1, at("n2", 1)), set("work", 2, at("n1", 2))),
			pods: []*corev1.Pod{a("h", "head", held), a("w-0", "work", held), a("w-1", "work", held)},
			want: "h@n2, w-0@n1, w-1@n1",
		},
		"killed in between": {
			why:  "what was told stays told: the others follow at once, on what is left",
			gang: of(set("s", 3, at("n1", 2), at("n2", 1))),
			pods: []*corev1.Pod{a("p-1", "s", toldOf("n1")), a("p-2", "s", held), a("p-3", "s", held)},
			want: "p-2@n1, p-3@n2",
		},
		"not seen yet": {
			why:     "a pod is told its node once, and nobody else that place",
			gang:    of(set("s", 3, at("n1", 2), at("n2", 1))),
			pods:    []*corev1.Pod{a("p-1", "s", held), a("p-2", "s", held), a("p-3", "s", held)},
			earlier: map[types.UID]string{"p-3": "n1"},
			want:    "p-1@n1, p-2@n2",
		},
		"a replacement": {
			why:  "it has the place of the pod that failed",
			gang: of(set("s", 2, at("n1", 1), at("n2", 1))),
			pods: []*corev1.Pod{
				a("p-1", "s", on("n1"), phase(corev1.PodFailed)),
				a("p-2", "s", on("n2")),
				a("p-3", "s", held),
			},
			want: "p-3@n1",
		},
		"a replacement, its place is taken still": {
			why:  "a pod that was deleted keeps its place until it has ended",
			gang: of(set("s", 2, at("n1", 1), at("n2", 1))),
			pods: []*corev1.Pod{a("p-1", "s", on("n1"), leaving), a("p-2", "s", on("n2")), a("p-3", "s", held)},
			want: "waits: pod p-1 was deleted and keeps its place on node n1 until it has ended",
		},
		"more pods than places": {
			why:  "a job gets what it was given",
			gang: of(set("s", 2, at("n1", 2))),
			pods: []*corev1.Pod{a("p-1", "s", on("n1")), a("p-2", "s", on("n1")), a("p-3", "s", held)},
			want: `waits: pod set "s" of Workload blue/w was admitted with 2 pods, and all its places are taken`,
		},
		"a node is lost before it was bound": {
			why:  "its place is another one now, which its successor has; it could only wait for ever",
			gang: of(set("s", 2, at("n1", 1), at("n3", 1))),
			pods: []*corev1.Pod{a("p-1", "s", on("n1")), a("p-2", "s", toldOf("n2"))},
			want: "p-2 leaves",
		},
		"two were told one place": {
			why:  "the one that has it stays",
			gang: of(set("s", 2, at("n1", 1), at("n2", 1))),
			pods: []*corev1.Pod{a("p-1", "s", toldOf("n1")), a("p-2", "s", on("n1"))},
			want: "p-1 leaves",
		},
		"bound on a node that the plan has left": {
			why:  "pods that run leave by evacuation",
			gang: of(set("s", 1, at("n1", 1))),
			pods: []*corev1.Pod{a("p-1", "s", on("n2"))},
			want: "",
		},
		"mlbatch's scheduler has a part": {
			why:  "it is waited for, and binds its own",
			gang: of(set("ours", 1, at("n1", 1)), set("theirs", 1, at("n2", 1))),
			pods: []*corev1.Pod{a("o", "ours", by("mlbatch-scheduler")), a("t", "theirs", held)},
			want: "t@n2",
		},
		"mlbatch's scheduler has a part that is missing": {
			why:  "a gang is a gang, whoever binds it",
			gang: of(set("ours", 1, at("n1", 1)), set("theirs", 1, at("n2", 1))),
			pods: []*corev1.Pod{a("t", "theirs", held)},
			want: "waits: Workload blue/w starts as a whole: 1 of 2 pods exist",
		},
		"held by its author for mlbatch's scheduler": {
			why:  "it is told its node as well, and counts from then on",
			gang: of(set("s", 2, at("n1", 1), at("n2", 1))),
			pods: []*corev1.Pod{
				a("p-1", "s", by("mlbatch-scheduler"), toldOf("n2")),
				a("p-2", "s", by("mlbatch-scheduler"), held),
			},
			want: "p-2@n1",
		},
		"an unknown pod set": {
			why:  "it has no place",
			gang: of(set("s", 1, at("n1", 1))),
			pods: []*corev1.Pod{a("p", "s", on("n1")), a("x", "other", held)},
			want: `waits: Workload blue/w has no pod set "other" (label kueue.x-k8s.io/podset)`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := text(plan(tc.gang, tc.pods, tc.earlier, others(), nil)); got != tc.want {
				t.Errorf("%s:\n got %s\nwant %s", tc.why, got, tc.want)
			}
		})
	}
}

// Whatever has become of the pods of a gang, no node is given more of them than it has places,
// no pod of a gang that has not started goes without the others, and the order in which pods are
// listed does not matter.
func TestPlanKeepsToThePlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var places []core.Place
		total := 0
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			p := at(fmt.Sprintf("n%d", i), rapid.Int32Range(1, 3).Draw(t, "places"))
			places, total = append(places, p), total+int(p.Count)
		}
		g := of(set("s", total, places...))
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, total+3).Draw(t, "pods") {
			node := rapid.SampledFrom([]string{"n0", "n1", "n2", "n9"}).Draw(t, "node")
			states := map[string]func(*corev1.Pod){
				"held": held, "told": toldOf(node), "bound": on(node),
				"leaving": func(p *corev1.Pod) { on(node)(p); leaving(p) },
				"failed":  func(p *corev1.Pod) { on(node)(p); phase(corev1.PodFailed)(p) },
			}
			state := rapid.SampledFrom([]string{"held", "held", "held", "held", "told", "bound", "leaving", "failed"}).
				Draw(t, "state")
			pods = append(pods, a(fmt.Sprintf("p-%d", i), "s", states[state]))
		}
		out := plan(g, pods, nil, others(), nil)
		have := map[string]int{}
		begun := false
		for _, p := range pods {
			ended := p.Status.Phase == corev1.PodFailed
			begun = begun || ended || p.Spec.NodeName != "" && p.DeletionTimestamp == nil || told(p) != ""
			if node := p.Spec.NodeName + told(p); node != "" && !ended {
				have[node]++
			}
		}
		for _, r := range out.releases {
			if have[r.node]++; r.node == "" {
				t.Fatalf("%s has no node", r.pod.Name)
			}
		}
		for _, r := range out.releases {
			i := slices.IndexFunc(places, func(p core.Place) bool { return p.Node == r.node })
			if i < 0 || have[r.node] > int(places[i].Count) {
				t.Fatalf("%d pods on %s, which has places %v: %s", have[r.node], r.node, places, text(out))
			}
		}
		if n := len(out.releases); !begun && n != 0 && n != total {
			t.Fatalf("%d of %d pods start: %s", n, total, text(out))
		}
		slices.Reverse(pods)
		if d := cmp.Diff(text(out), text(plan(g, pods, nil, others(), nil))); d != "" {
			t.Fatalf("the order of the pods matters (-want +got):\n%s", d)
		}
	})
}

// What its author asks of nodes holds beside the node that a pod is told.
func TestPlaced(t *testing.T) {
	pool := corev1.NodeSelectorRequirement{Key: "pool", Operator: corev1.NodeSelectorOpExists}
	here := corev1.NodeSelectorRequirement{
		Key:      "metadata.name",
		Operator: corev1.NodeSelectorOpIn,
		Values:   []string{"n1"},
	}
	elsewhere := corev1.NodeSelectorRequirement{
		Key:      "metadata.name",
		Operator: corev1.NodeSelectorOpIn,
		Values:   []string{"n9"},
	}
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			},
		}
	}
	for name, tc := range map[string]struct {
		was, want *corev1.Affinity
		node      string
	}{
		"nothing asked": {nil, required(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{here}}), "n1"},
		"alternatives": {
			required(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{pool}}, corev1.NodeSelectorTerm{}),
			required(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{pool}, MatchFields: []corev1.NodeSelectorRequirement{here}},
				corev1.NodeSelectorTerm{}), // it matches nothing, and must go on to: the API server refuses anything else
			"n1",
		},
		"two alternatives": {
			required(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{pool}}, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{elsewhere}}),
			required(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{pool}, MatchFields: []corev1.NodeSelectorRequirement{here}},
				corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{elsewhere, here}}),
			"n1",
		},
		"another node": { // its author's, who gets what is in both
			required(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{elsewhere}}),
			required(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{elsewhere, here}}), "n1",
		},
		"no node": {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := a("p", "s", gates("example.com/mine", kueue.TopologyGate))
			p.Spec.Affinity = tc.was
			before := p.DeepCopy()
			got := placed(p, tc.node, "")
			if d := cmp.Diff(tc.want, got.Spec.Affinity); d != "" {
				t.Errorf("affinity (-want +got):\n%s", d)
			}
			if d := cmp.Diff(
				[]corev1.PodSchedulingGate{{Name: "example.com/mine"}},
				got.Spec.SchedulingGates,
			); d != "" {
				t.Errorf("gates (-want +got):\n%s", d)
			}
			if told(got) != tc.node {
				t.Errorf("it was told %q", told(got))
			}
			if d := cmp.Diff(before, p); d != "" {
				t.Errorf("the pod itself was changed:\n%s", d)
			}
		})
	}
}

// A pod whose author names nodes was not told one of them: it would count as bound where it is not.
func TestToldNothingByItsAuthor(t *testing.T) {
	name := func(nodes ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes},
			},
		}
	}
	for why, terms := range map[string][]corev1.NodeSelectorTerm{
		"either of two, one by one":   {name("n1"), name("n2")},
		"either of two":               {name("n1", "n2")},
		"one, or what has a label":    {name("n1"), {MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}}},
		"what matches nothing at all": {{}},
		"every node but one":          {{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n1"}}}}},
	} {
		p := a("p", "s")
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			},
		}
		if node := told(p); node != "" {
			t.Errorf("%s: it was told %s", why, node)
		}
		if got := placed(p, "n2", ""); why != "what matches nothing at all" && told(got) != "n2" {
			t.Errorf("%s: it was told n2, and %q is read", why, told(got))
		}
	}
}

// BenchmarkSurplus plans for a gang of which there are many more pods than places. What a pass costs must
// grow with the pods and not with their square: other gangs wait behind it.
func BenchmarkSurplus(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			g := gang.FromWorkload(work("n1"))
			pods := []*corev1.Pod{a("bound", "s", on("n1"))}
			for i := range n {
				pods = append(pods, a(fmt.Sprintf("p-%d", i), "s", held))
			}
			for b.Loop() {
				if out := plan(g, pods, nil, others(), nil); len(out.releases) > 0 || out.waits == "" {
					b.Fatalf("%d are let go, the others wait: %q", len(out.releases), out.waits)
				}
			}
		})
	}
}
