package webhook_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// conditionsOf are conditions that are True.
func conditionsOf(types ...string) string {
	var all []string
	for _, t := range types {
		all = append(
			all,
			"{type: "+t+`, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`,
		)
	}
	return "conditions: [" + strings.Join(all, ", ") + "]"
}

// workOf is a Workload of one pod set of four, and more of spec and status.
func workOf(spec, status string) string {
	return "{metadata: {name: w, namespace: blue}, spec: {podSets: [{name: main, count: 4, template: {spec: {containers: [{name: c}]}}}], " + spec + "}, status: {" + status + "}}"
}

// change is a write of one half of a Workload, and what is wrong with it.
type change struct {
	why     string
	old, is string
	want    string // part of the complaint, "" for none
}

// check writes each change as any client would, our own controllers included.
func (s *store) check(version, part string, changes map[string]change) {
	parse := func(text string) map[string]any {
		o := s.schemas[version].Parse(s.t, text)
		o["apiVersion"], o["kind"] = "kueue.x-k8s.io/"+version, "Workload"
		return o
	}
	for name, c := range changes {
		s.holds(version, parse(c.old))
		before := maps.Clone(s.stored)
		got := s.write(version, part, parse(c.is))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			s.t.Errorf("%s %s: %s: got %q, want %q", version, name, c.why, got, c.want)
		}
		if got != "" && string(text(s.t, before)) != string(text(s.t, s.stored)) {
			s.t.Errorf("%s %s: what was refused changed something", version, name)
		}
	}
}

// TestReservedSpec tries what may change in the spec of a Workload while quota is
// reserved for it.
func TestReservedSpec(t *testing.T) {
	const holding = ", admission: {clusterQueue: a, podSetAssignments: [{name: main}]}"
	reserved, admitted := conditionsOf(
		"QuotaReserved",
	)+holding, conditionsOf(
		"QuotaReserved",
		"Admitted",
	)+holding
	limit := func(s string) string { return "maximumExecutionTimeSeconds: " + s }
	count := func(status, is string) string {
		return strings.Replace(workOf("", status), "count: 4", "count: "+is, 1)
	}
	s := newStore(t)
	for _, version := range []string{"v1beta1", "v1beta2"} {
		s.check(version, "spec", map[string]change{
			"Queue": {
				why: "a waiting workload may move",
				old: workOf("queueName: a", ""),
				is:  workOf("queueName: b", ""),
			},
			"QueueHeld": {
				why:  "its quota is of the old queue",
				old:  workOf("queueName: a", reserved),
				is:   workOf("queueName: b", reserved),
				want: "spec.queueName",
			},
			"QueueGone": {
				why:  "its quota is of that queue",
				old:  workOf("queueName: a", reserved),
				is:   workOf("", reserved),
				want: "spec.queueName",
			},
			"Priority": {
				why: "its rank may change at any time",
				old: workOf("priority: 1", admitted),
				is:  workOf("priority: 2", admitted),
			},
			"Active": {
				why: "it may be stopped at any time",
				old: workOf("active: true", admitted),
				is:  workOf("active: false", admitted),
			},
			"LimitHeld": {
				why: "it has not begun to run",
				old: workOf(limit("5"), reserved),
				is:  workOf(limit("6"), reserved),
			},
			"LimitRunning": {
				why:  "it runs against the old one",
				old:  workOf(limit("5"), admitted),
				is:   workOf(limit("6"), admitted),
				want: "spec.maximumExecutionTimeSeconds",
			},
			"LimitNew": {
				why:  "it runs without one",
				old:  workOf("", admitted),
				is:   workOf(limit("6"), admitted),
				want: "spec.maximumExecutionTimeSeconds",
			},
			"LimitGone": {
				why:  "it runs against it",
				old:  workOf(limit("5"), admitted),
				is:   workOf("", admitted),
				want: "spec.maximumExecutionTimeSeconds",
			},
			"Count": {why: "a waiting workload may grow", old: workOf("", ""), is: count("", "5")},
			"CountHeld": {
				why:  "quota was counted for four",
				old:  workOf("", reserved),
				is:   count(reserved, "5"),
				want: "spec.podSets",
			},
			"CountFewer": {
				why:  "quota was counted for four",
				old:  workOf("", reserved),
				is:   count(reserved, "3"),
				want: "spec.podSets",
			},
			"CountBelow": {
				why:  "three of its pods have ended",
				old:  workOf("", "reclaimablePods: [{name: main, count: 3}]"),
				is:   count("reclaimablePods: [{name: main, count: 3}]", "2"),
				want: "with at most their count",
			},
		})
	}
	class := func(kind, name string) string {
		group := map[string]string{"PriorityClass": "scheduling.k8s.io", "WorkloadPriorityClass": "kueue.x-k8s.io"}[kind]
		return workOf("priority: 1, priorityClassRef: {group: "+group+", kind: "+kind+", name: "+name+"}", reserved)
	}
	s.check("v1beta2", "spec", map[string]change{
		"Class": {
			why: "jobs may get another class while they run",
			old: class("WorkloadPriorityClass", "a"),
			is:  class("WorkloadPriorityClass", "b"),
		},
		"PodClass": {
			why:  "the pods have it",
			old:  class("PriorityClass", "a"),
			is:   class("PriorityClass", "b"),
			want: "spec.priorityClassRef",
		},
		"OtherKind": {
			why:  "the pods have it",
			old:  class("PriorityClass", "a"),
			is:   class("WorkloadPriorityClass", "a"),
			want: "spec.priorityClassRef",
		},
		"ClassGone": {
			why:  "its priority came from there",
			old:  class("WorkloadPriorityClass", "a"),
			is:   workOf("", reserved),
			want: "spec.priorityClassRef",
		},
		"ClassNew": {
			why:  "its priority came from elsewhere",
			old:  workOf("", reserved),
			is:   class("WorkloadPriorityClass", "a"),
			want: "spec.priorityClassRef",
		},
	})
	source := func(name, kind string) string {
		return workOf("priority: 1, priorityClassName: "+name+", priorityClassSource: "+kind, reserved)
	}
	const pods, works = "scheduling.k8s.io/priorityclass", "kueue.x-k8s.io/workloadpriorityclass"
	s.check("v1beta1", "spec", map[string]change{
		"Class": {
			why: "jobs may get another class while they run",
			old: source("a", works),
			is:  source("b", works),
		},
		"PodClass": {
			why:  "the pods have it",
			old:  source("a", pods),
			is:   source("b", pods),
			want: "spec.priorityClassName",
		},
		"None": {
			why: "the source defaults to none, which what is stored does not say",
			old: workOf("", reserved),
			is:  workOf(`priorityClassSource: ""`, reserved),
		},
		"NoneGone": {
			why: "and back",
			old: workOf(`priorityClassSource: "", priorityClassName: ""`, reserved),
			is:  workOf("", reserved),
		},
		"NewClass": {
			why:  "its priority came from elsewhere",
			old:  workOf("", reserved),
			is:   source("a", pods),
			want: "spec.priorityClassName",
		},
		"Source": {
			why:  "the pods have it",
			old:  source("a", pods),
			is:   source("a", works),
			want: "spec.priorityClassName",
		},
	})
}

// TestReservedStatus tries what may change in the status of a Workload.
func TestReservedStatus(t *testing.T) {
	const holding = ", admission: {clusterQueue: a, podSetAssignments: [{name: main}]}"
	reserved := conditionsOf("QuotaReserved")
	admission := func(assignments string) string {
		return workOf("", reserved+", admission: {clusterQueue: a, podSetAssignments: "+assignments+"}")
	}
	good := admission("[{name: main, count: 4, flavors: {cpu: f}, resourceUsage: {cpu: 4}}]")
	with := func(old, is string) string { return strings.Replace(good, old, is, 1) }
	reclaim := func(pods string) string { return workOf("", reserved+holding+", reclaimablePods: ["+pods+"]") }
	s := newStore(t)
	for _, version := range []string{"v1beta1", "v1beta2"} {
		s.check(version, "status", map[string]change{
			"Reserve": {why: "a plan is written", old: workOf("", ""), is: good},
			"Release": {why: "a plan is withdrawn", old: good, is: workOf("", "")},
			"Same":    {why: "a write of what is there", old: good, is: good},
			"OtherQueue": {
				why:  "quota moves by release alone",
				old:  good,
				is:   with("clusterQueue: a", "clusterQueue: b"),
				want: "status.admission.clusterQueue",
			},
			"OtherFlavor": {
				why:  "quota moves by release alone",
				old:  good,
				is:   with("cpu: f", "cpu: g"),
				want: "podSetAssignments[0].flavors: Forbidden: cannot be changed",
			},
			"OtherCount": {
				why:  "quota moves by release alone",
				old:  good,
				is:   with("Assignments: [{name: main, count: 4", "Assignments: [{name: main, count: 3"),
				want: "podSetAssignments[0].count: Forbidden: cannot be changed",
			},
			"OtherUsage": {
				why:  "quota moves by release alone",
				old:  good,
				is:   with("resourceUsage: {cpu: 4}", "resourceUsage: {cpu: 3}"),
				want: "podSetAssignments[0].resourceUsage: Forbidden: cannot be changed",
			},
			"SameUsage": {
				why: "4 is 4000m",
				old: good,
				is:  with("resourceUsage: {cpu: 4}", "resourceUsage: {cpu: 4000m}"),
			},
			"NoFlavors": {
				why: "no flavors are none",
				old: with("flavors: {cpu: f}, ", ""),
				is:  with("flavors: {cpu: f}", "flavors: {}"),
			},
			"OtherName": {
				why:  "it is for this pod set",
				old:  good,
				is:   with("Assignments: [{name: main, count: 4", "Assignments: [{name: other, count: 4"),
				want: "cannot be renamed",
			},
			"NoAssignment": {
				why:  "every pod set needs quota",
				old:  workOf("", ""),
				is:   admission("[]"),
				want: "one assignment for each pod set",
			},
			"TwoAssignments": {
				why:  "there is one pod set",
				old:  workOf("", ""),
				is:   admission("[{name: main}, {name: other}]"),
				want: "one assignment for each pod set",
			},
			"Delayed": {
				why: "places may come later",
				old: good,
				is:  with("resourceUsage: {cpu: 4}", "resourceUsage: {cpu: 4}, delayedTopologyRequest: Pending"),
			},
			"Reclaim": {
				why: "more and more pods end",
				old: reclaim("{name: main, count: 1}"),
				is:  reclaim("{name: main, count: 2}"),
			},
			"ReclaimTooMany": {
				why:  "there are four",
				old:  workOf("", ""),
				is:   reclaim("{name: main, count: 5}"),
				want: "with at most their count",
			},
			"ReclaimOther": {
				why:  "of which pod set",
				old:  workOf("", ""),
				is:   reclaim("{name: other, count: 1}"),
				want: "must name pod sets",
			},
			"ReclaimBack": {
				why:  "the quota may be in use",
				old:  reclaim("{name: main, count: 2}"),
				is:   reclaim("{name: main, count: 1}"),
				want: "cannot shrink",
			},
			"ReclaimGone": {
				why:  "the quota may be in use",
				old:  reclaim("{name: main, count: 2}"),
				is:   workOf("", reserved+holding),
				want: "cannot shrink",
			},
			"ReclaimNone": {
				why: "none were given back",
				old: reclaim("{name: main, count: 0}"),
				is:  workOf("", reserved+holding),
			},
			"ReclaimFreed": {
				why: "all quota is given back",
				old: reclaim("{name: main, count: 2}"),
				is:  workOf("", ""),
			},
			"ReservedNothing": {
				why:  "quota is of a queue",
				old:  workOf("", ""),
				is:   workOf("", reserved),
				want: "status.admission",
			},
			"AdmissionGone": {
				why:  "quota is of a queue",
				old:  good,
				is:   workOf("", reserved),
				want: "status.admission",
			},
			"Cluster": {
				why: "one was chosen",
				old: workOf("", "nominatedClusterNames: [a, b]"),
				is:  workOf("", "clusterName: a"),
			},
			"ClusterUnknown": {
				why:  "others were to be chosen from",
				old:  workOf("", "nominatedClusterNames: [a, b]"),
				is:   workOf("", "clusterName: c"),
				want: "must be one of the nominatedClusterNames",
			},
			"ClusterAtOnce": {
				why: "none was nominated",
				old: workOf("", "nominatedClusterNames: []"),
				is:  workOf("", "clusterName: c"),
			},
			"ClusterOther": {
				why:  "the job is there",
				old:  workOf("", "clusterName: a"),
				is:   workOf("", "clusterName: b"),
				want: "status.clusterName",
			},
			"ClusterGone": {why: "it came back", old: workOf("", "clusterName: a"), is: workOf("", "")},
			"ClusterBoth": {
				why:  "chosen and to be chosen",
				old:  workOf("", ""),
				is:   workOf("", "clusterName: a, nominatedClusterNames: [a]"),
				want: "exclude each other",
			},
			"Nominate": {
				why:  "it is there already",
				old:  workOf("", "clusterName: a"),
				is:   workOf("", "clusterName: a, nominatedClusterNames: [b]"),
				want: "exclude each other",
			},
			"StoredWrong": {
				why: "what is stored can be ended",
				old: admission("[]"),
				is:  strings.Replace(admission("[]"), "type: QuotaReserved", "type: Finished", 1),
			},
		})
	}
}

// BenchmarkSuspicious is what the API server spends on each write of a Workload to
// learn that no webhook has to be asked about it.
func BenchmarkSuspicious(b *testing.B) {
	const holding = ", admission: {clusterQueue: a, podSetAssignments: [{name: main, count: 4, flavors: {cpu: f}, resourceUsage: {cpu: 4}}]}"
	object := func(status string) string {
		return "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, " + strings.TrimPrefix(
			workOf("queueName: q", status),
			"{",
		)
	}
	waiting, admitted := object(""), object(conditionsOf("QuotaReserved", "Admitted")+holding)
	ready := object(conditionsOf("QuotaReserved", "Admitted", "PodsReady") + holding)
	var kept matchconditions.Matcher
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	for i := range validating.Webhooks {
		if validating.Webhooks[i].Name == "vworkloadkept.mlbatch.dev" {
			kept = matcher(&validating.Webhooks[i])
		}
	}
	for name, tc := range map[string]struct{ old, is string }{"Admit": {waiting, admitted}, "Condition": {admitted, ready}} {
		b.Run(name, func(b *testing.B) {
			write := written(b, "status", "controller", webhook.FieldOwner, tc.is, tc.old)
			for b.Loop() {
				if matches(b, kept, write) {
					b.Fatal("the webhook is called")
				}
			}
		})
	}
}
