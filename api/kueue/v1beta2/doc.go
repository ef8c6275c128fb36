// Package v1beta2 is the storage version of the kueue.x-k8s.io API: queues,
// quotas, flavors and workloads. It is the hub that other versions convert to
// and from.
//
// The package holds the types, the names users see (labels, annotations,
// condition types and reasons), and two kinds of pure functions: Default*
// fills in what is left out, Validate* says what is wrong with an object and
// how to mend it. It speaks to no API server; what a rule needs to know of
// other objects is an argument.
//
// +kubebuilder:object:generate=true
// +groupName=kueue.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

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
