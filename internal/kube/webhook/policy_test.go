package webhook_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// judge compiles a policy as the API server does.
func judge(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()),
	)
	if err != nil {
		t.Fatal(err)
	}
	vars := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(
			&validating.Variable{Name: v.Name, Expression: v.Expression},
			vars,
			environment.StoredExpressions,
		); r.Error != nil {
			t.Fatalf("%s: variable %s: %v", p.Name, v.Name, r.Error)
		}
	}
	var conditions, rulings, none []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		rulings = append(rulings, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
		none = append(none, nil)
	}
	compile := func(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
		c := compiler.CompileCondition(all, vars, environment.StoredExpressions)
		for _, err := range c.CompilationErrors() {
			t.Errorf("%s does not compile: %v", p.Name, err)
		}
		return c
	}
	matcher := matchconditions.NewMatcher(
		compile(conditions),
		p.Spec.FailurePolicy,
		"policy",
		"validate",
		p.Name,
	)
	return validating.NewValidator(
		compile(rulings),
		matcher,
		compile(nil),
		compile(none[:0]),
		p.Spec.FailurePolicy,
		nil,
	)
}

// about reports whether a policy is about such a write of an object of this kind, as far as its
// rules say.
func about(
	p *admissionregistrationv1.ValidatingAdmissionPolicy,
	gvk schema.GroupVersionKind,
	operation admission.Operation,
) bool {
	for _, r := range p.Spec.MatchConstraints.ResourceRules {
		if !slices.Contains(r.Operations, admissionregistrationv1.OperationType(operation)) {
			continue
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				if group == gvk.Group && resource == strings.ToLower(gvk.Kind)+"s" {
					return true
				}
			}
		}
	}
	return false
}

// verdict is what the policies say to a write: who refuses it and why, "" if nobody does.
func verdict(
	t *testing.T,
	judges map[*admissionregistrationv1.ValidatingAdmissionPolicy]validating.Validator,
	write *admission.VersionedAttributes,
) string {
	t.Helper()
	var out []string
	for p, v := range judges {
		if !about(p, write.VersionedKind, write.GetOperation()) {
			continue
		}
		write.Attributes = admission.NewAttributesRecord(
			write.VersionedObject.Object(),
			old(write),
			write.VersionedKind,
			"blue",
			"o",
			schema.GroupVersionResource{
				Group:    write.VersionedKind.Group,
				Version:  write.VersionedKind.Version,
				Resource: strings.ToLower(write.VersionedKind.Kind) + "s",
			},
			"",
			write.GetOperation(),
			write.GetOperationOptions(),
			false,
			write.GetUserInfo(),
		)
		result := v.Validate(
			t.Context(),
			write.GetResource(),
			write,
			nil,
			nil,
			celconfig.RuntimeCELCostBudget,
			authorizer.AuthorizerFunc(mayAdmit),
		)
		for _, d := range result.Decisions {
			if d.Action == validating.ActionDeny {
				out = append(out, p.Name+": "+d.Message)
			}
			if d.Evaluation == validating.EvalError {
				t.Errorf("%s cannot be evaluated: %s", p.Name, d.Message)
			}
		}
	}
	return strings.Join(out, "\n")
}

func old(write *admission.VersionedAttributes) *unstructured.Unstructured {
	o, _ := write.VersionedOldObject.Object().(*unstructured.Unstructured)
	return o
}

// The policies refuse what the webhooks would not have let pass, and nothing that they, or
// those whom they leave alone, write.
func TestPolicies(t *testing.T) {
	policies, bindings := webhook.Policies(kinds.All())
	judges := map[*admissionregistrationv1.ValidatingAdmissionPolicy]validating.Validator{}
	for i, p := range policies {
		if bindings[i].Spec.PolicyName != p.Name {
			t.Errorf("%s puts %s in force", bindings[i].Name, bindings[i].Spec.PolicyName)
		}
		judges[p] = judge(t, p)
	}
	pod := func(metadata, spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p, " + metadata + "}, spec: {" + spec + "containers: [{name: c, image: x}]}}"
	}
	owned := func(kind string) string {
		return "ownerReferences: [{apiVersion: v, kind: " + kind + ", name: o, uid: u, controller: true}]"
	}
	template := func(kind, spec, metadata string) string {
		group := map[string]string{"Job": "batch/v1", "CronJob": "batch/v1"}[kind]
		if group == "" {
			group = "apps/v1"
		}
		return "{apiVersion: " + group + ", kind: " + kind + ", metadata: {name: o}, spec: {" + spec + "template: {metadata: {" + metadata + "}, spec: {containers: [{name: c, image: x}]}}}}"
	}
	cron := func(spec, metadata string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: o}, spec: {jobTemplate: {spec: {" + spec + "template: {metadata: {" + metadata + "}, spec: {containers: []}}}}}}"
	}
	of := func(kind, metadata string) string {
		group := map[string]string{"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "AppWrapper": "workload.codeflare.dev/v1beta2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}[kind]
		return "{apiVersion: " + group + ", kind: " + kind + ", metadata: {name: o, " + metadata + "}, spec: {suspend: true, template: {spec: {}}, leaderWorkerTemplate: {}}}"
	}
	const (
		gate     = "schedulingGates: [{name: kueue.x-k8s.io/admission}], "
		mine     = "labels: {kueue.x-k8s.io/managed: 'true', mlbatch.dev/user: alice}"
		counted  = "annotations: {kueue.x-k8s.io/workload: w}"
		keeps    = "finalizers: [kueue.x-k8s.io/managed]"
		jobs     = "system:serviceaccount:kube-system:job-controller"
		operator = "system:serviceaccount:kubeflow:training-operator"
		hers     = "system:serviceaccount:blue:default"
		dotted   = "alice@example.com"
		strange  = "älice"
	)
	member := func(user string) string { return "labels: {mlbatch.dev/user: " + user + "}" }
	cases := map[string]struct{ user, by, is, was, says string }{
		"FreePod": {
			user: "alice",
			is:   pod("", ""),
			says: webhook.PodHeldPolicy + ": the pod is not held",
		},
		"OurName": {user: "alice", by: webhook.FieldOwner, is: pod("", ""), says: "not held"},
		"OtherGate": {
			user: "alice",
			is:   pod(mine, "schedulingGates: [{name: a.b/c}], "),
			says: "not held",
		},
		"GateAlone": {user: "alice", is: pod("", gate), says: "not held"},
		"OnANode":   {user: "alice", is: pod(mine, gate+"nodeName: n, "), says: "spec.nodeName"},
		"Forged":    {user: "alice", is: pod(mine+", "+counted, gate), says: "it was admitted"},
		"ForgedPodSet": {
			user: "alice",
			is:   pod("labels: {kueue.x-k8s.io/managed: 'true', kueue.x-k8s.io/podset: a}", gate),
			says: "it was admitted",
		},
		"ForgedJob":        {user: "alice", is: pod(owned("Job")+", "+counted, ""), says: "not held"},
		"ForgedDaemonSet":  {user: "alice", is: pod(owned("DaemonSet"), ""), says: "not held"},
		"AccountOfTheTeam": {user: hers, is: pod(counted, ""), says: "not held"},
		"Mirror": {
			user: "alice",
			is:   pod("annotations: {kubernetes.io/config.mirror: x}", ""),
			says: "not held",
		},
		"Held":             {user: "alice", is: pod(mine, gate)},
		"AdmittedJob":      {user: jobs, is: pod(owned("Job")+", "+counted, "")},
		"DaemonSet":        {user: jobs, is: pod(owned("DaemonSet"), "")},
		"UnqueuedJob":      {user: jobs, is: pod(owned("Job"), ""), says: "not held"},
		"Operator":         {user: operator, is: pod(counted+", labels: {mlbatch.dev/user: alice}", "")},
		"OperatorUnqueued": {user: operator, is: pod("", ""), says: "not held"},
		"Kubelet": {
			user: "system:node:n",
			is:   pod("annotations: {kubernetes.io/config.mirror: x}", "nodeName: n, "),
		},
		"Controller": {user: "controller", is: pod(counted, "")},
		"OfAnother": {
			user: "alice",
			is:   pod(strings.Replace(mine, "alice", "bob", 1), gate),
			says: webhook.UserPolicy,
		},
		"OfBoth": {
			user: "alice",
			is:   pod(strings.Replace(mine, "alice", "bob", 1)+", annotations: {mlbatch.dev/user: alice}", gate),
			says: webhook.UserPolicy,
		},
		"GateGoes": {
			user: "alice",
			is:   pod(mine+", "+keeps, ""),
			was:  pod(mine+", "+keeps, gate),
			says: "spec.schedulingGates",
		},
		"GateGoesByOperator": {
			user: operator,
			is:   pod(mine+", "+keeps, ""),
			was:  pod(mine+", "+keeps, gate),
			says: "spec.schedulingGates",
		},
		"FinalizerGoes": {
			user: "alice",
			is:   pod(mine, gate),
			was:  pod(mine+", "+keeps, gate),
			says: "metadata.finalizers",
		},
		"BecomesAdmitted": {
			user: "alice",
			is:   pod(mine+", "+counted, gate),
			was:  pod(mine, gate),
			says: "an admission wrote",
		},
		"JoinsAGroup": {
			user: "alice",
			is:   pod(strings.Replace(mine, "{", "{kueue.x-k8s.io/pod-group-name: g, ", 1), gate),
			was:  pod(mine, gate),
			says: "counted",
		},
		"WaitsElsewhere": {
			user: "alice",
			is:   pod(strings.Replace(mine, "{", "{kueue.x-k8s.io/queue-name: q, ", 1), gate),
			was:  pod(mine, gate),
		},
		"RunsElsewhere": {
			user: "alice",
			is:   pod(strings.Replace(mine, "{", "{kueue.x-k8s.io/queue-name: q, ", 1)+", "+keeps, ""),
			was:  pod(mine+", "+keeps, ""),
			says: "the queue of a pod",
		},
		"Orphan": {
			user: "alice",
			is:   pod(counted, ""),
			was:  pod(counted+", "+owned("Job"), ""),
			says: "controller of the job",
		},
		"OrphanByKubernetes": {user: jobs, is: pod(counted, ""), was: pod(counted+", "+owned("Job"), "")},
		"LosesALabel": {
			user: "alice",
			is:   pod(counted, ""),
			was:  pod(counted+", labels: {a: b}", ""),
			says: "controller of the job",
		},
		"GetsALabel": {user: "alice", is: pod(counted+", labels: {a: b}", ""), was: pod(counted, "")},
		"CountsForAnother": {
			user: "alice",
			is:   pod("annotations: {kueue.x-k8s.io/workload: v}", ""),
			was:  pod(counted, ""),
			says: "an admission wrote",
		},
		"AdminLetsGo": {user: "controller", is: pod(mine, ""), was: pod(mine, gate)},
		"Deployment": {
			user: "alice",
			is:   template("Deployment", "", counted),
			says: webhook.PodTemplatePolicy,
		},
		"StatefulSet": {
			user: "alice",
			is:   template("StatefulSet", "", counted),
			says: webhook.PodTemplatePolicy,
		},
		"ReplicaSet": {
			user: "alice",
			is:   template("ReplicaSet", "", "labels: {kueue.x-k8s.io/podset: a}"),
			says: webhook.PodTemplatePolicy,
		},
		"ReplicaSetOfTheirs": {
			user: "system:serviceaccount:kube-system:deployment-controller",
			is:   template("ReplicaSet", "", counted),
		},
		"PlainDeployment": {user: "alice", is: template("Deployment", "", "labels: {a: b}")},
		"KeptDeployment": {
			user: "alice",
			is:   template("Deployment", "replicas: 2, ", counted),
			was:  template("Deployment", "", counted),
		},
		"RunningJob":   {user: "alice", is: template("Job", "", counted), says: webhook.PodTemplatePolicy},
		"SuspendedJob": {user: "alice", is: template("Job", "suspend: true, ", counted)},
		"CronJob":      {user: "alice", is: cron("", counted), says: webhook.CronTemplatePolicy},
		"PlainCronJob": {user: "alice", is: cron("", "labels: {a: b}")},
		"JobOfHers":    {user: "alice", is: of("Job", member("alice"))},
		"JobOfNobody":  {user: "alice", is: of("Job", "")},
		"JobOfBob":     {user: "alice", is: of("Job", member("bob")), says: webhook.UserPolicy},
		"JobSetOfBob":  {user: "alice", is: of("JobSet", member("bob")), says: webhook.UserPolicy},
		"WrapperOfBob": {user: "alice", is: of("AppWrapper", member("bob")), says: webhook.UserPolicy},
		"SetOfBob":     {user: "alice", is: of("LeaderWorkerSet", member("bob")), says: webhook.UserPolicy},
		"NotedForBob": {
			user: "alice",
			is:   of("Job", "annotations: {mlbatch.dev/user: 'oidc:bob'}"),
			says: webhook.UserPolicy,
		},
		"LongName": {
			user: dotted,
			is: of(
				"Job",
				"labels: {mlbatch.dev/user: alice_example.com}, annotations: {mlbatch.dev/user: 'alice@example.com'}",
			),
		},
		"LongNameOfBob": {
			user: dotted,
			is:   of("Job", "labels: {mlbatch.dev/user: bob}, annotations: {mlbatch.dev/user: 'alice@example.com'}"),
			says: webhook.UserPolicy,
		},
		"StrangeName": {
			user: strange,
			is:   of("Job", "labels: {mlbatch.dev/user: lice}, annotations: {mlbatch.dev/user: älice}"),
		},
		"BecomesBobs": {
			user: "alice",
			is:   of("Job", member("bob")),
			was:  of("Job", member("alice")),
			says: webhook.UserPolicy,
		},
		"BecomesNobodys": {
			user: "alice",
			is:   of("Job", ""),
			was:  of("Job", member("alice")),
			says: webhook.UserPolicy,
		},
		"StaysBobs": {user: "alice", is: of("Job", member("bob")), was: of("Job", member("bob"))},
		"OfACronJob": {
			user: "system:serviceaccount:kube-system:cronjob-controller",
			is:   of("Job", member("bob")),
		},
		"Billions": {
			user: "alice",
			is:   "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {replicas: 2147483647, template: {}}}",
			says: "spec.replicas",
		},
		"BillionsOfOurs": {
			user: "controller",
			is:   "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {replicas: 2147483646, template: {}}}",
			says: "spec.replicas",
		},
		"ScaledToBillions": {
			user: "alice",
			is:   "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {replicas: 100001, template: {}}}",
			was:  "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {replicas: 1, template: {}}}",
			says: "spec.replicas",
		},
		"Thousands": {
			user: "alice",
			is:   "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {replicas: 100000, template: {}}}",
		},
		"BillionsOfGroups": {
			user: "alice",
			is:   "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: o}, spec: {replicas: 2147483647, leaderWorkerTemplate: {size: 2}}}",
			says: "spec.replicas",
		},
		"GroupOfBillions": {
			user: "alice",
			is:   "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: o}, spec: {leaderWorkerTemplate: {size: 2147483647}}}",
			says: "leaderWorkerTemplate.size",
		},
		"AdminSays": {user: "controller", is: of("Job", member("bob")), was: of("Job", member("alice"))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := verdict(t, judges, written(t, "", c.user, c.by, c.is, c.was))
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
}
