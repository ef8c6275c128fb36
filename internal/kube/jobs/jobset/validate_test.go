package jobset_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// TestRefused: what is wrong is told at its field, with what would be right; and nobody plans
// or queues it.
func TestRefused(t *testing.T) {
	long := strings.Repeat("w", 51)
	for name, tc := range map[string]struct{ spec, metadata, field, cure string }{
		"nothing":                 {"", "", "spec.replicatedJobs", "add one"},
		"no pods":                 {"replicatedJobs: [{name: a, replicas: 0, JOB}]", "", "spec.replicatedJobs", "from 1 to"},
		"no parallelism":          {"replicatedJobs: [{name: a, template: {spec: {parallelism: 0, completions: 1, POD}}}]", "", "spec.replicatedJobs", "from 1 to"},
		"too many":                {"replicatedJobs: [{name: a, replicas: 1000000, TWO}]", "", "spec.replicatedJobs", "from 1 to"},
		"too many roles":          {"replicatedJobs: [" + strings.Repeat("{name: a, JOB}, ", 19) + "]", "", "spec.replicatedJobs", "at most 18"},
		"negative":                {"replicatedJobs: [{name: a, replicas: -1, JOB}]", "", "spec.replicatedJobs[0].replicas", "from 0"},
		"twice":                   {"replicatedJobs: [{name: a, JOB}, {name: a, JOB}]", "", "spec.replicatedJobs[1].name", "Duplicate"},
		"no name":                 {"replicatedJobs: [{name: A_b, JOB}]", "", "spec.replicatedJobs[0].name", "lower case"},
		"group":                   {"replicatedJobs: [{name: a, groupName: A_b, JOB}]", "", "spec.replicatedJobs[0].groupName", "lower case"},
		"negative completions":    {"replicatedJobs: [{name: a, template: {spec: {completions: -1, POD}}}]", "", "spec.replicatedJobs[0].template.spec.completions", "from 0"},
		"no completions":          {"replicatedJobs: [{name: a, template: {spec: {parallelism: 3, POD}}}]", "", "spec.replicatedJobs[0].template.spec.completions", "set completions to 3"},
		"mode":                    {"replicatedJobs: [{name: a, template: {spec: {completionMode: Some, POD}}}]", "", "spec.replicatedJobs[0].template.spec.completionMode", `"Indexed"`},
		"restart policy":          {"replicatedJobs: [{name: a, template: {spec: {template: {spec: {restartPolicy: Always, containers: [{name: c}]}}}}}]", "", "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy", `"OnFailure"`},
		"long":                    {"replicatedJobs: [{name: " + long + ", JOB}]", "", "metadata.name", "shorter name"},
		"long Jobs":               {"replicatedJobs: [{name: " + long + "12345678, template: {spec: {completionMode: NonIndexed, POD}}}]", "", "metadata.name", "the Jobs of role"},
		"long by count":           {"replicatedJobs: [{name: " + long[2:] + ", replicas: 101, JOB}]", "", "metadata.name", "-100-0-abcde"},
		"begins with a digit":     {"replicatedJobs: [{name: a, JOB}]", "name: 1a", "metadata.name", "in their names"},
		"generated":               {"replicatedJobs: [{name: " + long + ", JOB}]", "name: '', generateName: abc-", "metadata.generateName", "shorter name"},
		"subdomain":               {"network: {subdomain: A.b}, " + pair, "", "spec.network.subdomain", "name of a service"},
		"long subdomain":          {"network: {subdomain: " + long + long + "}, " + pair, "", "spec.network.subdomain", "63"},
		"ttl":                     {"ttlSecondsAfterFinished: -1, " + pair, "", "spec.ttlSecondsAfterFinished", "from 0"},
		"unknown dependency":      {"replicatedJobs: [{name: a, JOB}, {name: b, JOB, dependsOn: [{name: x, status: Ready}]}]", "", "spec.replicatedJobs[1].dependsOn[0].name", `"a", "b"`},
		"itself":                  {"replicatedJobs: [{name: a, JOB, dependsOn: [{name: a, status: Ready}]}]", "", "spec.replicatedJobs[0].dependsOn[0].name", "none waits for itself"},
		"cycle":                   {"replicatedJobs: [{name: a, JOB, dependsOn: [{name: b, status: Ready}]}, {name: b, JOB, dependsOn: [{name: a, status: Ready}]}]", "", "spec.replicatedJobs[0].dependsOn[0].name", "put b before a"},
		"dependency twice":        {"replicatedJobs: [{name: a, JOB}, {name: b, JOB, dependsOn: [{name: a, status: Ready}, {name: a, status: Complete}]}]", "", "spec.replicatedJobs[1].dependsOn[1].name", "Duplicate"},
		"how far":                 {"replicatedJobs: [{name: a, JOB}, {name: b, JOB, dependsOn: [{name: a, status: Begun}]}]", "", "spec.replicatedJobs[1].dependsOn[0].status", `"Complete"`},
		"two orders":              {"startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: a, JOB}, {name: b, JOB, dependsOn: [{name: a, status: Ready}]}]", "", "spec.replicatedJobs[1].dependsOn[0]", "remove one of them"},
		"order":                   {"startupPolicy: {startupPolicyOrder: Reverse}, " + pair, "", "spec.startupPolicy.startupPolicyOrder", `"InOrder"`},
		"operator":                {"successPolicy: {operator: Most}, " + pair, "", "spec.successPolicy.operator", `"Any"`},
		"unknown target":          {"successPolicy: {operator: All, targetReplicatedJobs: [workers, x]}, " + pair, "", "spec.successPolicy.targetReplicatedJobs[1]", `"leader", "workers"`},
		"nobody succeeds":         {"successPolicy: {operator: All, targetReplicatedJobs: [b]}, replicatedJobs: [{name: a, JOB}, {name: b, replicas: 0, JOB}]", "", "spec.successPolicy.targetReplicatedJobs", "at least 1"},
		"negative restarts":       {"failurePolicy: {maxRestarts: -1}, " + pair, "", "spec.failurePolicy.maxRestarts", "from 0"},
		"strategy":                {"failurePolicy: {restartStrategy: Some}, " + pair, "", "spec.failurePolicy.restartStrategy", `"BlockingRecreate"`},
		"in place, backoffLimit":  {inPlace("backoffLimit: 2147483647, ", ""), "", "spec.replicatedJobs[0].template.spec.backoffLimit", "2147483647"},
		"in place, replacement":   {inPlace("podReplacementPolicy: Failed, ", ""), "", "spec.replicatedJobs[0].template.spec.podReplacementPolicy", "Failed"},
		"in place, completions":   {inPlace("completions: 2", "completions: 3"), "", "spec.replicatedJobs[0].template.spec.completions", "the same as parallelism"},
		"in place, no agent":      {inPlace(agentRules, ""), "", "spec.replicatedJobs[0].template.spec.template.spec.initContainers", "RestartAllContainers"},
		"in place, one by one":    {"startupPolicy: {startupPolicyOrder: InOrder}, " + inPlace("", ""), "", "spec.startupPolicy.startupPolicyOrder", "use AnyOrder"},
		"in place, by dependence": {inPlace("name: b, ", "name: b, dependsOn: [{name: a, status: Ready}], "), "", "spec.replicatedJobs[1].dependsOn", "remove it"},
		"rule name":               {"failurePolicy: {rules: [{name: 'a-b', action: FailJobSet}]}, " + pair, "", "spec.failurePolicy.rules[0].name", "letters and digits"},
		"long rule name":          {"failurePolicy: {rules: [{name: " + long + long + long + ", action: FailJobSet}]}, " + pair, "", "spec.failurePolicy.rules[0].name", "at most 128"},
		"rule twice":              {"failurePolicy: {rules: [{action: FailJobSet}, {name: failurePolicyRule0, action: FailJobSet}]}, " + pair, "", "spec.failurePolicy.rules[1].name", "Duplicate"},
		"action":                  {"failurePolicy: {rules: [{action: Cry}]}, " + pair, "", "spec.failurePolicy.rules[0].action", `"RestartJob"`},
		"reason":                  {"failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [Bored]}]}, " + pair, "", "spec.failurePolicy.rules[0].onJobFailureReasons[0]", `"BackoffLimitExceeded"`},
		"pattern":                 {"failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: ['(']}]}, " + pair, "", "spec.failurePolicy.rules[0].onJobFailureMessagePatterns[0]", "no regular expression"},
		"rule of nobody":          {"failurePolicy: {rules: [{action: FailJobSet, targetReplicatedJobs: [x]}]}, " + pair, "", "spec.failurePolicy.rules[0].targetReplicatedJobs[0]", `"leader", "workers"`},
		"coordinator":             {"coordinator: {replicatedJob: x}, " + pair, "", "spec.coordinator.replicatedJob", `"leader", "workers"`},
		"coordinating Job":        {"coordinator: {replicatedJob: workers, jobIndex: 2}, " + pair, "", "spec.coordinator.jobIndex", "2 Jobs"},
		"coordinating pod":        {"coordinator: {replicatedJob: workers, podIndex: 2}, " + pair, "", "spec.coordinator.podIndex", "2 completions"},
		"coordinating nobody":     {"coordinator: {replicatedJob: workers, podIndex: -1}, " + pair, "", "spec.coordinator.podIndex", "2 completions"},
		"coordinator without":     {"coordinator: {replicatedJob: a}, replicatedJobs: [{name: a, template: {spec: {completionMode: NonIndexed, POD}}}]", "", "spec.coordinator.replicatedJob", "completionMode"},
		"claim without a name":    {"volumeClaimPolicies: [{templates: [{}]}], " + pair, "", "spec.volumeClaimPolicies[0].templates[0].metadata.name", "by this name"},
		"claim elsewhere":         {"volumeClaimPolicies: [{templates: [{metadata: {name: a, namespace: b}}]}], " + pair, "", "spec.volumeClaimPolicies[0].templates[0].metadata.namespace", "remove it"},
		"claim nobody mounts":     {"volumeClaimPolicies: [{templates: [{metadata: {name: a}}]}], " + pair, "", "spec.volumeClaimPolicies[0].templates[0].metadata.name", "volumeMount"},
		"claim twice":             {"volumeClaimPolicies: [{templates: [{metadata: {name: v}}]}, {templates: [{metadata: {name: v}}]}], replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]}}}}}]", "", "spec.volumeClaimPolicies[1].templates[0].metadata.name", "Duplicate"},
		"claim and volume":        {"volumeClaimPolicies: [{templates: [{metadata: {name: v}}]}], replicatedJobs: [{name: a, template: {spec: {template: {spec: {volumes: [{name: v}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]}}}}}]", "", "spec.replicatedJobs[0].template.spec.template.spec.volumes[0].name", "Duplicate"},
		"exclusive by what":       {pair, "annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: a b}", "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]", "label of nodes"},
		"a role apart from what":  {"replicatedJobs: [{name: a, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: a b}}, spec: {POD}}}]", "", "spec.replicatedJobs[0].template.metadata.annotations", "label of nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			js := decode(t, tc.spec)
			if tc.metadata != "" {
				js = decodeWith(t, tc.metadata, tc.spec)
			}
			k := jobset.Kind()
			errs := k.Admission.Validate(js)
			found := false
			for _, e := range errs {
				found = found || strings.HasPrefix(e.Field, tc.field) && strings.Contains(e.Error(), tc.cure)
			}
			if !found {
				t.Errorf("it says %v, want %q at %s", errs, tc.cure, tc.field)
			}
			if _, err := k.Read(js); err == nil {
				t.Error("it is queued")
			}
			if _, err := k.Running.Operator.Compile(js); err == nil {
				t.Error("it is planned")
			}
		})
	}
}

// agentRules has the agent of a pod restart it.
const agentRules = "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]"

// inPlace is a JobSet whose pods restart in place, with one thing in place of another in its first role.
func inPlace(old, with string) string {
	role := "{name: a, template: {spec: {backoffLimit: 2147483647, podReplacementPolicy: Failed, parallelism: 2, completions: 2, " +
		"template: {spec: {containers: [{name: c}], initContainers: [{name: agent, restartPolicy: Always, " + agentRules + "}]}}}}}"
	roles := role + ", " + strings.Replace(role, "name: a,", "name: b,", 1)
	return "failurePolicy: {restartStrategy: InPlaceRestart, maxRestarts: 3}, replicatedJobs: [" +
		strings.Replace(roles, old, with, 1) + "]"
}

// TestWhatRestartsInPlaceIsTaken: a JobSet that has all that it takes is accepted and planned so, and one whose annotation
// says that it does not is planned as Recreate.
func TestWhatRestartsInPlaceIsTaken(t *testing.T) {
	k := jobset.Kind()
	js := decode(t, inPlace("", ""))
	if errs := k.Admission.Validate(js); len(errs) > 0 {
		t.Fatal(errs)
	}
	plan, err := k.Running.Operator.Compile(js)
	if err != nil || plan.InPlace == nil || plan.InPlace.Pods != 4 {
		t.Errorf("it is planned as %+v, %v", plan, err)
	}
	if n, _ := k.Replaceable(js, nil); n == 0 {
		t.Error("none of its pods can be made anew")
	}
	js.Annotations = map[string]string{api.DisableInPlaceRestartKey: "true"}
	if plan, err := k.Running.Operator.Compile(js); err != nil || plan.InPlace != nil {
		t.Errorf("switched off it is planned as %+v, %v", plan, err)
	}
	if n, _ := k.Replaceable(js, nil); n != 0 {
		t.Error("switched off, its pods are made anew one by one")
	}
}

// decodeWith decodes a JobSet of other metadata.
func decodeWith(t *testing.T, metadata, spec string) *api.JobSet {
	t.Helper()
	js := decode(t, spec)
	for change := range strings.SplitSeq(metadata, ", ") {
		key, value, _ := strings.Cut(change, ": ")
		switch key {
		case "name":
			js.Name = strings.Trim(value, "'")
		case "generateName":
			js.GenerateName = value
		case "annotations":
			k, v, _ := strings.Cut(strings.Trim(value, "{}"), ": ")
			js.Annotations = map[string]string{k: v}
		}
	}
	return js
}

// TestAccepted: names may be as long as the pods allow.
func TestAccepted(t *testing.T) {
	// js-NAME-0-0-abcde
	for name, want := range map[string]int{strings.Repeat("w", 50): 0, strings.Repeat("w", 51): 1} {
		if errs := jobset.Kind().Admission.Validate(
			decode(t, "replicatedJobs: [{name: "+name+", JOB}]"),
		); len(
			errs,
		) != want {
			t.Errorf("%d letters: %v", len(name), errs)
		}
	}
	most := "replicatedJobs: [{name: w, template: {spec: {completionMode: NonIndexed, parallelism: 1000000, completions: 1000000, POD}}}]"
	if errs := jobset.Kind().Admission.Validate(decode(t, most)); len(errs) > 0 {
		t.Errorf("as many pods as there may be: %v", errs)
	}
	js := decode(t, pair)
	js.Name, js.GenerateName = "", "train-"
	if errs := jobset.Kind().Admission.Validate(js); len(errs) > 0 {
		t.Errorf("its name comes later: %v", errs)
	}
}

// TestChange: what a JobSet is made of stays; where its pods run may change while it is
// suspended.
func TestChange(t *testing.T) {
	const held = "suspend: true, "
	sized := func(sizes string) string { return "replicatedJobs: [{name: a, template: {spec: {" + sizes + "POD}}}]" }
	with := func(pod string) string {
		return "replicatedJobs: [{name: a, template: {spec: {template: {" + pod + "containers: [{name: c}]}}}}}]"
	}
	for name, tc := range map[string]struct{ why, was, is, want string }{
		"same":               {"", pair, pair, ""},
		"defaults":           {"they are the same", "replicatedJobs: [{name: a, JOB}]", "network: {subdomain: js}, successPolicy: {operator: All}, replicatedJobs: [{name: a, replicas: 1, groupName: default, JOB}]", ""},
		"suspend":            {"", pair, held + pair, ""},
		"ttl":                {"it may stay longer", pair, "ttlSecondsAfterFinished: 5, " + pair, ""},
		"bad ttl":            {"", pair, "ttlSecondsAfterFinished: -5, " + pair, "spec.ttlSecondsAfterFinished"},
		"manager":            {"", pair, "managedBy: example.com/x, " + pair, "spec.managedBy"},
		"roles":              {"", pair, "replicatedJobs: [{name: leader, JOB}]", "spec.replicatedJobs"},
		"replicas, held":     {"", held + "replicatedJobs: [{name: a, JOB}]", held + "replicatedJobs: [{name: a, replicas: 2, JOB}]", "spec.replicatedJobs"},
		"grows":              {"pods of further indexes", sized("parallelism: 2, completions: 2, "), sized("parallelism: 3, completions: 3, "), ""},
		"shrinks":            {"", sized("parallelism: 2, completions: 2, "), sized(""), ""},
		"grows, held":        {"", held + sized(""), held + sized("parallelism: 3, completions: 3, "), ""},
		"grows in place":     {"those that begin later count as failed", inPlace("", ""), inPlace("parallelism: 2, completions: 2", "parallelism: 3, completions: 3"), "spec.replicatedJobs[0].template.spec.parallelism"},
		"shrinks in place":   {"", inPlace("", ""), inPlace("parallelism: 2, completions: 2", "parallelism: 1, completions: 1"), ""},
		"in place, held":     {"all begin when it is resumed", held + inPlace("", ""), held + inPlace("parallelism: 2, completions: 2", "parallelism: 3, completions: 3"), ""},
		"more at once":       {"its author said how many share the work", sized("parallelism: 2, completions: 4, "), sized("parallelism: 3, completions: 4, "), "spec.replicatedJobs"},
		"more work":          {"", sized("parallelism: 2, completions: 2, "), sized("parallelism: 2, completions: 4, "), "spec.replicatedJobs"},
		"no indexes":         {"a Job ends when one of its pods has", sized("completionMode: NonIndexed, parallelism: 2, completions: 2, "), sized("completionMode: NonIndexed, parallelism: 3, completions: 3, "), "spec.replicatedJobs"},
		"to nothing":         {"nothing could succeed", sized("parallelism: 2, completions: 2, "), sized("parallelism: 0, completions: 0, "), "spec.replicatedJobs"},
		"image, held":        {"", held + with("spec: {"), held + with("spec: {hostname: x, "), "spec.replicatedJobs"},
		"selector":           {"it runs", with("spec: {"), with("spec: {nodeSelector: {a: b}, "), "spec.replicatedJobs"},
		"selector, held":     {"", held + with("spec: {"), held + with("spec: {nodeSelector: {a: b}, "), ""},
		"selector, resumed":  {"at once with its start", held + with("spec: {"), with("spec: {nodeSelector: {a: b}, "), ""},
		"labels, held":       {"", held + with("spec: {"), held + with("metadata: {labels: {a: b}, annotations: {c: d}}, spec: {"), ""},
		"tolerations, held":  {"", held + with("spec: {"), held + with("spec: {tolerations: [{key: a}], schedulingGates: [{name: b}], "), ""},
		"network":            {"", pair, "network: {enableDNSHostnames: false}, " + pair, "spec.network"},
		"success":            {"", pair, "successPolicy: {operator: Any}, " + pair, "spec.successPolicy"},
		"failure":            {"", pair, "failurePolicy: {maxRestarts: 1}, " + pair, "spec.failurePolicy"},
		"order":              {"", pair, "startupPolicy: {startupPolicyOrder: InOrder}, " + pair, "spec.startupPolicy"},
		"coordinator":        {"pods were told of another one", pair, "coordinator: {replicatedJob: leader}, " + pair, "spec.coordinator"},
		"wrong before, same": {"it can be deleted, and its finalizers go", "replicatedJobs: [{name: a, replicas: 0, JOB}]", "replicatedJobs: [{name: a, replicas: 0, JOB}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs := jobset.Kind().Admission.ValidateChange(decode(t, tc.was), decode(t, tc.is))
			if (tc.want == "") != (len(errs) == 0) || tc.want != "" && errs[0].Field != tc.want {
				t.Errorf("%s: %v, want %q", tc.why, errs, tc.want)
			}
			for _, e := range errs {
				if strings.Contains(e.Detail, "nodeSelector") != (e.Field == "spec.replicatedJobs") {
					t.Errorf("what can be changed of Jobs is told where it is about them: %v", e)
				}
			}
		})
	}
	const two, three = "parallelism: 2, completions: 2", "parallelism: 3, completions: 3"
	runs, grown := decode(t, inPlace("", "")), decode(t, inPlace(two, three))
	for _, js := range []*api.JobSet{runs, grown} {
		js.Labels = map[string]string{kueue.QueueNameLabel: "q"}
	}
	if errs := jobset.Kind().Admission.ValidateChange(runs, grown); len(errs) > 0 {
		t.Errorf("a queued one is stopped, and may grow: %v", errs)
	}
	owned, more := decode(t, sized("")), decode(t, sized("parallelism: 2, completions: 2, "))
	for _, js := range []*api.JobSet{owned, more} {
		js.OwnerReferences = []metav1.OwnerReference{{Kind: "AppWrapper", Name: "x", Controller: new(true)}}
	}
	if errs := jobset.Kind().Admission.ValidateChange(owned, more); len(errs) == 0 {
		t.Error("a part of another job grows, which was admitted as it was")
	}
	was, is := decode(
		t,
		pair,
	), decodeWith(
		t,
		"annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: a b}",
		pair,
	)
	if errs := jobset.Kind().Admission.ValidateChange(was, is); len(errs) == 0 {
		t.Error("it becomes one that nobody can stop")
	}
}

// A Job that finalizers keep would keep its pods, and the JobSet.
func TestJobsHaveNoFinalizers(t *testing.T) {
	js := decode(t, "replicatedJobs: [{name: a, JOB}]")
	js.Spec.ReplicatedJobs[0].Template.Finalizers = []string{"a.b/c"}
	errs := jobset.Kind().Admission.Validate(js)
	if len(errs) != 1 || errs[0].Field != "spec.replicatedJobs[0].template.metadata.finalizers" {
		t.Errorf("%v", errs)
	}
}
