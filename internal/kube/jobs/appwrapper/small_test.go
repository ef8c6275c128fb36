package appwrapper

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A node that must not be used is avoided whatever else its author asks of nodes, and
// what matches no node goes on matching none.
func TestNever(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	name := corev1.NodeSelectorRequirement{
		Key:      "metadata.name",
		Operator: corev1.NodeSelectorOpIn,
		Values:   []string{"n"},
	}
	bad := notIn("health", []string{"EVICT"})
	terms := func(all ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: all}
	}
	one := func(expressions, fields []corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: expressions, MatchFields: fields}
	}
	list := func(r ...corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement { return r }
	for what, tc := range map[string]struct {
		why      string
		is, want *corev1.NodeSelector
	}{
		"nothing":               {"the only term", nil, terms(one(list(bad), nil))},
		"no terms":              {"the API server refuses such a selector: it means nothing", terms(), terms(one(list(bad), nil))},
		"by label":              {"both", terms(one(list(zone), nil)), terms(one(list(zone, bad), nil))},
		"by name":               {"a node is asked for by name, and by nothing else", terms(one(nil, list(name))), terms(one(list(bad), list(name)))},
		"by label and name":     {"all three", terms(one(list(zone), list(name))), terms(one(list(zone, bad), list(name)))},
		"one of two":            {"each term is a way in", terms(one(list(zone), nil), one(nil, list(name))), terms(one(list(zone, bad), nil), one(list(bad), list(name)))},
		"a term without a word": {"it matches no node", terms(one(nil, nil), one(list(zone), nil)), terms(one(nil, nil), one(list(zone, bad), nil))},
	} {
		if d := cmp.Diff(tc.want, never(tc.is, bad)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", what, tc.why, d)
		}
	}
}

// The pod that is tried is the one that the template makes, with a name of its own.
func TestPodAt(t *testing.T) {
	template := map[string]any{
		"metadata": map[string]any{"name": "mine", "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"containers": []any{}},
		"other":    "is no field of pods",
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "blue",
			"name":      "job",
		},
		"spec": map[string]any{"template": template, "bare": map[string]any{"spec": "x"}},
	}}
	want := map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": map[string]any{
			"namespace":    "blue",
			"generateName": "trial-",
			"labels":       map[string]any{"a": "b"},
		},
		"spec": map[string]any{"containers": []any{}},
	}
	got := PodAt(object, "template.spec.template")
	if d := cmp.Diff(want, got.Object); d != "" {
		t.Errorf("pod (-want +got):\n%s", d)
	}
	got.SetLabels(map[string]string{"a": "c"})
	if template["metadata"].(map[string]any)["labels"].(map[string]any)["a"] != "b" ||
		template["metadata"].(map[string]any)["name"] != "mine" {
		t.Error("the trial changes what is created")
	}
	if d := cmp.Diff(
		[]string{"", "trial-", "blue"},
		[]string{
			PodAt(object, "template.spec.bare").GetName(),
			PodAt(object, "template.spec.bare").GetGenerateName(),
			PodAt(object, "template.spec.bare").GetNamespace(),
		},
	); d != "" {
		t.Errorf("without anything (-want +got):\n%s", d)
	}
	if got := PodAt(object, "template.spec.missing"); got != nil {
		t.Errorf("where there is no template: %v", got)
	}
}

// An author may declare more pods than the object says, never fewer.
func TestUnderstated(t *testing.T) {
	spec := func(key string, n any) map[string]any {
		return map[string]any{"spec": map[string]any{key: n, "template": map[string]any{}}}
	}
	for what, tc := range map[string]struct {
		template map[string]any
		path     string
		want     string // the message, "" if it is fine
	}{
		"as many":        {spec("replicas", int64(2)), "template.spec.template", ""},
		"fewer":          {spec("replicas", int64(3)), "template.spec.template", "the object says replicas 3 at template.spec: declare as many"},
		"more":           {spec("replicas", int64(1)), "template.spec.template", ""},
		"fewer at most":  {spec("maxReplicas", int64(3)), "template.spec.template", "the object says maxReplicas 3 at template.spec: declare as many"},
		"fewer at once":  {spec("parallelism", int64(3)), "template.spec.template", "the object says parallelism 3 at template.spec: declare as many"},
		"another word":   {spec("members", int64(3)), "template.spec.template", ""},
		"no number":      {spec("replicas", "3"), "template.spec.template", ""},
		"at the top":     {map[string]any{"replicas": int64(3), "pods": map[string]any{}}, "template.pods", "the object says replicas 3 at template: declare as many"},
		"the pod itself": {map[string]any{"replicas": int64(3)}, "template", ""},
		"no such path":   {spec("replicas", int64(3)), "template.other.template", ""},
	} {
		c := Component{
			template: tc.template,
			PodSets:  []PodSet{{Path: "template.fine", Count: 9}, {Path: tc.path, Count: 2}},
		}
		errs := understated(c, field.NewPath("spec", "components").Index(0).Child("template"))
		var want []string
		if tc.want != "" {
			want = []string{"spec.components[0].podSets[1].replicas: Invalid value: 2: " + tc.want}
		}
		var got []string
		for _, e := range errs {
			got = append(got, e.Error())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
}
