package webhook_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	forgedUser     = "mlbatch.dev/user: bob"
	aliceSigned    = "mlbatch.dev/user: alice"
	cronController = "system:serviceaccount:kube-system:cronjob-controller"
	bareController = "system:serviceaccount:kube-system:replication-controller"
)

func jobText(namespace, labels, annotations, metadata string) string {
	return strings.NewReplacer(
		"NS",
		namespace,
		"LABELS",
		labels,
		"NOTES",
		annotations,
		"METADATA",
		metadata,
	).Replace(
		`
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: NS, labels: {LABELS}, annotations: {NOTES}, METADATA}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`,
	)
}

func signedSet(labels, template string) string {
	return "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: llm, namespace: blue, labels: {" + labels +
		"}}, spec: {leaderWorkerTemplate: {workerTemplate: {metadata: {labels: {" + template + "}}, spec: {containers: [{name: c, image: i}]}}}}}"
}

// Who submitted something is what the API server knows of the request, and nothing that a
// tenant writes: when it is made, when it is changed, or into what makes it.
func TestUserIsSigned(t *testing.T) {
	const (
		mutateJob, mutateWrapped = "/mutate-batch-v1-job", "/mutate-workload-codeflare-dev-v1beta2-appwrapper"
		deployment, cronJob      = "/mutate-apps-v1-deployment", "/mutate-batch-v1-cronjob"
		sets                     = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
		robot                    = "system:serviceaccount:blue:ci"
		robotNote                = "mlbatch.dev/user: \"" + robot + "\""
	)
	apps := func(kind string) string {
		return "ownerReferences: [{apiVersion: apps/v1, kind: " + kind + ", name: o, uid: u, controller: true}]"
	}
	cron := func(labels, template string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: blue, labels: {" + labels + "}}, spec: {jobTemplate: {metadata: {labels: {" + template + "}}, spec: {}}}}"
	}
	ofCron := "ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}]"
	for name, tc := range map[string]struct {
		why                  string
		path, user, old, new string
		opts                 webhook.Options
		want                 string // "-" for nobody
		template             string // of what makes others
	}{
		"job":                        {why: "it is hers", path: mutateJob, new: jobText("blue", queueLabel, "", ""), want: "alice"},
		"job, forged":                {why: "whatever she says", path: mutateJob, new: jobText("blue", queueLabel+", "+forgedUser, "mlbatch.dev/user: bob", ""), want: "alice"},
		"wrapper, forged":            {why: "so with every kind", path: mutateWrapped, new: wrapper("blue", forgedUser, "true", podComponent), want: "alice"},
		"job of a robot":             {why: "service accounts are users, and labels cannot hold their names", path: mutateJob, user: robot, new: jobText("blue", queueLabel, "", ""), want: robot},
		"job with another's parent":  {why: "any user may write that", path: mutateJob, new: jobText("blue", queueLabel+", "+forgedUser, "", ofCron), want: "alice"},
		"job that is not queued":     {why: "it is none of ours, and nobody vouches for it", path: mutateJob, new: jobText("lab", forgedUser, "", ""), opts: webhook.Options{Frameworks: []string{"pod"}}, want: "-"},
		"job changed":                {why: "it stays hers", path: keepJob, old: jobText("blue", queueLabel+", "+aliceSigned, "", ""), new: jobText("blue", queueLabel+", "+forgedUser, "", ""), want: "alice"},
		"job changed, noted":         {why: "in either way", path: keepJob, old: jobText("blue", queueLabel+", "+aliceSigned, "", ""), new: jobText("blue", queueLabel+", "+aliceSigned, "mlbatch.dev/user: bob", ""), want: "alice"},
		"job written again":          {why: "the manifest does not say whose it is", path: keepJob, old: jobText("blue", queueLabel+", "+aliceSigned, "", ""), new: jobText("blue", queueLabel, "", ""), want: "alice"},
		"job of a robot, changed":    {why: "nor is its name lost", path: keepJob, old: jobText("blue", queueLabel+", mlbatch.dev/user: system_serviceaccount_blue_ci", robotNote, ""), new: jobText("blue", queueLabel, "", ""), want: robot},
		"job from before":            {why: "nobody knows, and nobody may say so now", path: keepJob, old: jobText("blue", queueLabel, "", ""), new: jobText("blue", queueLabel+", "+forgedUser, "", ""), want: "-"},
		"job that is queued later":   {why: "it is submitted by who queues it", path: keepJob, old: jobText("lab", forgedUser, "", ""), new: jobText("lab", queueLabel+", "+forgedUser, "", ""), want: "alice"},
		"job of a CronJob":           {why: "its template was signed", path: mutateJob, user: cronController, new: jobText("blue", queueLabel+", "+aliceSigned, "", ofCron), want: "alice"},
		"job of a CronJob elsewhere": {why: "where templates are not all signed, nobody vouches for them", path: mutateJob, user: cronController, new: jobText("lab", queueLabel+", "+forgedUser, "", ofCron), want: "-"},
		"pod, forged":                {why: "it is hers", path: mutatePod, new: podText("blue", queueLabel+", "+forgedUser, "", "", ""), want: "alice"},
		"pod of a ReplicaSet":        {why: "its template was signed", path: mutatePod, user: replicaController, new: podText("blue", queueLabel+", "+aliceSigned, "", apps("ReplicaSet"), ""), want: "alice"},
		"pod of a bare controller":   {why: "nobody signs templates of ReplicationControllers", path: mutatePod, user: bareController, new: podText("blue", queueLabel+", "+forgedUser, "", "ownerReferences: [{apiVersion: v1, kind: ReplicationController, name: o, uid: u, controller: true}]", ""), want: "-"},
		"pod of its own":             {why: "the parent that she says it has does not vouch for it", path: mutatePod, new: podText("blue", queueLabel+", "+forgedUser, "", apps("ReplicaSet"), ""), want: "alice"},
		"Deployment":                 {why: "and with it its pods", path: deployment, new: deploymentText("Deployment", "blue", queueLabel, "", ""), want: "alice", template: "alice"},
		"Deployment, forged":         {why: "through what its controller makes", path: deployment, new: deploymentText("Deployment", "blue", queueLabel+", "+forgedUser, "labels: {"+forgedUser+"}", ""), want: "alice", template: "alice"},
		"Deployment, changed":        {why: "or will make", path: deployment, old: deploymentText("Deployment", "blue", queueLabel+", "+aliceSigned, "labels: {"+aliceSigned+"}", ""), new: deploymentText("Deployment", "blue", queueLabel, "labels: {"+forgedUser+"}", ""), want: "alice", template: "alice"},
		"Deployment from before":     {why: "its pods are not made anew for that", path: deployment, old: deploymentText("Deployment", "blue", queueLabel, "", ""), new: deploymentText("Deployment", "blue", queueLabel+", "+forgedUser, "labels: {"+forgedUser+"}", ""), want: "-", template: "-"},
		"Deployment queued later":    {why: "who queues it submits it", path: deployment, old: deploymentText("Deployment", "lab", "", "labels: {"+forgedUser+"}", ""), new: deploymentText("Deployment", "lab", queueLabel, "labels: {"+forgedUser+"}", ""), want: "alice", template: "alice"},
		"Deployment that is off":     {why: "its pods in a team's namespace are queued all the same", path: deployment, opts: webhook.Options{Frameworks: []string{"batch/job"}}, new: deploymentText("Deployment", "blue", queueLabel, "labels: {"+forgedUser+"}", ""), want: "-", template: "-"},
		"CronJob, forged":            {why: "so its Jobs", path: cronJob, new: cron(queueLabel, forgedUser), want: "alice", template: "alice"},
		"LeaderWorkerSet, forged":    {why: "our controller tells its pods", path: sets, new: signedSet(queueLabel+", "+forgedUser, ""), want: "alice"},
		"LeaderWorkerSet, odd":       {why: "what is wrong with it is the schema's to say", path: sets, new: strings.Replace(signedSet(queueLabel, ""), "spec: {containers", "spec: {nodeName: true, containers", 1), want: "alice"},
		"LeaderWorkerSet, changed":   {why: "and goes on to", path: sets, old: signedSet(queueLabel+", "+aliceSigned, ""), new: signedSet(queueLabel+", "+forgedUser, ""), want: "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, tc.opts, nil, nil, world()...),
				ask{path: tc.path, user: tc.user, old: tc.old, new: tc.new},
			)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			at := []string{"spec", "template"}
			if tc.path == cronJob {
				at = []string{"spec", "jobTemplate"}
			}
			template, _, _ := unstructured.NestedMap(r.Object, at...)
			for _, part := range []struct {
				what, want string
				o          map[string]any
			}{{"object", tc.want, r.Object}, {"template", tc.template, template}} {
				if got := jobs.User(
					nil,
					&unstructured.Unstructured{Object: part.o},
				); got != strings.Trim(
					part.want,
					"-",
				) {
					t.Errorf("%s: the %s is of %q, want %q", tc.why, part.what, got, part.want)
				}
			}
		})
	}
}

// A pod that is held stays its author's.
func TestUserOfAPodIsKept(t *testing.T) {
	const held = queueLabel + `, kueue.x-k8s.io/managed: "true", `
	const gate = "schedulingGates: [{name: kueue.x-k8s.io/admission}]"
	reviews{
		"label": {
			why: "it is hers",
			ask: ask{
				path: keepPod,
				old:  podText("blue", held+aliceSigned, "", "", gate),
				new:  podText("blue", held+forgedUser, "", "", gate),
			},
			refuse: []string{"metadata.labels[mlbatch.dev/user]", "cannot be changed"},
		},
		"annotation": {
			why: "in either way",
			ask: ask{
				path: keepPod,
				old:  podText("blue", held+aliceSigned, "", "", gate),
				new:  podText("blue", held+aliceSigned, forgedUser, "", gate),
			},
			refuse: []string{"metadata.annotations[mlbatch.dev/user]"},
		},
	}.run(t, world()...)
}

// Who applies a set is asked about wherever sets are checked.
func TestSetsAreSigned(t *testing.T) {
	mutating, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	at := slices.IndexFunc(mutating.Webhooks, func(h admissionregistrationv1.MutatingWebhook) bool {
		return h.Name == "mleaderworkerset.mlbatch.dev"
	})
	of := slices.IndexFunc(validating.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool {
		return h.Name == "vleaderworkerset.mlbatch.dev"
	})
	if at < 0 || of < 0 {
		t.Fatal("there is no webhook")
	}
	if m, v := mutating.Webhooks[at], validating.Webhooks[of]; *m.FailurePolicy != *v.FailurePolicy ||
		len(m.Rules[0].Operations) != len(v.Rules[0].Operations) {
		t.Errorf("%+v differs from %+v", m, v)
	}
}
