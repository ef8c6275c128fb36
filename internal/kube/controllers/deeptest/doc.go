// Package deeptest has the GPUs of nodes tested by Jobs of mlbatch's own: when a node was returned after something fatal,
// after a fault, and now and then. Package engine/nodehealth says which nodes (PlanTests); the Jobs are in a namespace that
// nobody else writes to, and each is a record of its test as well: its name has the number of the test, so that no two of a
// node can be made at once, whatever is killed when. Package nodehealth reads what came of them.
//
// The test of a node in service asks for all its GPUs in a queue, which gives it what nobody uses. That of a node out of
// service has no queue, since no job may start there; its pod is told its node, whose kubelet refuses it if GPUs are held.
package deeptest
