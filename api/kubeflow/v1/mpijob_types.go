package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MPIImplementation is whose mpirun the launcher has.
// +kubebuilder:validation:Enum=OpenMPI;Intel;MPICH
type MPIImplementation string

// The implementations.
const (
	MPIImplementationOpenMPI MPIImplementation = "OpenMPI"
	MPIImplementationIntel   MPIImplementation = "Intel"
	MPIImplementationMPICH   MPIImplementation = "MPICH"
)

// LauncherCreationPolicy says when the launcher is made.
// +kubebuilder:validation:Enum=AtStartup;WaitForWorkersReady
type LauncherCreationPolicy string

// The policies.
const (
	// LauncherAtStartup makes it with the workers.
	LauncherAtStartup LauncherCreationPolicy = "AtStartup"
	// LauncherWaitForWorkersReady makes it when all workers are ready.
	LauncherWaitForWorkersReady LauncherCreationPolicy = "WaitForWorkersReady"
)

// MPIJobSpec is what a user wants to run. It has the fields of both versions of the kind:
// which of them a job was submitted in decides how its launcher reaches the workers.
type MPIJobSpec struct {
	// slotsPerWorker is how many processes a worker runs; left out it is 1.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SlotsPerWorker *int32 `json:"slotsPerWorker,omitempty"`

	// runLauncherAsWorker has the launcher run processes like a worker (v2beta1).
	// +optional
	RunLauncherAsWorker *bool `json:"runLauncherAsWorker,omitempty"`

	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// mpiReplicaSpecs has the role Launcher, whose end is that of the job, and Worker.
	// +required
	MPIReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"mpiReplicaSpecs"`

	// sshAuthMountPath is where containers find the job's keys (v2beta1); left out it is
	// /root/.ssh.
	// +optional
	SSHAuthMountPath string `json:"sshAuthMountPath,omitempty"`

	// launcherCreationPolicy is AtStartup or WaitForWorkersReady (v2beta1); left out it is
	// AtStartup.
	// +optional
	LauncherCreationPolicy LauncherCreationPolicy `json:"launcherCreationPolicy,omitempty"`

	// mpiImplementation is OpenMPI, Intel or MPICH (v2beta1); left out it is OpenMPI.
	// +optional
	MPIImplementation MPIImplementation `json:"mpiImplementation,omitempty"`

	// cleanPodPolicy is the older place of the one in runPolicy, which comes first.
	// +optional
	CleanPodPolicy *CleanPodPolicy `json:"cleanPodPolicy,omitempty"`

	// mainContainer is the container of a worker in which the launcher starts processes
	// (v1); left out it is the first.
	// +optional
	MainContainer string `json:"mainContainer,omitempty"`
}

// MPIJob runs mpirun in a launcher, which starts processes in workers. Jobs of this
// version reach their workers by kubectl exec. They are stored as v2beta1.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mpijobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.mpiReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
type MPIJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec MPIJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// MPIJobList is a list of MPIJobs.
// +kubebuilder:object:root=true
type MPIJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MPIJob `json:"items"`
}
