package corpus_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config/crdtest"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jaxjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/paddlejob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/tfjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/xgboostjob"
	"github.com/mlbatch/mlbatch/test/corpus"
)

func kinds() jobs.Kinds {
	return jobs.Kinds{
		pytorchjob.Kind(),
		tfjob.Kind(),
		xgboostjob.Kind(),
		paddlejob.Kind(),
		jaxjob.Kind(),
		jobset.Kind(),
		mpijob.Kind(),
	}
}

// TestManifests: each is accepted as it is by the API server's rules, none of its fields
// is lost, and what it asks for can be counted and made.
func TestManifests(t *testing.T) {
	schemas := map[string]crdtest.Schema{}
	all := kinds()
	counts, names := map[string]int{}, map[string]bool{}
	for _, m := range corpus.All() {
		if names[m.Kind+m.Name] {
			t.Errorf("two manifests are %s %s", m.Kind, m.Name)
		}
		names[m.Kind+m.Name] = true
		counts[m.Kind]++
		k, version := kindOf(t, all, m.Text)
		s, known := schemas[m.Kind+version]
		if !known {
			s = crdtest.Of(t, k.Naming.Resource+"."+k.GVK().Group, version)
			schemas[m.Kind+version] = s
		}
		t.Run(m.Kind+"/"+m.Name, func(t *testing.T) {
			var written map[string]any
			if err := yaml.Unmarshal([]byte(m.Text), &written); err != nil {
				t.Fatalf("%v\n%s", err, m.Text)
			}
			served := s.Parse(t, m.Text)
			if complaints := s.Validate(t, served, nil); complaints != "" {
				t.Errorf("%s\n%s", complaints, m.Text)
			}
			if lost := missing(written, served, ""); lost != "" {
				t.Errorf("the API server would drop %s", lost)
			}
			o := k.New()
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
				served,
				o,
				true,
			); err != nil {
				t.Fatal(err)
			}
			o.SetNamespace("blue")
			stamp(k, o, version)
			if errs := k.Admission.Validate(o); len(errs) > 0 {
				t.Fatal(errs)
			}
			before := o.DeepCopyObject()
			facts, err := k.Read(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("to read a job, which a cache may share, changes it:\n%s", diff)
			}
			plan, err := k.Running.Operator.Compile(o)
			if err != nil {
				t.Fatal(err)
			}
			pods := 0
			for i := range plan.Roles {
				pods += int(facts.PodSets[i].Count)
				if plan.MakeOf(plan.Roles[i].Name) == nil && facts.PodSets[i].Count != plan.Roles[i].Count {
					t.Errorf(
						"role %s: %d are counted, %d are made",
						plan.Roles[i].Name,
						facts.PodSets[i].Count,
						plan.Roles[i].Count,
					)
				}
			}
			if pods != m.Pods {
				t.Errorf("%d pods, want %d", pods, m.Pods)
			}
			again, err := k.Running.Operator.Compile(o)
			if err != nil {
				t.Fatal(err)
			}
			plan.Make, again.Make = nil, nil // functions are not the same as any
			if diff := cmp.Diff(
				plan,
				again,
				cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() }),
			); diff != "" {
				t.Errorf("a job has one plan:\n%s", diff)
			}
		})
	}
	for i := range all {
		if kind := all[i].GVK().Kind; counts[kind] < 20 {
			t.Errorf("%d manifests of kind %s", counts[kind], kind)
		}
	}
}

// kindOf finds the kind of a manifest, and the version that it is written in.
func kindOf(t tester, all jobs.Kinds, text string) (*jobs.Kind, string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v", err)
	}
	gvk := u.GroupVersionKind()
	for i := range all {
		if all[i].GroupKind() == gvk.GroupKind() {
			return &all[i], gvk.Version
		}
	}
	return nil, ""
}

// stamp marks what is submitted in a version other than the one that is stored, as the API
// server has it done.
func stamp(k *jobs.Kind, o jobs.Object, version string) {
	if slices.Contains(k.Naming.Versions, version) {
		notes := o.GetAnnotations()
		if notes == nil {
			notes = map[string]string{}
		}
		notes[jobs.VersionAnnotation] = version
		o.SetAnnotations(notes)
	}
}

// missing finds a field that was written and is not there any more, "" if there is none.
func missing(written, served any, path string) string {
	switch w := written.(type) {
	case map[string]any:
		s, _ := served.(map[string]any)
		for k, v := range w {
			if _, there := s[k]; !there {
				return path + "." + k
			}
			if lost := missing(v, s[k], path+"."+k); lost != "" {
				return lost
			}
		}
	case []any:
		s, _ := served.([]any)
		if len(s) != len(w) {
			return path
		}
		for i := range w {
			if lost := missing(w[i], s[i], path); lost != "" {
				return lost
			}
		}
	}
	return ""
}

// TestExamples: those that people begin with are jobs of a queue and run.
func TestExamples(t *testing.T) {
	files, err := examples.Kinds.ReadDir("kinds")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, f := range files {
		data, err := examples.Kinds.ReadFile("kinds/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &u.Object); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		k, version := kindOf(t, kinds(), string(data))
		if k == nil {
			continue
		}
		shown[u.GetKind()] = true
		s := crdtest.Of(t, k.Naming.Resource+"."+k.GVK().Group, version)
		served := s.Parse(t, string(data))
		if complaints := s.Validate(t, served, nil); complaints != "" {
			t.Errorf("%s: %s", f.Name(), complaints)
		}
		if lost := missing(u.Object, served, ""); lost != "" {
			t.Errorf("%s: the API server would drop %s", f.Name(), lost)
		}
		o := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(served, o, true); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Running.Operator.Compile(o); err != nil || o.GetLabels()["kueue.x-k8s.io/queue-name"] == "" {
			t.Errorf("%s: %v, labels %v", f.Name(), err, o.GetLabels())
		}
	}
	for _, k := range kinds() {
		if !shown[k.GVK().Kind] {
			t.Errorf("no example of a %s", k.GVK().Kind)
		}
	}
}
