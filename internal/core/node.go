package core

import (
	"slices"
	"strings"
)

// HostnameLabel is the node label whose value identifies one node.
const HostnameLabel = "kubernetes.io/hostname"

// CliqueLabel is the node label whose value, a cluster and a clique as NVIDIA's GPU feature discovery writes them, names
// the nodes that reach each other's GPU memory over NVLink.
const CliqueLabel = "nvidia.com/gpu.clique"

// SpareLabel is what nodes are told with that are kept for recovery. No node has it in the API: who may write labels of
// nodes, or tolerates all taints, gains nothing.
const SpareLabel = "mlbatch.dev/kept-for-recovery"

// Labels of nodes that say in which region and zone of a provider they are, a zone being in a region.
const (
	RegionLabel = "topology.kubernetes.io/region"
	ZoneLabel   = "topology.kubernetes.io/zone"
)

// NodeState says whether a node may take new work.
type NodeState string

// The states of a node, best first.
const (
	// NodeReady takes work.
	NodeReady NodeState = "Ready"
	// NodeWarned takes work when no better node fits (label WARN).
	NodeWarned NodeState = "Warned"
	// NodeClosed takes no new work and keeps what runs: cordoned, short of disk,
	// memory or processes, or under test (labels TESTING and ERR).
	NodeClosed NodeState = "Closed"
	// NodeLost takes no new work; what was planned there and does not run yet is
	// planned again (NotReady, unreachable).
	NodeLost NodeState = "Lost"
	// NodeEvicted takes no new work and gives up what runs (label EVICT).
	NodeEvicted NodeState = "Evicted"
)

// Cordoned is the Why of a node that was taken out of service by hand and that
// nothing else keeps from taking work.
const Cordoned = "cordoned"

// TakesWork reports whether new work may be placed on a node in this state.
func (s NodeState) TakesWork() bool { return s == NodeReady || s == NodeWarned }

// Node is one machine as the engine sees it.
type Node struct {
	Name   string
	Labels map[string]string
	Taints []Taint
	// Allocatable is what pods may use in total, with Pods as one of the resources.
	Allocatable Resources
	// Foreign is what pods use that the engine did not place there.
	Foreign Resources
	// ForeignLimits is what such pods take of limits, each name once.
	ForeignLimits []Limit
	State         NodeState
	// Why says in a few words why State is not NodeReady, e.g. "cordoned" or
	// "label autopilot.ibm.com/gpuhealth=EVICT".
	Why string
	// Faults says how bad the node's record is, in few steps, 0 being good: of places that are otherwise as good those
	// with the least are taken, but where a search for several pod sets gives up. It keeps nothing from starting, and
	// nothing waits for it.
	Faults int32
}

// Filter says which nodes a pod may run on.
type Filter struct {
	// Terms are alternatives of required node affinity; none means every node.
	Terms []Selector
	// Must holds in addition: nodeSelector and the labels of assigned flavors.
	Must Selector
	// Volumes of the pod that not every node reaches, sorted by claim; they hold in addition.
	Volumes []Volume
	// Tolerations of the pod and of assigned flavors.
	Tolerations []Toleration
	// Refused are nodes that refused such pods of this workload, sorted by name. Those that
	// take some of them are admitted.
	Refused []NodeRefusal
	// Avoided are nodes on which this workload failed, sorted: it goes to others if it has a place there now, and only then.
	Avoided []string
}

// Volume is what a pod keeps its data on, and which nodes reach it.
type Volume struct {
	// Claim is the name of its PersistentVolumeClaim.
	Claim string
	// Terms are alternatives, one at least, of what a node that reaches it has.
	Terms []Selector
}

// reachedBy reports whether a node reaches the volume.
func (v Volume) reachedBy(n *Node) bool { return anyMatches(v.Terms, n.Labels) }

// String says where the volume is, as kubectl writes selectors.
func (v Volume) String() string {
	return "the volume of claim " + v.Claim + ", which is on " + termsText(v.Terms)
}

// anyMatches reports whether labels satisfy one of some alternatives.
func anyMatches(terms []Selector, labels map[string]string) bool {
	return slices.ContainsFunc(terms, func(s Selector) bool { return s.Matches(labels) })
}

// Admits reports whether the filter lets a pod run on the node, leaving aside
// capacity and state.
func (f Filter) Admits(n *Node) bool {
	if r, refused := TakenOn(f.Refused, n.Name); refused && r.Most == 0 {
		return false
	}
	return selects(&f, n)
}

// Selects reports whether pods may run on a node by their node selector and node affinity alone.
func (f Filter) Selects(n *Node) bool { return selected(&f, n) }

func selected(f *Filter, n *Node) bool {
	return f.Must.Matches(n.Labels) && (len(f.Terms) == 0 || anyMatches(f.Terms, n.Labels))
}

// selects is Admits without regard to what nodes answered.
func selects(f *Filter, n *Node) bool {
	if !selected(f, n) {
		return false
	}
	for _, v := range f.Volumes {
		if !v.reachedBy(n) {
			return false
		}
	}
	_, bad := Untolerated(n.Taints, f.Tolerations)
	return !bad
}

// Unrefused is the filter without what nodes answered.
func (f Filter) Unrefused() Filter {
	f.Refused = nil
	return f
}

// Unmet says what keeps a node from serving the filter's pods, as kubectl writes
// selectors and taints, if that is one thing alone: a requirement, alternatives of which all fail, a
// volume, or a single taint.
func (f Filter) Unmet(n *Node) (text string, taint, single bool) {
	var found []string
	for _, r := range f.Must {
		if !r.Matches(n.Labels) {
			found = append(found, r.String())
		}
	}
	if len(f.Terms) > 0 && !anyMatches(f.Terms, n.Labels) {
		found = append(found, f.TermsText())
	}
	for _, v := range f.Volumes {
		if !v.reachedBy(n) {
			found = append(found, "to reach "+v.String())
		}
	}
	for _, t := range n.Taints {
		if _, bad := Untolerated([]Taint{t}, f.Tolerations); bad {
			found, taint = append(found, t.String()), true
		}
	}
	if len(found) != 1 {
		return "", false, false
	}
	return found[0], taint, true
}

// TermsText writes the alternatives of required node affinity.
func (f Filter) TermsText() string { return termsText(f.Terms) }

func termsText(terms []Selector) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		parts[i] = t.String()
	}
	return strings.Join(parts, " or ")
}
