// Package sim runs the production engine in a simulated world: virtual time, an
// edge that plays Kubernetes, seeded faults, and an auditor that knows what must
// always hold.
//
// A World is everything a run depends on: objects, jobs, a script of changes, how
// slow and unreliable the edge is, and a seed. The same World gives the same
// Result, byte for byte. A Run is one world in progress: it jumps from event to
// event, tells the engine what the edge lets it see, and carries out the plan.
//
//   - world.go is the vocabulary, queue.go the order of events;
//   - run.go is the main path, edge.go what becomes of jobs, nodes.go of nodes;
//   - pods.go has pods exist one by one, sight.go shows them to everybody late,
//     and tenants.go is what hostile tenants do to them, where a World has that;
//   - papers.go is what the controllers' own rules make of jobs, where a World has
//     them (package clerk); tenure.go the simpler ones elsewhere;
//   - meter.go measures, result.go sums up, series.go is what charts show;
//   - auditor.go and audit_*.go check P1-P11 of the design after every decision;
//     audit_pods.go from the pods that exist, and from no books.
//
// Worlds are read from files by package worldfile and made up, attacked and
// shortened by package chaos. This package reads no clock and no file, and it
// decides nothing: whom to admit and whom to evict is the engine's alone.
package sim
