// Package v1alpha1 is what an agent on a node tells of its checks: an annotation of the Node, so that it is
// there as long as the node is, and nobody has to ask the agent.
package v1alpha1
