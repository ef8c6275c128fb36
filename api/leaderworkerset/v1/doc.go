// Package v1 is the leaderworkerset.x-k8s.io API as far as mlbatch runs it:
// LeaderWorkerSet, groups of a leader and its workers that serve together. It holds
// types and names only; what they mean is known to internal/kube/jobs/leaderworkerset.
//
// +kubebuilder:object:generate=true
// +groupName=leaderworkerset.x-k8s.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "leaderworkerset.x-k8s.io", Version: "v1"}

// Kind is the kind.
const Kind = "LeaderWorkerSet"

// AddToScheme adds the kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &LeaderWorkerSet{}, &LeaderWorkerSetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Labels of what is made for a LeaderWorkerSet.
const (
	// NameLabel is the LeaderWorkerSet's name.
	NameLabel = "leaderworkerset.sigs.k8s.io/name"
	// GroupIndexLabel is the number of the group, from 0.
	GroupIndexLabel = "leaderworkerset.sigs.k8s.io/group-index"
	// WorkerIndexLabel is the number of the pod in its group; the leader's is 0.
	WorkerIndexLabel = "leaderworkerset.sigs.k8s.io/worker-index"
	// GroupKeyLabel is the same on all pods of a group, and on no others.
	GroupKeyLabel = "leaderworkerset.sigs.k8s.io/group-key"
	// RevisionLabel is the fingerprint of the template that a pod is made of.
	RevisionLabel = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	// SubGroupIndexLabel and SubGroupKeyLabel are those of the pod's part of the group.
	SubGroupIndexLabel = "leaderworkerset.sigs.k8s.io/subgroup-index"
	SubGroupKeyLabel   = "leaderworkerset.sigs.k8s.io/subgroup-key"
)

// Annotations of what is made for a LeaderWorkerSet. The exclusive topologies are its
// author's to set.
const (
	// SizeAnnotation is how many pods the group of a pod has.
	SizeAnnotation = "leaderworkerset.sigs.k8s.io/size"
	// ReplicasAnnotation is how many groups there shall be.
	ReplicasAnnotation = "leaderworkerset.sigs.k8s.io/replicas"
	// LeaderNameAnnotation is the leader of a worker.
	LeaderNameAnnotation = "leaderworkerset.sigs.k8s.io/leader-name"
	// SubGroupSizeAnnotation and SubGroupPolicyAnnotation say how a group is parted.
	SubGroupSizeAnnotation   = "leaderworkerset.sigs.k8s.io/subgroup-size"
	SubGroupPolicyAnnotation = "leaderworkerset.sigs.k8s.io/subgroup-policy-type"
	// SubdomainPolicyAnnotation says whose subdomain a leader is in.
	SubdomainPolicyAnnotation = "leaderworkerset.sigs.k8s.io/subdomainPolicy"
	// ExclusiveTopologyAnnotation names a label of nodes: a group is on nodes with the same
	// value, and no other group is there.
	ExclusiveTopologyAnnotation = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	// SubGroupExclusiveTopologyAnnotation is the same for parts of a group.
	SubGroupExclusiveTopologyAnnotation = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
	// LeaderTPUsAnnotation is "true" on pods of groups whose leader asks for TPUs, too.
	LeaderTPUsAnnotation = "leaderworkerset.sigs.k8s.io/leader-requests-tpus"
)

// Variables that all containers get.
const (
	LeaderAddressVariable = "LWS_LEADER_ADDRESS"
	GroupSizeVariable     = "LWS_GROUP_SIZE"
	WorkerIndexVariable   = "LWS_WORKER_INDEX"
)

// Variables that containers get that ask for TPUs: the pods of the slice, once for each of
// their containers, the container's place among them, the slice's name, where its processes listen
// to each other, and on which port this one does.
const (
	TPUHostsVariable     = "TPU_WORKER_HOSTNAMES"
	TPUIndexVariable     = "TPU_WORKER_ID"
	TPUNameVariable      = "TPU_NAME"
	TPUAddressesVariable = "TPU_PROCESS_ADDRESSES"
	TPUPortVariable      = "TPU_PROCESS_PORT"
)

// TPUPort is where the first container of a pod that asks for TPUs listens, unless it says so
// itself; the next listens on the next port.
const TPUPort = 8476
