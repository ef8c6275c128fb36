package corpus_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config/crdtest"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayservice"
	"github.com/mlbatch/mlbatch/test/corpus"
)

func rayKinds() jobs.Kinds { return jobs.Kinds{raycluster.Kind(), rayjob.Kind(), rayservice.Kind()} }

// served decodes an object of Ray's as the API server serves it, and complains about what is
// lost or refused.
func served(t *testing.T, k *jobs.Kind, text string) jobs.Object {
	t.Helper()
	written := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &written.Object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s := crdtest.Of(t, k.Naming.Resource+".ray.io", written.GroupVersionKind().Version)
	is := s.Parse(t, text)
	if complaints := s.Validate(t, is, nil); complaints != "" {
		t.Errorf("%s\n%s", complaints, text)
	}
	if lost := missing(written.Object, is, ""); lost != "" {
		t.Errorf("the API server would drop %s", lost)
	}
	o := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(is, o, true); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace("blue")
	return o
}

// TestRayManifests: each is accepted as it is by the API server's rules, none of its fields
// is lost, and what it asks for can be counted and made.
func TestRayManifests(t *testing.T) {
	counts, names := map[string]int{}, map[string]bool{}
	all := rayKinds()
	for _, m := range corpus.Ray() {
		if names[m.Kind+m.Name] {
			t.Errorf("two manifests are %s %s", m.Kind, m.Name)
		}
		names[m.Kind+m.Name] = true
		counts[m.Kind]++
		t.Run(m.Kind+"/"+m.Name, func(t *testing.T) {
			var k *jobs.Kind
			for i := range all {
				if all[i].GVK().Kind == m.Kind {
					k = &all[i]
				}
			}
			o := served(t, k, m.Text)
			if errs := k.Admission.Validate(o); len(errs) > 0 {
				t.Fatal(errs)
			}
			if _, err := k.Read(o); err != nil {
				t.Fatal(err)
			}
			plan, err := k.Running.Operator.Compile(o)
			if err != nil {
				t.Fatal(err)
			}
			pods := 0
			for i := range plan.Roles {
				pods += int(plan.Roles[i].Count)
			}
			if pods != m.Pods {
				t.Errorf("%d pods, want %d", pods, m.Pods)
			}
		})
	}
	for i := range all {
		if kind := all[i].GVK().Kind; counts[kind] < 20 {
			t.Errorf("%d manifests of kind %s", counts[kind], kind)
		}
	}
}

// TestRayExamples: those that people begin with are jobs of a queue and run.
func TestRayExamples(t *testing.T) {
	for _, k := range rayKinds() {
		data, err := examples.Kinds.ReadFile("kinds/" + strings.ToLower(k.GVK().Kind) + ".yaml")
		if err != nil {
			t.Error(err)
			continue
		}
		o := served(t, &k, string(data))
		if _, err := k.Running.Operator.Compile(o); err != nil || o.GetLabels()["kueue.x-k8s.io/queue-name"] == "" {
			t.Errorf("%s: %v, labels %v", k.GVK().Kind, err, o.GetLabels())
		}
	}
}
