// Package sim runs the production engine in a simulated world: virtual time, a
// model of the cluster around it, seeded faults, and an auditor that knows what
// must always hold.
//
// A World is everything a run depends on: objects, jobs, a script of changes, how
// slow and unreliable the cluster is, and a seed. The same World gives the same
// Result, byte for byte. A Run is one world in progress: it jumps from event to
// event, tells the engine what it gets to see of the cluster, and carries out the plan.
//
//   - world.go is the vocabulary, queue.go the order of events;
//   - run.go is the main path, cluster.go what becomes of jobs, nodes.go of nodes;
//   - pods.go has pods exist one by one, watches.go shows them to controllers and
//     engine late, and tenants.go is what hostile tenants do to them, where a World
//     has that;
//   - objects.go is what the controllers' own rules make of Workload objects, where
//     a World has them (package kuberules); lifecycle.go the simpler ones elsewhere;
//   - faults.go is what fails under jobs, and how they go on; package goodput compares ways to recover;
//   - meter.go measures, result.go sums up, series.go is what charts show;
//   - auditor.go and audit_*.go check the promises (docs/promises.md) after every decision;
//     audit_pods.go counts the pods that exist and trusts no account.
//
// Worlds are read from files by package worldfile and made up, attacked and
// shortened by package chaos. This package reads no clock and no file, and it
// decides nothing: what to admit and what to evict is the engine's alone.
package sim
