// Package sakkara reads what is written for Sakkara, the optional scheduler of MLBatch: the ConfigMap of a group of
// pods, with how near to each other they have to be, and the ConfigMap of a topology. It says what they mean in the
// words that pods of all kinds have (annotations of Kueue's), and writes what Sakkara wrote back. It makes no API
// calls and decides nothing about nodes.
package sakkara

// What Sakkara's objects carry.
const (
	// GroupLabel, with any value, is on the ConfigMap of a group.
	GroupLabel = "sakkara.group"
	// TopologyLabel, with any value, is on the ConfigMap of a topology; with a dot and the name of a level behind it,
	// it is the label of nodes that says in which domain of the level they are.
	TopologyLabel = "sakkara.topology"
	// MemberLabel names the group of a pod.
	MemberLabel = "sakkara.group.name"
	// RankLabel is the rank of a pod among all of its group, from 0.
	RankLabel = "sakkara.member.rank"
)

// NodeLevel is the name of the level of single nodes.
const NodeLevel = "node"
