// Package views serves the view.mlbatch.dev API: how jobs stand, computed from what the controller watches
// and what its engine says, for whoever asks.
//
// An answer is what the one who asks could have read and put together alone: every object that it is made of
// is read with their rights (reader.go), by the same code as a command reads them where no controller
// answers (package gather). Asked for all namespaces by somebody who may not list them, it tells of the
// namespaces whose Workloads they may list.
//
// The package stores nothing, changes nothing and decides nothing. Every replica serves it.
package views
