package v1beta2_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// What the schema fills in for a manifest can be had without an API server.
func ExampleDefaultClusterQueue() {
	var cq v1beta2.ClusterQueue
	v1beta2.DefaultClusterQueue(&cq)
	fmt.Println(cq.Spec.QueueingStrategy, *cq.Spec.StopPolicy, cq.Spec.Preemption.WithinClusterQueue)
	// Output: BestEffortFIFO None Never
}

// All that is wrong is said at once, with the field and the cure.
func ExampleValidateClusterQueue() {
	limit := resource.MustParse("4")
	cq := v1beta2.ClusterQueue{Spec: v1beta2.ClusterQueueSpec{ResourceGroups: []v1beta2.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
		Flavors: []v1beta2.FlavorQuotas{{Name: "h100", Resources: []v1beta2.ResourceQuota{
			{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("-8"), BorrowingLimit: &limit},
		}}},
	}}}}
	v1beta2.DefaultClusterQueue(&cq)
	for _, err := range v1beta2.ValidateClusterQueue(&cq) {
		fmt.Println(err)
	}
	// Output:
	// spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-8": cannot be negative: use 0 or more
	// spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "4": has no meaning without a cohort: set spec.cohortName or remove borrowingLimit
}
