package corpus_test

import (
	"bufio"
	"bytes"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// unused has the fields that no manifest uses, with the reason, in lines of kind, path
// and reason.
//
//go:embed testdata/unused.txt
var unused []byte

// TestEveryFieldIsUsed: whatever the definition of a kind knows outside of pods is in one
// of its manifests at least, or the list says why not.
func TestEveryFieldIsUsed(t *testing.T) {
	excused := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(unused))
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			field, why, _ := strings.Cut(line, " | ")
			excused[strings.TrimSpace(field)] = why
			if strings.TrimSpace(why) == "" {
				t.Errorf("no reason: %s", line)
			}
		}
	}
	used := map[string]bool{}
	for _, m := range slices.Concat(corpus.All(), corpus.Ray(), corpus.Sets(), corpus.TrainJobs(), corpus.AppWrappers()) {
		note(t, used, m.Text)
	}
	for _, text := range corpus.Runtimes() {
		note(t, used, text)
	}
	known := map[string]bool{}
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for field := range used {
		kind, _, _ := strings.Cut(field, " ")
		tried[kind] = true
	}
	for _, crd := range crds {
		if !tried[crd.Spec.Names.Kind] {
			continue
		}
		for _, v := range crd.Spec.Versions {
			spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
			fieldsOf(&spec, strings.TrimPrefix(crd.Spec.Names.Kind, "Cluster")+" spec", known)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(known)) {
		switch _, ok := excused[field]; {
		case !used[field] && !ok:
			t.Errorf("no manifest uses %s", field)
		case used[field] && ok:
			t.Errorf("%s is used by now: take it off the list", field)
		}
		delete(excused, field)
	}
	for field := range excused {
		t.Errorf("there is no %s: take it off the list", field)
	}
}

// kubernetesOwn are fields by which types are known that Kubernetes, or another kind, has
// already: pods and what they consist of, claims, selectors, metrics, metadata, JobSets in
// runtimes and RayClusters in RayJobs. What they say is tried where they belong.
func kubernetesOwn() []string {
	return []string{
		"containers",
		"valueFrom",
		"fieldPath",
		"seccompProfile",
		"storageClassName",
		"matchLabels",
		"containerResource",
		"finalizers",
		"mountPath",
		"capacity",
		"configMapRef",
		"claims",
		"replicatedJobs",
		"headGroupSpec",
		"schedulingGates",
	}
}

// fieldsOf adds the fields below one.
func fieldsOf(s *apiextensionsv1.JSONSchemaProps, path string, out map[string]bool) {
	if strings.Contains(path, " spec.") &&
		slices.ContainsFunc(kubernetesOwn(), func(name string) bool { _, has := s.Properties[name]; return has }) {
		return
	}
	for name, p := range s.Properties {
		at := path + "." + name
		out[at] = true
		fieldsOf(&p, at, out)
	}
	if s.Items != nil && s.Items.Schema != nil {
		fieldsOf(s.Items.Schema, path, out)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		fieldsOf(s.AdditionalProperties.Schema, path+".*", out)
	}
}

// note adds the fields that the spec of a manifest sets.
func note(t *testing.T, used map[string]bool, text string) {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	kind, _ := o["kind"].(string)
	kind = strings.TrimPrefix(kind, "Cluster") // of both kinds of runtimes
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for name, x := range v {
				used[path+"."+name], used[path+".*"] = true, true
				walk(x, path+"."+name)
				walk(x, path+".*")
			}
		case []any:
			for _, x := range v {
				walk(x, path)
			}
		}
	}
	walk(o["spec"], kind+" spec")
}
