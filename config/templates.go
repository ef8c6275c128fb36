package config

import (
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// templates returns schemas by the formats that mark where a definition has them. The
// schema of a pod is larger than all else in a definition, so that there is one copy of
// it for all: it takes the place of the mark when definitions are read. Definitions as
// they are in the files let through whatever is there.
func templates() (map[string]*apiextensionsv1.JSONSchemaProps, error) {
	shared, err := definitions("shared")
	if err != nil {
		return nil, err
	}
	if len(shared) != 1 {
		return nil, errors.New("find the schemas of templates: there must be one holder of them")
	}
	holder := shared[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	job, claim := holder["job"], holder["claim"]
	pod := job.Properties["spec"].Properties["template"]
	// No pod can be created with them, and their schema is as large as that of containers.
	delete(pod.Properties["spec"].Properties, "ephemeralContainers")
	keepUnread(pod.Properties["spec"].Properties["volumes"].Items.Schema.Properties)
	atomic := "atomic"
	all := map[string]*apiextensionsv1.JSONSchemaProps{
		"pod-template": &pod,
		"job-template": &job,
		"volume-claims": {
			Type:      "array",
			Items:     &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &claim},
			XListType: &atomic,
		},
	}
	spec := pod.Properties["spec"].Properties
	container := spec["containers"].Items.Schema.Properties
	for format, part := range map[string]apiextensionsv1.JSONSchemaProps{ // what runtimes of TrainJobs are changed by
		"pod-volumes": spec["volumes"], "pod-affinity": spec["affinity"], "pod-security": spec["securityContext"],
		"container-env": container["env"], "container-mounts": container["volumeMounts"],
		"container-security": container["securityContext"], "container-resources": container["resources"],
	} {
		all[format] = &part
	}
	return all, nil
}

// keepUnread takes the schemas out of sources of volumes that Kubernetes deprecates or has no code for any
// more. Whatever is written there is kept, and judged with the pod: a chart has some forty copies of them,
// and a release of Helm takes a megabyte at most.
func keepUnread(volume map[string]apiextensionsv1.JSONSchemaProps) {
	for _, source := range []string{
		"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs",
		"photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
	} {
		if _, is := volume[source]; is {
			keep := true
			volume[source] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
		}
	}
}

// putTemplates replaces the marks.
func putTemplates(crds []*apiextensionsv1.CustomResourceDefinition) error {
	all, err := templates()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			putTemplate(v.Schema.OpenAPIV3Schema, all)
		}
	}
	return nil
}

// putTemplate replaces the marks in a schema and keeps what the definition says of the
// field.
func putTemplate(in *apiextensionsv1.JSONSchemaProps, all map[string]*apiextensionsv1.JSONSchemaProps) {
	if template := all[in.Format]; template != nil {
		said := *in
		template.DeepCopyInto(in)
		in.Description, in.MaxItems = said.Description, said.MaxItems
		return
	}
	for name, p := range in.Properties {
		putTemplate(&p, all)
		in.Properties[name] = p
	}
	if in.Items != nil && in.Items.Schema != nil {
		putTemplate(in.Items.Schema, all)
	}
	if in.AdditionalProperties != nil && in.AdditionalProperties.Schema != nil {
		putTemplate(in.AdditionalProperties.Schema, all)
	}
}
