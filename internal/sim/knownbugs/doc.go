// Package knownbugs replays faults that other schedulers had in public, each as a world of a
// few jobs in which the fault showed, and says for each promise that it broke whether the
// engine keeps it.
//
//   - worlds/*.yaml are the worlds, which mlbatch simulate runs as well;
//   - bugs.go lists what happened there, and what has to hold here;
//   - story.go is what is seen of a world while it runs, rules.go what is asked of it.
//
// Worlds are run by the simulator under its auditor, which looks at promises P1 to P7
// and P9 to P11 (docs/promises.md). test/scenarios/regressions has the same threads, and more,
// as transcripts of single decisions.
package knownbugs
