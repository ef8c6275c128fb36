package v1alpha1

// AncestorLabel on the template of a replicated job of a runtime says which part of a
// TrainJob is about it.
const AncestorLabel = "trainer.kubeflow.org/trainjob-ancestor-step"

// Values of AncestorLabel, and names of containers and replicated jobs.
const (
	AncestorTrainer    = "trainer"
	DatasetInitializer = "dataset-initializer"
	ModelInitializer   = "model-initializer"
	// Node is the container that trains, and the replicated job of those that do.
	Node = "node"
	// Launcher is the replicated job that starts processes on the nodes.
	Launcher = "launcher"
)

// FrameworkLabel on a runtime says what it is for.
const FrameworkLabel = "trainer.kubeflow.org/framework"

// ManagedByController is the value of managedBy that means the same as none: the controller
// of TrainJobs that there is, which is ours.
const ManagedByController = "trainer.kubeflow.org/trainjob-controller"

// ManagedByMultiKueue leaves a job to a controller that runs it in another cluster.
const ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"

// The conditions of a TrainJob.
const (
	TrainJobSuspended = "Suspended"
	TrainJobComplete  = "Complete"
	TrainJobFailed    = "Failed"
)

// Reasons of conditions. A TrainJob that ended has those of its JobSet, too.
const (
	SuspendedReason           = "Suspended"
	ResumedReason             = "Resumed"
	DeadlineExceededReason    = "DeadlineExceeded"
	RuntimeNotSupportedReason = "TrainingRuntimeNotSupported"
)
