// Package nodehealth keeps one state of health for each node. It reads what sources say of nodes (conditions, taints,
// labels, the agent's checks, unhealthy devices of pods), has package engine/nodehealth judge all of them in one go,
// and writes what has to be remembered into the ConfigMap mlbatch-node-health in its own namespace: one key for each
// node that is not healthy, or was not within a day. Everybody else reads it there.
//
// In mode Decide that is all: no node is touched. In mode Act it also writes, on the Node, the label
// autopilot.ibm.com/gpuhealth, by which jobs leave, the annotation mlbatch.dev/health-label, which says that the label
// is its own and what was there before, and the condition mlbatch.dev/Healthy. It lifts no label that others wrote, and
// reads none of the three as a finding.
package nodehealth
