// Package podtemplate is where the schemas of templates are generated from, once for all
// kinds that have one: that of a Job, in which there is that of a pod, and that of a claim
// of a volume. They are the schemas of the fields below; there are no objects of them.
//
// +groupName=schema.mlbatch
// +versionName=v1
package podtemplate

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Holder has the fields. It is a kind only because schemas are generated for kinds.
type Holder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Job   batchv1.JobTemplateSpec      `json:"job,omitzero"`
	Claim corev1.PersistentVolumeClaim `json:"claim,omitzero"`
}
