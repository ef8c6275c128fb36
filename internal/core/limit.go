package core

import "slices"

// Limit bounds how many pods share a node or a domain, whatever they request: they use the same
// port of a node, or their own affinity keeps them apart. Pods whose limits have the same name
// share it, whatever workload they are of.
type Limit struct {
	// Name tells limits apart, in words that people know it by: "host port 8471/TCP".
	Name string
	// Own limits count only the pods of one workload.
	Own bool
	// Count is how much of the limit one pod takes, Most how much of it each node has.
	Count, Most int32
	// Level is the label of the domains of which each has Most, in place of nodes; "" for nodes. Nodes without the label
	// have no limit.
	Level string
	// Skew is, for a limit of domains, how many pods one may have more than the one with the fewest, of all domains
	// with a node that counts (SpreadsOver); 0 for no such bound. Nodes without the label are then of no use, Count is 1
	// and Most is not looked at.
	Skew int32
	// MinDomains is over how many domains pods must spread at least: if fewer count, none has more than Skew. One is as
	// good as none.
	MinDomains int32
	// Unselected says that nodes count which the pods do not select (nodeAffinityPolicy Ignore), Tolerated that none
	// does which is out of service or has a taint that they do not tolerate (nodeTaintsPolicy Honor).
	Unselected, Tolerated bool
}

// SpreadsOver reports whether the domain of a node counts, and what runs on it, where pods with a filter have to spread
// by the limit.
func (l *Limit) SpreadsOver(f Filter, n *Node) bool {
	if !l.Unselected && !f.Selects(n) {
		return false
	}
	if !l.Tolerated {
		return true
	}
	_, bad := Untolerated(n.Taints, f.Tolerations)
	return !bad && n.State.TakesWork()
}

// PerNode reports whether the limit is one of each node.
func (l *Limit) PerNode() bool { return l.Level == "" }

// NodeRefusal says that a node takes fewer pods of a pod set than it has room for, as was found
// out when they were to start there: a rule of the cluster that the engine does not know.
type NodeRefusal struct {
	Node string
	// Most is how many of the pods the node takes.
	Most int32
	// Why is the answer of the rule.
	Why string
}

// TakenOn is how many pods the node takes by a list of refusals, sorted by node, and what it
// answered; ok is false if it did not refuse any.
func TakenOn(refusals []NodeRefusal, node string) (refusal NodeRefusal, ok bool) {
	i, ok := slices.BinarySearchFunc(refusals, node, func(r NodeRefusal, name string) int {
		switch {
		case r.Node < name:
			return -1
		case r.Node > name:
			return 1
		}
		return 0
	})
	if !ok {
		return NodeRefusal{}, false
	}
	return refusals[i], true
}
