package decision

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
	world "github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// What watches tell reaches the inbox, also what was last known of an object whose end
// it was not watched.
func TestHandler(t *testing.T) {
	f := feed{inbox: world.NewInbox()}
	h := f.handler(world.Queue)
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	ref := world.Ref{Kind: world.Queue, Name: "q"}
	for what, c := range map[string]struct {
		tell func()
		want []world.ObjectUpdate
	}{
		"comes":          {func() { h.OnAdd(q, false) }, []world.ObjectUpdate{{Ref: ref, Object: q}}},
		"changes":        {func() { h.OnUpdate(nil, q) }, []world.ObjectUpdate{{Ref: ref, Object: q}}},
		"goes":           {func() { h.OnDelete(q) }, []world.ObjectUpdate{{Ref: ref}}},
		"went unwatched": {func() { h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "q", Obj: q}) }, []world.ObjectUpdate{{Ref: ref}}},
		"is no object":   {func() { h.OnAdd("q", false) }, nil},
	} {
		c.tell()
		got, _ := f.inbox.Take()
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// An event names eight nodes at most, each once.
func TestWhere(t *testing.T) {
	on := func(sets ...string) core.Admission {
		var a core.Admission
		for _, nodes := range sets {
			var ps core.PodSetAdmission
			for node := range strings.FieldsSeq(nodes) {
				ps.Places = append(ps.Places, core.Place{Node: node, Count: 1})
			}
			a.PodSets = append(a.PodSets, ps)
		}
		return a
	}
	for want, a := range map[string]core.Admission{
		"":                            on("", ""),
		", on a, b, c":                on("a b", "b c"),
		", on 1, 2, 3, 4, 5, 6, 7, 8": on("1 2 3 4 5 6 7 8"),
		", on 1, 2, 3, 4, 5, 6, 7, 8 and 1 more nodes": on("1 2 3 4 5 6 7 8 9"),
	} {
		if got := where(a, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is said of each decision.
func TestNotes(t *testing.T) {
	waited := metav1.NewTime(time.Unix(1000, 0).Add(-90*time.Second - 300*time.Millisecond))
	workload := func(conditions ...metav1.Condition) *kueue.Workload {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w", CreationTimestamp: waited}}
		w.Status.Admission = &kueue.Admission{ClusterQueue: "q"}
		w.Status.Conditions = conditions
		return w
	}
	is := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	placed := core.Admission{
		Queue:   "q",
		PodSets: []core.PodSetAdmission{{Places: []core.Place{{Node: "n1", Count: 1}}}},
	}
	moved := core.Admission{
		Queue: "q",
		PodSets: []core.PodSetAdmission{
			{Places: []core.Place{{Node: "cordoned", Count: 1}, {Node: "gone", Count: 1}, {Node: "n1", Count: 1}}},
		},
	}
	ready := corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	key := core.Key{Namespace: "n", Name: "w"}
	preempted := core.Evict{
		Key:    key,
		For:    core.Key{Namespace: "n", Name: "other"},
		Reason: core.EvictReason(kueue.ReasonInClusterQueue),
		Why:    core.Reason{Queue: "q"},
	}
	cases := map[string]struct {
		decision core.Decision
		workload *kueue.Workload
		want     []string
		counted  map[string]float64
	}{
		"reserved": {
			core.Admit{Key: key, Admission: placed},
			workload(),
			[]string{"Quota reserved in ClusterQueue q after 1m30s, on n1"},
			map[string]float64{"quota_reserved_workloads_total": 1},
		},
		"admitted": {
			core.Admit{Key: key, Admission: placed},
			workload(is(kueue.WorkloadAdmitted, "Admitted", "")),
			[]string{"Admitted by ClusterQueue q after 1m30s, on n1"},
			map[string]float64{"quota_reserved_workloads_total": 1, "admitted_workloads_total": 1},
		},
		"moved, and what had ended on nodes that went away stays in the plan": {
			core.Replace{Key: key, Admission: moved},
			workload(),
			[]string{"Planned nodes went away, planned again, on n1"},
			nil,
		},
		"preempted": {
			preempted, workload(is(kueue.WorkloadEvicted, kueue.ReasonPreempted, "for other")),
			[]string{"for other", "Preempted workload n/w of ClusterQueue q, by InClusterQueue", "related to n/w"},
			map[string]float64{"preempted_workloads_total": 1},
		},
		"stopped": {
			core.Evict{Key: key, Reason: core.EvictReason(kueue.ReasonClusterQueueStopped)},
			workload(is(kueue.WorkloadEvicted, kueue.ReasonClusterQueueStopped, "it was stopped")),
			[]string{"it was stopped"},
			nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			m, err := metrics.New(registry, metrics.Options{})
			if err != nil {
				t.Fatal(err)
			}
			heard := &listener{}
			l := New(Options{
				Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Recorder: heard, Metrics: m,
				Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
					&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}},
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: ready},
					&corev1.Node{
						ObjectMeta: metav1.ObjectMeta{Name: "cordoned"},
						Spec:       corev1.NodeSpec{Unschedulable: true},
						Status:     ready,
					},
				).Build(),
			})
			l.tell(t.Context(), c.decision, c.workload)
			if diff := cmp.Diff(c.want, heard.notes); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			all, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			counted := map[string]float64{}
			for _, f := range all {
				for _, name := range []string{"quota_reserved_workloads_total", "admitted_workloads_total", "preempted_workloads_total"} {
					if strings.HasSuffix(f.GetName(), "_"+name) && !strings.Contains(f.GetName(), "local_queue") {
						for _, x := range f.GetMetric() {
							counted[name] += x.GetCounter().GetValue()
						}
					}
				}
			}
			for name, want := range c.counted {
				if counted[name] != want {
					t.Errorf("%s is %v, want %v", name, counted[name], want)
				}
			}
			if _, is := c.decision.(core.Admit); !is {
				return
			}
			if _, answers := l.inbox.Take(); len(answers) != 1 {
				t.Errorf("the engine is told %v, want that the admission was written", answers)
			}
		})
	}
	if got := queueOf(&kueue.Workload{}); got != "" {
		t.Errorf("without quota of %q", got)
	}
}

// A queue outside of cohorts has no share.
func TestNoShare(t *testing.T) {
	if s := shareOf(quota.DominantResourceShare{}); s.Rounded != 0 || s.Exact != 0 {
		t.Errorf("no share is %+v", s)
	}
}
