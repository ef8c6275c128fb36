package corpus_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/config/crdtest"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/trainjob"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// accepted reads a manifest as the API server would, which drops nothing of it.
func accepted(t *testing.T, resource, text string, into any) {
	t.Helper()
	s := crdtest.Of(t, resource+"."+api.GroupVersion.Group, api.GroupVersion.Version)
	var written map[string]any
	if err := yaml.Unmarshal([]byte(text), &written); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	served := s.Parse(t, text)
	if complaints := s.Validate(t, served, nil); complaints != "" {
		t.Errorf("%s\n%s", complaints, text)
	}
	if lost := missing(written, served, ""); lost != "" {
		t.Errorf("the API server would drop %s of\n%s", lost, text)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(served, into); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// runtimesOf reads the runtimes of the corpus and of the examples, by kind and name.
func runtimesOf(t *testing.T) map[string]jobs.Object {
	t.Helper()
	texts := corpus.Runtimes()
	files, err := examples.Runtimes.ReadDir("runtimes")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := examples.Runtimes.ReadFile("runtimes/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	out := map[string]jobs.Object{}
	for _, text := range texts {
		var named struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &named); err != nil {
			t.Fatal(err)
		}
		var o jobs.Object = &api.ClusterTrainingRuntime{}
		resource := "clustertrainingruntimes"
		if named.Kind == api.TrainingRuntimeKind {
			o, resource = &api.TrainingRuntime{}, "trainingruntimes"
		}
		accepted(t, resource, text, o)
		out[named.Kind+" "+o.GetName()] = o
	}
	return out
}

// TestTrainJobManifests: each is accepted as it is by the API server's rules, none of its fields
// is lost, and with its runtime what it asks for can be counted and made.
func TestTrainJobManifests(t *testing.T) {
	k, runtimes, names := trainjob.Kind(), runtimesOf(t), map[string]bool{}
	all := corpus.TrainJobs()
	if len(all) < 20 {
		t.Errorf("%d manifests", len(all))
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			if names[m.Name] {
				t.Error("two have this name")
			}
			names[m.Name] = true
			o := &api.TrainJob{}
			accepted(t, "trainjobs", m.Text, o)
			o.SetNamespace("blue")
			ref := k.Queueing.Basis.Of(o)
			runtime := runtimes[ref.Kind+" "+ref.Name]
			if runtime == nil {
				t.Fatalf("there is no %s %s", ref.Kind, ref.Name)
			}
			based := k.Queueing.Basis.With(o, runtime, jobs.Schedulers{})
			if errs := k.Admission.Validate(based); len(errs) > 0 {
				t.Fatal(errs)
			}
			facts, err := k.Read(based)
			if err != nil {
				t.Fatal(err)
			}
			pods := 0
			for _, set := range facts.PodSets {
				pods += int(set.Count)
			}
			if pods != m.Pods {
				t.Errorf("%d pods, want %d", pods, m.Pods)
			}
			if _, err := k.Running.Operator.Compile(based); err != nil {
				t.Error(err)
			}
		})
	}
}
