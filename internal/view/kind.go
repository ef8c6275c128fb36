package view

import (
	"strings"
)

// Kind is a kind of object that can be asked about.
type Kind string

// The kinds about which there is something of their own to say.
const (
	KindAppWrapper Kind = "AppWrapper"
	KindJob        Kind = "Job"
	KindWorkload   Kind = "Workload"
	KindPodGroup   Kind = "PodGroup"
	KindDeployment Kind = "Deployment"
	KindPod        Kind = "Pod"
)

// Ref names what is asked about.
type Ref struct {
	Kind      Kind // "" if any
	Namespace string
	Name      string
}

// String is KIND NAMESPACE/NAME.
func (r Ref) String() string {
	return strings.TrimSpace(string(r.Kind) + " " + r.Namespace + "/" + r.Name)
}

// Kinds of what is no job itself, but makes pods or Jobs that are.
const (
	KindStatefulSet Kind = "StatefulSet"
	KindReplicaSet  Kind = "ReplicaSet"
	KindCronJob     Kind = "CronJob"
	KindDaemonSet   Kind = "DaemonSet"
)

// KindGroup is what a user has submitted who made a group of pods: it has a name and no object of its
// own, and until all its pods are there no Workload.
const KindGroup Kind = "pod group"
