package v1alpha2

// Labels and annotations of the Jobs of a JobSet and of their pods, which have each of
// them in both places.
const (
	JobSetNameKey         = "jobset.sigs.k8s.io/jobset-name"
	JobSetUIDKey          = "jobset.sigs.k8s.io/jobset-uid"
	ReplicatedJobNameKey  = "jobset.sigs.k8s.io/replicatedjob-name"
	ReplicatedJobReplicas = "jobset.sigs.k8s.io/replicatedjob-replicas"
	// GlobalReplicasKey is how many Jobs there are, of all roles.
	GlobalReplicasKey = "jobset.sigs.k8s.io/global-replicas"
	// JobIndexKey is a Job's index in its role, JobGlobalIndexKey that among all.
	JobIndexKey       = "jobset.sigs.k8s.io/job-index"
	JobGlobalIndexKey = "jobset.sigs.k8s.io/job-global-index"
	// JobKey is the SHA-1 of NAMESPACE/JOB, which tells Jobs of all namespaces apart.
	JobKey = "jobset.sigs.k8s.io/job-key"
	// RestartsKey is how often all Jobs were made anew before this one was made.
	RestartsKey = "jobset.sigs.k8s.io/restart-attempt"
	// GroupNameKey is the group of the role, GroupReplicasKey how many Jobs the group has
	// and JobGroupIndexKey a Job's index among them.
	GroupNameKey     = "jobset.sigs.k8s.io/group-name"
	GroupReplicasKey = "jobset.sigs.k8s.io/group-replicas"
	JobGroupIndexKey = "jobset.sigs.k8s.io/job-group-index"
	// CoordinatorKey is where the coordinator is found, HOSTNAME.SUBDOMAIN.
	CoordinatorKey = "jobset.sigs.k8s.io/coordinator"
)

// Annotations of a JobSet, or of the Jobs of a role.
const (
	// InPlaceRestartAttemptKey is an annotation of pods: the in-place restart attempt that a pod's agent says it is in.
	InPlaceRestartAttemptKey = "jobset.sigs.k8s.io/in-place-restart-attempt"
	// DisableInPlaceRestartKey is an annotation of JobSets: with it, agents let workers run at once, and pods do not
	// restart together in place.
	DisableInPlaceRestartKey = "jobset.sigs.k8s.io/disable-in-place-restart"
	// ExclusiveKey is a label of nodes: each Job has the nodes of one of its values to
	// itself.
	ExclusiveKey = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	// NodeSelectorStrategyKey keeps Jobs apart by labels that somebody put on nodes.
	NodeSelectorStrategyKey = "alpha.jobset.sigs.k8s.io/node-selector"
	// NamespacedJobKey is the label of these nodes, NAMESPACE_JOB, and NoScheduleTaintKey
	// the taint that keeps others away from them.
	NamespacedJobKey   = "alpha.jobset.sigs.k8s.io/namespaced-job"
	NoScheduleTaintKey = "alpha.jobset.sigs.k8s.io/no-schedule"
)

// ManagedByController is the value of managedBy that means the same as none: the
// controller of JobSets that there is, which is ours.
const ManagedByController = "jobset.sigs.k8s.io/jobset-controller"

// DefaultGroup is the group of roles that name none.
const DefaultGroup = "default"

// The conditions.
const (
	JobSetCompleted  = "Completed"
	JobSetFailed     = "Failed"
	JobSetSuspended  = "Suspended"
	JobSetRestarting = "RestartingJobSet"
	// StartupPolicyInProgress and StartupPolicyCompleted say how far Jobs are that start
	// one after the other.
	StartupPolicyInProgress = "StartupPolicyInProgress"
	StartupPolicyCompleted  = "StartupPolicyCompleted"
)

// Reasons of conditions.
const (
	AllJobsCompletedReason        = "AllJobsCompleted"
	FailedJobsReason              = "FailedJobs"
	ReachedMaxRestartsReason      = "ReachedMaxRestarts"
	FailJobSetActionReason        = "FailJobSetFailurePolicyAction"
	SuspendedReason               = "SuspendedJobs"
	ResumedReason                 = "ResumeJobs"
	InOrderStartupReason          = "InOrderStartupPolicyInProgress"
	InOrderStartupCompletedReason = "InOrderStartupPolicyCompleted"
	// DefaultFailurePolicyReason is that of a restart that no rule asked for; where one
	// did it is FailurePolicyReasonPrefix with the rule's name.
	DefaultFailurePolicyReason = "DefaultFailurePolicy"
	FailurePolicyReasonPrefix  = "FailurePolicy_"
	// JobsReadyReason and those after it are of the end of a restart.
	JobsReadyReason       = "JobsReady"
	JobSetFailedReason    = "JobSetFailed"
	JobSetCompletedReason = "JobSetCompleted"
	JobSetSuspendedReason = "JobSetSuspended"
)
