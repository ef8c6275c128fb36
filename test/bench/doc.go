// Package bench measures the whole of mlbatch as its users see it, against
// the cluster that "mlbatch up" starts. Each benchmark is one experiment of a
// fixed size; its figures have the names that docs/benchmarks.md uses.
package bench
