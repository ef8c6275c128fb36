package apply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/view"
)

var (
	key = core.Key{Namespace: "blue", Name: "w"}
	at  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func aWorkload(change ...func(*kueue.Workload)) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "7"},
		Spec: kueue.WorkloadSpec{
			QueueName: "default-queue",
			Active:    new(true),
			PodSets:   []kueue.PodSet{{Name: "main", Count: 2}},
		},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

// aQueue is the ClusterQueue that decisions here admit to.
func aQueue() *kueue.ClusterQueue {
	return &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue-cluster-queue"}}
}

func on(nodes ...string) core.Admission {
	ps := core.PodSetAdmission{
		Name:    "main",
		Count:   int32(len(nodes)),
		Usage:   core.MakeResources(map[string]core.Amount{core.CPU: 1500 * core.Amount(len(nodes))}),
		Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "spot"}},
	}
	for _, n := range nodes {
		ps.Places = append(ps.Places, core.Place{Node: n, Count: 1})
	}
	return core.Admission{Queue: "blue-cluster-queue", PodSets: []core.PodSetAdmission{ps}}
}

func admittedOn(nodes ...string) func(*kueue.Workload) {
	return func(w *kueue.Workload) { w.Status.Admission = convert.StatusAdmission(on(nodes...)) }
}

func is(kind, reason string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		workloadlifecycle.NewConditions(w, &w.Status, at.Add(-time.Hour)).
			Set(kind, metav1.ConditionTrue, reason, "")
	}
}

func asking(check kueue.AdmissionCheckReference) *kueue.ClusterQueue {
	return &kueue.ClusterQueue{
		Spec: kueue.ClusterQueueSpec{AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{
			AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: check}},
		}},
	}
}

func sentence(r core.Reason) string { return "waits: " + string(r.Code) }

// result is a status in the words of the tests.
type result struct {
	Refused bool // the decision does not suit any more
	Nodes   []string
	// Flavor and Usage of cpu.
	Flavor, Usage string
	Conditions    map[string]string // type to status and reason
	Evictions     int32
	Closed        []string // preemption gates
	Says          string   // of an eviction for no other, if the case asks for it
}

func TestStatus(t *testing.T) {
	quota := map[string]string{"QuotaReserved": "True QuotaReserved", "Admitted": "True Admitted"}
	cases := map[string]struct {
		why      string
		workload *kueue.Workload
		queue    *kueue.ClusterQueue
		decision core.Decision
		want     result
	}{
		"admit": {
			why: "one write reserves quota and admits", workload: aWorkload(),
			decision: core.Admit{Key: key, Admission: on("n1", "n2")},
			want:     result{Nodes: []string{"n1", "n2"}, Flavor: "spot", Usage: "3", Conditions: quota},
		},
		"reserve": {
			why:      "what an admission check has to agree to gets quota, and does not run yet",
			workload: aWorkload(),
			queue:    asking("budget"),
			decision: core.Admit{Key: key, Admission: on("n1", "n2")},
			want: result{Nodes: []string{"n1", "n2"}, Flavor: "spot", Usage: "3", Conditions: map[string]string{
				"QuotaReserved": "True QuotaReserved", "Admitted": "False UnsatisfiedAdmissionChecks",
			}},
		},
		"admit twice": {
			why: "doing it again changes nothing", workload: aWorkload(admittedOn("n1", "n2")),
			decision: core.Admit{Key: key, Admission: on("n1", "n2")},
			want:     result{Nodes: []string{"n1", "n2"}, Flavor: "spot", Usage: "3", Conditions: map[string]string{}},
		},
		"admit what somebody else admitted otherwise": {
			why: "two admissions would take quota twice", workload: aWorkload(admittedOn("n3")),
			decision: core.Admit{Key: key, Admission: on("n1", "n2")}, want: result{Refused: true},
		},
		"admit with another flavor": {
			why: "its quota is of the flavor it has", workload: aWorkload(admittedOn("n1"), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].Flavors["cpu"] = "reserved"
			}),
			decision: core.Admit{Key: key, Admission: on("n1")}, want: result{Refused: true},
		},
		"admit with other usage": {
			why: "quota was counted", workload: aWorkload(admittedOn("n1"), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].ResourceUsage["cpu"] = resource.MustParse("2")
			}),
			decision: core.Admit{Key: key, Admission: on("n1")}, want: result{Refused: true},
		},
		"admit in other words": {
			why: "it means the same",
			workload: aWorkload(admittedOn("n1"), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].ResourceUsage["cpu"] = resource.MustParse("1.5")
			}),
			decision: core.Admit{
				Key:       key,
				Admission: on("n1"),
			},
			want: result{Nodes: []string{"n1"}, Flavor: "spot", Usage: "1500m", Conditions: map[string]string{}},
		},
		"a move keeps flavors": {
			why: "a plan of nodes says nothing about quota",
			workload: aWorkload(admittedOn("n1"), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].Flavors["cpu"] = "reserved"
			}),
			decision: core.Replace{
				Key:       key,
				Admission: on("n2"),
			},
			want: result{Nodes: []string{"n2"}, Flavor: "reserved", Usage: "1500m", Conditions: map[string]string{}},
		},
		"admit what is being deleted": {
			why:      "it could never run",
			workload: aWorkload(func(w *kueue.Workload) { w.DeletionTimestamp = &metav1.Time{Time: at} }),
			decision: core.Admit{Key: key, Admission: on("n1")}, want: result{Refused: true},
		},
		"admit what was deactivated meanwhile": {
			why:      "its user does not want it to run",
			workload: aWorkload(func(w *kueue.Workload) { w.Spec.Active = new(false) }),
			decision: core.Admit{Key: key, Admission: on("n1")},
			want:     result{Refused: true},
		},
		"admit what finished": {
			why: "finished is final", workload: aWorkload(is(kueue.WorkloadFinished, "Succeeded")),
			decision: core.Admit{Key: key, Admission: on("n1")}, want: result{Refused: true},
		},
		"admit after an eviction": {
			why:      "old conditions must not look like a new eviction",
			workload: aWorkload(is(kueue.WorkloadEvicted, "Preempted"), is(kueue.WorkloadPreempted, "InClusterQueue")),
			decision: core.Admit{Key: key, Admission: on("n1")},
			want: result{Nodes: []string{"n1"}, Flavor: "spot", Usage: "1500m", Conditions: map[string]string{
				"QuotaReserved": "True QuotaReserved", "Admitted": "True Admitted",
				"Evicted": "False QuotaReserved", "Preempted": "False QuotaReserved",
			}},
		},
		"move to another node": {
			why: "only the nodes change", workload: aWorkload(admittedOn("n1", "n2")),
			decision: core.Replace{Key: key, Admission: on("n1", "n3")},
			want:     result{Nodes: []string{"n1", "n3"}, Flavor: "spot", Usage: "3", Conditions: map[string]string{}},
		},
		"move what is being evicted": {
			why: "it is on its way out", workload: aWorkload(admittedOn("n1"), is(kueue.WorkloadEvicted, "Preempted")),
			decision: core.Replace{Key: key, Admission: on("n3")}, want: result{Refused: true},
		},
		"preempt": {
			why:      "quota stays taken until the pods are gone",
			workload: aWorkload(admittedOn("n1")),
			decision: core.Evict{
				Key:    key,
				Reason: core.InCohortReclamation,
				For:    core.Key{Namespace: "red", Name: "x"},
			},
			want: result{
				Nodes:     []string{"n1"},
				Flavor:    "spot",
				Usage:     "1500m",
				Evictions: 1,
				Conditions: map[string]string{
					"Evicted": "True Preempted", "Preempted": "True InCohortReclamation",
				},
			},
		},
		"relocate": {
			why:      "that it was is remembered as long as the Workload is",
			workload: aWorkload(admittedOn("n1")),
			decision: core.Evict{Key: key, Reason: core.Relocated, For: core.Key{Namespace: "red", Name: "x"}},
			want: result{
				Nodes:     []string{"n1"},
				Flavor:    "spot",
				Usage:     "1500m",
				Evictions: 1,
				Conditions: map[string]string{
					"Evicted": "True Preempted", "Preempted": "True Relocated", "mlbatch.dev/Relocated": "True Relocated",
				},
			},
		},
		"admit what was relocated": {
			why: "it is not relocated again",
			workload: aWorkload(
				is(kueue.WorkloadEvicted, "Preempted"),
				is(kueue.WorkloadPreempted, "Relocated"),
				is(kueue.WorkloadRelocated, "Relocated"),
			),
			decision: core.Admit{Key: key, Admission: on("n2")},
			want: result{Nodes: []string{"n2"}, Flavor: "spot", Usage: "1500m", Conditions: map[string]string{
				"QuotaReserved": "True QuotaReserved", "Admitted": "True Admitted",
				"Evicted": "False QuotaReserved", "Preempted": "False QuotaReserved",
				"mlbatch.dev/Relocated": "True Relocated",
			}},
		},
		"evict twice": {
			why:      "one eviction counts once",
			workload: aWorkload(admittedOn("n1"), is(kueue.WorkloadEvicted, "Preempted")),
			decision: core.Evict{Key: key, Reason: core.InClusterQueue},
			want: result{
				Nodes:      []string{"n1"},
				Flavor:     "spot",
				Usage:      "1500m",
				Conditions: map[string]string{"Evicted": "True Preempted"},
			},
		},
		"evict what holds nothing": {
			why: "there is nothing to take", workload: aWorkload(),
			decision: core.Evict{Key: key, Reason: core.InClusterQueue}, want: result{Refused: true},
		},
		"refuse": {
			why:      "the condition carries the typed reason",
			workload: aWorkload(),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}},
			want: result{
				Conditions: map[string]string{
					"QuotaReserved": "False WaitingForQuota",
					"Admitted":      "False NoReservation",
				},
			},
		},
		"refused again": {
			why: "a check that took back its answer is no reason any more",
			workload: aWorkload(func(w *kueue.Workload) {
				workloadlifecycle.NewConditions(w, &w.Status, at).
					Set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonUnsatisfiedAdmissionChecks, "")
			}),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}},
			want: result{
				Conditions: map[string]string{
					"QuotaReserved": "False WaitingForQuota",
					"Admitted":      "False NoReservation",
				},
			},
		},
		"deactivated": {
			why:      "its user holds it",
			workload: aWorkload(func(w *kueue.Workload) { w.Spec.Active = new(false) }),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.OnHold}},
			want: result{
				Conditions: map[string]string{"QuotaReserved": "False Deactivated", "Admitted": "False NoReservation"},
			},
		},
		"pause after an eviction": {
			why: "it will be looked at",
			workload: aWorkload(func(w *kueue.Workload) {
				workloadlifecycle.NewConditions(w, &w.Status, at).
					Set(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.ReasonPodsReadyTimeout, "")
			}),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.OnHold}},
			want: result{
				Conditions: map[string]string{
					"QuotaReserved": "False PendingEvaluation",
					"Admitted":      "False NoReservation",
					"Requeued":      "False PodsReadyTimeout",
				},
			},
		},
		"pause": {
			why:      "it will be looked at",
			workload: aWorkload(),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.OnHold, Cause: core.BackingOff}},
			want: result{
				Conditions: map[string]string{
					"QuotaReserved": "False PendingEvaluation",
					"Admitted":      "False NoReservation",
				},
			},
		},
		"a check refuses": {
			why:      "the controller that answers it holds it",
			workload: aWorkload(),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.OnHold}},
			want: result{
				Conditions: map[string]string{"QuotaReserved": "False OnHold", "Admitted": "False NoReservation"},
			},
		},
		"a gate forbids to evict": {
			why: "the controller that opens gates looks for the condition", workload: aWorkload(),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.AdmissionGated, Cause: core.PreemptionGated}},
			want: result{Conditions: map[string]string{
				"QuotaReserved":            "False AdmissionGated",
				"Admitted":                 "False NoReservation",
				"BlockedOnPreemptionGates": "True PreemptionGated",
			}},
		},
		"no gate forbids it any more": {
			why:      "the condition follows",
			workload: aWorkload(is(kueue.WorkloadBlockedOnPreemptionGates, kueue.ReasonPreemptionGated)),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}},
			want: result{Conditions: map[string]string{
				"QuotaReserved":            "False WaitingForQuota",
				"Admitted":                 "False NoReservation",
				"BlockedOnPreemptionGates": "False PreemptionGated",
			}},
		},
		"queue is drained": {
			why:      "its user wants to know what happened",
			workload: aWorkload(admittedOn("n1")),
			decision: core.Evict{Key: key, Reason: core.ClusterQueueStopped},
			want: result{
				Nodes:      []string{"n1"},
				Flavor:     "spot",
				Usage:      "1500m",
				Evictions:  1,
				Conditions: map[string]string{"Evicted": "True ClusterQueueStopped"},
				Says:       "The ClusterQueue is stopped",
			},
		},
		"local queue is drained": {
			why:      "it is another object that has to be started",
			workload: aWorkload(admittedOn("n1")),
			decision: core.Evict{Key: key, Reason: core.LocalQueueStopped},
			want: result{
				Nodes:      []string{"n1"},
				Flavor:     "spot",
				Usage:      "1500m",
				Evictions:  1,
				Conditions: map[string]string{"Evicted": "True LocalQueueStopped"},
				Says:       "The LocalQueue is stopped",
			},
		},
		"evicted, gates close": {
			why: "the controller that opened one has to agree again",
			workload: aWorkload(admittedOn("n1"), func(w *kueue.Workload) {
				w.Status.PreemptionGates = []kueue.PreemptionGateState{{Name: "g", Position: kueue.GateOpen}}
			}),
			decision: core.Evict{Key: key, Reason: core.NodeFailures},
			want: result{
				Nodes:      []string{"n1"},
				Flavor:     "spot",
				Usage:      "1500m",
				Closed:     []string{"g"},
				Evictions:  1,
				Conditions: map[string]string{"Evicted": "True NodeFailures"},
			},
		},
		"refuse what is admitted": {
			why: "the reason is out of date", workload: aWorkload(admittedOn("n1")),
			decision: core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}, want: result{Refused: true},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			next, ok := status(c.workload, c.decision, scene{now: at, sentence: sentence, queue: c.queue})
			got := result{Refused: !ok}
			if ok {
				if next == nil {
					next = &c.workload.Status
				}
				got = describe(next)
				if evicted := apimeta.FindStatusCondition(
					next.Conditions,
					kueue.WorkloadEvicted,
				); evicted != nil &&
					c.want.Says != "" {
					got.Says = evicted.Message
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

func describe(s *kueue.WorkloadStatus) result {
	r := result{Conditions: map[string]string{}}
	for _, c := range s.Conditions {
		r.Conditions[c.Type] = string(c.Status) + " " + c.Reason
	}
	if s.Admission != nil {
		ps := &s.Admission.PodSetAssignments[0]
		r.Flavor, r.Usage = string(ps.Flavors["cpu"]), ps.ResourceUsage.Cpu().String()
		for _, p := range convert.Admission(s.Admission).PodSets[0].Places {
			r.Nodes = append(r.Nodes, p.Node)
		}
	}
	for _, g := range s.PreemptionGates {
		if g.Position == kueue.GateClosed {
			r.Closed = append(r.Closed, g.Name)
		}
	}
	if s.SchedulingStats != nil {
		for _, e := range s.SchedulingStats.Evictions {
			r.Evictions += e.Count
		}
	}
	return r
}

// What is written of a refusal is what commands print where no controller answers.
func TestRefusalIsReadAsItWasWritten(t *testing.T) {
	w := aWorkload()
	next, ok := status(
		w,
		core.Refuse{Key: key, Why: core.Reason{Code: core.TopologyPlacementFailed}},
		scene{now: at, sentence: func(core.Reason) string { return "no node has room" }},
	)
	if !ok {
		t.Fatal("it does not suit")
	}
	w.Status = *next
	want := &view.Decision{Code: core.TopologyPlacementFailed, Message: "no node has room", At: at}
	if diff := cmp.Diff(want, view.StandingOf(view.Objects{Workload: w}).Decision); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}
