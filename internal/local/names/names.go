// Package names is what the embedded cluster calls things that others have to name. It links
// nothing of Kubernetes: who talks to a cluster, as end-to-end tests do, need not be one.
package names

// Users that mlbatch's processes log in as; Install gives them their rights.
const (
	ControllerUser = "mlbatch-controller"
	SchedulerUser  = "system:kube-scheduler"
)

// VolumeProvisioner provides volumes on real nodes: directories on the machine.
const VolumeProvisioner = "mlbatch.dev/local-path"

// Prometheus, if it runs beside a cluster: the program, who may ask it, and the file in the data directory
// with the password for that.
const (
	Prometheus         = "prometheus"
	PrometheusLogin    = "mlbatch"
	PrometheusPassword = "pki/prometheus-web.token"
)
