package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CohortSpec is what an admin wants of a Cohort.
// +kubebuilder:validation:XValidation:rule="has(self.parentName) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",message="borrowingLimit needs a cohort to borrow from: set spec.parentName or remove borrowingLimit",fieldPath=".resourceGroups"
// +kubebuilder:validation:XValidation:rule="has(self.parentName) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.lendingLimit))))",message="lendingLimit needs a cohort to lend to: set spec.parentName or remove lendingLimit",fieldPath=".resourceGroups"
type CohortSpec struct {
	// parentName is the cohort above this one; left out this is a root.
	// +optional
	ParentName CohortReference `json:"parentName,omitempty"`

	// resourceGroups are quota that belongs to the cohort itself and is lent to
	// its members. Unlike in a ClusterQueue a lendingLimit may exceed the
	// nominalQuota, since the members lend through the cohort too.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ResourceGroups []ResourceGroup `json:"resourceGroups,omitempty"`

	// fairSharing is the cohort's weight below its parent.
	// +optional
	FairSharing *FairSharing `json:"fairSharing,omitempty"`
}

// CohortStatus is what is known of a Cohort.
type CohortStatus struct {
	// fairSharing is the present share of the cohort.
	// +optional
	FairSharing *FairSharingStatus `json:"fairSharing,omitempty"`
}

// Cohort is an inner node of the quota tree: queues and cohorts that lend to
// each other.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName={co}
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentName`,description="Cohort that this one belongs to"
// +kubebuilder:printcolumn:name="Weight",type=string,JSONPath=`.spec.fairSharing.weight`,description="Weight among the children of its parent"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the cohort was created"
// +kubebuilder:subresource:status
type Cohort struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin wants.
	// +optional
	Spec CohortSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status CohortStatus `json:"status,omitempty"`
}

// CohortList is a list of Cohorts.
// +kubebuilder:object:root=true
type CohortList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cohort `json:"items"`
}
