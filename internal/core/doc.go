// Package core is the vocabulary of mlbatch: amounts, resources, flavors,
// queues, workloads, nodes, events, plans and reasons.
//
// It owns values and arithmetic only. It imports nothing of ours and nothing
// of third parties, reads no clock and does no I/O, so that every decision can
// be made, recorded and replayed anywhere. Slices are kept sorted where a
// decision could depend on their order; each field says so.
package core
