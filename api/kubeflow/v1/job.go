package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Job is what all kinds of this API have in common. What the methods return is part
// of the object and not a copy.
// +kubebuilder:object:generate=false
type Job interface {
	metav1.Object
	runtime.Object
	// Policy says how the job runs.
	Policy() *RunPolicy
	// Roles are the replicas by role.
	Roles() *map[ReplicaType]*ReplicaSpec
	// State is the status.
	State() *JobStatus
}

// Policy implements Job.
func (j *PyTorchJob) Policy() *RunPolicy { return &j.Spec.RunPolicy }

// Roles implements Job.
func (j *PyTorchJob) Roles() *map[ReplicaType]*ReplicaSpec { return &j.Spec.PyTorchReplicaSpecs }

// State implements Job.
func (j *PyTorchJob) State() *JobStatus { return &j.Status }

// Policy implements Job.
func (j *TFJob) Policy() *RunPolicy { return &j.Spec.RunPolicy }

// Roles implements Job.
func (j *TFJob) Roles() *map[ReplicaType]*ReplicaSpec { return &j.Spec.TFReplicaSpecs }

// State implements Job.
func (j *TFJob) State() *JobStatus { return &j.Status }

// Policy implements Job.
func (j *XGBoostJob) Policy() *RunPolicy { return &j.Spec.RunPolicy }

// Roles implements Job.
func (j *XGBoostJob) Roles() *map[ReplicaType]*ReplicaSpec { return &j.Spec.XGBReplicaSpecs }

// State implements Job.
func (j *XGBoostJob) State() *JobStatus { return &j.Status }

// Policy implements Job.
func (j *PaddleJob) Policy() *RunPolicy { return &j.Spec.RunPolicy }

// Roles implements Job.
func (j *PaddleJob) Roles() *map[ReplicaType]*ReplicaSpec { return &j.Spec.PaddleReplicaSpecs }

// State implements Job.
func (j *PaddleJob) State() *JobStatus { return &j.Status }

// Policy implements Job.
func (j *JAXJob) Policy() *RunPolicy { return &j.Spec.RunPolicy }

// Roles implements Job.
func (j *JAXJob) Roles() *map[ReplicaType]*ReplicaSpec { return &j.Spec.JAXReplicaSpecs }

// State implements Job.
func (j *JAXJob) State() *JobStatus { return &j.Status }
