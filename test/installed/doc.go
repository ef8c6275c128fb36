// Package installed tests mlbatch as an admin has it: installed into a cluster with real nodes
// from an image archive, controller and scheduler as pods. It needs what realpods needs.
package installed
