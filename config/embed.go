// Package config holds the generated manifests: the definitions of every kind
// that mlbatch serves. `make gen` writes them from the types under api/.
package config

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/*.yaml foreign/*.yaml shared/*.yaml
var files embed.FS

// CRDs returns the definitions of all kinds, sorted by name. The caller may
// change what it gets. How versions are converted is not set: it depends on
// where the webhook is served.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := definitions("crd")
	if err != nil {
		return nil, err
	}
	return crds, putTemplates(crds)
}

// Foreign returns definitions of kinds that belong to others and that mlbatch
// works with where there are any. A cluster that has one of them keeps its own.
func Foreign() ([]*apiextensionsv1.CustomResourceDefinition, error) { return definitions("foreign") }

func definitions(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list embedded definitions: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, e := range entries {
		data, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read embedded definition %s: %w", e.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("parse embedded definition %s: %w", e.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
