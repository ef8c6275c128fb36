package v1

// Labels on the pods and services of a job.
const (
	OperatorNameLabel = "training.kubeflow.org/operator-name"
	JobNameLabel      = "training.kubeflow.org/job-name"
	ReplicaTypeLabel  = "training.kubeflow.org/replica-type"
	ReplicaIndexLabel = "training.kubeflow.org/replica-index"
	// JobRoleLabel is on the pods that decide whether the job succeeded, with the
	// value JobRoleMaster.
	JobRoleLabel  = "training.kubeflow.org/job-role"
	JobRoleMaster = "master"
)

// ManagedByOperator is the value of runPolicy.managedBy that means the same as none:
// the controller for these kinds that there is, which is ours.
const ManagedByOperator = "kubeflow.org/training-operator"

// ManagedByMultiKueue leaves a job to a controller that runs it in another cluster.
const ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"

// The roles.
const (
	RoleMaster    ReplicaType = "Master"
	RoleWorker    ReplicaType = "Worker"
	RoleChief     ReplicaType = "Chief"
	RolePS        ReplicaType = "PS"
	RoleEvaluator ReplicaType = "Evaluator"
	RoleLauncher  ReplicaType = "Launcher"
)
