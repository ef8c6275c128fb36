package corpus_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/config/crdtest"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// set reads a LeaderWorkerSet as the API server serves it.
func set(t *testing.T, s crdtest.Schema, text string) *api.LeaderWorkerSet {
	t.Helper()
	var written map[string]any
	if err := yaml.Unmarshal([]byte(text), &written); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	served := s.Parse(t, text)
	if complaints := s.Validate(t, served, nil); complaints != "" {
		t.Errorf("%s\n%s", complaints, text)
	}
	if lost := missing(written, served, ""); lost != "" {
		t.Errorf("the API server would drop %s", lost)
	}
	l := &api.LeaderWorkerSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(served, l, true); err != nil {
		t.Fatal(err)
	}
	if l.Name == "" {
		l.Name = l.GenerateName + "abcde"
	}
	return l
}

// TestSets: each LeaderWorkerSet is accepted as it is, none of its fields is lost, and
// what its groups ask for can be counted, by itself and in an AppWrapper.
func TestSets(t *testing.T) {
	schema := crdtest.Of(t, "leaderworkersets.leaderworkerset.x-k8s.io", "v1")
	all := corpus.Sets()
	if len(all) < 20 {
		t.Errorf("%d manifests", len(all))
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			l := set(t, schema, m.Text)
			if errs := leaderworkerset.Validate(l); len(errs) > 0 {
				t.Fatal(errs)
			}
			pods := 0
			for i := range leaderworkerset.Replicas(l) {
				for _, ps := range leaderworkerset.Of(l).PodSets(l.Name, i, "", false) {
					pods += int(ps.Count)
				}
			}
			var written map[string]any
			if err := yaml.Unmarshal([]byte(m.Text), &written); err != nil {
				t.Fatal(err)
			}
			wrapped := 0
			integers(written)
			sets, err := leaderworkerset.Kind().Wrapped.PodSets(written)
			for _, ps := range sets {
				wrapped += int(*ps.Replicas)
			}
			if pods != m.Pods || wrapped != m.Pods || err != nil {
				t.Errorf("%d pods, %d in an AppWrapper (%v), want %d", pods, wrapped, err, m.Pods)
			}
			s, err := leaderworkerset.Next(&leaderworkerset.Observed{Object: l})
			if err != nil || len(s.Create) == 0 {
				t.Errorf("it begins with %v, %v", s, err)
			}
		})
	}
}

// integers makes whole numbers of those that YAML has read as others, as the API server
// does.
func integers(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, is := range v {
			if n, number := is.(float64); number {
				v[key] = int64(n)
			}
			integers(is)
		}
	case []any:
		for _, is := range v {
			integers(is)
		}
	}
}

// TestExampleOfASet is the one that people begin with.
func TestExampleOfASet(t *testing.T) {
	data, err := examples.Kinds.ReadFile("kinds/leaderworkerset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := set(t, crdtest.Of(t, "leaderworkersets.leaderworkerset.x-k8s.io", "v1"), string(data))
	if errs := leaderworkerset.Validate(l); len(errs) > 0 || l.Labels["kueue.x-k8s.io/queue-name"] == "" {
		t.Errorf("%v, labels %v", errs, l.Labels)
	}
}
