package config_test

import (
	"strings"
	"testing"
)

// conditions that are True.
func conditions(types ...string) string {
	var all []string
	for _, t := range types {
		all = append(all, "{type: "+t+`, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`)
	}
	return "conditions: [" + strings.Join(all, ", ") + "]"
}

// work is a Workload of one pod set of four, and more of spec and status.
func work(spec, status string) string {
	return "{spec: {podSets: [{name: main, count: 4, template: {spec: {}}}], " + spec + "}, status: {" + status + "}}"
}

// holding is the status of a Workload that has quota.
const holding = ", admission: {clusterQueue: a, podSetAssignments: [{name: main}]}"

func TestWorkloadSpecRules(t *testing.T) {
	podSets := func(sets string) string { return spec("podSets: " + sets) }
	topology := func(request string) string {
		return podSets("[{name: main, count: 1, topologyRequest: {" + request + "}}]")
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain":         {why: "one pod by default", is: podSets("[{template: {spec: {}}}]")},
			"NoPodSets":     {why: "nothing to admit", is: podSets("[]"), want: "spec.podSets"},
			"PodSets":       {why: "at most 18", is: podSets(many(19, "{name: s%d}")), want: "spec.podSets: Too many"},
			"PodSetTwice":   {why: "assignments go by name", is: podSets("[{name: a}, {name: a}]"), want: "Duplicate"},
			"PodSetName":    {why: "no label looks like that", is: podSets("[{name: A}]"), want: "spec.podSets[0].name"},
			"Count":         {why: "less than nothing", is: podSets("[{name: a, count: -1}]"), want: "count"},
			"MinCount":      {why: "starts with at least one", is: podSets("[{name: a, count: 2, minCount: 0}]"), want: "minCount"},
			"MinOverCount":  {why: "fewer, not more", is: podSets("[{name: a, count: 2, minCount: 3}]"), want: "minCount may not exceed count"},
			"TwoMinCounts":  {why: "the search has one dimension", is: podSets("[{name: a, count: 2, minCount: 1}, {name: b, count: 2, minCount: 1}]"), want: "at most one pod set may have minCount"},
			"QueueName":     {why: "no object is called that", is: work("queueName: A", ""), want: "spec.queueName"},
			"ExecutionTime": {why: "no time at all", is: work("maximumExecutionTimeSeconds: 0", ""), want: "maximumExecutionTimeSeconds"},
			"Required":      {why: "63 characters", is: topology("required: " + long), want: "required: Too long"},
			"Preferred":     {why: "63 characters", is: topology("preferred: " + long), want: "preferred: Too long"},
			"PodIndex":      {why: "317 characters", is: topology("podIndexLabel: " + long), want: "podIndexLabel: Too long"},
			"SubGroupIndex": {why: "317 characters", is: topology("subGroupIndexLabel: " + long), want: "subGroupIndexLabel: Too long"},
			"SubGroups":     {why: "less than nothing", is: topology("subGroupCount: -1"), want: "subGroupCount"},
			"GroupName":     {why: "256 characters", is: topology("podSetGroupName: " + long), want: "podSetGroupName: Too long"},
			"SliceTopology": {why: "63 characters", is: topology("podSetSliceRequiredTopology: " + long), want: "podSetSliceRequiredTopology: Too long"},
			"SliceSize":     {why: "a slice has pods", is: topology("podSetSliceSize: 0"), want: "podSetSliceSize"},
			"Topology":      {why: "all of it at once is for others to judge", is: topology("required: rack, podSetSliceRequiredTopology: host, podSetSliceSize: 2, unconstrained: true")},
		}.check(t, "workloads", version)
	}
	class := func(group, kind, name string) string {
		return work("priority: 1, priorityClassRef: {group: "+group+", kind: "+kind+", name: "+name+"}", "")
	}
	rulings{
		"Class":       {why: "a class of workloads", is: class("kueue.x-k8s.io", "WorkloadPriorityClass", "high")},
		"PodClass":    {why: "a class of pods", is: class("scheduling.k8s.io", "PriorityClass", "high")},
		"ClassMix":    {why: "group and kind belong together", is: class("scheduling.k8s.io", "WorkloadPriorityClass", "high"), want: "priorityClassRef.kind"},
		"ClassGroup":  {why: "there are two", is: class("a.b", "PriorityClass", "high"), want: "group: Unsupported value"},
		"ClassKind":   {why: "there are two", is: class("kueue.x-k8s.io", "Class", "high"), want: "kind: Unsupported value"},
		"ClassName":   {why: "no object is called that", is: class("kueue.x-k8s.io", "WorkloadPriorityClass", "A"), want: "priorityClassRef.name"},
		"NoValue":     {why: "A15: a class gives a priority", is: work("priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}", ""), want: "spec.priority"},
		"Gates":       {why: "at most 8", is: work("preemptionGates: "+many(9, "{name: g%d}"), ""), want: "preemptionGates: Too many"},
		"GateTwice":   {why: "gates go by name", is: work("preemptionGates: [{name: a}, {name: a}]", ""), want: "Duplicate"},
		"Constraints": {why: "at most three layers", is: topology("podsetSliceRequiredTopologyConstraints: " + many(4, "{topology: t%d, size: 1}")), want: "podsetSliceRequiredTopologyConstraints: Too many"},
		"LayerSize":   {why: "a slice has pods", is: topology("podsetSliceRequiredTopologyConstraints: [{topology: t, size: 0}]"), want: "size"},
		"LayerName":   {why: "a layer has a level", is: topology(`podsetSliceRequiredTopologyConstraints: [{topology: "", size: 1}]`), want: "topology"},
	}.check(t, "workloads", "v1beta2")
	rulings{
		"Source":    {why: "there are two, and none", is: work("priorityClassName: high, priorityClassSource: pods", ""), want: "priorityClassSource: Unsupported value"},
		"NoSource":  {why: "the class may have gone", is: work("priority: 1, priorityClassName: high", "")},
		"NoValue":   {why: "A15: a class gives a priority", is: work("priorityClassName: high, priorityClassSource: kueue.x-k8s.io/workloadpriorityclass", ""), want: "spec.priority"},
		"ClassName": {why: "no object is called that", is: work("priorityClassName: A", ""), want: "priorityClassName"},
	}.check(t, "workloads", "v1beta1")
}

// TestWorkloadReservedRules tries what may change in the spec of a Workload
// while quota is reserved for it.
func TestWorkloadReservedRules(t *testing.T) {
	reserved, admitted := conditions("QuotaReserved")+holding, conditions("QuotaReserved", "Admitted")+holding
	limit := func(s string) string { return "maximumExecutionTimeSeconds: " + s }
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Queue":        {why: "a waiting workload may move", old: work("queueName: a", ""), is: work("queueName: b", "")},
			"QueueHeld":    {why: "its quota is of the old queue", old: work("queueName: a", reserved), is: work("queueName: b", reserved), want: "spec.queueName"},
			"QueueGone":    {why: "its quota is of that queue", old: work("queueName: a", reserved), is: work("", reserved), want: "spec.queueName"},
			"QueueWith":    {why: "it moves as it gets quota of the other", old: work("queueName: a", ""), is: work("queueName: b", reserved)},
			"Priority":     {why: "its rank may change at any time", old: work("priority: 1", admitted), is: work("priority: 2", admitted)},
			"Active":       {why: "it may be stopped at any time", old: work("active: true", admitted), is: work("active: false", admitted)},
			"LimitHeld":    {why: "it has not begun to run", old: work(limit("5"), reserved), is: work(limit("6"), reserved)},
			"LimitRunning": {why: "it runs against the old one", old: work(limit("5"), admitted), is: work(limit("6"), admitted), want: "spec.maximumExecutionTimeSeconds"},
			"LimitNew":     {why: "it runs without one", old: work("", admitted), is: work(limit("6"), admitted), want: "spec.maximumExecutionTimeSeconds"},
			"Count":        {why: "a waiting workload may grow", old: work("", ""), is: strings.Replace(work("", ""), "count: 4", "count: 5", 1)},
			"CountHeld":    {why: "quota was counted for four", old: work("", reserved), is: strings.Replace(work("", reserved), "count: 4", "count: 5", 1), want: "spec.podSets"},
		}.check(t, "workloads", version)
	}
	class := func(kind, name string) string {
		group := map[string]string{"PriorityClass": "scheduling.k8s.io", "WorkloadPriorityClass": "kueue.x-k8s.io"}[kind]
		return work("priority: 1, priorityClassRef: {group: "+group+", kind: "+kind+", name: "+name+"}", reserved)
	}
	rulings{
		"Class":     {why: "jobs may get another class while they run", old: class("WorkloadPriorityClass", "a"), is: class("WorkloadPriorityClass", "b")},
		"PodClass":  {why: "the pods have it", old: class("PriorityClass", "a"), is: class("PriorityClass", "b"), want: "priorityClassRef"},
		"OtherKind": {why: "the pods have it", old: class("PriorityClass", "a"), is: class("WorkloadPriorityClass", "a"), want: "priorityClassRef"},
		"ClassGone": {why: "its priority came from there", old: class("WorkloadPriorityClass", "a"), is: work("", reserved), want: "priorityClassRef"},
		"ClassNew":  {why: "its priority came from elsewhere", old: work("", reserved), is: class("WorkloadPriorityClass", "a"), want: "priorityClassRef"},
	}.check(t, "workloads", "v1beta2")
	source := func(name, kind string) string {
		return work("priority: 1, priorityClassName: "+name+", priorityClassSource: "+kind, reserved)
	}
	const pods, works = "scheduling.k8s.io/priorityclass", "kueue.x-k8s.io/workloadpriorityclass"
	rulings{
		"Class":    {why: "jobs may get another class while they run", old: source("a", works), is: source("b", works)},
		"PodClass": {why: "the pods have it", old: source("a", pods), is: source("b", pods), want: "priorityClassName"},
		"None":     {why: "A3: the source defaults to none, which what is stored does not say", old: work("", reserved), is: work(`priorityClassSource: ""`, reserved)},
		"NoneGone": {why: "and back", old: work(`priorityClassSource: "", priorityClassName: ""`, reserved), is: work("", reserved)},
		"NewClass": {why: "its priority came from elsewhere", old: work("", reserved), is: source("a", pods), want: "priorityClassSource"},
		"Source":   {why: "the pods have it", old: source("a", pods), is: source("a", works), want: "priorityClassSource"},
	}.check(t, "workloads", "v1beta1")
}

func TestWorkloadStatusRules(t *testing.T) {
	reserved := conditions("QuotaReserved")
	admission := func(assignments string) string {
		return work("", reserved+", admission: {clusterQueue: a, podSetAssignments: "+assignments+"}")
	}
	good := admission("[{name: main, count: 4, flavors: {cpu: f}, resourceUsage: {cpu: 4}}]")
	change := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	reclaim := func(pods string) string { return work("", reserved+holding+", reclaimablePods: ["+pods+"]") }
	check := func(state, updates string) string {
		return work("", `admissionChecks: [{name: a, state: `+state+`, lastTransitionTime: "2026-01-01T00:00:00Z"`+updates+"}]")
	}
	const labels = ", podSetUpdates: [{name: main, labels: {a: b}}]"
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Reserve":         {why: "a plan is written", old: work("", ""), is: good},
			"Release":         {why: "a plan is withdrawn", old: good, is: work("", "")},
			"Same":            {why: "a write of what is there", old: good, is: good},
			"OtherQueue":      {why: "quota moves by release alone", old: good, is: change("clusterQueue: a", "clusterQueue: b"), want: "status.admission.clusterQueue"},
			"OtherFlavor":     {why: "quota moves by release alone", old: good, is: change("cpu: f", "cpu: g"), want: "cannot be changed"},
			"OtherCount":      {why: "quota moves by release alone", old: good, is: change("Assignments: [{name: main, count: 4", "Assignments: [{name: main, count: 3"), want: "cannot be changed"},
			"NoFlavors":       {why: "no flavors are none", old: change("flavors: {cpu: f}, ", ""), is: change("flavors: {cpu: f}", "flavors: {}")},
			"OtherName":       {why: "it is for this pod set", old: good, is: change("Assignments: [{name: main, count: 4", "Assignments: [{name: other, count: 4"), want: "cannot be renamed"},
			"Delayed":         {why: "places may come later", old: good, is: change("resourceUsage: {cpu: 4}", "resourceUsage: {cpu: 4}, delayedTopologyRequest: Pending")},
			"DelayedState":    {why: "there are two", is: change("resourceUsage: {cpu: 4}", "delayedTopologyRequest: No"), want: "delayedTopologyRequest: Unsupported value"},
			"NoAssignment":    {why: "every pod set needs quota", old: work("", ""), is: admission("[]"), want: "one assignment for each pod set"},
			"Assignments":     {why: "at most 18", is: admission(many(19, "{name: s%d}")), want: "podSetAssignments: Too many"},
			"NegativeCount":   {why: "less than nothing", is: change("Assignments: [{name: main, count: 4", "Assignments: [{name: main, count: -4"), want: "count"},
			"Conditions":      {why: "at most 16", is: work("", conditions(strings.Split("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", ",")...)), want: "status.conditions: Too many"},
			"Reclaim":         {why: "more and more pods end", old: reclaim("{name: main, count: 1}"), is: reclaim("{name: main, count: 2}")},
			"ReclaimTooMany":  {why: "there are four", is: reclaim("{name: main, count: 5}"), want: "with at most their count"},
			"ReclaimOther":    {why: "of which pod set", is: reclaim("{name: other, count: 1}"), want: "must name pod sets"},
			"ReclaimBack":     {why: "the quota may be in use", old: reclaim("{name: main, count: 2}"), is: reclaim("{name: main, count: 1}"), want: "cannot shrink"},
			"ReclaimGone":     {why: "the quota may be in use", old: reclaim("{name: main, count: 2}"), is: work("", reserved+holding), want: "cannot shrink"},
			"ReclaimNone":     {why: "none were given back", old: reclaim("{name: main, count: 0}"), is: work("", reserved+holding)},
			"ReclaimFreed":    {why: "all quota is given back", old: reclaim("{name: main, count: 2}"), is: work("", "")},
			"Requeues":        {why: "less than never", is: work("", "requeueState: {count: -1}"), want: "requeueState.count"},
			"Checks":          {why: "at most 8", is: work("", "admissionChecks: "+many(9, `{name: c%d, state: Pending, lastTransitionTime: "2026-01-01T00:00:00Z"}`)), want: "admissionChecks: Too many"},
			"CheckState":      {why: "there are four", is: check("Maybe", ""), want: "state: Unsupported value"},
			"CheckMessage":    {why: "32768 characters", is: check("Pending", ", message: "+strings.Repeat("a", 32769)), want: "message: Too long"},
			"CheckRetry":      {why: "less than no time", is: check("Retry", ", requeueAfterSeconds: -1"), want: "requeueAfterSeconds"},
			"Updates":         {why: "the answer brings them", old: check("Pending", ""), is: check("Ready", labels)},
			"UpdatesAgain":    {why: "another answer brings others", old: check("Ready", labels), is: check("Retry", "")},
			"UpdatesMany":     {why: "at most 18 pod sets", is: check("Ready", ", podSetUpdates: "+many(19, "{name: s%d}")), want: "podSetUpdates: Too many"},
			"UpdateTolerates": {why: "at most 8", is: check("Ready", ", podSetUpdates: [{name: main, tolerations: "+many(9, "{key: k%d}")+"}]"), want: "tolerations: Too many"},
			"Cluster":         {why: "one was chosen", old: work("", "nominatedClusterNames: [a, b]"), is: work("", "clusterName: a")},
			"ClusterUnknown":  {why: "A15: others were to be chosen from", old: work("", "nominatedClusterNames: [a, b]"), is: work("", "clusterName: c"), want: "must be one of the nominatedClusterNames"},
			"ClusterAtOnce":   {why: "nobody nominated any", old: work("", "nominatedClusterNames: []"), is: work("", "clusterName: c")},
			"ReservedNothing": {why: "A15: quota is of a queue", old: work("", ""), is: work("", reserved), want: "status.admission"},
			"ClusterOther":    {why: "the job is there", old: work("", "clusterName: a"), is: work("", "clusterName: b"), want: "status.clusterName"},
			"ClusterGone":     {why: "it came back", old: work("", "clusterName: a"), is: work("", "")},
			"ClusterBoth":     {why: "chosen and to be chosen", is: work("", "clusterName: a, nominatedClusterNames: [a]"), want: "exclude each other"},
			"Nominated":       {why: "at most 20", is: work("", "nominatedClusterNames: "+many(21, "c%d")), want: "nominatedClusterNames: Too many"},
			"UnhealthyNodes":  {why: "at most 8", is: work("", "unhealthyNodes: "+many(9, "{name: n%d}")), want: "unhealthyNodes: Too many"},
			"Requests":        {why: "at most 18", is: work("", "resourceRequests: "+many(19, "{name: s%d}")), want: "resourceRequests: Too many"},
			"EvictedTwice":    {why: "one count per reason and cause", is: work("", "schedulingStats: {evictions: [{reason: a, underlyingCause: \"\", count: 1}, {reason: a, underlyingCause: \"\", count: 2}]}"), want: "Duplicate"},
		}.check(t, "workloads", version)
	}
	places := func(t string) string { return change("resourceUsage: {cpu: 4}", "topologyAssignment: {"+t+"}") }
	slice := func(values, counts string) string {
		return places("levels: [rack, host], slices: [{domainCount: 2, valuesPerLevel: [" + values + "], podCounts: {" + counts + "}}]")
	}
	const both = "{universal: r}, {individual: {prefix: node-, roots: [a, b]}}"
	rulings{
		"Places":       {why: "two nodes of a rack", is: slice(both, "universal: 2")},
		"PlacesMoved":  {why: "a node may be replaced", old: slice(both, "universal: 2"), is: slice(strings.Replace(both, "[a, b]", "[a, c]", 1), "universal: 2")},
		"PlaceLevels":  {why: "a domain has one value at each level", is: slice("{universal: r}", "universal: 2"), want: "one entry for each level"},
		"PlaceRoots":   {why: "two domains have two names", is: slice("{universal: r}, {individual: {roots: [a]}}", "universal: 2"), want: "one root for each domain"},
		"PlaceCounts":  {why: "two domains have two counts", is: slice(both, "individual: [1, 2, 3]"), want: "one entry for each domain"},
		"PlaceNeither": {why: "how many", is: slice(both, ""), want: "universal or individual"},
		"PlaceBoth":    {why: "which of them", is: slice(both, "universal: 1, individual: [1, 2]"), want: "universal or individual"},
		"PlaceNoOne":   {why: "a domain has pods", is: slice(both, "universal: 0"), want: "universal"},
		"PlaceTooLong": {why: "no node label has such a value", is: slice("{universal: r}, {individual: {roots: [a, "+strings.Repeat("b", 64)+"]}}", "universal: 2"), want: "roots[1]: Too long"},
		"LevelTooLong": {why: "no node label has such a name", is: places("levels: [" + strings.Repeat("b", 317) + "]"), want: "levels[0]: Too long"},
		"NoLevels":     {why: "of what", is: places("levels: []"), want: "levels"},
		"Slices":       {why: "at most 1000", is: places("levels: [host], slices: " + many(1001, "{domainCount: 1, valuesPerLevel: [{universal: n%d}], podCounts: {universal: 1}}")), want: "slices: Too many"},
		"Gates":        {why: "at most 8", is: work("", "preemptionGates: "+many(9, `{name: g%d, position: Open, lastTransitionTime: "2026-01-01T00:00:00Z"}`)), want: "preemptionGates: Too many"},
		"GatePosition": {why: "there are two", is: work("", `preemptionGates: [{name: g, position: Ajar, lastTransitionTime: "2026-01-01T00:00:00Z"}]`), want: "position: Unsupported value"},
	}.check(t, "workloads", "v1beta2")
	rulings{
		"Places":   {why: "two nodes", is: places("levels: [host], domains: [{values: [a], count: 1}, {values: [b], count: 3}]")},
		"NoOne":    {why: "a domain has pods", is: places("levels: [host], domains: [{values: [a], count: 0}]"), want: "count"},
		"Nameless": {why: "a domain has a name", is: places("levels: [host], domains: [{values: [], count: 1}]"), want: "values"},
		"TooLong":  {why: "no node label has such a value", is: places("levels: [host], domains: [{values: [" + strings.Repeat("a", 64) + "], count: 1}]"), want: "values[0]: Too long"},
		"Longest":  {why: "a node label may have it", is: places("levels: [host], domains: [{values: [" + strings.Repeat("a", 63) + "], count: 4}]")},
		"Typo":     {why: "this version spells it like that since its first release", is: work("", "accumulatedPastExexcutionTimeSeconds: 5")},
	}.check(t, "workloads", "v1beta1")
}
