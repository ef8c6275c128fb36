package decision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// told is an event, without its note.
type told struct{ Object, Kind, Reason string }

// listener keeps events.
type listener struct {
	all   []told
	notes []string
}

// Eventf implements events.EventRecorder.
func (l *listener) Eventf( //nolint:revive // the interface has so many
	o, related runtime.Object,
	kind, reason, _, note string,
	args ...any,
) {
	l.notes = append(l.notes, fmt.Sprintf(note, args...))
	if w, ok := related.(*kueue.Workload); ok {
		l.notes = append(l.notes, "related to "+w.Namespace+"/"+w.Name)
	}
	name := ""
	if w, ok := o.(*kueue.Workload); ok {
		name = w.Name
	}
	l.all = append(l.all, told{name, kind, reason})
}

// What is decided is told as Kueue tells it.
func TestTell(t *testing.T) {
	s := runtime.NewScheme()
	if err := kueue.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	with := func(conditions ...string) *kueue.Workload {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w"}}
		w.Status.Admission = &kueue.Admission{ClusterQueue: "q"}
		for i := 0; i < len(conditions); i += 2 {
			w.Status.Conditions = append(
				w.Status.Conditions,
				metav1.Condition{Type: conditions[i], Status: metav1.ConditionTrue, Reason: conditions[i+1]},
			)
		}
		return w
	}
	other, gone := core.Key{Namespace: "n", Name: "other"}, core.Key{Namespace: "n", Name: "gone"}
	cases := map[string]struct {
		why      string
		decision core.Decision
		workload *kueue.Workload
		want     []told
	}{
		"reserved": {
			"checks have to agree first",
			core.Admit{Admission: core.Admission{Queue: "q"}},
			with("QuotaReserved", "QuotaReserved"),
			[]told{{"w", corev1.EventTypeNormal, "QuotaReserved"}},
		},
		"admitted": {
			"both at once is told once",
			core.Admit{Admission: core.Admission{Queue: "q"}},
			with("QuotaReserved", "QuotaReserved", "Admitted", "Admitted"),
			[]told{{"w", corev1.EventTypeNormal, "Admitted"}},
		},
		"refused": {
			"the reason is that of the condition",
			core.Refuse{Why: core.Reason{Code: core.WaitingForQuota}},
			with(),
			[]told{{"w", corev1.EventTypeWarning, "WaitingForQuota"}},
		},
		"preempted": {
			"both sides are told",
			core.Evict{
				Key:    core.Key{Namespace: "n", Name: "w"},
				For:    other,
				Reason: core.EvictReason(kueue.ReasonInClusterQueue),
			},
			with("Evicted", "Preempted"),
			[]told{{"w", corev1.EventTypeNormal, "Preempted"}, {"other", corev1.EventTypeNormal, "PreemptedWorkload"}},
		},
		"preempted for one that is gone": {
			"there is no workload to tell",
			core.Evict{For: gone, Reason: core.EvictReason(kueue.ReasonInClusterQueue)},
			with("Evicted", "Preempted"),
			[]told{{"w", corev1.EventTypeNormal, "Preempted"}},
		},
		"stopped": {
			"an eviction names its reason",
			core.Evict{Reason: core.EvictReason(kueue.ReasonClusterQueueStopped)},
			with("Evicted", "ClusterQueueStopped"),
			[]told{{"w", corev1.EventTypeNormal, "EvictedDueToClusterQueueStopped"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := metrics.New(prometheus.NewRegistry(), metrics.Options{})
			if err != nil {
				t.Fatal(err)
			}
			heard := &listener{}
			l := New(Options{
				Clock:    clocktesting.NewFakeClock(time.Unix(1000, 0)),
				Recorder: heard,
				Metrics:  m,
				Client: fake.NewClientBuilder().
					WithScheme(s).
					WithObjects(
						client.Object(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}}),
					).
					Build(),
			})
			l.tell(t.Context(), c.decision, c.workload)
			if diff := cmp.Diff(c.want, slices.Clone(heard.all)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// TestEventsNameNoOthers tells a workload that one of another namespace was evicted
// for it: by queue and UID, in the note and as what the event relates to.
func TestEventsNameNoOthers(t *testing.T) {
	s := runtime.NewScheme()
	if err := kueue.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(prometheus.NewRegistry(), metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	heard := &listener{}
	l := New(Options{
		Clock:    clocktesting.NewFakeClock(time.Unix(1000, 0)),
		Recorder: heard,
		Metrics:  m,
		Client: fake.NewClientBuilder().
			WithScheme(s).
			WithObjects(client.Object(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}})).
			Build(),
	})
	victim := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "secret", UID: "u7"}}
	victim.Status.Admission = &kueue.Admission{ClusterQueue: "red-queue"}
	l.tellPreemptor(t.Context(), core.Evict{
		Key: core.Key{
			Namespace: "red",
			Name:      "secret",
		},
		For:    core.Key{Namespace: "n", Name: "other"},
		Reason: core.InCohortReclamation,
	}, victim)
	if all := strings.Join(
		heard.notes,
		"\n",
	); strings.Contains(all, "secret") || !strings.Contains(all, "u7") ||
		!strings.Contains(all, "red-queue") {
		t.Errorf("told: %s", all)
	}
}
