package v1

// Labels of pods and services.
const (
	NodeLabel       = "ray.io/is-ray-node"
	ClusterLabel    = "ray.io/cluster"
	NodeTypeLabel   = "ray.io/node-type"
	GroupLabel      = "ray.io/group"
	IdentifierLabel = "ray.io/identifier"
	// ServeLabel is on pods that answer requests for what a RayService serves.
	ServeLabel = "ray.io/serve"
)

// Values of NodeTypeLabel, and that of GroupLabel on the head.
const (
	HeadNode   = "head"
	WorkerNode = "worker"
	HeadGroup  = "headgroup"
)

// Annotations of a cluster.
const (
	// OverwriteCommandAnnotation, if it is "true", leaves the command of the Ray container
	// to its author.
	OverwriteCommandAnnotation = "ray.io/overwrite-container-cmd"
	// FaultTolerantAnnotation and StorageNamespaceAnnotation are an older way to say
	// gcsFaultToleranceOptions.
	FaultTolerantAnnotation    = "ray.io/ft-enabled"
	StorageNamespaceAnnotation = "ray.io/external-storage-namespace"
)

// SubmissionIDAnnotation of a RayJob in InteractiveMode is how Ray calls the job that its
// author submitted.
const SubmissionIDAnnotation = "ray.io/ray-job-submission-id"

// ManagedByOperator is the value of spec.managedBy that means the same as none: the
// controller for these kinds that there is, which is ours.
const ManagedByOperator = "ray.io/kuberay-operator"

// ManagedByMultiKueue leaves a cluster to a controller that runs it in another one.
const ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"

// Names of the ports of a head.
const (
	ClientPort    = "client"
	GCSPort       = "gcs-server"
	DashboardPort = "dashboard"
	MetricsPort   = "metrics"
	ServePort     = "serve"
)
