package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	keepJob     = "/keep-batch-v1-job"
	keepWrapper = "/keep-workload-codeflare-dev-v1beta2-appwrapper"
	disownPath  = "/disown"
)

// startedWrapper is an AppWrapper as the controllers have it once it runs.
const startedWrapper = `
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: w
  namespace: blue
  labels: {kueue.x-k8s.io/queue-name: default-queue, workload.codeflare.dev/user: alice, workload.codeflare.dev/userid: alice_1}
  annotations: {mlbatch.dev/submitted-at: then}
  finalizers: [workload.codeflare.dev/finalizer]
spec:
  suspend: false
  components:
  - podSetInfos: [{nodeSelector: {gpu: a100}}]
    template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
`

// writtenWrapper is its author's manifest, with metadata and spec of choice.
func writtenWrapper(metadata, spec string) string {
	return "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: w, namespace: blue" + metadata + "}, spec: {" + spec +
		"components: [{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}}]}}"
}

// A user who writes the manifest of a running AppWrapper again gets what runs.
func TestWrapperIsWrittenAgain(t *testing.T) {
	waiting := strings.NewReplacer(
		"suspend: false",
		"suspend: true",
		"  - podSetInfos: [{nodeSelector: {gpu: a100}}]\n    template",
		"  - template",
	).
		Replace(startedWrapper)
	cases := map[string]struct {
		why      string
		was, is  string
		opts     webhook.Options
		want     string // YAML
		warnings int
	}{
		"the same": {
			"kubectl replace of the manifest",
			startedWrapper,
			writtenWrapper("", ""),
			webhook.Options{},
			startedWrapper,
			0,
		},
		"written started": {
			"what the manifest says of suspend counted when it was created",
			waiting,
			writtenWrapper("", "suspend: false, "),
			webhook.Options{},
			waiting,
			0,
		},
		"written suspended": {
			"manifests that come from Kueue say so; the job goes on, and its author is told",
			startedWrapper,
			writtenWrapper("", "suspend: true, "),
			webhook.Options{},
			startedWrapper,
			1,
		},
		"placed by hand": {
			"a user does not choose places", startedWrapper,
			strings.Replace(startedWrapper, "a100", "h100", 1),
			webhook.Options{},
			startedWrapper, 0,
		},
		"another author": {
			"use is accounted to the user who created it", startedWrapper,
			strings.Replace(startedWrapper, "user: alice", "user: bob", 1),
			webhook.Options{},
			startedWrapper, 0,
		},
		"annotated": {
			"what is the user's changes", startedWrapper, writtenWrapper(", annotations: {a: b}", ""),
			webhook.Options{},
			strings.Replace(startedWrapper, "annotations: {", "annotations: {a: b, ", 1), 0,
		},
		"not queued": {
			"outside the selected namespaces it is its author's",
			startedWrapper,
			writtenWrapper("", "suspend: true, "),
			webhook.Options{Scope: jobs.Scope{Namespaces: labels.SelectorFromSet(labels.Set{"queued": "yes"})}},
			writtenWrapper("", "suspend: true, "),
			0,
		},
		"of another controller": {
			"it is not ours",
			strings.Replace(startedWrapper, "spec:", "spec:\n  managedBy: example.com/other", 1),
			writtenWrapper("", "managedBy: example.com/other, suspend: true, "),
			webhook.Options{},
			writtenWrapper("", "managedBy: example.com/other, suspend: true, "),
			0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serveWith(t, tc.opts, nil, nil, world()...), ask{path: keepWrapper, old: tc.was, new: tc.is})
			if diff := cmp.Diff(plain(t, tc.want), plainOf(r.Object)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if len(r.Warnings) != tc.warnings {
				t.Errorf("%s: warnings are %q, want %d", tc.why, r.Warnings, tc.warnings)
			}
		})
	}
}

// plain is YAML as the generic value that its JSON is, without fields that are
// false.
func plain(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	if spec, ok := out["spec"].(map[string]any); ok && spec["suspend"] == false {
		delete(spec, "suspend")
	}
	return out
}

// startedJob is a Job of 4 pods as the controllers have it once 2 of them run.
const startedJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  namespace: blue
  labels: {kueue.x-k8s.io/queue-name: default-queue}
  annotations: {kueue.x-k8s.io/job-min-parallelism: "1", mlbatch.dev/submitted-at: then}
spec:
  suspend: false
  parallelism: 2
  completions: 4
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}
  template:
    metadata:
      labels: {app: a, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: j, kueue.x-k8s.io/podset: main}
      annotations: {kueue.x-k8s.io/workload: w}
    spec:
      schedulerName: mlbatch-scheduler
      nodeSelector: {zone: z, gpu: a100}
      tolerations: [{key: mine}, {key: flavor}]
      containers: [{name: c}]
`

// writtenJob is its author's manifest.
const writtenJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  namespace: blue
  labels: {kueue.x-k8s.io/queue-name: default-queue}
  annotations: {kueue.x-k8s.io/job-min-parallelism: "1"}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata: {labels: {app: a}}
    spec:
      schedulerName: default-scheduler
      nodeSelector: {zone: z}
      tolerations: [{key: mine}]
      containers: [{name: c}]
`

// What the admission added to a running Job stays.
func TestJobIsWrittenAgain(t *testing.T) {
	workload := &v1beta2.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w"},
		Spec: v1beta2.WorkloadSpec{
			PodSets: []v1beta2.PodSet{{Name: "main", Count: 4, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"zone": "z"}, Tolerations: []corev1.Toleration{{Key: "mine"}},
				},
			}}},
		},
	}
	replaced := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	cases := map[string]struct {
		why      string
		was, is  string
		want     string
		warnings int
	}{
		"the same": {"kubectl replace of the manifest", startedJob, writtenJob, startedJob, 0},
		"written suspended": {
			"it goes on, and its author is told",
			startedJob,
			replaced(writtenJob, "spec:\n  parallelism", "spec:\n  suspend: true\n  parallelism"),
			startedJob,
			1,
		},
		"by hand": {
			"only the admission starts a Job", replaced(startedJob, "suspend: false", "suspend: true"), startedJob,
			replaced(startedJob, "suspend: false", "suspend: true"), 0,
		},
		"other size": {
			"which is refused later on",
			startedJob,
			replaced(writtenJob, "parallelism: 4", "parallelism: 3"),
			replaced(startedJob, "parallelism: 2", "parallelism: 3"),
			0,
		},
		"other selector": {
			"what the author takes away is the API server's to refuse",
			startedJob,
			replaced(writtenJob, "{zone: z}", "{}"),
			replaced(startedJob, "zone: z, ", ""),
			0,
		},
		"part of others": {
			"the controller of the whole starts it",
			replaced(
				startedJob,
				"suspend: false",
				"suspend: true",
				"  name: j\n",
				"  name: j\n  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: s, uid: s, controller: true}]\n",
			),
			replaced(
				startedJob,
				"  name: j\n",
				"  name: j\n  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: s, uid: s, controller: true}]\n",
			),
			replaced(
				startedJob,
				"  name: j\n",
				"  name: j\n  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: s, uid: s, controller: true}]\n",
			),
			0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, webhook.Options{}, []client.Object{workload}, nil, world()...),
				ask{path: keepJob, old: tc.was, new: tc.is},
			)
			var got, want batchv1.Job
			reread(t, r.Object, &got)
			reread(t, plain(t, tc.want), &want)
			if diff := cmp.Diff(&want, &got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if len(r.Warnings) != tc.warnings {
				t.Errorf("%s: warnings are %q, want %d", tc.why, r.Warnings, tc.warnings)
			}
		})
	}
}

func reread(t *testing.T, from map[string]any, to *batchv1.Job) {
	t.Helper()
	data, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
	if to.Spec.Suspend == nil {
		to.Spec.Suspend = new(false)
	}
	if len(to.Spec.Template.Spec.NodeSelector) == 0 {
		to.Spec.Template.Spec.NodeSelector = nil
	}
}

// Server-side apply: what an admission writes has no field manager, so that applying
// the manifest again meets no conflict.
func TestAdmissionOwnsNothing(t *testing.T) {
	record := func(entries string) string {
		return strings.Replace(
			startedWrapper,
			"  namespace: blue",
			"  namespace: blue\n  managedFields: ["+entries+"]",
			1,
		)
	}
	const (
		entry   = "{manager: %s, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {%s}}"
		spec    = "f:spec: {f:components: {}, f:suspend: {}}"
		pinned  = "f:metadata: {f:finalizers: {}}"
		another = "kubectl-create"
	)
	for name, tc := range map[string]struct{ is, want string }{
		"with more":       {fmt.Sprintf(entry, webhook.FieldOwner, spec+", "+pinned), fmt.Sprintf(entry, webhook.FieldOwner, pinned)},
		"nothing else":    {fmt.Sprintf(entry, webhook.FieldOwner, spec), ""},
		"of another user": {fmt.Sprintf(entry, another, spec), fmt.Sprintf(entry, another, spec)},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil), ask{path: disownPath, old: startedWrapper, new: record(tc.is)})
			want := plain(t, record(tc.want))
			if metadata := want["metadata"].(map[string]any); tc.want == "" {
				delete(metadata, "managedFields")
			}
			if diff := cmp.Diff(want, plainOf(r.Object)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func plainOf(o map[string]any) map[string]any {
	if spec, ok := o["spec"].(map[string]any); ok && spec["suspend"] == false {
		delete(spec, "suspend")
	}
	return o
}

// mutatingHooks are the mutating webhooks by name, as far as called needs them.
func mutatingHooks() map[string]*admissionregistrationv1.ValidatingWebhook {
	mutating, _ := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	out := map[string]*admissionregistrationv1.ValidatingWebhook{}
	for _, h := range mutating.Webhooks {
		out[h.Name] = &admissionregistrationv1.ValidatingWebhook{Name: h.Name, MatchConditions: h.MatchConditions}
	}
	return out
}

// Which writes are looked at.
func TestWritesThatTakeWhatIsKeptAreLookedAt(t *testing.T) {
	const parts = "components: [{template: {kind: Pod}}]"
	w := func(metadata, spec string) string {
		return "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {" + metadata + "name: w}, spec: {" + spec + "}}"
	}
	const pinned, byKubectl = "finalizers: [workload.codeflare.dev/finalizer], ", "managedFields: [{manager: kubectl-client-side-apply, operation: Update}], "
	cases := map[string]struct {
		why, webhook, user, by, is, was string
		want                            bool
	}{
		"user": {
			"a user's write",
			"kappwrapper",
			"alice",
			"kubectl",
			w("", parts),
			w("", "suspend: true, "+parts),
			true,
		},
		"pretender": {
			"a user who pretends to be the controller is not believed",
			"kappwrapper",
			"alice",
			webhook.FieldOwner,
			w("", parts),
			w("", "suspend: true, "+parts),
			true,
		},
		"admin": {
			"an admin applies manifests too",
			"kappwrapper",
			"controller",
			"kubectl",
			w("", parts),
			w("", "suspend: true, "+parts),
			true,
		},
		"controller": {
			"the admission itself",
			"kappwrapper",
			"controller",
			webhook.FieldOwner,
			w("", parts),
			w("", "suspend: true, "+parts),
			false,
		},
		"our finalizer": {
			"it is not the user's to take away",
			"kappwrapper",
			"alice",
			"kubectl",
			w("", parts),
			w(pinned, parts),
			true,
		},
		"finalizer": {
			"the end of others' waits for no webhook",
			"kappwrapper",
			"alice",
			"kubectl",
			w("", parts),
			w("finalizers: [a/b], ", parts),
			false,
		},

		"start of an applied one": {
			"it must own nothing",
			"dappwrapper",
			"controller",
			webhook.FieldOwner,
			w("", parts),
			w(byKubectl, "suspend: true, "+parts),
			true,
		},
		"start of a made one": {
			"no controller will look at the record",
			"dappwrapper",
			"controller",
			webhook.FieldOwner,
			w("", parts),
			w("", "suspend: true, "+parts),
			false,
		},
		"user applies": {
			"what users write is theirs",
			"dappwrapper",
			"alice",
			"kubectl",
			w("", parts),
			w(byKubectl, "suspend: true, "+parts),
			false,
		},
	}
	hooks := mutatingHooks()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := called(
				t,
				hooks[tc.webhook+".mlbatch.dev"],
				written(t, "", tc.user, tc.by, tc.is, tc.was),
			); got != tc.want {
				t.Errorf("%s: called is %v, want %v", tc.why, got, tc.want)
			}
		})
	}
}

// A Job is asked about in one webhook at most, with or without a queue.
func TestEveryManagedJobIsKeptOnce(t *testing.T) {
	queued := labels.Set{"kueue.x-k8s.io/queue-name": "q"}
	for name, tc := range map[string]struct {
		namespace, object labels.Set
		want              int
	}{
		"team":         {labels.Set{"mlbatch-team-namespace": "true"}, nil, 1},
		"team, queued": {labels.Set{"mlbatch-team-namespace": "true"}, queued, 1},
		"queued":       {labels.Set{"kubernetes.io/metadata.name": "lab"}, queued, 1},
		"other":        {labels.Set{"kubernetes.io/metadata.name": "lab"}, nil, 0},
		"system":       {labels.Set{"kubernetes.io/metadata.name": "kube-system"}, queued, 0},
	} {
		mutating, _ := webhook.Configurations(
			kinds.All(),
			webhook.AtURL("https://127.0.0.1:1", nil),
			jobs.SchedulerNames(),
		)
		n := 0
		for _, h := range mutating.Webhooks {
			if *h.ClientConfig.URL == "https://127.0.0.1:1"+keepJob && selects(t, h.NamespaceSelector, tc.namespace) &&
				selects(t, h.ObjectSelector, tc.object) {
				n++
			}
		}
		if n != tc.want {
			t.Errorf("%s: %d webhooks are called, want %d", name, n, tc.want)
		}
	}
	if mutatingHooks()["djob.mlbatch.dev"] == nil {
		t.Error("what is written to Jobs that people apply is not disowned")
	}
}

// Server-side apply after replace: a user who wrote a manifest without what was
// put back does not own it, and is in no other client's way.
func TestWhatIsPutBackIsNobodys(t *testing.T) {
	const entry = "managedFields: [{manager: kubectl-replace, operation: Update, fieldsType: FieldsV1, fieldsV1: {f:metadata: {f:annotations: {}}, f:spec: {f:components: {}}}}]"
	r := send(
		t,
		serve(t, nil, world()...),
		ask{path: keepWrapper, old: startedWrapper, new: writtenWrapper(", "+entry, "")},
	)
	fields := r.Object["metadata"].(map[string]any)["managedFields"]
	want := plain(t, strings.Replace(entry, ", f:spec: {f:components: {}}", "", 1))["managedFields"]
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Server-side apply after another way of creating a Job: what the webhook
// wrote instead of its author has no field manager.
func TestWhatIsOverruledIsNobodys(t *testing.T) {
	const entry = "managedFields: [{manager: MANAGER, operation: OPERATION, fieldsType: FieldsV1, fieldsV1: {f:spec: {SUSPENDf:template: {f:spec: {SCHEDULERf:containers: {}}}}}}]"
	fill := func(manager, operation string, owned bool) string {
		pairs := []string{"MANAGER", manager, "OPERATION", operation, "SUSPEND", "", "SCHEDULER", ""}
		if owned {
			pairs[5], pairs[7] = "f:suspend: {}, ", "f:schedulerName: {}, "
		}
		return strings.NewReplacer(pairs...).Replace(entry)
	}
	for operation, want := range map[string]string{"Update": fill("kubectl", "Update", false), "Apply": fill("kubectl", "Apply", true)} {
		r := send(
			t,
			serve(t, nil, world()...),
			ask{
				path: mutateJob,
				new: strings.Replace(
					writtenJob,
					"  name: j\n",
					"  name: j\n  "+fill("kubectl", operation, true)+"\n",
					1,
				),
			},
		)
		fields := r.Object["metadata"].(map[string]any)["managedFields"]
		if diff := cmp.Diff(plain(t, want)["managedFields"], fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", operation, diff)
		}
	}
}
