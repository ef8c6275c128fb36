package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/config/crdtest"
)

func TestSchemaDefaultsAgree(t *testing.T) {
	s := crdtest.Of(t, "clusterqueues.kueue.x-k8s.io", "v1beta2")
	data, err := json.Marshal(s.Parse(t, "spec: {fairSharing: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := &v1beta2.ClusterQueue{}, &v1beta2.ClusterQueue{
		Spec: v1beta2.ClusterQueueSpec{FairSharing: &v1beta2.FairSharing{}},
	}
	if err := json.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	v1beta2.DefaultClusterQueue(want)
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("the schema and DefaultClusterQueue must agree (-function +schema):\n%s", diff)
	}
}

const waiting = `
metadata: {name: w, namespace: blue}
spec:
  queueName: default-queue
  podSets: [{name: main, count: 4, template: {spec: {containers: [{name: c, future: [1, 2]}]}}}]
`

const reserved = waiting + `
status:
  conditions: [{type: QuotaReserved, status: "True", reason: QuotaReserved, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  admission:
    clusterQueue: blue
    podSetAssignments: [{name: main, count: 4, flavors: {cpu: f}}]
  reclaimablePods: [{name: main, count: 1}]
`

func TestRules(t *testing.T) {
	const (
		workloads = "workloads.kueue.x-k8s.io"
		queues    = "clusterqueues.kueue.x-k8s.io"
	)
	limits := `{spec: {COHORTresourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4, lendingLimit: 1}]}]}]}}`
	cases := map[string]struct {
		why, crd, version string
		old, is           string
		want              string // part of the complaint; "" for none
	}{
		"Tutorial": {
			why: "queues of the tutorial are in the older version", crd: queues, version: "v1beta1",
			is: strings.Replace(limits, "COHORT", "cohort: default-cohort, ", 1),
		},
		"LimitWithoutCohort": {
			why: "the schema knows this rule too", crd: queues, version: "v1beta2",
			is: strings.Replace(limits, "COHORT", "", 1), want: "set spec.cohortName or remove lendingLimit",
		},
		"LimitWithoutCohortOldVersion": {
			why: "the cure names the field of the version at hand", crd: queues, version: "v1beta1",
			is: strings.Replace(limits, "COHORT", "", 1), want: "set spec.cohort or remove lendingLimit",
		},
		"ResourceMissing": {
			why:     "flavors of one group have the same resources",
			crd:     queues,
			version: "v1beta2",
			is:      `{spec: {resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}]}}`,
			want:    "spec.resourceGroups[0].flavors",
		},
		"BothCheckForms": {
			why: "two lists could contradict each other", crd: queues, version: "v1beta1",
			is:   `{spec: {admissionChecks: [a], admissionChecksStrategy: {admissionChecks: [{name: b}]}}}`,
			want: "use admissionChecks or admissionChecksStrategy",
		},
		"Preference": {
			why:     "a preference between what is never both tried",
			crd:     queues,
			version: "v1beta2",
			is:      `{spec: {flavorFungibility: {preference: PreemptionOverBorrowing}}}`,
			want:    "preference has an effect only if",
		},
		"Waiting": {why: "a plain workload", crd: workloads, version: "v1beta2", is: waiting},
		"Reserve": {why: "a plan is written", crd: workloads, version: "v1beta2", old: waiting, is: reserved},
		"Release": {why: "a plan is withdrawn", crd: workloads, version: "v1beta2", old: reserved, is: waiting},
		"Same": {
			why:     "a write of what is there",
			crd:     workloads,
			version: "v1beta2",
			old:     reserved,
			is:      reserved,
		},
		"SameOld": {
			why:     "in the older version too",
			crd:     workloads,
			version: "v1beta1",
			old:     reserved,
			is:      reserved,
		},
		"NewQueue": {
			why:     "a waiting workload may move",
			crd:     workloads,
			version: "v1beta2",
			old:     waiting,
			is:      strings.Replace(waiting, "default-queue", "other", 1),
		},
		"OtherTemplate": {
			why:     "what pods are is compared by meaning, which a rule cannot: a webhook does",
			crd:     workloads,
			version: "v1beta2",
			old:     reserved,
			is:      strings.Replace(reserved, "[1, 2]", "[1, 3]", 1),
		},
		"PriorityClassKind": {
			why: "group and kind belong together", crd: workloads, version: "v1beta2",
			is:   waiting + "  priorityClassRef: {group: kueue.x-k8s.io, kind: PriorityClass, name: p}\n",
			want: "spec.priorityClassRef.kind",
		},
		"QueueMoved": {
			why:     "its workloads hold quota of the old ClusterQueue",
			crd:     "localqueues.kueue.x-k8s.io",
			version: "v1beta1",
			old:     "{spec: {clusterQueue: a}}",
			is:      "{spec: {clusterQueue: b}}",
			want:    "cannot be changed",
		},
		"TopologyTwice": {
			why: "a level is above itself", crd: "topologies.kueue.x-k8s.io", version: "v1beta2",
			is: "{spec: {levels: [{nodeLabel: rack}, {nodeLabel: rack}]}}", want: "each nodeLabel may appear once",
		},
		"FlavorToleration": {
			why: "no pod could have it", crd: "resourceflavors.kueue.x-k8s.io", version: "v1beta2",
			is: "{spec: {tolerations: [{operator: Exists, value: x}]}}", want: "value must be empty",
		},
		"WrapperEmpty": {
			why: "there is nothing to run", crd: "appwrappers.workload.codeflare.dev", version: "v1beta2",
			is: "{spec: {components: []}}", want: "spec.components",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := crdtest.Of(t, tc.crd, tc.version)
			got := s.Validate(t, s.Parse(t, tc.is), s.Parse(t, tc.old))
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.why, got, tc.want)
			}
		})
	}
}

func TestTemplatesKeepEverything(t *testing.T) {
	s := crdtest.Of(t, "workloads.kueue.x-k8s.io", "v1beta2")
	data, err := yaml.Marshal(s.Parse(t, waiting))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "future:") {
		t.Errorf("a pod template must be stored whole, got:\n%s", data)
	}
}
