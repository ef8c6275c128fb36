package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestResumption(t *testing.T) {
	at := func(p *corev1.Pod, node string) *corev1.Pod {
		p.UID, p.Spec.NodeName, p.Spec.SchedulerName = types.UID(p.Name), node, "ours"
		return p
	}
	half := []*corev1.Pod{
		at(grouped(pod("ns", "g-0", 1), "g"), "n"),
		at(grouped(pod("ns", "g-1", 1), "g"), ""),
		at(grouped(pod("ns", "g-2", 1), "g"), ""),
	}
	rival, sibling, planned := at(
		pod("ns", "rival", 1),
		"",
	), half[1], at(
		planned(pod("ns", "planned", 1), "w", "main"),
		"",
	)
	going := at(grouped(pod("ns", "g-0", 1), "g"), "n")
	going.DeletionTimestamp = &metav1.Time{}
	cases := map[string]struct {
		why   string
		pods  []*corev1.Pod
		tried []types.UID // before the pods ask
		asks  []*corev1.Pod
		held  []string
	}{
		"half bound": {
			"the room was found for the rest of the group",
			half,
			nil,
			[]*corev1.Pod{rival, sibling, planned},
			[]string{"ns/rival"},
		},
		"one of two tried": {
			"the other has not got its room yet",
			half,
			[]types.UID{"g-1"},
			[]*corev1.Pod{rival},
			[]string{"ns/rival"},
		},
		"all tried": {
			"they have it, or no pod can give it to them",
			half,
			[]types.UID{"g-1", "g-2"},
			[]*corev1.Pod{rival},
			nil,
		},
		"not begun": {"nothing of it holds a node", half[1:], nil, []*corev1.Pod{rival}, nil},
		"being deleted": {
			"it gives its node back",
			append([]*corev1.Pod{going}, half[1:]...),
			nil,
			[]*corev1.Pod{rival},
			nil,
		},
		"another's": {
			"its scheduler has to finish it",
			[]*corev1.Pod{half[0], at(grouped(pod("ns", "g-1", 1), "other"), "")},
			nil,
			[]*corev1.Pod{rival},
			nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var r resumption
			r.begin(c.pods, []string{"ours"})
			for _, uid := range c.tried {
				r.tried(uid)
			}
			var held []string
			for _, p := range c.asks {
				if r.refusal(p) != "" {
					held = append(held, p.Namespace+"/"+p.Name)
				}
			}
			if diff := cmp.Diff(c.held, held); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			var woken []string
			for _, uid := range []types.UID{"g-1", "g-2"} {
				woken = append(woken, slices.Sorted(maps.Keys(r.tried(uid)))...)
			}
			if diff := cmp.Diff(c.held, woken); diff != "" {
				t.Errorf("which pods waited and are woken (-want +got):\n%s", diff)
			}
		})
	}
}

// A group that a scheduler left half bound is finished by the next one, though
// others want the room and were there first.
func TestHalfBoundGroupIsFinished(t *testing.T) {
	w := newWorld(t)
	w.installKinds()
	ns := w.namespace("it-half")
	w.node("half", 8, nil)
	w.group(ns, "a", 2) // older, so that it would be first
	for i := range 2 {
		w.create(grouped(pod(ns, fmt.Sprintf("a-%d", i), 2), "a"))
	}
	w.group(ns, "g", 4)
	for i := range 4 {
		p := grouped(pod(ns, fmt.Sprintf("g-%d", i), 2), "g")
		if i < 2 {
			p.Spec.NodeName = "half" // as the scheduler did that died
		}
		w.create(p)
	}
	w.schedule()
	w.allBound(ns, "g", 4)
	if n := w.bound(ns, "a-"); n != 0 {
		t.Errorf("%d pods took room of the group", n)
	}
	for _, name := range []string{"g-0", "g-1"} {
		w.finish(ns, name, corev1.PodSucceeded)
	}
	w.allBound(ns, "a", 2)
}
