// Package goodput plays one training job under one list of failures, with different ways to recover, and says which
// part of its time the job made use of.
//
//   - trace.go is the list of failures, which is stated (failures.csv) and not drawn anew;
//   - world.go is the cluster, the job and all that is assumed about times;
//   - policy.go are the ways to recover; run.go plays them and prints the table.
//
// What is decided is decided by the production engine: quota, places, replacements, evictions, who goes first; and hangs
// by package progress. Package sim has the cluster around it.
package goodput
