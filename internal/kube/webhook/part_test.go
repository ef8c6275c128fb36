package webhook_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// What a job is made of stays its part: by the webhook, which names the field, and by the policy.
func TestPartsStayWhatTheirJobKnowsThemBy(t *testing.T) {
	const keepPart = "/keep-part"
	_, configured := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1/", nil),
		jobs.SchedulerNames(),
	)
	hooks := map[string]*admissionregistrationv1.ValidatingWebhook{}
	for i := range configured.Webhooks {
		hooks[configured.Webhooks[i].Name] = &configured.Webhooks[i]
	}
	policies, _ := webhook.Policies(kinds.All())
	judges := map[*admissionregistrationv1.ValidatingAdmissionPolicy]validating.Validator{}
	for _, p := range policies {
		if p.Name == webhook.PartPolicy {
			judges[p] = judge(t, p)
		}
	}
	handlers := serve(t, nil, world()...)
	object := func(apiVersion, kind, metadata, template string) string {
		return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: o, namespace: blue" + metadata + "}, spec: {template: {metadata: {" + template + "}, spec: {containers: [{name: c, image: x}]}}}}"
	}
	owned := func(apiVersion, kind, uid string) string {
		return ", ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: w, uid: " + uid + ", controller: true}]"
	}
	const (
		labels  = ", labels: {a: b}"
		more    = ", labels: {a: b, c: d}"
		counted = "annotations: {kueue.x-k8s.io/workload: w}"
	)
	wrapper, set, deployment := owned(
		"workload.codeflare.dev/v1beta2",
		"AppWrapper",
		"u",
	), owned(
		"jobset.x-k8s.io/v1alpha2",
		"JobSet",
		"u",
	), owned(
		"apps/v1",
		"Deployment",
		"u",
	)
	for name, c := range map[string]struct {
		by, was, is string
		field       string // that the webhook names; "" allows
		policy      string // of what the policy speaks
	}{
		"OwnerTaken":       {by: "alice", was: object("apps/v1", "StatefulSet", wrapper+labels, counted), is: object("apps/v1", "StatefulSet", labels, counted), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"LabelsTaken":      {by: "alice", was: object("apps/v1", "Deployment", wrapper+labels, counted), is: object("apps/v1", "Deployment", wrapper, counted), field: "metadata.labels[a]", policy: "metadata.labels"},
		"OwnerExchanged":   {by: "alice", was: object("apps/v1", "Deployment", wrapper, counted), is: object("apps/v1", "Deployment", owned("workload.codeflare.dev/v1beta2", "AppWrapper", "v"), counted), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"OfADeployment":    {by: "alice", was: object("apps/v1", "ReplicaSet", deployment, counted), is: object("apps/v1", "ReplicaSet", "", counted), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"OfHerDeployment":  {by: "alice", was: object("apps/v1", "ReplicaSet", deployment, ""), is: object("apps/v1", "ReplicaSet", "", "")},
		"OwnerlessCounted": {by: "alice", was: object("apps/v1", "StatefulSet", labels, counted), is: object("apps/v1", "StatefulSet", "", counted), field: "metadata.labels[a]", policy: "metadata.labels"},
		"JobOfAJobSet":     {by: "alice", was: object("batch/v1", "Job", set, ""), is: object("batch/v1", "Job", "", ""), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"JobSetOfATrainer": {by: "alice", was: object("jobset.x-k8s.io/v1alpha2", "JobSet", owned("trainer.kubeflow.org/v1alpha1", "TrainJob", "u"), ""), is: object("jobset.x-k8s.io/v1alpha2", "JobSet", "", ""), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"SetOfAGroup":      {by: "alice", was: object("apps/v1", "StatefulSet", owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "u"), ""), is: object("apps/v1", "StatefulSet", "", ""), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"WorkersOfALeader": {by: "alice", was: object("apps/v1", "StatefulSet", owned("v1", "Pod", "u")+", labels: {leaderworkerset.sigs.k8s.io/name: serve}", ""), is: object("apps/v1", "StatefulSet", owned("v1", "Pod", "u"), ""), field: "metadata.labels[leaderworkerset.sigs.k8s.io/name]: Forbidden: LeaderWorkerSet serve", policy: "metadata.ownerReferences"},
		"OfHerPod":         {by: "alice", was: object("apps/v1", "StatefulSet", owned("v1", "Pod", "u"), ""), is: object("apps/v1", "StatefulSet", "", "")},
		"HerOwnJob":        {by: "alice", was: object("batch/v1", "Job", labels, counted), is: object("batch/v1", "Job", "", counted)},
		"LabelAdded":       {by: "alice", was: object("apps/v1", "StatefulSet", wrapper+labels, counted), is: object("apps/v1", "StatefulSet", wrapper+more, counted)},
		"TemplateChanged":  {by: "alice", was: object("apps/v1", "StatefulSet", wrapper, counted), is: object("apps/v1", "StatefulSet", wrapper, counted+", labels: {a: b}"), policy: "spec.template"},
		"ByAnAccount":      {by: "system:serviceaccount:blue:default", was: object("apps/v1", "StatefulSet", wrapper, counted), is: object("apps/v1", "StatefulSet", "", counted), field: "metadata.ownerReferences", policy: "metadata.ownerReferences"},
		"ByKubernetes":     {by: "system:serviceaccount:kube-system:generic-garbage-collector", was: object("apps/v1", "StatefulSet", wrapper, counted), is: object("apps/v1", "StatefulSet", "", counted), field: "-"},
		"ByUs":             {by: "controller", was: object("apps/v1", "StatefulSet", wrapper, counted), is: object("apps/v1", "StatefulSet", "", counted), field: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			write := written(t, "", c.by, "", c.is, c.was)
			asked := c.field != "" && c.field != "-"
			hook := hooks["vpart."+strings.ReplaceAll(write.VersionedKind.Group, ".", "-")+".mlbatch.dev"]
			if got := called(t, hook, write); got != asked {
				t.Errorf("the webhook is called: %v", got)
			}
			if c.field != "-" { // those who are not asked about
				r := send(t, handlers, ask{path: keepPart, user: c.by, old: c.was, new: c.is})
				if r.Allowed == asked || !strings.Contains(r.Message, c.field) {
					t.Errorf("the webhook says %q", r.Message)
				}
			}
			if got := verdict(t, judges, write); c.policy == "" && got != "" || !strings.Contains(got, c.policy) {
				t.Errorf("the policy says %q", got)
			}
		})
	}
}
