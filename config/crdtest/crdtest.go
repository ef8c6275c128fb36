// Package crdtest does to objects what an API server does by the definitions in
// config/crd: it prunes, defaults and validates them, rules included. It is for
// tests.
package crdtest

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/config"
)

// definitions are read once for all tests of a program, of which most want several. Nobody changes them.
var definitions = sync.OnceValues(config.CRDs) //nolint:gochecknoglobals // as they are embedded

// Schema does to objects of one version what the API server does.
type Schema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// Of returns the schema of one version of a definition in config/crd.
func Of(t testing.TB, name, version string) Schema {
	t.Helper()
	crds, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if crd.Name != name || v.Name != version {
				continue
			}
			props := &apiextensions.JSONSchemaProps{}
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
				v.Schema.OpenAPIV3Schema,
				props,
				nil,
			); err != nil {
				t.Fatal(err)
			}
			s, err := structuralschema.NewStructural(props)
			if err != nil {
				t.Fatal(err)
			}
			validator, _, err := validation.NewSchemaValidator(props)
			if err != nil {
				t.Fatal(err)
			}
			return Schema{s, validator, cel.NewValidator(s, true, celconfig.PerCallLimit)}
		}
	}
	t.Fatalf("no %s in %s", name, version)
	return Schema{}
}

// Parse reads an object and fills in defaults.
func (s Schema) Parse(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var o map[string]any
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	integers(o)
	pruning.Prune(o, s.structural, true)
	defaulting.Default(o, s.structural)
	return o
}

// integers makes whole numbers integers, as the API server reads them.
func integers(o map[string]any) {
	for k, v := range o {
		switch v := v.(type) {
		case float64:
			if v == math.Trunc(v) {
				o[k] = int64(v)
			}
		case map[string]any:
			integers(v)
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					integers(m)
				}
			}
		}
	}
}

// Validate returns all complaints about writing o over old, which may be nil.
func (s Schema) Validate(t testing.TB, o, old map[string]any) string {
	t.Helper()
	errs := validation.ValidateCustomResource(nil, o, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, o)...)
	var before any
	if old != nil {
		before = old
	}
	more, _ := s.rules.Validate(t.Context(), nil, s.structural, o, before, celconfig.RuntimeCELCostBudget)
	var lines []string
	for _, e := range append(errs, more...) {
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}
