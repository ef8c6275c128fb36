package config

import (
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// podTemplateFormat marks where a definition has a pod template. The schema of one is
// larger than all else in a definition, so that there is one copy of it for all: it
// takes the place of the mark when definitions are read. Definitions as they are in
// the files let through whatever is there.
const podTemplateFormat = "pod-template"

// putPodTemplates replaces the marks.
func putPodTemplates(crds []*apiextensionsv1.CustomResourceDefinition) error {
	shared, err := definitions("shared")
	if err != nil {
		return err
	}
	if len(shared) != 1 {
		return errors.New("find the schema of a pod template: there must be one")
	}
	template := shared[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["template"]
	// No pod can be created with them, and their schema is as large as that of containers.
	delete(template.Properties["spec"].Properties, "ephemeralContainers")
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			putPodTemplate(v.Schema.OpenAPIV3Schema, &template)
		}
	}
	return nil
}

// putPodTemplate replaces the marks in a schema and keeps what the definition says of
// the field.
func putPodTemplate(in, template *apiextensionsv1.JSONSchemaProps) {
	if in.Format == podTemplateFormat {
		description := in.Description
		template.DeepCopyInto(in)
		in.Description = description
		return
	}
	for name, p := range in.Properties {
		putPodTemplate(&p, template)
		in.Properties[name] = p
	}
	if in.Items != nil && in.Items.Schema != nil {
		putPodTemplate(in.Items.Schema, template)
	}
	if in.AdditionalProperties != nil && in.AdditionalProperties.Schema != nil {
		putPodTemplate(in.AdditionalProperties.Schema, template)
	}
}
