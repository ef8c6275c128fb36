// Package v1beta1 is the older version of the kueue.x-k8s.io API. It is served
// because manifests written for it must go on working; v1beta2 is what is
// stored and what the rest of mlbatch speaks.
//
// Types that are alike in both versions are those of v1beta2; this package
// declares what differs, and ConvertTo and ConvertFrom for every kind. Nothing
// is lost either way: what one version cannot hold is kept in an annotation of
// the converted object (see conversion.go).
//
// +kubebuilder:object:generate=true
// +groupName=kueue.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AdmissionCheck{}, &AdmissionCheckList{},
		&ClusterQueue{}, &ClusterQueueList{},
		&Cohort{}, &CohortList{},
		&LocalQueue{}, &LocalQueueList{},
		&MultiKueueCluster{}, &MultiKueueClusterList{},
		&MultiKueueConfig{}, &MultiKueueConfigList{},
		&ProvisioningRequestConfig{}, &ProvisioningRequestConfigList{},
		&ResourceFlavor{}, &ResourceFlavorList{},
		&Topology{}, &TopologyList{},
		&Workload{}, &WorkloadList{},
		&WorkloadPriorityClass{}, &WorkloadPriorityClassList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
