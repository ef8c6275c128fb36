package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultClusterQueue fills in what is left out of cq, as the schema does.
func DefaultClusterQueue(cq *ClusterQueue) {
	s := &cq.Spec
	setDefault(&s.QueueingStrategy, BestEffortFIFO)
	setPointer(&s.StopPolicy, StopPolicyNone)
	setPointer(&s.FlavorFungibility, FlavorFungibility{})
	setDefault(&s.FlavorFungibility.WhenCanBorrow, MayStopSearch)
	setDefault(&s.FlavorFungibility.WhenCanPreempt, TryNextFlavor)
	setPointer(&s.Preemption, ClusterQueuePreemption{})
	setDefault(&s.Preemption.ReclaimWithinCohort, PreemptionPolicyNever)
	setDefault(&s.Preemption.WithinClusterQueue, PreemptionPolicyNever)
	setPointer(&s.Preemption.BorrowWithinCohort, BorrowWithinCohort{})
	setDefault(&s.Preemption.BorrowWithinCohort.Policy, BorrowWithinCohortPolicyNever)
	defaultFairSharing(s.FairSharing)
}

// DefaultLocalQueue fills in what is left out of lq, as the schema does.
func DefaultLocalQueue(lq *LocalQueue) {
	setPointer(&lq.Spec.StopPolicy, StopPolicyNone)
	defaultFairSharing(lq.Spec.FairSharing)
}

// DefaultCohort fills in what is left out of c, as the schema does.
func DefaultCohort(c *Cohort) {
	defaultFairSharing(c.Spec.FairSharing)
}

// DefaultWorkload fills in what is left out of w, as the schema does, but for
// counts: a count of 0 cannot be told from none in Go.
func DefaultWorkload(w *Workload) {
	setPointer(&w.Spec.Active, true)
	for i := range w.Spec.PodSets {
		setDefault(&w.Spec.PodSets[i].Name, DefaultPodSetName)
	}
}

func defaultFairSharing(f *FairSharing) {
	if f != nil {
		setPointer(&f.Weight, resource.MustParse("1"))
	}
}

func setDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
