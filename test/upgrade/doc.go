// Package upgrade tests that what other programs left is taken over: clusters that Kueue or
// MLBatch's parts ran, and data directories of earlier versions of mlbatch.
package upgrade
