// Package local runs a whole Kubernetes cluster on one machine: real etcd,
// kube-apiserver and kube-controller-manager, mlbatch's own controller and
// scheduler, and simulated GPU nodes.
//
// Start returns a Cluster once everything is ready. Every part is a child
// process of the same binary, supervised (package supervise) and started
// again when it dies; none outlives the process that called Start. All state
// is in one data directory, which only one Cluster uses at a time.
//
//	Config -> data directory, ports, certificates (pki)
//	       -> etcd, with Config.Initial in it           stage 0
//	       -> kube-apiserver                            stage 1
//	       -> controllers, bootstrap objects, nodes     stage 2
//	       -> Config.Install, controller, scheduler     beside them
//	       -> tutorial set-up, once per data directory
//
// Because children are this very binary, a program that calls Start must be
// able to play them: the mlbatch command has subcommands for it, test binaries
// call RunChild first thing in TestMain.
package local
