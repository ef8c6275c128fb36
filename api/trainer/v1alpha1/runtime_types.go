package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
)

// TrainingRuntimeSpec is how TrainJobs are run.
type TrainingRuntimeSpec struct {
	// mlPolicy says what the framework needs.
	// +optional
	MLPolicy *MLPolicy `json:"mlPolicy,omitempty"`

	// podGroupPolicy asks a scheduler of another kind to start pods together. The jobs of
	// this cluster always do, so that it is not needed.
	// +optional
	PodGroupPolicy *PodGroupPolicy `json:"podGroupPolicy,omitempty"`

	// template of the JobSet that a TrainJob becomes.
	// +optional
	Template JobSetTemplate `json:"template,omitempty"`
}

// JobSetTemplate is the JobSet that a TrainJob becomes.
type JobSetTemplate struct {
	// metadata has labels and annotations of the JobSet.
	// +optional
	Metadata Metadata `json:"metadata,omitempty"`

	// spec of the JobSet.
	// +optional
	Spec jobset.JobSetSpec `json:"spec,omitempty"`
}

// MLPolicy says what the framework needs: numNodes, and at most one of the others.
// +kubebuilder:validation:XValidation:rule="[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(x, x).size() <= 1",message="only one of torch, mpi, jax, xgboost and flux can be used: remove the others"
// +kubebuilder:validation:XValidation:rule="!(has(self.numNodes) && has(self.torch) && has(self.torch.elasticPolicy))",message="torch.elasticPolicy says how many nodes there are: remove numNodes"
type MLPolicy struct {
	// numNodes is how many pods train, if the TrainJob does not say. Left out it is what the
	// template says.
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	// torch is for torchrun.
	// +optional
	Torch *TorchPolicy `json:"torch,omitempty"`

	// mpi is for mpirun, over ssh.
	// +optional
	MPI *MPIPolicy `json:"mpi,omitempty"`

	// jax is for jax.distributed.
	// +optional
	JAX *JAXPolicy `json:"jax,omitempty"`

	// xgboost is for the tracker of XGBoost.
	// +optional
	XGBoost *XGBoostPolicy `json:"xgboost,omitempty"`

	// flux is for the Flux scheduler. Such runtimes can be stored and not be used: jobs that
	// name one are refused.
	// +optional
	Flux *FluxPolicy `json:"flux,omitempty"`
}

// TorchPolicy is for torchrun.
type TorchPolicy struct {
	// numProcPerNode is how many processes each pod runs, if the TrainJob does not say: a
	// number, auto, cpu or gpu. Later versions have it in the TrainJob alone.
	// +kubebuilder:validation:XIntOrString
	// +optional
	NumProcPerNode *intstr.IntOrString `json:"numProcPerNode,omitempty"`

	// elasticPolicy lets torchrun go on with fewer nodes. Later versions do without it.
	// +optional
	ElasticPolicy *TorchElasticPolicy `json:"elasticPolicy,omitempty"`

	// envInjection names further containers that are told where the others are.
	// +optional
	EnvInjection *TorchEnvInjection `json:"envInjection,omitempty"`
}

// TorchElasticPolicy lets torchrun go on with fewer nodes.
type TorchElasticPolicy struct {
	// maxRestarts is how often torchrun restarts its processes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// minNodes is the least number of nodes.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinNodes *int32 `json:"minNodes,omitempty"`

	// maxNodes is the largest number of nodes, and how many pods there are.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxNodes *int32 `json:"maxNodes,omitempty"`

	// metrics for an autoscaler. There is none: the number of pods stays as it was admitted.
	// +listType=atomic
	// +optional
	Metrics []AutoscalerMetric `json:"metrics,omitempty"`
}

// AutoscalerMetric is what an autoscaler would measure.
// +kubebuilder:pruning:PreserveUnknownFields
type AutoscalerMetric struct {
	// type of the metric.
	// +optional
	Type string `json:"type,omitempty"`
}

// TorchEnvInjection names further containers that are told where the others are.
type TorchEnvInjection struct {
	// initContainers of the pods that train.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	InitContainers []string `json:"initContainers,omitempty"`
}

// MPIImplementation is a family of mpirun.
// +kubebuilder:validation:Enum=OpenMPI;Intel;MPICH
type MPIImplementation string

// The implementations.
const (
	OpenMPI  MPIImplementation = "OpenMPI"
	IntelMPI MPIImplementation = "Intel"
	MPICH    MPIImplementation = "MPICH"
)

// MPIPolicy is for mpirun, over ssh.
type MPIPolicy struct {
	// numProcPerNode is how many processes each node has room for, if the TrainJob does not
	// say. Left out, and as 1, it is as many as a node has GPUs.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`

	// mpiImplementation is whose files and variables are written.
	// +kubebuilder:default=OpenMPI
	// +optional
	MPIImplementation *MPIImplementation `json:"mpiImplementation,omitempty"`

	// sshAuthMountPath is where the keys are mounted.
	// +kubebuilder:default="/root/.ssh"
	// +optional
	SSHAuthMountPath *string `json:"sshAuthMountPath,omitempty"`

	// runLauncherAsNode has the launcher train, too: it is one of the nodes.
	// +kubebuilder:default=false
	// +optional
	RunLauncherAsNode *bool `json:"runLauncherAsNode,omitempty"`
}

// JAXPolicy is for jax.distributed.
type JAXPolicy struct{}

// XGBoostPolicy is for the tracker of XGBoost.
type XGBoostPolicy struct{}

// FluxPolicy is for the Flux scheduler.
type FluxPolicy struct {
	// numProcPerNode is how many processes each node runs.
	// +kubebuilder:validation:XIntOrString
	// +optional
	NumProcPerNode *intstr.IntOrString `json:"numProcPerNode,omitempty"`
}

// PodGroupPolicy asks a scheduler of another kind to start pods together.
type PodGroupPolicy struct {
	// coscheduling is the plugin of that name.
	// +optional
	Coscheduling *CoschedulingPolicy `json:"coscheduling,omitempty"`

	// volcano is the scheduler of that name.
	// +optional
	Volcano *VolcanoPolicy `json:"volcano,omitempty"`
}

// CoschedulingPolicy is for the plugin of that name.
type CoschedulingPolicy struct {
	// scheduleTimeoutSeconds is how long pods wait for each other.
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// VolcanoPolicy is for the scheduler of that name.
type VolcanoPolicy struct {
	// networkTopology asks for nodes that are near each other.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	NetworkTopology *runtime.RawExtension `json:"networkTopology,omitempty"`
}

// TrainingRuntime is how TrainJobs of its namespace are run.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=trainingruntimes
type TrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how they are run.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitempty"`
}

// TrainingRuntimeList is a list of TrainingRuntimes.
// +kubebuilder:object:root=true
type TrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingRuntime `json:"items"`
}

// ClusterTrainingRuntime is how TrainJobs of every namespace are run.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustertrainingruntimes,scope=Cluster
type ClusterTrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how they are run.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitempty"`
}

// ClusterTrainingRuntimeList is a list of ClusterTrainingRuntimes.
// +kubebuilder:object:root=true
type ClusterTrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterTrainingRuntime `json:"items"`
}
