// Package podtemplate is where the schema of a pod template is generated from, once
// for all kinds that have one. It is the schema of the one field below; there are no
// objects of it.
//
// +groupName=schema.mlbatch
// +versionName=v1
package podtemplate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Holder has the field. It is a kind only because schemas are generated for kinds.
type Holder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Template corev1.PodTemplateSpec `json:"template,omitzero"`
}
