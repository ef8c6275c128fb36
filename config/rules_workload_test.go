package config_test

import (
	"strings"
	"testing"
)

// conditions that are True.
func conditions(types ...string) string {
	var all []string
	for _, t := range types {
		all = append(
			all,
			"{type: "+t+`, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`,
		)
	}
	return "conditions: [" + strings.Join(all, ", ") + "]"
}

// work is a Workload of one pod set of four, and more of spec and status.
func work(spec, status string) string {
	return "{spec: {podSets: [{name: main, count: 4, template: {spec: {}}}], " + spec + "}, status: {" + status + "}}"
}

func TestWorkloadSpecRules(t *testing.T) {
	podSets := func(sets string) string { return spec("podSets: " + sets) }
	topology := func(request string) string {
		return podSets("[{name: main, count: 1, topologyRequest: {" + request + "}}]")
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain":       {why: "one pod by default", is: podSets("[{template: {spec: {}}}]")},
			"NoPodSets":   {why: "nothing to admit", is: podSets("[]"), want: "spec.podSets"},
			"PodSets":     {why: "at most 18", is: podSets(many(19, "{name: s%d}")), want: "spec.podSets: Too many"},
			"PodSetTwice": {why: "assignments go by name", is: podSets("[{name: a}, {name: a}]"), want: "Duplicate"},
			"PodSetName": {
				why:  "no label looks like that",
				is:   podSets("[{name: A}]"),
				want: "spec.podSets[0].name",
			},
			"Count": {why: "less than nothing", is: podSets("[{name: a, count: -1}]"), want: "count"},
			"MinCount": {
				why:  "starts with at least one",
				is:   podSets("[{name: a, count: 2, minCount: 0}]"),
				want: "minCount",
			},
			"MinOverCount": {
				why:  "fewer, not more",
				is:   podSets("[{name: a, count: 2, minCount: 3}]"),
				want: "minCount may not exceed count",
			},
			"TwoMinCounts": {
				why:  "the search has one dimension",
				is:   podSets("[{name: a, count: 2, minCount: 1}, {name: b, count: 2, minCount: 1}]"),
				want: "at most one pod set may have minCount",
			},
			"QueueName": {why: "no object is called that", is: work("queueName: A", ""), want: "spec.queueName"},
			"ExecutionTime": {
				why:  "no time at all",
				is:   work("maximumExecutionTimeSeconds: 0", ""),
				want: "maximumExecutionTimeSeconds",
			},
			"Required":  {why: "63 characters", is: topology("required: " + long), want: "required: Too long"},
			"Preferred": {why: "63 characters", is: topology("preferred: " + long), want: "preferred: Too long"},
			"PodIndex": {
				why:  "317 characters",
				is:   topology("podIndexLabel: " + long),
				want: "podIndexLabel: Too long",
			},
			"SubGroupIndex": {
				why:  "317 characters",
				is:   topology("subGroupIndexLabel: " + long),
				want: "subGroupIndexLabel: Too long",
			},
			"SubGroups": {why: "less than nothing", is: topology("subGroupCount: -1"), want: "subGroupCount"},
			"GroupName": {
				why:  "256 characters",
				is:   topology("podSetGroupName: " + long),
				want: "podSetGroupName: Too long",
			},
			"SliceTopology": {
				why:  "63 characters",
				is:   topology("podSetSliceRequiredTopology: " + long),
				want: "podSetSliceRequiredTopology: Too long",
			},
			"SliceSize": {why: "a slice has pods", is: topology("podSetSliceSize: 0"), want: "podSetSliceSize"},
			"Topology": {
				why: "all of it at once is for others to judge",
				is: topology(
					"required: rack, podSetSliceRequiredTopology: host, podSetSliceSize: 2, unconstrained: true",
				),
			},
		}.check(t, "workloads", version)
	}
	class := func(group, kind, name string) string {
		return work("priority: 1, priorityClassRef: {group: "+group+", kind: "+kind+", name: "+name+"}", "")
	}
	rulings{
		"Class":    {why: "a class of workloads", is: class("kueue.x-k8s.io", "WorkloadPriorityClass", "high")},
		"PodClass": {why: "a class of pods", is: class("scheduling.k8s.io", "PriorityClass", "high")},
		"ClassMix": {
			why:  "group and kind belong together",
			is:   class("scheduling.k8s.io", "WorkloadPriorityClass", "high"),
			want: "priorityClassRef.kind",
		},
		"ClassGroup": {
			why:  "there are two",
			is:   class("a.b", "PriorityClass", "high"),
			want: "group: Unsupported value",
		},
		"ClassKind": {
			why:  "there are two",
			is:   class("kueue.x-k8s.io", "Class", "high"),
			want: "kind: Unsupported value",
		},
		"ClassName": {
			why:  "no object is called that",
			is:   class("kueue.x-k8s.io", "WorkloadPriorityClass", "A"),
			want: "priorityClassRef.name",
		},
		"NoValue": {
			why:  "a class gives a priority",
			is:   work("priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}", ""),
			want: "spec.priority",
		},
		"Gates": {
			why:  "at most 8",
			is:   work("preemptionGates: "+many(9, "{name: g%d}"), ""),
			want: "preemptionGates: Too many",
		},
		"GateTwice": {
			why:  "gates go by name",
			is:   work("preemptionGates: [{name: a}, {name: a}]", ""),
			want: "Duplicate",
		},
		"Constraints": {
			why:  "at most three layers",
			is:   topology("podsetSliceRequiredTopologyConstraints: " + many(4, "{topology: t%d, size: 1}")),
			want: "podsetSliceRequiredTopologyConstraints: Too many",
		},
		"LayerSize": {
			why:  "a slice has pods",
			is:   topology("podsetSliceRequiredTopologyConstraints: [{topology: t, size: 0}]"),
			want: "size",
		},
		"LayerName": {
			why:  "a layer has a level",
			is:   topology(`podsetSliceRequiredTopologyConstraints: [{topology: "", size: 1}]`),
			want: "topology",
		},
	}.check(t, "workloads", "v1beta2")
	rulings{
		"Source": {
			why:  "there are two, and none",
			is:   work("priorityClassName: high, priorityClassSource: pods", ""),
			want: "priorityClassSource: Unsupported value",
		},
		"NoSource": {why: "the class may have gone", is: work("priority: 1, priorityClassName: high", "")},
		"NoValue": {
			why:  "a class gives a priority",
			is:   work("priorityClassName: high, priorityClassSource: kueue.x-k8s.io/workloadpriorityclass", ""),
			want: "spec.priority",
		},
		"ClassName": {
			why:  "no object is called that",
			is:   work("priorityClassName: A", ""),
			want: "priorityClassName",
		},
	}.check(t, "workloads", "v1beta1")
}

func TestWorkloadStatusRules(t *testing.T) {
	reserved := conditions("QuotaReserved")
	admission := func(assignments string) string {
		return work("", reserved+", admission: {clusterQueue: a, podSetAssignments: "+assignments+"}")
	}
	good := admission("[{name: main, count: 4, flavors: {cpu: f}, resourceUsage: {cpu: 4}}]")
	change := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	check := func(state, updates string) string {
		return work(
			"",
			`admissionChecks: [{name: a, state: `+state+`, lastTransitionTime: "2026-01-01T00:00:00Z"`+updates+"}]",
		)
	}
	const labels = ", podSetUpdates: [{name: main, labels: {a: b}}]"
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Reserve": {why: "a plan is written", old: work("", ""), is: good},
			"Delayed": {
				why: "places may come later",
				old: good,
				is:  change("resourceUsage: {cpu: 4}", "resourceUsage: {cpu: 4}, delayedTopologyRequest: Pending"),
			},
			"DelayedState": {
				why:  "there are two",
				is:   change("resourceUsage: {cpu: 4}", "delayedTopologyRequest: No"),
				want: "delayedTopologyRequest: Unsupported value",
			},
			"Assignments": {
				why:  "at most 18",
				is:   admission(many(19, "{name: s%d}")),
				want: "podSetAssignments: Too many",
			},
			"NegativeCount": {
				why:  "less than nothing",
				is:   change("Assignments: [{name: main, count: 4", "Assignments: [{name: main, count: -4"),
				want: "count",
			},
			"Conditions": {
				why:  "at most 16",
				is:   work("", conditions(strings.Split("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", ",")...)),
				want: "status.conditions: Too many",
			},
			"Requeues": {
				why:  "less than never",
				is:   work("", "requeueState: {count: -1}"),
				want: "requeueState.count",
			},
			"Checks": {
				why: "at most 8",
				is: work(
					"",
					"admissionChecks: "+many(9, `{name: c%d, state: Pending, lastTransitionTime: "2026-01-01T00:00:00Z"}`),
				),
				want: "admissionChecks: Too many",
			},
			"CheckState": {why: "there are four", is: check("Maybe", ""), want: "state: Unsupported value"},
			"CheckMessage": {
				why:  "32768 characters",
				is:   check("Pending", ", message: "+strings.Repeat("a", 32769)),
				want: "message: Too long",
			},
			"CheckRetry": {
				why:  "less than no time",
				is:   check("Retry", ", requeueAfterSeconds: -1"),
				want: "requeueAfterSeconds",
			},
			"Updates": {why: "the answer brings them", old: check("Pending", ""), is: check("Ready", labels)},
			"UpdatesAgain": {
				why: "another answer brings others",
				old: check("Ready", labels),
				is:  check("Retry", ""),
			},
			"UpdatesMany": {
				why:  "at most 18 pod sets",
				is:   check("Ready", ", podSetUpdates: "+many(19, "{name: s%d}")),
				want: "podSetUpdates: Too many",
			},
			"UpdateTolerates": {
				why:  "at most 8",
				is:   check("Ready", ", podSetUpdates: [{name: main, tolerations: "+many(9, "{key: k%d}")+"}]"),
				want: "tolerations: Too many",
			},
			"Nominated": {
				why:  "at most 20",
				is:   work("", "nominatedClusterNames: "+many(21, "c%d")),
				want: "nominatedClusterNames: Too many",
			},
			"UnhealthyNodes": {
				why:  "at most 8",
				is:   work("", "unhealthyNodes: "+many(9, "{name: n%d}")),
				want: "unhealthyNodes: Too many",
			},
			"Requests": {
				why:  "at most 18",
				is:   work("", "resourceRequests: "+many(19, "{name: s%d}")),
				want: "resourceRequests: Too many",
			},
			"EvictedTwice": {
				why: "one count per reason and cause",
				is: work(
					"",
					"schedulingStats: {evictions: [{reason: a, underlyingCause: \"\", count: 1}, {reason: a, underlyingCause: \"\", count: 2}]}",
				),
				want: "Duplicate",
			},
		}.check(t, "workloads", version)
	}
	places := func(t string) string { return change("resourceUsage: {cpu: 4}", "topologyAssignment: {"+t+"}") }
	slice := func(values, counts string) string {
		return places(
			"levels: [rack, host], slices: [{domainCount: 2, valuesPerLevel: [" + values + "], podCounts: {" + counts + "}}]",
		)
	}
	const both = "{universal: r}, {individual: {prefix: node-, roots: [a, b]}}"
	rulings{
		"Places": {why: "two nodes of a rack", is: slice(both, "universal: 2")},
		"PlacesMoved": {
			why: "a node may be replaced",
			old: slice(both, "universal: 2"),
			is:  slice(strings.Replace(both, "[a, b]", "[a, c]", 1), "universal: 2"),
		},
		"PlaceLevels": {
			why:  "a domain has one value at each level",
			is:   slice("{universal: r}", "universal: 2"),
			want: "one entry for each level",
		},
		"PlaceRoots": {
			why:  "two domains have two names",
			is:   slice("{universal: r}, {individual: {roots: [a]}}", "universal: 2"),
			want: "one root for each domain",
		},
		"PlaceCounts": {
			why:  "two domains have two counts",
			is:   slice(both, "individual: [1, 2, 3]"),
			want: "one entry for each domain",
		},
		"PlaceNeither": {why: "how many", is: slice(both, ""), want: "universal or individual"},
		"PlaceBoth": {
			why:  "which of them",
			is:   slice(both, "universal: 1, individual: [1, 2]"),
			want: "universal or individual",
		},
		"PlaceNoOne": {why: "a domain has pods", is: slice(both, "universal: 0"), want: "universal"},
		"PlaceTooLong": {
			why:  "no node label has such a value",
			is:   slice("{universal: r}, {individual: {roots: [a, "+strings.Repeat("b", 64)+"]}}", "universal: 2"),
			want: "roots[1]: Too long",
		},
		"LevelTooLong": {
			why:  "no node label has such a name",
			is:   places("levels: [" + strings.Repeat("b", 317) + "]"),
			want: "levels[0]: Too long",
		},
		"NoLevels": {why: "of what", is: places("levels: []"), want: "levels"},
		"Slices": {
			why: "at most 1000",
			is: places(
				"levels: [host], slices: " + many(
					1001,
					"{domainCount: 1, valuesPerLevel: [{universal: n%d}], podCounts: {universal: 1}}",
				),
			),
			want: "slices: Too many",
		},
		"Gates": {
			why: "at most 8",
			is: work(
				"",
				"preemptionGates: "+many(9, `{name: g%d, position: Open, lastTransitionTime: "2026-01-01T00:00:00Z"}`),
			),
			want: "preemptionGates: Too many",
		},
		"GatePosition": {
			why:  "there are two",
			is:   work("", `preemptionGates: [{name: g, position: Ajar, lastTransitionTime: "2026-01-01T00:00:00Z"}]`),
			want: "position: Unsupported value",
		},
	}.check(t, "workloads", "v1beta2")
	rulings{
		"Places": {
			why: "two nodes",
			is:  places("levels: [host], domains: [{values: [a], count: 1}, {values: [b], count: 3}]"),
		},
		"NoOne": {
			why:  "a domain has pods",
			is:   places("levels: [host], domains: [{values: [a], count: 0}]"),
			want: "count",
		},
		"Nameless": {
			why:  "a domain has a name",
			is:   places("levels: [host], domains: [{values: [], count: 1}]"),
			want: "values",
		},
		"TooLong": {
			why:  "no node label has such a value",
			is:   places("levels: [host], domains: [{values: [" + strings.Repeat("a", 64) + "], count: 1}]"),
			want: "values[0]: Too long",
		},
		"Longest": {
			why: "a node label may have it",
			is:  places("levels: [host], domains: [{values: [" + strings.Repeat("a", 63) + "], count: 4}]"),
		},
		"Typo": {
			why: "this version spells it like that since its first release",
			is:  work("", "accumulatedPastExexcutionTimeSeconds: 5"),
		},
	}.check(t, "workloads", "v1beta1")
}
