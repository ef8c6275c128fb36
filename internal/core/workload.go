package core

import (
	"cmp"
	"slices"
	"time"
)

// Key names a workload.
type Key struct {
	Namespace string
	Name      string
}

// String is NAMESPACE/NAME.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders by namespace, then by name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// PodSet is a number of equal pods.
type PodSet struct {
	Name  string
	Count int32
	// MinCount is how many pods it can do with, if Count of them cannot be had; 0
	// means all.
	MinCount int32
	// Group names pod sets that get the same flavor of each resource group; "" is
	// none.
	Group string
	// Parents name the groups of pod sets that this one is in, the widest first. One domain of the level that
	// Topology.Parents has for a group holds the pods of all of its sets.
	Parents []string
	// Requests of one pod, without Pods: what it takes of a node.
	Requests Resources
	// Quota is what one pod counts against quota, without Pods, where the
	// installation counts something other than Requests; nil where it does not.
	Quota  Resources
	Filter Filter
	// Limits bound how many of the pods share a node beside what they request, sorted by
	// name.
	Limits []Limit
	// Topology says how near to each other the pods must be.
	Topology TopologyRequest
}

// Counted is what one pod counts against quota, without Pods.
func (p *PodSet) Counted() Resources {
	if p.Quota != nil {
		return p.Quota
	}
	return p.Requests
}

// Workload is what waits for or holds quota: one job of any kind, as observed.
type Workload struct {
	Key Key
	UID string
	// Job is what people know the workload by: kind and name of the object in its
	// namespace whose record it is, as in "Job/train". Nothing is decided by it. ""
	// where that is not known, as in old recordings.
	Job string
	// Endless says that it does not end by itself, as servers do not. Nothing is decided by it,
	// and nobody is told to wait for its end.
	Endless bool
	Queue   string // the LocalQueue's name in the workload's namespace
	// Priority: higher goes first.
	Priority int64
	// Created is when the object was made; equal times are told apart by UID.
	Created time.Time
	// QueueTime orders workloads of equal priority; it is Created unless an
	// eviction rule sets a later one.
	QueueTime time.Time
	// PodSets, one at least. Counts are what still has to run: reclaimable pods
	// are already taken off.
	PodSets []PodSet
	// Held says why the workload must not be considered now although it is
	// pending, e.g. "Deactivated"; "" if it may be.
	Held string
	// Invalid says why its pods can never be made as they are asked for, or its
	// admission never be written, and what to do; "" if they can. It waits as
	// Misconfigured.
	Invalid string
	// GatedBy names the gates that keep the workload from being considered; "" for
	// none.
	GatedBy string
	// PreemptionGate is a closed gate: while it is set, no workload is evicted
	// for this one. "" if there is none.
	PreemptionGate string
	// NotBefore is the end of a back-off; zero if there is none.
	NotBefore time.Time
	// MinimumRuntime is for how long it is not evicted for others, from when its quota was reserved; nil for
	// what its queue says.
	MinimumRuntime *time.Duration
	// Saved is when it told last, within this admission, that it saved what it has done; zero if it did not. SavesEvery is
	// the time between its last two such reports, or from when its quota was reserved to the first; 0 if that is not known.
	Saved      time.Time
	SavesEvery time.Duration
	// Relocated is when it was relocated; zero if it never was. None is twice.
	Relocated time.Time
	// Admission is what the workload holds; nil while it waits.
	Admission *Admission
	// Next is what the engine before this one held for it, to be given once pods have ended, as it was written with
	// Evict.Next or Refuse.Next; nil if nothing. It is looked at in the first state that an engine sees, and not later.
	Next *Admission
	// Reserved is when quota was reserved; zero while it waits.
	Reserved time.Time
	// Admitted is true once all admission checks have agreed and the workload may
	// run; quota is reserved before. Ready is true once all its pods are ready.
	Admitted, Ready bool
	// Evicting is true from the moment an eviction was decided until quota was
	// released. The workload still holds its admission.
	Evicting bool
	// Interruption is set while an evicted workload keeps what it was given.
	Interruption Interruption
	// Settled is where pods of an admitted workload run or have succeeded.
	// Places without a settled pod, on nodes that take no work, are moved.
	Settled []PodSetPlaces
	// Ended is where pods of an admitted workload have succeeded and left their
	// place to others; the engine gives these places back.
	Ended []PodSetPlaces
	// Seq grows with every state of the object; 0 if unknown. With Applied it
	// tells states older than the engine's own decision from newer ones.
	Seq uint64
}

// Interruption is how far a workload is that was evicted because nodes failed, and keeps its quota and its healthy
// nodes for a while, so that it goes on as soon as there are places for all its pods.
type Interruption uint8

const (
	// NotInterrupted is that what it was given is in use, or about to be free.
	NotInterrupted Interruption = iota
	// InterruptedStopping is that its pods have not ended yet.
	InterruptedStopping
	// InterruptedStopped is that its pods have ended, and it may be given places again.
	InterruptedStopped
)

// Place is a number of pods of one pod set on one node.
type Place struct {
	Node  string
	Count int32
}

// PodSetPlaces is where pods of one pod set are.
type PodSetPlaces struct {
	Name string
	// Places are sorted by node name.
	Places []Place
}

// PodsOn is how many pods places list on a node.
func PodsOn(places []Place, node string) (n int32) {
	for _, p := range places {
		if p.Node == node {
			n += p.Count
		}
	}
	return n
}

// PodsAt is how many pods of a pod set are listed on a node.
func PodsAt(sets []PodSetPlaces, set, node string) int32 {
	for _, s := range sets {
		if s.Name == set {
			return PodsOn(s.Places, node)
		}
	}
	return 0
}

// FlavorChoice is the flavor from which a pod set takes one resource.
type FlavorChoice struct {
	Resource string
	Flavor   string
}

// PodSetAdmission is what one pod set was given.
type PodSetAdmission struct {
	Name  string
	Count int32
	// Flavors, sorted by resource.
	Flavors []FlavorChoice
	// Usage is what the pod set counts against quota in total, sorted by
	// resource; only covered resources are listed.
	Usage Resources
	// Places in the order of the pods' ranks: the first pods of the set have the first place. A node is listed
	// more than once only where slices were moved. Empty if quota alone decided.
	Places []Place
}

// Admission is what a workload was given.
type Admission struct {
	Queue   string // the ClusterQueue
	PodSets []PodSetAdmission
}

// FlavorOf returns the flavor that a resource is taken from, "" if none.
func (p *PodSetAdmission) FlavorOf(resource string) string {
	for _, f := range p.Flavors {
		if f.Resource == resource {
			return f.Flavor
		}
	}
	return ""
}

// FlavorNames returns the flavors in use, sorted, each once.
func (p *PodSetAdmission) FlavorNames() []string {
	names := make([]string, 0, len(p.Flavors))
	for _, f := range p.Flavors {
		names = append(names, f.Flavor)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
