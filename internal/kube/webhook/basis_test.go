package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	trainJobs        = "/validate-trainer-kubeflow-org-v1alpha1-trainjob"
	trainingRuntimes = "/validate-trainer-kubeflow-org-v1alpha1-trainingruntime"
)

// runtimeSpec is a runtime of a framework, with pods that say something.
func runtimeSpec(t *testing.T, framework, pods string) (out api.TrainingRuntimeSpec) {
	t.Helper()
	text := fmt.Sprintf(
		"{mlPolicy: {%s: {}}, template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {metadata: {METADATA}, spec: {%s}}}}}]}}}",
		framework,
		pods,
	)
	metadata := ""
	if before, after, found := strings.Cut(pods, "METADATA "); found {
		metadata = after
		text = fmt.Sprintf(
			"{mlPolicy: {%s: {}}, template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {metadata: {METADATA}, spec: {%s}}}}}]}}}",
			framework,
			before,
		)
	}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(text, "METADATA", metadata, 1)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func aRuntime(t *testing.T, name, pods string) client.Object {
	t.Helper()
	return &api.ClusterTrainingRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       runtimeSpec(t, "torch", pods),
	}
}

// basisOptions have TrainJobs, and limits.
func basisOptions() webhook.Options {
	return webhook.Options{Kinds: jobs.Kinds{trainjob.Kind()}, Limits: jobs.Limits{Termination: time.Minute}}
}

// A job is judged with what it names, and refused if that is not there.
func TestJobsAreJudgedWithTheirBasis(t *testing.T) {
	const fine = "containers: [{name: node}]"
	for name, tc := range map[string]struct {
		why, ref, spec string
		runtime        string
		cached         bool
		want           string
	}{
		"there":       {"it runs by it", "name: torch", "", fine, true, ""},
		"just made":   {"by the same kubectl apply, which the cache does not show yet", "name: torch", "", fine, false, ""},
		"misspelt":    {"nobody knows how to run it", "name: torhc", "", fine, true, "spec.runtimeRef.name: Invalid value: \"torhc\": there is no ClusterTrainingRuntime of this name: use one of torch, or create it first"},
		"other kind":  {"its namespace has none at all", "name: torch, kind: TrainingRuntime", "", fine, true, "there is no TrainingRuntime of this name: create it first"},
		"no runtime":  {"that cannot be one", "name: torch, kind: JobSet", "", fine, true, "spec.runtimeRef.kind"},
		"reserved":    {"the runtime says what is", "name: torch", "trainer: {env: [{name: PET_NNODES, value: '2'}]}", fine, true, "spec.trainer.env[0].name"},
		"important":   {"pods of a runtime are pods of a tenant", "name: torch", "", fine + ", priorityClassName: system-node-critical", true, "spec.runtimeRef(torch).node.spec.priorityClassName"},
		"stubborn":    {"an evicted job gives its place up", "name: torch", "", fine + ", terminationGracePeriodSeconds: 900", true, "terminationGracePeriodSeconds"},
		"patched":     {"however it comes to them", "name: torch", "podTemplateOverrides: [{spec: {terminationGracePeriodSeconds: 900}}]", fine, true, "terminationGracePeriodSeconds"},
		"elsewhere":   {"it goes around the scheduler", "name: torch", "", fine + ", nodeName: n", true, "nodeSelector"},
		"forged":      {"it would take another's places", "name: torch", "podTemplateOverrides: [{metadata: {annotations: {kueue.x-k8s.io/workload: theirs}}}]", fine, true, "kueue.x-k8s.io/workload"},
		"the runtime": {"likewise", "name: torch", "", fine + "METADATA annotations: {kueue.x-k8s.io/workload: theirs}", true, "kueue.x-k8s.io/workload"},
	} {
		t.Run(name, func(t *testing.T) {
			var cached []client.Object
			if !tc.cached {
				cached = world()
			}
			handlers := serveWith(t, basisOptions(), cached, nil, world(aRuntime(t, "torch", tc.runtime))...)
			r := send(
				t,
				handlers,
				ask{
					path: trainJobs,
					new: fmt.Sprintf(
						"{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: tj, namespace: blue}, spec: {suspend: true, runtimeRef: {%s}, %s}}",
						tc.ref,
						tc.spec,
					),
				},
			)
			if r.Allowed != (tc.want == "") || !strings.Contains(r.Message, tc.want) {
				t.Errorf("%s: allowed %v: %s", tc.why, r.Allowed, r.Message)
			}
		})
	}
}

// TestJobsThatWaitForTheirBasis: a RayJob may be there before the cluster that it names, and there is
// one webhook for RayClusters, their own.
func TestJobsThatWaitForTheirBasis(t *testing.T) {
	opts := webhook.Options{
		Kinds:  jobs.Kinds{rayjob.Kind(), raycluster.Kind()},
		Limits: jobs.Limits{Termination: time.Minute},
	}
	const manifest = "{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: rj, namespace: blue}, spec: {suspend: true, entrypoint: x, clusterSelector: {ray.io/cluster: c}}}"
	cluster := &ray.RayCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "c"}}
	for why, objects := range map[string][]client.Object{"not there": world(), "there": world(cluster)} {
		r := send(
			t,
			serveWith(t, opts, nil, nil, objects...),
			ask{path: "/validate-ray-io-v1-rayjob", new: manifest},
		)
		if !r.Allowed {
			t.Errorf("its cluster is %s: %s", why, r.Message)
		}
	}
	_, validating := webhook.Configurations(
		opts.Kinds,
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	names := map[string]bool{}
	for _, h := range validating.Webhooks {
		if names[h.Name] {
			t.Errorf("there are two webhooks %s", h.Name)
		}
		names[h.Name] = true
	}
	malformed := send(
		t,
		serveWith(t, opts, nil, nil, world()...),
		ask{
			path: "/validate-ray-io-v1-raycluster",
			new:  "{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: c, namespace: blue}, spec: {headGroupSpec: {template: {}}}}",
		},
	)
	if malformed.Allowed || !strings.Contains(malformed.Message, "spec.headGroupSpec.template.spec.containers") {
		t.Errorf("clusters are judged as clusters: %v %s", malformed.Allowed, malformed.Message)
	}
}

// A runtime of a team is judged by itself: it may be changed after a job was judged with it.
func TestTeamRuntimesAreJudged(t *testing.T) {
	const fine = "containers: [{name: node}]"
	text := func(pods string) string {
		spec, err := yaml.Marshal(runtimeSpec(t, "torch", pods))
		if err != nil {
			t.Fatal(err)
		}
		return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: mine, namespace: blue}\nspec:\n  " + strings.ReplaceAll(
			strings.TrimSpace(string(spec)),
			"\n",
			"\n  ",
		)
	}
	handlers := serveWith(t, basisOptions(), nil, nil, world()...)
	for pods, want := range map[string]string{
		fine:                   "",
		fine + ", nodeName: n": "spec.template.spec.replicatedJobs[0].template.spec.template.spec.nodeName",
		fine + ", priorityClassName: system-node-critical":               "priorityClassName",
		fine + ", terminationGracePeriodSeconds: 900":                    "terminationGracePeriodSeconds",
		fine + "METADATA finalizers: [a.b/c]":                            "finalizers",
		fine + "METADATA annotations: {kueue.x-k8s.io/workload: theirs}": "kueue.x-k8s.io/workload",
	} {
		for _, old := range []string{"", text(fine)} {
			r := send(t, handlers, ask{path: trainingRuntimes, new: text(pods), old: old})
			if r.Allowed != (want == "") || !strings.Contains(r.Message, want) {
				t.Errorf("%s: allowed %v: %s", pods, r.Allowed, r.Message)
			}
		}
	}
	_, validating := webhook.Configurations(
		basisOptions().Kinds,
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	var asked []string
	for _, h := range validating.Webhooks {
		if h.Rules[0].Resources[0] == "trainingruntimes" {
			asked = append(asked, fmt.Sprintf("%s %v", h.Name, *h.FailurePolicy == admissionregistrationv1.Fail))
		}
		if h.Rules[0].Resources[0] == "clustertrainingruntimes" {
			t.Error("those of admins are theirs to say")
		}
	}
	if got := strings.Join(
		asked,
		", ",
	); got != "vtrainingruntime.team.mlbatch.dev true, vtrainingruntime.other.mlbatch.dev false" {
		t.Errorf("the API server asks %s", got)
	}
}

// TestAppWrappersAreJudgedWithTheirBasis: a runtime that a component names is looked at as that
// of a TrainJob is (and what else there is to say, when the component is tried); and a component is judged by
// what was recorded, also if the runtime is gone.
func TestAppWrappersAreJudgedWithTheirBasis(t *testing.T) {
	const (
		fine  = "containers: [{name: node}]"
		wraps = "/validate-workload-codeflare-dev-v1beta2-appwrapper"
		train = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: tj%s}, spec: {runtimeRef: {name: %s}, %s}}"
	)
	options := basisOptions()
	options.Kinds = append(options.Kinds, appwrapper.Kind())
	for name, tc := range map[string]struct{ why, runtime, spec, pods, want string }{
		"there":     {"its pods are known", "torch", "", fine, ""},
		"misspelt":  {"nobody knows how to run it", "torhc", "", fine, "spec.components[0].template.spec.runtimeRef.name: Invalid value: \"torhc\": there is no ClusterTrainingRuntime of this name: use one of torch"},
		"important": {"pods of a runtime are pods of a tenant", "torch", "", fine + ", priorityClassName: system-node-critical", "priorityClassName"},
		"reserved":  {"the runtime says what is", "torch", "trainer: {env: [{name: PET_NNODES, value: '2'}]}", fine, "spec.trainer.env[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			handlers := serveWith(t, options, nil, nil, world(aRuntime(t, "torch", tc.pods))...)
			r := send(
				t,
				handlers,
				ask{
					path: wraps,
					new: "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: w, namespace: blue}, spec: {suspend: true, components: [{template: " + fmt.Sprintf(
						train,
						"",
						tc.runtime,
						tc.spec,
					) + "}]}}",
				},
			)
			if r.Allowed != (tc.want == "") || !strings.Contains(r.Message, tc.want) {
				t.Errorf("%s: allowed %v: %s", tc.why, r.Allowed, r.Message)
			}
		})
	}
	w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", UID: "w"}}
	w.Spec.Components = []aw.AppWrapperComponent{
		{
			Template: runtime.RawExtension{
				Raw: []byte(
					`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"tj"},"spec":{"runtimeRef":{"name":"gone"}}}`,
				),
			},
		},
	}
	recorded, is := appwrapper.Kind().Queueing.Basis.With(w, aRuntime(t, "gone", fine), jobs.Schedulers{}).(client.Object)
	if !is {
		t.Fatal("nothing was recorded")
	}
	handlers := serveWith(t, options, nil, nil, world(recorded)...)
	for owner, want := range map[string]bool{"w": true, "another": false} {
		part := fmt.Sprintf(
			train,
			", namespace: blue, ownerReferences: [{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, name: w, uid: "+owner+", controller: true}]",
			"gone",
			"",
		)
		if r := send(t, handlers, ask{path: trainJobs, new: part}); r.Allowed != want {
			t.Errorf("a component of %s whose runtime is gone: allowed %v: %s", owner, r.Allowed, r.Message)
		}
	}
}

// What is made of a small job is bounded, and not only what is written: a runtime is copied into
// each job that names it, and into its Workload.
func TestJobsAreMeasuredWithTheirBasis(t *testing.T) {
	opts := basisOptions()
	opts.Limits.Size = 8 << 10
	const job = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: tj, namespace: blue}, spec: {suspend: true, runtimeRef: {name: torch}}}"
	for size, want := range map[int]string{
		100:  "",
		6000: "spec.runtimeRef.name: Forbidden: with what it is based on the TrainJob and its Workload have 1",
	} {
		large := "containers: [{name: node, env: [{name: TEXT, value: " + strings.Repeat("x", size) + "}]}]"
		r := send(
			t,
			serveWith(t, opts, nil, nil, world(aRuntime(t, "torch", large))...),
			ask{path: trainJobs, new: job},
		)
		if r.Allowed != (want == "") || !strings.Contains(r.Message, want) ||
			want != "" && !strings.Contains(r.Message, "tenants.maxJobSize") {
			t.Errorf("a runtime of %d bytes: allowed %v: %s", size, r.Allowed, r.Message)
		}
	}
}

// TestRuntimesAreReadAndNotTold: a runtime that an author writes into a job would be pods that nobody has judged; and
// who writes a manifest again does not take away what was recorded.
func TestRuntimesAreReadAndNotTold(t *testing.T) {
	const annotation = "mlbatch.dev/training-runtime"
	manifest := func(annotations string) string {
		return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: tj, namespace: blue, " +
			"labels: {kueue.x-k8s.io/queue-name: default-queue}, annotations: {mine: x" + annotations + "}}, " +
			"spec: {suspend: true, runtimeRef: {name: torch}}}"
	}
	recorded, forged := ", "+annotation+`: '{"name": "torch"}'`, ", "+annotation+`: '{"name": "mine"}'`
	handlers := serveWith(
		t,
		basisOptions(),
		nil,
		nil,
		world(aRuntime(t, "torch", "containers: [{name: node}]"))...)
	for name, tc := range map[string]struct {
		why, path, old, new string
		want                any
	}{
		"new":     {"it says nothing", "mutate", "", manifest(""), nil},
		"told":    {"its author says what it is", "mutate", "", manifest(forged), nil},
		"again":   {"the manifest is written again", "keep", manifest(recorded), manifest(""), `{"name": "torch"}`},
		"changed": {"its author says something else", "keep", manifest(recorded), manifest(forged), `{"name": "torch"}`},
		"later":   {"before it was looked at", "keep", manifest(""), manifest(forged), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				handlers,
				ask{path: "/" + tc.path + "-trainer-kubeflow-org-v1alpha1-trainjob", old: tc.old, new: tc.new},
			)
			metadata, _ := r.Object["metadata"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if got := annotations[annotation]; !r.Allowed || got != tc.want || annotations["mine"] != "x" {
				t.Errorf("%s: allowed %v (%s), recorded is %v, want %v", tc.why, r.Allowed, r.Message, got, tc.want)
			}
		})
	}
}
