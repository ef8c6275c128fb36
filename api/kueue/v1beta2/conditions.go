package v1beta2

// Condition types of Workloads.
const (
	// WorkloadQuotaReserved: quota is reserved for the workload.
	WorkloadQuotaReserved = "QuotaReserved"
	// WorkloadAdmitted: quota is reserved and all checks passed; the job may run.
	WorkloadAdmitted = "Admitted"
	// WorkloadPodsReady: all pods run or succeeded.
	WorkloadPodsReady = "PodsReady"
	// WorkloadEvicted: the workload lost its quota or is losing it.
	WorkloadEvicted = "Evicted"
	// WorkloadPreempted: it was evicted for another workload.
	WorkloadPreempted = "Preempted"
	// WorkloadRequeued: the evicted workload is back in its queue.
	WorkloadRequeued = "Requeued"
	// WorkloadDeactivationTarget: the workload will be deactivated.
	WorkloadDeactivationTarget = "DeactivationTarget"
	// WorkloadBlockedOnPreemptionGates: a closed gate forbids preemption for it.
	WorkloadBlockedOnPreemptionGates = "BlockedOnPreemptionGates"
	// WorkloadWaitingForReplacementPods: failed pods are not yet replaced.
	WorkloadWaitingForReplacementPods = "WaitingForReplacementPods"
	// WorkloadNodesRefused: nodes refused pods of the workload. Its message says which, and why;
	// they are left out when it gets nodes again.
	WorkloadNodesRefused = "mlbatch.dev/NodesRefused"
	// WorkloadNodesAvoided: it was stopped because nodes failed, and gets others if there are some. Its message says which,
	// and since when.
	WorkloadNodesAvoided = "mlbatch.dev/NodesAvoided"
	// WorkloadNodesKept: nodes of the evicted workload failed, and it keeps its quota and its healthy nodes
	// for a while. Its reason says how far it is.
	WorkloadNodesKept = "mlbatch.dev/NodesKept"
	// WorkloadRelocated: it was stopped once to continue on other nodes, so that another workload has those that it
	// needs. The time of the condition is when.
	WorkloadRelocated = "mlbatch.dev/Relocated"
	// WorkloadAttempts: it was stopped at least once. Its message lists the last attempts, and sums up those
	// before; its reason is the category of what ended the last one.
	WorkloadAttempts = "mlbatch.dev/Attempts"
	// WorkloadProgressing: the job states how often it takes a step, and does. Its message says which step and when;
	// False is that there was none for too long.
	WorkloadProgressing = "mlbatch.dev/Progressing"
	// WorkloadStopNotice: the evicted workload asked to be told before it is stopped, and its pods run on until the time
	// in the message. False is that this is over; the reason says why.
	WorkloadStopNotice = "mlbatch.dev/StopNotice"
	// WorkloadFinished: the job ended for good.
	WorkloadFinished = "Finished"
)

// Reasons of QuotaReserved.
const (
	ReasonQuotaReserved                = "QuotaReserved"
	ReasonPending                      = "Pending"
	ReasonInadmissible                 = "Inadmissible"
	ReasonWaiting                      = "Waiting"
	ReasonNoMatchingFlavor             = "NoMatchingFlavor"
	ReasonWaitingForQuota              = "WaitingForQuota"
	ReasonExceedsMaxQuota              = "ExceedsMaxQuota"
	ReasonTopologyPlacementFailed      = "TopologyPlacementFailed"
	ReasonWaitingForPreemptedWorkloads = "WaitingForPreemptedWorkloads"
	ReasonMisconfigured                = "Misconfigured"
	ReasonSuspended                    = "Suspended"
	ReasonPendingEvaluation            = "PendingEvaluation"
	ReasonWaitingForPodsReady          = "WaitingForPodsReady"
	ReasonAdmissionGated               = "AdmissionGated"
	ReasonOnHold                       = "OnHold"
)

// Reasons of Progressing.
const (
	ReasonProgress = "Progress"
	// ReasonNoProgress: it hangs, and goes on to do so unless somebody stops it.
	ReasonNoProgress = "NoProgress"
	// ReasonRestartDue: it hangs, what there is to know of that is kept, and it is to be restarted.
	ReasonRestartDue = "RestartDue"
)

// Reasons of StopNotice.
const (
	// ReasonSaving: its pods have time to save what they have done.
	ReasonSaving = "Saving"
	// ReasonAcknowledged: a pod of it said that this is done.
	ReasonAcknowledged = "Acknowledged"
	// ReasonNoticeOver: the time is over.
	ReasonNoticeOver = "NoticeOver"
	// ReasonNothingRuns: none of its pods runs, so that there is nothing to save.
	ReasonNothingRuns = "NothingRuns"
)

// Reasons of Admitted.
const (
	ReasonAdmitted                       = "Admitted"
	ReasonNoReservation                  = "NoReservation"
	ReasonUnsatisfiedAdmissionChecks     = "UnsatisfiedAdmissionChecks"
	ReasonPendingDelayedTopologyRequests = "PendingDelayedTopologyRequests"
)

// Reasons of PodsReady.
const (
	ReasonStarted         = "Started"
	ReasonRecovered       = "Recovered"
	ReasonWaitForStart    = "WaitForStart"
	ReasonWaitForRecovery = "WaitForRecovery"
)

// Reasons of Evicted.
const (
	ReasonPreempted           = "Preempted"
	ReasonPodsReadyTimeout    = "PodsReadyTimeout"
	ReasonAdmissionCheck      = "AdmissionCheck"
	ReasonClusterQueueStopped = "ClusterQueueStopped"
	ReasonLocalQueueStopped   = "LocalQueueStopped"
	ReasonNodeFailures        = "NodeFailures"
	// ReasonNodesRefused: the nodes that were chosen for it refused its pods.
	ReasonNodesRefused = "NodesRefused"
	// ReasonHang: it made no progress for longer than it had stated, and asks to be restarted then.
	ReasonHang            = "Hang"
	ReasonFlavorMigration = "FlavorMigration"
	ReasonDeactivated     = "Deactivated"
	// ReasonDeactivatedDueTo is followed by a reason of DeactivationTarget.
	ReasonDeactivatedDueTo = "DeactivatedDueTo"
)

// Reasons of WorkloadNodesKept.
const (
	// ReasonPodsStopping: its pods have not ended yet.
	ReasonPodsStopping = "PodsStopping"
	// ReasonAwaitingNodes: it goes on as soon as there are nodes for all its pods.
	ReasonAwaitingNodes = "AwaitingNodes"
	// ReasonGivenBack: it keeps nothing any more.
	ReasonGivenBack = "GivenBack"
)

// PodNodesRefused is a condition of pods: planned nodes refused one, for good as far as the
// scheduler can tell. Its reason is the rule that did.
const PodNodesRefused = "mlbatch.dev/NodesRefused"

// ReasonRefusalLapsed is the reason of a WorkloadNodesRefused or WorkloadNodesAvoided that does not hold any more.
const ReasonRefusalLapsed = "Lapsed"

// Reasons of Preempted.
const (
	ReasonInClusterQueue                = "InClusterQueue"
	ReasonInCohortReclamation           = "InCohortReclamation"
	ReasonInCohortFairSharing           = "InCohortFairSharing"
	ReasonInCohortReclaimWhileBorrowing = "InCohortReclaimWhileBorrowing"
	// ReasonRelocated: it continues on other nodes, which are held for it.
	ReasonRelocated = "Relocated"
)

// Reasons of Requeued, besides those of Evicted.
const (
	ReasonBackoffFinished       = "BackoffFinished"
	ReasonReactivated           = "Reactivated"
	ReasonClusterQueueRestarted = "ClusterQueueRestarted"
	ReasonLocalQueueRestarted   = "LocalQueueRestarted"
)

// Reasons of DeactivationTarget, besides ReasonAdmissionCheck.
const (
	ReasonRequeuingLimitExceeded       = "RequeuingLimitExceeded"
	ReasonMaximumExecutionTimeExceeded = "MaximumExecutionTimeExceeded"
	ReasonEvictedOnManagerCluster      = "EvictedOnManagerCluster"
)

// ReasonPreemptionGated is the reason of BlockedOnPreemptionGates.
const ReasonPreemptionGated = "PreemptionGated"

// ReasonPodsFailed is the reason of WaitingForReplacementPods.
const ReasonPodsFailed = "PodsFailed"

// Reasons of Finished.
const (
	ReasonSucceeded             = "Succeeded"
	ReasonFailed                = "Failed"
	ReasonFailedToStart         = "FailedToStart"
	ReasonOutOfSync             = "OutOfSync"
	ReasonOwnerNotFound         = "OwnerNotFound"
	ReasonWorkloadSliceReplaced = "WorkloadSliceReplaced"
)

// Condition types of queues and admission checks.
const (
	// ClusterQueueActive: the ClusterQueue can admit.
	ClusterQueueActive = "Active"
	// LocalQueueActive: workloads can be admitted through the LocalQueue.
	LocalQueueActive = "Active"
	// AdmissionCheckActive: the check can be answered.
	AdmissionCheckActive = "Active"
)

// Reasons of a queue's Active condition.
const (
	ReasonReady                                    = "Ready"
	ReasonTerminating                              = "Terminating"
	ReasonStopped                                  = "Stopped"
	ReasonFlavorNotFound                           = "FlavorNotFound"
	ReasonAdmissionCheckNotFound                   = "AdmissionCheckNotFound"
	ReasonAdmissionCheckInactive                   = "AdmissionCheckInactive"
	ReasonMultipleMultiKueueAdmissionChecks        = "MultipleMultiKueueAdmissionChecks"
	ReasonMultiKueueAdmissionCheckAppliedPerFlavor = "MultiKueueAdmissionCheckAppliedPerFlavor"
	ReasonMultiKueueWithProvisioningRequest        = "MultiKueueWithProvisioningRequest"
	ReasonTopologyNotFound                         = "TopologyNotFound"
	ReasonUnknown                                  = "Unknown"
	ReasonClusterQueueIsInactive                   = "ClusterQueueIsInactive"
	ReasonClusterQueueDoesNotExist                 = "ClusterQueueDoesNotExist"
)

// Reasons of events that are no reasons of conditions.
const (
	// EventPreemptedWorkload is told of a workload that another was evicted for.
	EventPreemptedWorkload = "PreemptedWorkload"
	// EventDeleted is told of a Workload that is deleted because its retention is over.
	EventDeleted = "Deleted"
	// EventFailedCreate is told of a Workload that something could not be made for.
	EventFailedCreate = "FailedCreate"
	// EventWorkloadRefused is told of a job whose Workload may not be created.
	EventWorkloadRefused = "WorkloadRefused"
)
