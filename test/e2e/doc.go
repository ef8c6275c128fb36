// Package e2e runs the whole of mlbatch, with its users' own manifests,
// against the cluster that "mlbatch up" starts.
package e2e
