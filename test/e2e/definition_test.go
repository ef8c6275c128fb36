package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
)

// upstream replaces the status in a definition by what another project's own definition has.
func upstream(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "upstream", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var status apiextensionsv1.JSONSchemaProps
	if err := yaml.Unmarshal(text, &status); err != nil {
		t.Fatal(err)
	}
	s := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is replaced", func() string {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
			return err.Error()
		}
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["status"] = status
		}
		if err := c.Update(t.Context(), crd); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestUpstreamsDefinitions: whoever applies the definitions that come with JobSet, Kubeflow and its Trainer, as their
// charts do, takes nothing from their jobs: these run to the end, are made anew when pods fail, and are
// counted right, though the controller is killed in between. This needs a cluster in which nobody else has
// such jobs.
func TestUpstreamsDefinitions(t *testing.T) {
	ownCluster(t, "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
	upstream(t, "jobsets.jobset.x-k8s.io")
	upstream(t, "pytorchjobs.kubeflow.org")
	upstream(t, "trainjobs.trainer.kubeflow.org")
	admin := user(t, "")
	eventually(t, "the API server goes by the other definition", func() string {
		o := &unstructured.Unstructured{}
		manifest := jobSetManifest("probe", "replicatedJobs: [{name: w, template: {spec: {"+podOfSet("1s")+"}}}]")
		if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
			t.Fatal(err)
		}
		o.SetNamespace("blue")
		o.Object["status"] = map[string]any{"replicatedJobsStatus": []any{map[string]any{
			"name": "w", "active": 0, "failed": 0, "ready": 0, "succeeded": 0, "suspended": 0, "jobRestarts": []any{1},
		}}}
		err := admin.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		if err == nil || !strings.Contains(err.Error(), "unknown field") {
			return "it knows fields of ours"
		}
		return ""
	})
	k := trainingKinds()[0]
	once := map[string]string{
		"mlbatch.dev/run-for":    "60s",
		"mlbatch.dev/exit-code":  "137",
		"mlbatch.dev/fail-first": "1",
	}
	create(t, admin, k.manifest("hardy", "backoffLimit: 6", "ExitCode", once), "blue")
	create(
		t,
		admin,
		jobSetManifest(
			"mends",
			"failurePolicy: {maxRestarts: 3}, replicatedJobs: [{name: good, template: {spec: {"+podOfSet(
				"60s",
			)+"}}}, {name: bad, template: {spec: {backoffLimit: 0, "+
				podOfSet(
					"60s",
					`mlbatch.dev/fail-first: "1"`,
				)+"}}}]",
		),
		"blue",
	)
	create(
		t,
		admin,
		jobSetManifest(
			"alone",
			"failurePolicy: {maxRestarts: 3, rules: [{name: one, action: RestartJob}]}, replicatedJobs: [{name: good, template: {spec: {"+podOfSet(
				"60s",
			)+"}}}, {name: bad, template: {spec: {backoffLimit: 0, "+
				podOfSet(
					"60s",
					`mlbatch.dev/fail-first: "1"`,
				)+"}}}]",
		),
		"blue",
	)
	installRuntimes(t)
	create(t, admin, trainManifest("trains", "name: torch-distributed", trains(2, "60")), "blue")
	eventually(t, "some pods are made", setRuns(t, "mends", 2))
	killController(t)
	eventually(t, "a failure is counted", func() string {
		if remembered(t, trainingJob(t, k, "hardy")).Failures == 0 {
			return "none is"
		}
		return ""
	})
	killController(t)
	eventually(t, "the PyTorchJob succeeds", says(t, k, "hardy", "Succeeded"))
	if n := remembered(t, trainingJob(t, k, "hardy")).Failures; n < 1 || n > 3 {
		t.Errorf("%d failures are counted of 3 pods that fail once at the same time", n)
	}
	for _, name := range []string{"mends", "alone"} {
		eventually(t, name+" succeeds", jobSetSays(t, name, "Completed", ""))
		js := jobSet(t, name)
		r := remembered(t, js)
		if all := js.Status.Restarts; all != r.Attempt || (name == "mends") != (all == 1) ||
			js.Status.RestartsCountTowardsMax > 1 ||
			r.Failures != 1 {
			t.Errorf("%s says %+v and is remembered as %+v", name, js.Status, r)
		}
		if js.Status.ReplicatedJobsStatus[0].JobRestarts != nil {
			t.Errorf("%s has a field of ours: %+v", name, js.Status)
		}
	}
	eventually(t, "the TrainJob is complete", trainSays(t, "trains", trainer.TrainJobComplete))
	if tj := trainJob(t, "trains"); tj.Status.Runtime != nil || tj.Annotations[runtimeAnnotation] == "" {
		t.Errorf("the runtime is recorded in %v and in %+v", tj.Annotations, tj.Status)
	}
	js := jobSet(t, "mends")
	if err := admin.Delete(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was remembered goes with the job", func() string {
		if r := remembered(t, js); r.StartTime != nil {
			return "it is still there"
		}
		return ""
	})
}
