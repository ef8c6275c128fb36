package v1beta1

import (
	"reflect"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// onlyWorkload1 is what a Workload of v1beta2 cannot hold: half a reference to
// a priority class.
type onlyWorkload1 struct {
	PriorityClassName   string `json:"priorityClassName,omitempty"`
	PriorityClassSource string `json:"priorityClassSource,omitempty"`
}

// onlyWorkload2 is what a Workload of v1beta1 cannot hold.
type onlyWorkload2 struct {
	PreemptionGates      []v1beta2.PreemptionGate      `json:"preemptionGates,omitempty"`
	PreemptionGateStates []v1beta2.PreemptionGateState `json:"preemptionGateStates,omitempty"`
	// Constraints are the nested slices of each pod set.
	Constraints map[v1beta2.PodSetReference][]v1beta2.PodsetSliceRequiredTopologyConstraint `json:"constraints,omitempty"`
	// Slices keeps how the domains of each pod set were written, where it is not
	// how this package writes them.
	Slices map[v1beta2.PodSetReference][]v1beta2.TopologyAssignmentSlice `json:"slices,omitempty"`
}

// ConvertTo writes the Workload to out, which is of the hub version.
func (in *Workload) ConvertTo(out *v1beta2.Workload) error {
	src := in.DeepCopy()
	kept2 := recall[onlyWorkload2](src, OnlyV1beta2Annotation)
	out.ObjectMeta = src.ObjectMeta
	out.Spec = v1beta2.WorkloadSpec{
		QueueName:                   src.Spec.QueueName,
		Priority:                    src.Spec.Priority,
		Active:                      src.Spec.Active,
		MaximumExecutionTimeSeconds: src.Spec.MaximumExecutionTimeSeconds,
		PreemptionGates:             kept2.PreemptionGates,
	}
	for _, ps := range src.Spec.PodSets {
		out.Spec.PodSets = append(out.Spec.PodSets, v1beta2.PodSet{
			Name: ps.Name, Template: ps.Template, Count: ps.Count, MinCount: ps.MinCount,
			TopologyRequest: hubTopologyRequest(ps.TopologyRequest, kept2.Constraints[ps.Name]),
		})
	}
	var kept1 onlyWorkload1
	out.Spec.PriorityClassRef = classRef(src.Spec.PriorityClassName, src.Spec.PriorityClassSource)
	if out.Spec.PriorityClassRef == nil {
		kept1 = onlyWorkload1{src.Spec.PriorityClassName, src.Spec.PriorityClassSource}
	}
	out.Status = v1beta2.WorkloadStatus{
		Conditions:                          src.Status.Conditions,
		Admission:                           hubAdmission(src.Status.Admission, kept2),
		NextAdmission:                       src.Status.NextAdmission,
		RequeueState:                        src.Status.RequeueState,
		ReclaimablePods:                     src.Status.ReclaimablePods,
		AdmissionChecks:                     src.Status.AdmissionChecks,
		ResourceRequests:                    src.Status.ResourceRequests,
		AccumulatedPastExecutionTimeSeconds: src.Status.AccumulatedPastExecutionTimeSeconds,
		SchedulingStats:                     src.Status.SchedulingStats,
		NominatedClusterNames:               src.Status.NominatedClusterNames,
		ClusterName:                         src.Status.ClusterName,
		UnhealthyNodes:                      src.Status.UnhealthyNodes,
		PreemptionGates:                     kept2.PreemptionGateStates,
	}
	return keep(out, OnlyV1beta1Annotation, kept1)
}

// ConvertFrom fills the Workload from the hub version.
func (in *Workload) ConvertFrom(hub *v1beta2.Workload) error {
	src := hub.DeepCopy()
	kept1 := recall[onlyWorkload1](src, OnlyV1beta1Annotation)
	kept2 := onlyWorkload2{
		PreemptionGates:      src.Spec.PreemptionGates,
		PreemptionGateStates: src.Status.PreemptionGates,
		Constraints:          map[v1beta2.PodSetReference][]v1beta2.PodsetSliceRequiredTopologyConstraint{},
		Slices:               map[v1beta2.PodSetReference][]v1beta2.TopologyAssignmentSlice{},
	}
	in.ObjectMeta = src.ObjectMeta
	in.Spec = WorkloadSpec{
		QueueName:                   src.Spec.QueueName,
		PriorityClassName:           kept1.PriorityClassName,
		PriorityClassSource:         kept1.PriorityClassSource,
		Priority:                    src.Spec.Priority,
		Active:                      src.Spec.Active,
		MaximumExecutionTimeSeconds: src.Spec.MaximumExecutionTimeSeconds,
	}
	for _, ps := range src.Spec.PodSets {
		in.Spec.PodSets = append(in.Spec.PodSets, PodSet{
			Name: ps.Name, Template: ps.Template, Count: ps.Count, MinCount: ps.MinCount,
			TopologyRequest: spokeTopologyRequest(ps.TopologyRequest),
		})
		if r := ps.TopologyRequest; r != nil && len(r.PodsetSliceRequiredTopologyConstraints) > 0 {
			kept2.Constraints[ps.Name] = r.PodsetSliceRequiredTopologyConstraints
		}
	}
	if r := src.Spec.PriorityClassRef; r != nil {
		in.Spec.PriorityClassName, in.Spec.PriorityClassSource = r.Name, PodPriorityClassSource
		if r.Group == v1beta2.WorkloadPriorityClassGroup {
			in.Spec.PriorityClassSource = WorkloadPriorityClassSource
		}
	}
	in.Status = WorkloadStatus{
		Conditions:                          src.Status.Conditions,
		Admission:                           spokeAdmission(src.Status.Admission, kept2),
		NextAdmission:                       src.Status.NextAdmission,
		RequeueState:                        src.Status.RequeueState,
		ReclaimablePods:                     src.Status.ReclaimablePods,
		AdmissionChecks:                     src.Status.AdmissionChecks,
		ResourceRequests:                    src.Status.ResourceRequests,
		AccumulatedPastExecutionTimeSeconds: src.Status.AccumulatedPastExecutionTimeSeconds,
		SchedulingStats:                     src.Status.SchedulingStats,
		NominatedClusterNames:               src.Status.NominatedClusterNames,
		ClusterName:                         src.Status.ClusterName,
		UnhealthyNodes:                      src.Status.UnhealthyNodes,
	}
	return keep(in, OnlyV1beta2Annotation, kept2)
}

// classRef is nil unless name and source together name a class.
func classRef(name, source string) *v1beta2.PriorityClassRef {
	if name == "" {
		return nil
	}
	switch source {
	case WorkloadPriorityClassSource:
		return &v1beta2.PriorityClassRef{
			Group: v1beta2.WorkloadPriorityClassGroup,
			Kind:  v1beta2.WorkloadPriorityClassKind,
			Name:  name,
		}
	case PodPriorityClassSource:
		return &v1beta2.PriorityClassRef{
			Group: v1beta2.PodPriorityClassGroup,
			Kind:  v1beta2.PodPriorityClassKind,
			Name:  name,
		}
	}
	return nil
}

func hubTopologyRequest(
	in *PodSetTopologyRequest,
	constraints []v1beta2.PodsetSliceRequiredTopologyConstraint,
) *v1beta2.PodSetTopologyRequest {
	if in == nil {
		return nil
	}
	return &v1beta2.PodSetTopologyRequest{
		Required: in.Required, Preferred: in.Preferred, Unconstrained: in.Unconstrained,
		PodIndexLabel: in.PodIndexLabel, SubGroupIndexLabel: in.SubGroupIndexLabel, SubGroupCount: in.SubGroupCount,
		PodSetGroupName:             in.PodSetGroupName,
		PodSetSliceRequiredTopology: in.PodSetSliceRequiredTopology, PodSetSliceSize: in.PodSetSliceSize,
		PodsetSliceRequiredTopologyConstraints: constraints,
	}
}

func spokeTopologyRequest(in *v1beta2.PodSetTopologyRequest) *PodSetTopologyRequest {
	if in == nil {
		return nil
	}
	return &PodSetTopologyRequest{
		Required: in.Required, Preferred: in.Preferred, Unconstrained: in.Unconstrained,
		PodIndexLabel: in.PodIndexLabel, SubGroupIndexLabel: in.SubGroupIndexLabel, SubGroupCount: in.SubGroupCount,
		PodSetGroupName:             in.PodSetGroupName,
		PodSetSliceRequiredTopology: in.PodSetSliceRequiredTopology, PodSetSliceSize: in.PodSetSliceSize,
	}
}

func hubAdmission(in *Admission, kept onlyWorkload2) *v1beta2.Admission {
	if in == nil {
		return nil
	}
	out := &v1beta2.Admission{ClusterQueue: in.ClusterQueue}
	for _, a := range in.PodSetAssignments {
		h := v1beta2.PodSetAssignment{
			Name: a.Name, Flavors: a.Flavors, ResourceUsage: a.ResourceUsage, Count: a.Count,
			DelayedTopologyRequest: a.DelayedTopologyRequest,
		}
		if t := a.TopologyAssignment; t != nil {
			h.TopologyAssignment = &v1beta2.TopologyAssignment{Levels: t.Levels, Slices: kept.Slices[a.Name]}
			if !sameDomains(expandSlices(len(t.Levels), kept.Slices[a.Name]), t.Domains) {
				h.TopologyAssignment.Slices = compactDomains(len(t.Levels), t.Domains)
			}
		}
		out.PodSetAssignments = append(out.PodSetAssignments, h)
	}
	return out
}

func spokeAdmission(in *v1beta2.Admission, kept onlyWorkload2) *Admission {
	if in == nil {
		return nil
	}
	out := &Admission{ClusterQueue: in.ClusterQueue}
	for _, a := range in.PodSetAssignments {
		s := PodSetAssignment{
			Name: a.Name, Flavors: a.Flavors, ResourceUsage: a.ResourceUsage, Count: a.Count,
			DelayedTopologyRequest: a.DelayedTopologyRequest,
		}
		if t := a.TopologyAssignment; t != nil {
			domains := expandSlices(len(t.Levels), t.Slices)
			s.TopologyAssignment = &TopologyAssignment{Levels: t.Levels, Domains: domains}
			if !reflect.DeepEqual(t.Slices, compactDomains(len(t.Levels), domains)) {
				kept.Slices[a.Name] = t.Slices
			}
		}
		out.PodSetAssignments = append(out.PodSetAssignments, s)
	}
	return out
}
