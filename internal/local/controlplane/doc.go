// Package controlplane holds the real Kubernetes control plane as programs of
// this binary: etcd, kube-apiserver and kube-controller-manager.
//
// Each program takes the command line of its upstream namesake (etcd: the few
// flags that are needed here) and runs until its context ends or the process
// gets SIGTERM. They keep global state, so each must have a process of its own.
package controlplane
