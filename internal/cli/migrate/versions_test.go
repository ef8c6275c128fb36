package migrate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/finding"
)

// definition is one of Kueue's, with its versions, of which the last is that in which objects are
// stored, and those in which they may be stored.
func definition(plural, kind string, versions, stored []string) apiextensionsv1.CustomResourceDefinition {
	d := apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".kueue.x-k8s.io"},
	}
	d.Spec.Group, d.Spec.Names = "kueue.x-k8s.io", apiextensionsv1.CustomResourceDefinitionNames{
		Kind:     kind,
		ListKind: kind + "List",
		Plural:   plural,
	}
	for i, v := range versions {
		d.Spec.Versions = append(
			d.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true, Storage: i == len(versions)-1},
		)
	}
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	d.Status.StoredVersions = stored
	return d
}

// TestVersionsThatMlbatchLacksAreFoundFirst: what would keep the definitions of mlbatch out is helped
// before anything is stopped, or stops the import.
func TestVersionsThatMlbatchLacksAreFoundFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		why   string
		d     apiextensionsv1.CustomResourceDefinition
		lifts bool
		stops bool
	}{
		"Topology":     {"the only version of Kueue 0.9 to 0.13", definition("topologies", "Topology", []string{"v1alpha1"}, []string{"v1alpha1"}), true, false},
		"Cohort":       {"the only version of Kueue 0.9 to 0.11", definition("cohorts", "Cohort", []string{"v1alpha1"}, []string{"v1alpha1"}), true, false},
		"later":        {"writing objects again is enough", definition("topologies", "Topology", []string{"v1alpha1", "v1beta1"}, []string{"v1alpha1", "v1beta1"}), false, false},
		"newest":       {"nothing is to be done", definition("topologies", "Topology", []string{"v1beta1", "v1beta2"}, []string{"v1beta2"}), false, false},
		"MultiKueue":   {"nobody knows how to read it", definition("multikueueclusters", "MultiKueueCluster", []string{"v1alpha1"}, []string{"v1alpha1"}), false, true},
		"not our kind": {"it stays as it is", definition("preemptionconfigs", "PreemptionConfig", []string{"v1alpha1"}, []string{"v1alpha1"}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := kueueCluster()
			p.Definitions = append(p.Definitions, tc.d)
			v := &stepView{Picture: p, journal: &journal{}}
			left := map[string]int{}
			for i, s := range steps() {
				if text := s.left(v); strings.Contains(text, tc.d.Name) {
					left[s.name] = i
				}
			}
			if lifts := left["lift"] > 0; lifts != tc.lifts {
				t.Errorf("%s: lifted %v", tc.why, lifts)
			}
			if stop := slices.IndexFunc(
				steps(),
				func(s step) bool { return s.name == "stop" },
			); tc.lifts &&
				left["lift"] > stop {
				t.Errorf("%s: programs are stopped before", tc.why)
			}
			found := slices.ContainsFunc(p.Survey(readNothing).Findings, func(f finding.Finding) bool {
				return f.Severity == finding.Error && f.Object == "customresourcedefinition/"+tc.d.Name
			})
			if found != tc.stops {
				t.Errorf("%s: stops %v", tc.why, found)
			}
		})
	}
}

// TestObjectsAreWrittenInAVersionThatMlbatchHas: with the parent of a Cohort, which had another name.
func TestObjectsAreWrittenInAVersionThatMlbatchHas(t *testing.T) {
	d := definition("cohorts", "Cohort", []string{"v1alpha1"}, []string{"v1alpha1"})
	d.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
	}
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	cohort := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1",
		"kind":       "Cohort",
		"metadata":   map[string]any{"name": "child"},
		"spec":       map[string]any{"parent": "root"},
	}}
	c := fake.NewClientBuilder().WithScheme(known).WithObjects(&d, cohort).WithStatusSubresource(&d).Build()
	m := &Import{
		Client:    c,
		System:    Kueue,
		Namespace: "mlbatch-system",
		Now:       time.Now,
		Timeout:   time.Minute,
		Tell:      func(StepState) {},
	}
	now := func() *stepView {
		is := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), types.NamespacedName{Name: d.Name}, is); err != nil {
			t.Fatal(err)
		}
		return &stepView{
			Picture: &Picture{System: Kueue, Definitions: []apiextensionsv1.CustomResourceDefinition{*is}},
			journal: &journal{},
		}
	}
	for _, s := range []func(*Import, context.Context, *stepView) error{(*Import).lift, (*Import).rewrite} {
		if err := s(m, t.Context(), now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "child"}, cohort); err != nil {
		t.Fatal(err)
	}
	parent, _, _ := unstructured.NestedString(cohort.Object, "spec", "parentName")
	was, _, _ := unstructured.NestedString(cohort.Object, "spec", "parent")
	if parent != "root" || was != "root" {
		t.Errorf("its parent is %q, and for Kueue, which still runs, %q", parent, was)
	}
	after := now()
	is := &after.Definitions[0]
	if !has(is, "v1alpha1") || !has(is, "v1beta1") || storage(is) != "v1beta1" ||
		!slices.Equal(is.Status.StoredVersions, []string{"v1beta1"}) {
		t.Errorf("versions %+v, stored in %v", is.Spec.Versions, is.Status.StoredVersions)
	}
	if toLift(after)+toRewrite(after) != "" {
		t.Errorf("left: %s %s", toLift(after), toRewrite(after))
	}
}

// TestWritingAgainWaitsForWhoIsAsked: where a program is gone and its webhooks are left, objects are
// written again once they are gone too.
func TestWritingAgainWaitsForWhoIsAsked(t *testing.T) {
	p := kueueCluster()
	p.Programs = nil
	p.Definitions = append(
		p.Definitions,
		definition("topologies", "Topology", []string{"v1alpha1", "v1beta1"}, []string{"v1alpha1", "v1beta1"}),
	)
	p.Validating = append(
		p.Validating,
		admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "kueue-validating-webhook-configuration"},
		},
	)
	v := &stepView{Picture: p, journal: &journal{}}
	if got := toRewrite(v); got != "" {
		t.Errorf("while nobody answers: %s", got)
	}
	p.Validating = nil
	if got := toRewrite(v); !strings.Contains(got, "topologies") {
		t.Errorf("after that: %q", got)
	}
	p.Definitions[len(p.Definitions)-1].Spec.Conversion.Strategy = apiextensionsv1.WebhookConverter
	if got := toRewrite(v); got != "" {
		t.Errorf("what somebody has to convert: %s", got)
	}
}
