// Package controlplane holds the real Kubernetes control plane as programs of
// this binary: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
//
// The build tag noembed leaves all of them out, for the image that runs inside
// real clusters.
//
// Each program takes the command line of its upstream namesake (etcd: the few
// flags that are needed here) and runs until its context ends or the process
// gets SIGTERM. They keep global state, so each must have a process of its own.
package controlplane

import "crypto/tls"

// Names of the programs.
const (
	EtcdName              = "etcd"
	APIServerName         = "kube-apiserver"
	ControllerManagerName = "kube-controller-manager"
	SchedulerName         = "kube-scheduler"
)

// Where the API server differs from upstream's, and how it is told not to.
const (
	// LightName is the admission plugin that lets it keep no record of who wrote which
	// field of Workloads.
	LightName = "MLBatchLightWorkloads"
	// OldCachesFlag makes it keep watch caches of old versions.
	OldCachesFlag = "watch-cache-old-versions"
)

// Store is the etcd of a cluster, as its API server sees it.
type Store struct {
	// Address is host:port.
	Address string
	TLS     *tls.Config
}
