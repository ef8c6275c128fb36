package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/config/crdtest"
)

// ruling is one rule of a schema and an object that meets or breaks it.
type ruling struct {
	why string
	// is: the object written, in place of old if that is not empty.
	is, old string
	// want is part of the complaint, "" for none.
	want string
}

// rulings are decided by one version of one kind.
type rulings map[string]ruling

func (rs rulings) check(t *testing.T, plural, version string) {
	t.Helper()
	s := crdtest.Of(t, plural+".kueue.x-k8s.io", version)
	for name, r := range rs {
		t.Run(name, func(t *testing.T) {
			got := s.Validate(t, s.Parse(t, r.is), s.Parse(t, r.old))
			if r.want == "" && got != "" || !strings.Contains(got, r.want) {
				t.Errorf("%s: got %q, want %q", r.why, got, r.want)
			}
		})
	}
}

// spec is an object with a spec in YAML's flow style.
func spec(fields string) string { return "{spec: {" + fields + "}}" }

// many lists n elements made from their numbers.
func many(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// group is one resource group of cpu in flavor f; rest follows its quota.
func group(rest string) string {
	return "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1" + rest + "}]}]}]"
}

var long = strings.Repeat("a", 400)

func TestClusterQueueRules(t *testing.T) {
	groups := func(covered, flavors string) string {
		return spec("resourceGroups: [{coveredResources: " + covered + ", flavors: " + flavors + "}]")
	}
	migration := func(m string) string { return spec("concurrentAdmissionPolicy: {migration: {" + m + "}}") }
	rulings{
		"Empty": {why: "a queue without quota can still borrow", is: spec("")},
		"Tutorial": {
			why: "the queue of a team",
			is: spec(
				"cohortName: default-cohort, namespaceSelector: {}, " + group(", borrowingLimit: 2, lendingLimit: 1"),
			),
		},
		"Groups": {
			why: "at most 16",
			is: spec(
				"resourceGroups: " + many(
					17,
					"{coveredResources: [r%[1]d], flavors: [{name: f%[1]d, resources: [{name: r%[1]d, nominalQuota: 1}]}]}",
				),
			),
			want: "spec.resourceGroups: Too many",
		},
		"NoResource": {
			why:  "a group of nothing",
			is:   groups("[]", "[{name: f, resources: [{name: cpu, nominalQuota: 1}]}]"),
			want: "coveredResources",
		},
		"Resources": {
			why:  "at most 64 in a group",
			is:   groups(many(65, "r%d"), "[{name: f, resources: "+many(65, "{name: r%d, nominalQuota: 1}")+"}]"),
			want: "coveredResources: Too many",
		},
		"NoFlavor": {why: "resources of nothing", is: groups("[cpu]", "[]"), want: "flavors"},
		"Flavors": {
			why:  "at most 64 in a group",
			is:   groups("[cpu]", many(65, "{name: f%d, resources: [{name: cpu, nominalQuota: 1}]}")),
			want: "flavors: Too many",
		},
		"FlavorTwice": {
			why: "its quota would be said twice",
			is: groups(
				"[cpu]",
				"[{name: f, resources: [{name: cpu, nominalQuota: 1}]}, {name: f, resources: [{name: cpu, nominalQuota: 1}]}]",
			),
			want: "Duplicate",
		},
		"FlavorName": {
			why:  "no object is called that",
			is:   groups("[cpu]", "[{name: F_, resources: [{name: cpu, nominalQuota: 1}]}]"),
			want: "flavors[0].name",
		},
		"ResourceTwice": {
			why: "one quota per resource",
			is: groups(
				"[cpu, cpu]",
				"[{name: f, resources: [{name: cpu, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]}]",
			),
			want: "Duplicate",
		},
		"ResourceLess": {
			why:  "flavors of a group have the same resources",
			is:   groups("[cpu, memory]", "[{name: f, resources: [{name: cpu, nominalQuota: 1}]}]"),
			want: "same resources as coveredResources",
		},
		"NoNominal": {
			why:  "what is owned must be said",
			is:   groups("[cpu]", "[{name: f, resources: [{name: cpu}]}]"),
			want: "nominalQuota: Required",
		},
		"NotAQuantity": {
			why:  "a quota is an amount",
			is:   groups("[cpu]", "[{name: f, resources: [{name: cpu, nominalQuota: lots}]}]"),
			want: "nominalQuota",
		},
		"BorrowAlone": {
			why:  "there is no one to borrow from",
			is:   spec(group(", borrowingLimit: 1")),
			want: "set spec.cohortName or remove borrowingLimit",
		},
		"LendAlone": {
			why:  "there is no one to lend to",
			is:   spec(group(", lendingLimit: 1")),
			want: "set spec.cohortName or remove lendingLimit",
		},
		"CohortName": {why: "no object is called that", is: spec("cohortName: A"), want: "spec.cohortName"},
		"CohortLong": {
			why:  "names have 253 characters",
			is:   spec("cohortName: " + long),
			want: "spec.cohortName: Too long",
		},
		"Strategy": {
			why:  "there are two",
			is:   spec("queueingStrategy: LIFO"),
			want: "spec.queueingStrategy: Unsupported value",
		},
		"StopPolicy": {
			why:  "there are three",
			is:   spec("stopPolicy: Drain"),
			want: "spec.stopPolicy: Unsupported value",
		},
		"Drain": {
			why: "all of them are known",
			is:  spec("stopPolicy: HoldAndDrain, queueingStrategy: StrictFIFO"),
		},
		"OldFungibility": {
			why:  "Borrow is a word of v1beta1",
			is:   spec("flavorFungibility: {whenCanBorrow: Borrow}"),
			want: "whenCanBorrow: Unsupported value",
		},
		"Fungibility": {
			why: "both go on",
			is: spec(
				"flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor, preference: PreemptionOverBorrowing}",
			),
		},
		"Preference": {
			why:  "without both there is no choice",
			is:   spec("flavorFungibility: {whenCanBorrow: MayStopSearch, preference: PreemptionOverBorrowing}"),
			want: "preference has an effect only if",
		},
		"Reclaim": {
			why:  "equal priority is for the own queue",
			is:   spec("preemption: {reclaimWithinCohort: LowerOrNewerEqualPriority}"),
			want: "reclaimWithinCohort: Unsupported value",
		},
		"Within": {
			why:  "Any is for the cohort",
			is:   spec("preemption: {withinClusterQueue: Any}"),
			want: "withinClusterQueue: Unsupported value",
		},
		"BorrowPolicy": {
			why:  "Any would rob everybody",
			is:   spec("preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: Any}}"),
			want: "policy: Unsupported value",
		},
		"BorrowReclaim": {
			why:  "a queue that may not reclaim may not evict to borrow",
			is:   spec("preemption: {borrowWithinCohort: {policy: LowerPriority}}"),
			want: "set spec.preemption.reclaimWithinCohort",
		},
		"Preempts": {
			why: "a queue that may reclaim may",
			is: spec(
				"preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerOrNewerEqualPriority, borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 5}}",
			),
		},
		"Checks": {
			why:  "at most 64",
			is:   spec("admissionChecksStrategy: {admissionChecks: " + many(65, "{name: c%d}") + "}"),
			want: "admissionChecks: Too many",
		},
		"NoChecks": {
			why:  "leave the strategy out instead",
			is:   spec("admissionChecksStrategy: {admissionChecks: []}"),
			want: "admissionChecks",
		},
		"CheckTwice": {
			why:  "one rule per check",
			is:   spec("admissionChecksStrategy: {admissionChecks: [{name: a}, {name: a}]}"),
			want: "Duplicate",
		},
		"CheckNoName": {
			why:  "of which check",
			is:   spec("admissionChecksStrategy: {admissionChecks: [{onFlavors: [f]}]}"),
			want: "name",
		},
		"CheckFlavors": {
			why:  "at most 64",
			is:   spec("admissionChecksStrategy: {admissionChecks: [{name: a, onFlavors: " + many(65, "f%d") + "}]}"),
			want: "onFlavors: Too many",
		},
		"CheckFlavor2": {
			why:  "flavors are a set",
			is:   spec("admissionChecksStrategy: {admissionChecks: [{name: a, onFlavors: [f, f]}]}"),
			want: "Duplicate",
		},
		"NoMode": {
			why:  "a scope says how",
			is:   spec("admissionScope: {}"),
			want: "admissionMode: Required",
		},
		"Mode": {
			why:  "there are two",
			is:   spec("admissionScope: {admissionMode: Fair}"),
			want: "admissionMode: Unsupported value",
		},
		"UsageBased": {
			why: "both are known",
			is:  spec("admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}"),
		},
		"Migration": {
			why:  "there are two modes",
			is:   migration("mode: Never"),
			want: "mode: Unsupported value",
		},
		"NoMigration": {why: "the mode must be said", is: migration(""), want: "mode: Required"},
		"Same": {
			why: "a write of what is there",
			old: migration("mode: TryPreferredFlavors"),
			is:  migration("mode: TryPreferredFlavors"),
		},
		"SameLast": {
			why: "an empty name is none",
			old: migration("mode: TryPreferredFlavors, constraints: {lastAcceptableFlavorName: f}"),
			is:  migration("mode: TryPreferredFlavors, constraints: {lastAcceptableFlavorName: f}"),
		},
		"NoLast": {
			why: "an empty list of constraints is none",
			old: migration("mode: TryPreferredFlavors, constraints: {}"),
			is:  migration("mode: TryPreferredFlavors"),
		},
		"NewLast": {
			why:  "waiting workloads were made for the old one",
			old:  migration("mode: TryPreferredFlavors"),
			is:   migration("mode: TryPreferredFlavors, constraints: {lastAcceptableFlavorName: f}"),
			want: "concurrentAdmissionPolicy",
		},
		"NewMigration": {
			why:  "waiting workloads were made for the old one",
			old:  migration("mode: TryPreferredFlavors"),
			is:   migration("mode: RetainFirstAdmission"),
			want: "concurrentAdmissionPolicy",
		},
		"LateMigration": {
			why:  "waiting workloads were made without",
			old:  spec(""),
			is:   migration("mode: RetainFirstAdmission"),
			want: "concurrentAdmissionPolicy",
		},
		"Conditions": {
			why: "at most 16",
			is: "{status: {conditions: " + many(
				17,
				`{type: T%d, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`,
			) + "}}",
			want: "status.conditions: Too many",
		},
		"Usage": {
			why:  "at most 64 flavors",
			is:   "{status: {flavorsUsage: " + many(65, "{name: f%d}") + "}}",
			want: "status.flavorsUsage: Too many",
		},
		"Reservation": {
			why:  "at most 64 flavors",
			is:   "{status: {flavorsReservation: " + many(65, "{name: f%d}") + "}}",
			want: "status.flavorsReservation: Too many",
		},
	}.check(t, "clusterqueues", "v1beta2")
	rulings{
		"Old": {
			why: "the words of v1beta1",
			is: spec(
				"cohort: c, admissionChecks: [a, b], flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}, " + group(
					", lendingLimit: 1",
				),
			),
		},
		"New": {
			why: "the newer spelling was known there too",
			is:  spec("flavorFungibility: {whenCanBorrow: MayStopSearch}"),
		},
		"BorrowAlone": {
			why:  "the cure names the field of this version",
			is:   spec(group(", borrowingLimit: 1")),
			want: "set spec.cohort or remove borrowingLimit",
		},
		"TwoLists": {
			why:  "they could contradict each other",
			is:   spec("admissionChecks: [a], admissionChecksStrategy: {admissionChecks: [{name: b}]}"),
			want: "not both",
		},
		"CheckTwice": {why: "checks are a set", is: spec("admissionChecks: [a, a]"), want: "Duplicate"},
	}.check(t, "clusterqueues", "v1beta1")
}

func TestLocalQueueRules(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain": {why: "a local queue", is: spec("clusterQueue: a, fairSharing: {weight: 2}")},
			"Name":  {why: "no object is called that", is: spec("clusterQueue: A"), want: "spec.clusterQueue"},
			"Moved": {
				why:  "its workloads hold quota of the old one",
				old:  spec("clusterQueue: a"),
				is:   spec("clusterQueue: b"),
				want: "cannot be changed",
			},
			"Stop": {
				why:  "there are three",
				is:   spec("clusterQueue: a, stopPolicy: Drain"),
				want: "spec.stopPolicy: Unsupported value",
			},
			"Hold": {why: "all are known", is: spec("clusterQueue: a, stopPolicy: Hold")},
			"Status": {
				why:  "at most 64 flavors",
				is:   "{status: {flavorsReservation: " + many(65, "{name: f%d}") + "}}",
				want: "status.flavorsReservation: Too many",
			},
			"Shares": {
				why:  "consumed use has a date",
				is:   "{status: {fairSharing: {admissionFairSharingStatus: {consumedResources: {cpu: 1}}}}}",
				want: "lastUpdate: Required",
			},
		}.check(t, "localqueues", version)
	}
	rulings{
		"Flavors": {
			why:  "only v1beta1 describes them, at most 16",
			is:   "{status: {flavors: " + many(17, "{name: f%d}") + "}}",
			want: "status.flavors: Too many",
		},
	}.check(t, "localqueues", "v1beta1")
}

func TestCohortRules(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Root": {why: "quota of its own", is: spec(group(""))},
			"Child": {
				why: "limits towards the parent",
				is:  spec("parentName: p, " + group(", borrowingLimit: 1, lendingLimit: 5")),
			},
			"BorrowAlone": {
				why:  "a root has no one to borrow from",
				is:   spec(group(", borrowingLimit: 1")),
				want: "set spec.parentName or remove borrowingLimit",
			},
			"LendAlone": {
				why:  "a root has no one to lend to",
				is:   spec(group(", lendingLimit: 1")),
				want: "set spec.parentName or remove lendingLimit",
			},
			"Name": {why: "no object is called that", is: spec("parentName: A"), want: "spec.parentName"},
		}.check(t, "cohorts", version)
	}
}

func TestResourceFlavorRules(t *testing.T) {
	tolerate := func(t string) string { return spec("tolerations: [{" + t + "}]") }
	labels := "nodeLabels: {pool: a}, "
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain": {why: "all nodes", is: spec("")},
			"Full": {
				why: "labels, taints, tolerations and a topology",
				is: spec(
					labels + "topologyName: t, nodeTaints: [{key: gpu, effect: NoSchedule}], tolerations: [{key: gpu, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]",
				),
			},
			"Labels": {
				why:  "at most 8",
				is:   spec("nodeLabels: {a: a, b: b, c: c, d: d, e: e, f: f, g: g, h: h, i: i}"),
				want: "spec.nodeLabels: Too many",
			},
			"Taints": {
				why:  "at most 8",
				is:   spec("nodeTaints: " + many(9, "{key: k%d, effect: NoSchedule}")),
				want: "spec.nodeTaints: Too many",
			},
			"Effect": {
				why:  "there are three",
				is:   spec("nodeTaints: [{key: gpu, effect: Never}]"),
				want: "effect must be NoSchedule",
			},
			"Tolerations": {
				why:  "at most 8",
				is:   spec("tolerations: " + many(9, "{key: k%d}")),
				want: "spec.tolerations: Too many",
			},
			"NoKey": {
				why:  "no key tolerates everything, on purpose only",
				is:   tolerate("value: x"),
				want: "operator must be Exists when key is empty",
			},
			"EmptyKey": {
				why:  "an empty key is none",
				is:   tolerate(`key: "", value: x`),
				want: "operator must be Exists when key is empty",
			},
			"Everything": {why: "on purpose", is: tolerate("operator: Exists")},
			"Seconds": {
				why:  "only NoExecute evicts",
				is:   tolerate("key: a, effect: NoSchedule, tolerationSeconds: 1"),
				want: "effect must be NoExecute",
			},
			"Operator": {
				why:  "there are two",
				is:   tolerate("key: a, operator: Lt"),
				want: "operator must be Equal or Exists",
			},
			"Value": {
				why:  "Exists compares nothing",
				is:   tolerate("key: a, operator: Exists, value: x"),
				want: "value must be empty",
			},
			"TolerateEffect": {
				why:  "there are three",
				is:   tolerate("key: a, effect: Never"),
				want: "effect must be NoSchedule",
			},
			"TopologyAlone": {
				why:  "its nodes must be told from others",
				is:   spec("topologyName: t"),
				want: "needs at least one entry in nodeLabels",
			},
			"TopologyNew": {why: "it may be added", old: spec(labels), is: spec(labels + "topologyName: t")},
			"TopologyChanged": {
				why:  "workloads hold places by the old one",
				old:  spec(labels + "topologyName: t"),
				is:   spec(labels + "topologyName: u"),
				want: "cannot be changed once set",
			},
			"TopologyGone": {
				why:  "workloads hold places by it",
				old:  spec(labels + "topologyName: t"),
				is:   spec(labels),
				want: "cannot be changed once set",
			},
		}.check(t, "resourceflavors", version)
	}
}

func TestTopologyRules(t *testing.T) {
	levels := func(labels ...string) string {
		return spec("levels: [{nodeLabel: " + strings.Join(labels, "}, {nodeLabel: ") + "}]")
	}
	const host = "kubernetes.io/hostname"
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain":   {why: "racks of nodes", is: levels("cloud.example.com/block", "rack", host)},
			"None":    {why: "nothing nests in nothing", is: spec("levels: []"), want: "spec.levels"},
			"Missing": {why: "levels are all there is", is: spec(""), want: "levels: Required"},
			"Many": {
				why:  "at most 16",
				is:   spec("levels: " + many(17, "{nodeLabel: l%d}")),
				want: "spec.levels: Too many",
			},
			"Twice":    {why: "a level is above itself", is: levels("rack", "rack"), want: "may appear once"},
			"HostLast": {why: "nothing is in a node", is: levels(host, "rack"), want: "must be the last level"},
			"Label":    {why: "no label looks like that", is: levels("a b"), want: "nodeLabel"},
			"Long":     {why: "labels have 316 characters", is: levels(long), want: "nodeLabel: Too long"},
			"Refined":  {why: "nodes stay nodes", old: levels("rack", host), is: levels("block", "rack", host)},
			"Changed": {
				why:  "places are named by the lowest level",
				old:  levels("block", "rack"),
				is:   levels("block"),
				want: "can be changed only while",
			},
			"HostAway": {
				why:  "places are named by nodes",
				old:  levels("rack", host),
				is:   levels("rack"),
				want: "can be changed only while",
			},
		}.check(t, "topologies", version)
	}
}

func TestCheckRules(t *testing.T) {
	parameters := func(group, kind, name string) string {
		return spec(
			"controllerName: a, parameters: {apiGroup: " + group + ", kind: " + kind + ", name: " + name + "}",
		)
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain": {
				why: "someone answers",
				is:  parameters("kueue.x-k8s.io", "ProvisioningRequestConfig", "config"),
			},
			"NoOne": {why: "someone must answer", is: spec(""), want: "controllerName: Required"},
			"Empty": {why: "someone must answer", is: spec(`controllerName: ""`), want: "spec.controllerName"},
			"Long": {
				why:  "253 characters",
				is:   spec("controllerName: " + long),
				want: "spec.controllerName: Too long",
			},
			"Other": {
				why:  "answers were given by the old one",
				old:  spec("controllerName: a"),
				is:   spec("controllerName: b"),
				want: "cannot be changed",
			},
			"Group":    {why: "no group looks like that", is: parameters("A", "Kind", "name"), want: "apiGroup"},
			"Kind":     {why: "no kind looks like that", is: parameters("a.b", "0", "name"), want: "kind"},
			"Name":     {why: "no name looks like that", is: parameters("a.b", "Kind", "A"), want: "name"},
			"NameLong": {why: "63 characters", is: parameters("a.b", "Kind", long), want: "name: Too long"},
			"Conditions": {
				why: "at most 16",
				is: "{spec: {controllerName: a}, status: {conditions: " + many(
					17,
					`{type: T%d, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`,
				) + "}}",
				want: "status.conditions: Too many",
			},
		}.check(t, "admissionchecks", version)
		rulings{
			"Plain":   {why: "a value", is: "{value: -5, description: nights}"},
			"NoValue": {why: "a class is its value", is: "{description: nights}", want: "value: Required"},
			"Description": {
				why:  "2048 characters",
				is:   "{value: 1, description: " + strings.Repeat("a", 2049) + "}",
				want: "description: Too long",
			},
		}.check(t, "workloadpriorityclasses", version)
	}
}

func TestProvisioningRules(t *testing.T) {
	of := func(rest string) string { return spec("provisioningClassName: queued, " + rest) }
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain": {
				why: "a class",
				is:  of("managedResources: [nvidia.com/gpu], podSetMergePolicy: IdenticalPodTemplates"),
			},
			"NoClass": {why: "nodes of what", is: spec(""), want: "provisioningClassName: Required"},
			"Class": {
				why:  "no object is called that",
				is:   spec("provisioningClassName: A"),
				want: "provisioningClassName",
			},
			"Parameter": {
				why:  "255 characters",
				is:   of("parameters: {a: " + long + "}"),
				want: "parameters.a: Too long",
			},
			"Resource2": {why: "resources are a set", is: of("managedResources: [a, a]"), want: "Duplicate"},
			"Resources": {
				why:  "at most 100",
				is:   of("managedResources: " + many(101, "r%d")),
				want: "managedResources: Too many",
			},
			"Selectors": {
				why: "at most 8",
				is: of(
					"podSetUpdates: {nodeSelector: " + many(9, "{key: k%d, valueFromProvisioningClassDetail: d}") + "}",
				),
				want: "nodeSelector: Too many",
			},
			"SelectorKey": {
				why:  "no label looks like that",
				is:   of("podSetUpdates: {nodeSelector: [{key: a b, valueFromProvisioningClassDetail: d}]}"),
				want: "key",
			},
			"Merge": {
				why:  "there are two",
				is:   of("podSetMergePolicy: All"),
				want: "podSetMergePolicy: Unsupported value",
			},
		}.check(t, "provisioningrequestconfigs", version)
	}
}

func TestMultiKueueRules(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rulings{
			"Plain": {why: "in this order", is: spec("clusters: [b, a]")},
			"None":  {why: "nowhere to send to", is: spec("clusters: []"), want: "spec.clusters"},
			"Many":  {why: "at most 20", is: spec("clusters: " + many(21, "c%d")), want: "spec.clusters: Too many"},
			"Twice": {why: "each has one place in the order", is: spec("clusters: [a, a]"), want: "may appear once"},
		}.check(t, "multikueueconfigs", version)
	}
	rulings{
		"Quota": {
			why:  "there are two",
			is:   spec("clusters: [a], quotaManagement: None"),
			want: "quotaManagement: Unsupported value",
		},
		"Automated": {why: "all are known", is: spec("clusters: [a], quotaManagement: Automated")},
	}.check(t, "multikueueconfigs", "v1beta2")
	source := func(s string) string { return spec("clusterSource: {" + s + "}") }
	rulings{
		"Secret":  {why: "credentials in a Secret", is: source("kubeConfig: {location: s}")},
		"Path":    {why: "or in a file", is: source("kubeConfig: {location: /a, locationType: Path}")},
		"Profile": {why: "or known elsewhere", is: source("clusterProfileRef: {name: p}")},
		"Neither": {why: "no way to the cluster", is: source(""), want: "exactly one of"},
		"Both": {
			why:  "two ways could lead to two clusters",
			is:   source("kubeConfig: {location: s}, clusterProfileRef: {name: p}"),
			want: "exactly one of",
		},
		"Type": {
			why:  "there are two",
			is:   source("kubeConfig: {location: s, locationType: URL}"),
			want: "locationType: Unsupported value",
		},
		"Nowhere": {why: "a location has a name", is: source(`kubeConfig: {location: ""}`), want: "location"},
		"Long": {
			why:  "256 characters",
			is:   source("kubeConfig: {location: " + long + "}"),
			want: "location: Too long",
		},
	}.check(t, "multikueueclusters", "v1beta2")
	rulings{
		"Secret": {why: "at the top in this version", is: spec("kubeConfig: {location: s}")},
		"None":   {why: "this version knows no other way", is: spec(""), want: "kubeConfig: Required"},
	}.check(t, "multikueueclusters", "v1beta1")
}
