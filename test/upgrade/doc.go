// Package upgrade tests that what other programs left is taken over: data directories of
// earlier versions of mlbatch.
package upgrade
