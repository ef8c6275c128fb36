package webhook_test

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// deploymentText is a Deployment in a namespace with labels, and lines for the
// template's metadata and spec.
func deploymentText(kind, namespace, labels, metadata, spec string) string {
	return strings.NewReplacer(
		"KIND",
		kind,
		"NS",
		namespace,
		"LABELS",
		labels,
		"METADATA",
		metadata,
		"SPEC",
		spec,
	).Replace(
		`
apiVersion: apps/v1
kind: KIND
metadata: {name: web, namespace: NS, labels: {LABELS}}
spec:
  unknownField: stays
  template: {metadata: {METADATA}, spec: {containers: [{name: c, image: i}], SPEC}}
`,
	)
}

// Templates get what makes their pods wait in the queue of the object.
func TestMutateServing(t *testing.T) {
	const deployment, set = "/mutate-apps-v1-deployment", "/mutate-apps-v1-statefulset"
	part := deploymentText("Deployment", "blue", queueLabel, "annotations: {"+workloadNote+"}", "")
	for name, tc := range map[string]struct {
		why, path, new, old    string
		frameworks             []string
		queue, parent, grouped string
		warned                 bool
	}{
		"in a queue":      {why: "its pods are", path: deployment, new: deploymentText("Deployment", "blue", queueLabel, "", ""), queue: "default-queue", parent: "deployment"},
		"no queue":        {why: "its pods are held", path: deployment, new: deploymentText("Deployment", "blue", "", "", ""), parent: "deployment", warned: true},
		"the pods' queue": {why: "they name one", path: deployment, new: deploymentText("Deployment", "blue", "", "labels: {"+queueLabel+"}", ""), queue: "default-queue", parent: "deployment"},
		"elsewhere":       {why: "it is none of ours", path: deployment, new: deploymentText("Deployment", "lab", "", "", "")},
		"elsewhere, in":   {why: "it asks for it", path: deployment, new: deploymentText("Deployment", "lab", queueLabel, "", ""), queue: "default-queue", parent: "deployment"},
		"a set":           {why: "its pods are a group", path: set, new: deploymentText("StatefulSet", "blue", queueLabel, "", ""), queue: "default-queue", parent: "statefulset", grouped: "true"},
		"a set in a group": {
			why: "its pods are members of the group that they name", path: set,
			new:   deploymentText("StatefulSet", "blue", queueLabel, "labels: {kueue.x-k8s.io/pod-group-name: tenant}, annotations: {kueue.x-k8s.io/pod-group-total-count: '2'}", ""),
			queue: "default-queue",
		},
		"scaled part":  {why: "its pods are counted with the job", path: deployment, new: part, old: part},
		"switched off": {why: "the installation does not queue them", path: deployment, frameworks: []string{"batch/job"}, new: deploymentText("Deployment", "blue", queueLabel, "", "")},
		"only this":    {why: "the installation queues no other pods", path: deployment, frameworks: []string{"deployment"}, new: deploymentText("Deployment", "blue", queueLabel, "", ""), queue: "default-queue", parent: "deployment"},
		"all pods":     {why: "whoever makes them", path: deployment, frameworks: []string{"pod"}, new: deploymentText("Deployment", "blue", queueLabel, "", ""), queue: "default-queue", parent: "deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, webhook.Options{Frameworks: tc.frameworks}, nil, nil, world()...),
				ask{path: tc.path, new: tc.new, old: tc.old},
			)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			text := func(fields ...string) string {
				s, _, _ := unstructured.NestedString(
					r.Object,
					append([]string{"spec", "template", "metadata"}, fields...)...)
				return s
			}
			if queue, parent, grouped := text(
				"labels",
				"kueue.x-k8s.io/queue-name",
			), text(
				"annotations",
				"kueue.x-k8s.io/pod-suspending-parent",
			), text(
				"annotations",
				"kueue.x-k8s.io/pod-group-serving",
			); queue != tc.queue && tc.old == "" || parent != tc.parent ||
				grouped != tc.grouped {
				t.Errorf("%s: queue %q, parent %q, serving %q", tc.why, queue, parent, grouped)
			}
			if (len(r.Warnings) > 0) != tc.warned {
				t.Errorf("warnings: %v", r.Warnings)
			}
			if v, _, _ := unstructured.NestedString(r.Object, "spec", "unknownField"); v != "stays" {
				t.Error("a field that is not known is gone")
			}
		})
	}
	r := send(t, serve(t, nil, world()...), ask{path: "/mutate-batch-v1-cronjob", new: `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: blue, labels: {` + queueLabel + `}}
spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}
`})
	if q, _, _ := unstructured.NestedString(
		r.Object,
		"spec",
		"jobTemplate",
		"metadata",
		"labels",
		"kueue.x-k8s.io/queue-name",
	); q != "default-queue" {
		t.Errorf("the Jobs of a CronJob are in queue %q", q)
	}
}

// Templates whose pods would be refused are refused, with the field.
func TestValidateServing(t *testing.T) {
	const path = "/validate-apps-v1-deployment"
	of := func(metadata, spec string) string {
		return deploymentText("Deployment", "blue", queueLabel, metadata, spec)
	}
	reviews{
		"right": {why: "nothing is wrong", ask: ask{path: path, new: of("", "")}},
		"a node": {
			why:    "the scheduler chooses",
			ask:    ask{path: path, new: of("", "nodeName: node-1")},
			refuse: []string{"spec.template.spec.nodeName"},
		},
		"keeps others off": {
			why: "pods of other teams would find no node",
			ask: ask{
				path: path,
				new: of(
					"",
					"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [blue, red]}]}}",
				),
			},
			refuse: []string{
				"spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces",
			},
		},
		"finalizers": {
			why:    "they would keep pods for ever",
			ask:    ask{path: path, new: of("finalizers: [a.b/c]", "")},
			refuse: []string{"spec.template.metadata.finalizers"},
		},
		"system priority": {
			why:    "that is not for tenants",
			ask:    ask{path: path, new: of("", "priorityClassName: system-node-critical")},
			refuse: []string{"spec.template.spec.priorityClassName"},
		},
		"a running job's": {
			why:    "its pods would take its places",
			ask:    ask{path: path, new: of("annotations: {"+workloadNote+"}", "")},
			refuse: []string{"annotations"},
		},
		"larger part": {
			why: "it was admitted with its size",
			ask: ask{
				path: path,
				old:  of("annotations: {"+workloadNote+"}", ""),
				new:  of("annotations: {"+workloadNote+"}", "hostNetwork: true"),
			},
			refuse: []string{"spec.template"},
		},
		"elsewhere": {
			why: "others do as they like",
			ask: ask{path: path, new: deploymentText("Deployment", "lab", "", "", "nodeName: node-1")},
		},
		"leaves its queue": {
			why: "its pods run under its quota",
			ask: ask{
				path: path,
				old:  deploymentText("Deployment", "lab", queueLabel, "", ""),
				new:  deploymentText("Deployment", "lab", "", "", ""),
			},
			refuse: []string{"removed while there are pods"},
		},
	}.run(t, world()...)
}

// A CronJob is refused what each of its Jobs would be refused.
func TestValidateCronJob(t *testing.T) {
	of := func(job, template, spec string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly, namespace: blue, labels: {" + queueLabel + "}}, spec: {schedule: '* * * * *', jobTemplate: {metadata: {" + job + "}, " +
			"spec: {template: {metadata: {" + template + "}, spec: {restartPolicy: Never, " + spec + "containers: [{name: c, image: x}]}}}}}}"
	}
	const path, pod = "/validate-batch-v1-cronjob", "spec.jobTemplate.spec.template."
	refused := map[string]struct{ why, job, template, spec, field string }{
		"FinalizersOfJobs": {
			"they would keep Jobs for ever",
			"finalizers: [a.b/c]",
			"",
			"",
			"spec.jobTemplate.metadata.finalizers",
		},
		"FinalizersOfPods": {
			"they would keep pods for ever",
			"",
			"finalizers: [a.b/c]",
			"",
			pod + "metadata.finalizers",
		},
		"Node": {"the scheduler chooses", "", "", "nodeName: node-1, ", pod + "spec.nodeName"},
		"SystemPriority": {
			"that is not for tenants",
			"",
			"",
			"priorityClassName: system-node-critical, ",
			pod + "spec.priorityClassName",
		},
		"LongGrace": {
			"an evicted job would keep its pods",
			"",
			"",
			"terminationGracePeriodSeconds: 86400, ",
			pod + "spec.terminationGracePeriodSeconds",
		},
		"KeepsOthersOff": {
			"pods of other teams would find no node",
			"",
			"",
			"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {}}]}}, ",
			pod + "spec.affinity",
		},
	}
	handlers := serveWith(
		t,
		webhook.Options{Limits: jobs.Limits{Termination: time.Minute}},
		nil,
		nil,
		world()...)
	if r := send(t, handlers, ask{path: path, new: of("", "", "")}); !r.Allowed {
		t.Errorf("a right one is refused: %s", r.Message)
	}
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			if r := send(
				t,
				handlers,
				ask{path: path, new: of(c.job, c.template, c.spec)},
			); r.Allowed ||
				!strings.Contains(r.Message, c.field) {
				t.Errorf("it says %q, because %s", r.Message, c.why)
			}
		})
	}
}

// The controllers of Kubernetes and our own write without a call.
func TestServingConditions(t *testing.T) {
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1/", nil),
		jobs.SchedulerNames(),
	)
	var hook *admissionregistrationv1.ValidatingWebhook
	for i := range validating.Webhooks {
		if validating.Webhooks[i].Name == "vreplicaset.team.mlbatch.dev" {
			hook = &validating.Webhooks[i]
		}
	}
	text := deploymentText("ReplicaSet", "blue", "", "", "")
	for name, tc := range map[string]struct {
		user, by, is, was string
		want              bool
	}{
		"a user's":            {user: "alice", is: text, want: true},
		"of a Deployment":     {user: "system:serviceaccount:kube-system:deployment-controller", is: text},
		"a component":         {user: "controller", by: webhook.FieldOwner, is: text},
		"pretends":            {user: "alice", by: webhook.FieldOwner, is: text, want: true},
		"nothing changes":     {user: "alice", is: text, was: text},
		"another template":    {user: "alice", is: deploymentText("ReplicaSet", "blue", "", "", "hostNetwork: true"), was: text, want: true},
		"another queue":       {user: "alice", is: deploymentText("ReplicaSet", "blue", queueLabel, "", ""), was: text, want: true},
		"its own bookkeeping": {user: "system:kube-controller-manager", is: deploymentText("ReplicaSet", "blue", queueLabel, "", ""), was: text},
	} {
		if got := called(t, hook, written(t, "", tc.user, tc.by, tc.is, tc.was)); got != tc.want {
			t.Errorf("%s: called is %v, want %v", name, got, tc.want)
		}
	}
}
