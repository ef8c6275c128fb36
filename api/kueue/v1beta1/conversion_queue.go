package v1beta1

import (
	"slices"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// onlyClusterQueue is what a ClusterQueue of v1beta2 cannot hold.
type onlyClusterQueue struct {
	// WhenCanBorrow and WhenCanPreempt keep the newer of two spellings that mean
	// the same.
	WhenCanBorrow  FlavorFungibilityPolicy `json:"whenCanBorrow,omitempty"`
	WhenCanPreempt FlavorFungibilityPolicy `json:"whenCanPreempt,omitempty"`
	// AdmissionChecks keeps that the checks were written as a plain list.
	AdmissionChecks []v1beta2.AdmissionCheckReference `json:"admissionChecks,omitempty"`
	// NoAdmissionChecks keeps that an empty list was written.
	NoAdmissionChecks bool `json:"noAdmissionChecks,omitempty"`

	PendingWorkloadsStatus *ClusterQueuePendingWorkloadsStatus `json:"pendingWorkloadsStatus,omitempty"`
}

// ConvertTo writes the ClusterQueue to out, which is of the hub version.
func (in *ClusterQueue) ConvertTo(out *v1beta2.ClusterQueue) error {
	src := in.DeepCopy()
	kept := onlyClusterQueue{
		AdmissionChecks:        src.Spec.AdmissionChecks,
		NoAdmissionChecks:      src.Spec.AdmissionChecks != nil && len(src.Spec.AdmissionChecks) == 0,
		PendingWorkloadsStatus: src.Status.PendingWorkloadsStatus,
	}
	out.ObjectMeta = src.ObjectMeta
	out.Spec = v1beta2.ClusterQueueSpec{
		ResourceGroups:            src.Spec.ResourceGroups,
		CohortName:                src.Spec.Cohort,
		QueueingStrategy:          src.Spec.QueueingStrategy,
		NamespaceSelector:         src.Spec.NamespaceSelector,
		Preemption:                src.Spec.Preemption,
		AdmissionChecksStrategy:   src.Spec.AdmissionChecksStrategy,
		StopPolicy:                src.Spec.StopPolicy,
		FairSharing:               src.Spec.FairSharing,
		AdmissionScope:            src.Spec.AdmissionScope,
		ConcurrentAdmissionPolicy: src.Spec.ConcurrentAdmissionPolicy,
	}
	if f := src.Spec.FlavorFungibility; f != nil {
		out.Spec.FlavorFungibility = &v1beta2.FlavorFungibility{
			WhenCanBorrow:  hubFungibility(f.WhenCanBorrow, &kept.WhenCanBorrow),
			WhenCanPreempt: hubFungibility(f.WhenCanPreempt, &kept.WhenCanPreempt),
			Preference:     f.Preference,
		}
	}
	if len(src.Spec.AdmissionChecks) > 0 && src.Spec.AdmissionChecksStrategy == nil {
		out.Spec.AdmissionChecksStrategy = checksStrategy(src.Spec.AdmissionChecks)
	}
	out.Status = v1beta2.ClusterQueueStatus{
		Conditions:         src.Status.Conditions,
		FlavorsReservation: src.Status.FlavorsReservation,
		FlavorsUsage:       src.Status.FlavorsUsage,
		PendingWorkloads:   src.Status.PendingWorkloads,
		ReservingWorkloads: src.Status.ReservingWorkloads,
		AdmittedWorkloads:  src.Status.AdmittedWorkloads,
		FairSharing:        src.Status.FairSharing,
	}
	return keep(out, OnlyV1beta1Annotation, kept)
}

// ConvertFrom fills the ClusterQueue from the hub version.
func (in *ClusterQueue) ConvertFrom(hub *v1beta2.ClusterQueue) error {
	src := hub.DeepCopy()
	kept := recall[onlyClusterQueue](src, OnlyV1beta1Annotation)
	in.ObjectMeta = src.ObjectMeta
	in.Spec = ClusterQueueSpec{
		ResourceGroups:            src.Spec.ResourceGroups,
		Cohort:                    src.Spec.CohortName,
		QueueingStrategy:          src.Spec.QueueingStrategy,
		NamespaceSelector:         src.Spec.NamespaceSelector,
		Preemption:                src.Spec.Preemption,
		AdmissionChecksStrategy:   src.Spec.AdmissionChecksStrategy,
		StopPolicy:                src.Spec.StopPolicy,
		FairSharing:               src.Spec.FairSharing,
		AdmissionScope:            src.Spec.AdmissionScope,
		ConcurrentAdmissionPolicy: src.Spec.ConcurrentAdmissionPolicy,
	}
	if f := src.Spec.FlavorFungibility; f != nil {
		in.Spec.FlavorFungibility = &FlavorFungibility{
			WhenCanBorrow:  spokeFungibility(f.WhenCanBorrow, kept.WhenCanBorrow, Borrow),
			WhenCanPreempt: spokeFungibility(f.WhenCanPreempt, kept.WhenCanPreempt, Preempt),
			Preference:     f.Preference,
		}
	}
	if sameChecks(src.Spec.AdmissionChecksStrategy, kept.AdmissionChecks) {
		in.Spec.AdmissionChecks, in.Spec.AdmissionChecksStrategy = kept.AdmissionChecks, nil
	}
	if kept.NoAdmissionChecks && in.Spec.AdmissionChecks == nil {
		in.Spec.AdmissionChecks = []v1beta2.AdmissionCheckReference{}
	}
	in.Status = ClusterQueueStatus{
		Conditions:             src.Status.Conditions,
		FlavorsReservation:     src.Status.FlavorsReservation,
		FlavorsUsage:           src.Status.FlavorsUsage,
		PendingWorkloads:       src.Status.PendingWorkloads,
		ReservingWorkloads:     src.Status.ReservingWorkloads,
		AdmittedWorkloads:      src.Status.AdmittedWorkloads,
		PendingWorkloadsStatus: kept.PendingWorkloadsStatus,
		FairSharing:            src.Status.FairSharing,
	}
	return nil
}

// hubFungibility gives the hub's spelling of p. If p is the newer of two
// spellings it is kept.
func hubFungibility(
	p FlavorFungibilityPolicy,
	kept *FlavorFungibilityPolicy,
) v1beta2.FlavorFungibilityPolicy {
	if p == Borrow || p == Preempt {
		return v1beta2.MayStopSearch
	}
	if p == MayStopSearch {
		*kept = p
	}
	return v1beta2.FlavorFungibilityPolicy(p)
}

// spokeFungibility gives the spelling of this version: the one that was kept
// if it still says the same, or the older one, which every client knows.
func spokeFungibility(
	p v1beta2.FlavorFungibilityPolicy,
	kept, older FlavorFungibilityPolicy,
) FlavorFungibilityPolicy {
	switch {
	case p != v1beta2.MayStopSearch:
		return FlavorFungibilityPolicy(p)
	case kept == MayStopSearch:
		return kept
	}
	return older
}

// checksStrategy says the same as a plain list of checks.
func checksStrategy(checks []v1beta2.AdmissionCheckReference) *v1beta2.AdmissionChecksStrategy {
	s := &v1beta2.AdmissionChecksStrategy{}
	for _, c := range checks {
		s.AdmissionChecks = append(s.AdmissionChecks, v1beta2.AdmissionCheckStrategyRule{Name: c})
	}
	return s
}

// sameChecks is true if the strategy says the same as the plain list.
func sameChecks(s *v1beta2.AdmissionChecksStrategy, checks []v1beta2.AdmissionCheckReference) bool {
	if s == nil || len(checks) == 0 {
		return false
	}
	return slices.EqualFunc(s.AdmissionChecks, checks,
		func(r v1beta2.AdmissionCheckStrategyRule, c v1beta2.AdmissionCheckReference) bool {
			return r.Name == c && len(r.OnFlavors) == 0
		})
}

// onlyLocalQueue is what a LocalQueue of v1beta2 cannot hold.
type onlyLocalQueue struct {
	Flavors []LocalQueueFlavorStatus `json:"flavors,omitempty"`
}

// ConvertTo writes the LocalQueue to out, which is of the hub version.
func (in *LocalQueue) ConvertTo(out *v1beta2.LocalQueue) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Spec = src.ObjectMeta, src.Spec
	out.Status = v1beta2.LocalQueueStatus{
		Conditions:         src.Status.Conditions,
		PendingWorkloads:   src.Status.PendingWorkloads,
		ReservingWorkloads: src.Status.ReservingWorkloads,
		AdmittedWorkloads:  src.Status.AdmittedWorkloads,
		FlavorsReservation: src.Status.FlavorsReservation,
		FlavorsUsage:       src.Status.FlavorUsage,
		FairSharing:        src.Status.FairSharing,
	}
	return keep(out, OnlyV1beta1Annotation, onlyLocalQueue{src.Status.Flavors})
}

// ConvertFrom fills the LocalQueue from the hub version.
func (in *LocalQueue) ConvertFrom(hub *v1beta2.LocalQueue) error {
	src := hub.DeepCopy()
	kept := recall[onlyLocalQueue](src, OnlyV1beta1Annotation)
	in.ObjectMeta, in.Spec = src.ObjectMeta, src.Spec
	in.Status = LocalQueueStatus{
		Conditions:         src.Status.Conditions,
		PendingWorkloads:   src.Status.PendingWorkloads,
		ReservingWorkloads: src.Status.ReservingWorkloads,
		AdmittedWorkloads:  src.Status.AdmittedWorkloads,
		FlavorsReservation: src.Status.FlavorsReservation,
		FlavorUsage:        src.Status.FlavorsUsage,
		Flavors:            kept.Flavors,
		FairSharing:        src.Status.FairSharing,
	}
	return nil
}
