package v1beta2

// Labels of jobs and pods.
const (
	// QueueNameLabel on a job names the LocalQueue it waits in.
	QueueNameLabel = "kueue.x-k8s.io/queue-name"
	// PriorityClassLabel on a job names its WorkloadPriorityClass.
	PriorityClassLabel = "kueue.x-k8s.io/priority-class"
	// MaxExecTimeSecondsLabel on a job limits how long it may run.
	MaxExecTimeSecondsLabel = "kueue.x-k8s.io/max-exec-time-seconds"
	// PrebuiltWorkloadLabel on a job names a Workload made beforehand; an
	// annotation of the same name does too, and wins.
	PrebuiltWorkloadLabel = "kueue.x-k8s.io/prebuilt-workload-name"
	// PodGroupNameLabel on pods joins them to one workload.
	PodGroupNameLabel = "kueue.x-k8s.io/pod-group-name"
	// PodGroupPodIndexLabel on a pod is its index in its pod group.
	PodGroupPodIndexLabel = "kueue.x-k8s.io/pod-group-pod-index"
	// ManagedLabel marks pods whose start is controlled.
	ManagedLabel = "kueue.x-k8s.io/managed"
	// PodSetLabel on a pod names its pod set.
	PodSetLabel = "kueue.x-k8s.io/podset"
	// ClusterQueueNameLabel on a pod names the ClusterQueue it uses.
	ClusterQueueNameLabel = "kueue.x-k8s.io/cluster-queue-name"
	// LocalQueueNameLabel on a pod names the LocalQueue it came through.
	LocalQueueNameLabel = "kueue.x-k8s.io/local-queue-name"
	// MultiKueueWorkerWorkloadPodLabel marks pods of a job sent by another cluster.
	MultiKueueWorkerWorkloadPodLabel = "kueue.x-k8s.io/multikueue-worker-workload-pod"
)

// Labels of Workloads.
const (
	// JobUIDLabel is the UID of the job of a Workload.
	JobUIDLabel = "kueue.x-k8s.io/job-uid"
	// MultiKueueOriginLabel names the cluster a Workload came from.
	MultiKueueOriginLabel = "kueue.x-k8s.io/multikueue-origin"
	// ConcurrentAdmissionParentLabel names the Workload a variant belongs to.
	ConcurrentAdmissionParentLabel = "kueue.x-k8s.io/concurrent-admission-parent"
)

// Annotations of jobs and pods.
const (
	// JobMinParallelismAnnotation is the fewest pods a batch/v1 Job can start with.
	JobMinParallelismAnnotation = "kueue.x-k8s.io/job-min-parallelism"
	// JobCompletionsEqualParallelismAnnotation keeps completions equal to a
	// reduced parallelism.
	JobCompletionsEqualParallelismAnnotation = "kueue.x-k8s.io/job-completions-equal-parallelism"
	// ElasticJobAnnotation lets a running job change its size.
	ElasticJobAnnotation = "kueue.x-k8s.io/elastic-job"
	// AdmissionGatedByAnnotation names who must agree before admission.
	AdmissionGatedByAnnotation = "kueue.x-k8s.io/admission-gated-by"
	// AfterAnnotation of a job, and of its Workload, names jobs of its namespace that must have
	// ended before it is admitted: "ok:train,any:prepare", see jobs.ParseDependencies.
	AfterAnnotation = "mlbatch.dev/after"
	// AfterStateAnnotation of a Workload is AfterStateMet once they have, and otherwise says in
	// words which of them it waits for.
	AfterStateAnnotation = "mlbatch.dev/after-state"
	AfterStateMet        = "met"
	// AfterNever is what AfterStateAnnotation says of a job that has ended otherwise than it must.
	AfterNever = "so this job never starts"
	// HeldByAnnotation of a Workload names the administrator who holds it back: members of the
	// team do not release it.
	HeldByAnnotation = "mlbatch.dev/held-by"
	// HeldBySomeAdministrator is its value where the name of the administrator is not known.
	HeldBySomeAdministrator = "an administrator"
	// PodGroupTotalCountAnnotation is the number of pods of a pod group.
	PodGroupTotalCountAnnotation = "kueue.x-k8s.io/pod-group-total-count"
	// PodGroupFastAdmissionAnnotation admits a pod group at its first pod.
	PodGroupFastAdmissionAnnotation = "kueue.x-k8s.io/pod-group-fast-admission"
	// PodGroupServingAnnotation marks a pod group that never ends.
	PodGroupServingAnnotation = "kueue.x-k8s.io/pod-group-serving"
	// RetriableInGroupAnnotation says whether failed pods may be replaced.
	RetriableInGroupAnnotation = "kueue.x-k8s.io/retriable-in-group"
	// RoleHashAnnotation is the fingerprint of a pod's role.
	RoleHashAnnotation = "kueue.x-k8s.io/role-hash"
	// IsGroupWorkloadAnnotation marks the Workload of a pod group.
	IsGroupWorkloadAnnotation = "kueue.x-k8s.io/is-group-workload" //nolint:gosec // a name, not a credential
	// PodSuspendingParentAnnotation names the kind that suspends a pod.
	PodSuspendingParentAnnotation = "kueue.x-k8s.io/pod-suspending-parent"
	// PodGroupPodIndexLabelAnnotation names the label with a pod's index.
	PodGroupPodIndexLabelAnnotation = "kueue.x-k8s.io/pod-group-pod-index-label"
	// PodSetRequiredTopologyAnnotation is the level all pods must share.
	PodSetRequiredTopologyAnnotation = "kueue.x-k8s.io/podset-required-topology"
	// PodSetPreferredTopologyAnnotation is the level all pods should share.
	PodSetPreferredTopologyAnnotation = "kueue.x-k8s.io/podset-preferred-topology"
	// PodSetUnconstrainedTopologyAnnotation asks for places anywhere.
	PodSetUnconstrainedTopologyAnnotation = "kueue.x-k8s.io/podset-unconstrained-topology"
	// PodSetSliceRequiredTopologyAnnotation is the level each slice must share.
	PodSetSliceRequiredTopologyAnnotation = "kueue.x-k8s.io/podset-slice-required-topology"
	// PodSetSliceSizeAnnotation is the number of pods of a slice.
	PodSetSliceSizeAnnotation = "kueue.x-k8s.io/podset-slice-size"
	// PodSetSliceRequiredTopologyConstraintsAnnotation are nested slices in JSON.
	PodSetSliceRequiredTopologyConstraintsAnnotation = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
	// PodSetGroupNameAnnotation joins pod sets that share a domain.
	PodSetGroupNameAnnotation = "kueue.x-k8s.io/podset-group-name"
	// PodIndexOffsetAnnotation is the index of the first pod of a set.
	PodIndexOffsetAnnotation = "kueue.x-k8s.io/pod-index-offset"
	// EndsOnceAnnotation, on a Workload, is "true" if no pod of its job follows one
	// that succeeded: once all have, the job has ended, whether or not its own
	// controller has said so yet.
	EndsOnceAnnotation = "mlbatch.dev/ends-once"
	// LaterPodSetsAnnotation, on a Workload, names pod sets, with commas, whose pods come
	// only once pods of others run, or are done: these do not wait for them.
	LaterPodSetsAnnotation = "mlbatch.dev/later-pod-sets"
	// FewerPodsAnnotation, on a Workload, says of which pod sets its job asks for fewer pods
	// than it was admitted with, such as "workers=3,others=0": the others wait for no more.
	FewerPodsAnnotation = "mlbatch.dev/fewer-pods"
	// BalancedTopologyAnnotation, on pods, is the level of which domains should have equal shares of the pods of their
	// set, as few domains as do: 24 pods as 12 and 12, not as 18 and 6.
	BalancedTopologyAnnotation = "mlbatch.dev/podset-balanced-topology"
	// SpreadTopologyAnnotation, on pods, is the level of which domains should have equal shares of the pods of their
	// set, as many domains as do. BalancedTopologyAnnotation goes before it.
	SpreadTopologyAnnotation = "mlbatch.dev/podset-spread-topology"
	// MaxPerDomainAnnotation, on pods, is how many pods of their set a domain has at most, as "LABEL=N": 16 of the 18
	// nodes of a rack, so that two may fail. For several labels there are several, with commas between them.
	MaxPerDomainAnnotation = "mlbatch.dev/podset-max-per-domain"
	// TopologyGroupsAnnotation, on pods, names groups that their set is in, as "LABEL=GROUP", with commas, the widest
	// first: all sets of the job that name a group are in one domain of its level, whatever they ask for beside.
	TopologyGroupsAnnotation = "mlbatch.dev/podset-topology-groups"
	// ComputeDomainAnnotation, on a job or on a pod template, is "true" for pods that share memory over NVLink
	// from node to node: the job gets a ComputeDomain of NVIDIA's DRA driver, named after its Workload, and
	// these pods a channel in it.
	ComputeDomainAnnotation = "mlbatch.dev/compute-domain"
	// ComputeDomainPodSetsAnnotation, on a Workload, names the pod sets, with commas, whose pods are in a
	// ComputeDomain: see ComputeDomainClaims.
	ComputeDomainPodSetsAnnotation = "mlbatch.dev/compute-domain-pod-sets"
	// ComputeDomainClaimAnnotation, on a pod, names the ResourceClaimTemplate of the ComputeDomain that it is in. The
	// admission writes it, and the webhook of pods adds the claim.
	ComputeDomainClaimAnnotation = "mlbatch.dev/compute-domain-claim"
	// NativePodGroupAnnotation, on a pod, names the PodGroup of Kubernetes (scheduling.k8s.io) that was written for its
	// Workload. The admission writes it, and the webhook of pods adds spec.schedulingGroup.
	NativePodGroupAnnotation = "mlbatch.dev/native-pod-group"
	// MinimumRuntimeAnnotation, on a ClusterQueue or a WorkloadPriorityClass, is for how long their workloads are not
	// evicted for others, a duration such as "30m". What the class says goes before the queue.
	MinimumRuntimeAnnotation = "mlbatch.dev/minimum-runtime"
	// RetryPolicyAnnotation, on a job, its LocalQueue or its ClusterQueue, says which failures of a job are followed by
	// another attempt, and which end it, such as "UserError exit 3: Fail; Crash: Retry limit 2; limit: 5". What the job
	// says goes before its queues.
	RetryPolicyAnnotation = "mlbatch.dev/retry-policy"
	// RelocationsPerHourAnnotation, on a ClusterQueue, is how many of its workloads may be stopped within an hour to
	// continue on other nodes, so that a gang that has quota has the nodes it needs, in one rack say. Each is relocated once
	// at most.
	RelocationsPerHourAnnotation = "mlbatch.dev/relocations-per-hour"
	// ProgressEveryAnnotation, on a job, is how often it takes a step, pauses included, a duration such as "5m": one that
	// takes none for longer hangs. ProgressFirstAnnotation is how long the first step may take once all pods run.
	ProgressEveryAnnotation = "mlbatch.dev/progress-every"
	ProgressFirstAnnotation = "mlbatch.dev/progress-first"
	// ProgressLogAnnotation, on a job, is a regular expression (RE2) of lines of the log of its first pod that tell of a
	// step. Its first group is the number of the step; without one each line that matches is a step.
	ProgressLogAnnotation = "mlbatch.dev/progress-log"
	// OnHangAnnotation, on a job, is what is done when it hangs: OnHangObserve, which is the default, or OnHangRestart.
	// HangRestartsAnnotation is how often it is restarted for that at most.
	OnHangAnnotation       = "mlbatch.dev/on-hang"
	OnHangObserve          = "Observe"
	OnHangRestart          = "Restart"
	HangRestartsAnnotation = "mlbatch.dev/hang-restarts"
	// StepAnnotation, on a pod, is the last step that it has taken, a number above 0 that grows. The pod writes it, or
	// whoever watches it.
	StepAnnotation = "mlbatch.dev/step"
	// StopNoticeAnnotation, on a job, is how long before it is stopped its pods want to be told so, a duration such as
	// "60s"; on its Workload it is how long they get, which is no longer than the installation allows.
	StopNoticeAnnotation = "mlbatch.dev/stop-notice"
	// StopFileAnnotation, on a pod of such a job, is "true": the webhook of pods adds a volume by which its containers
	// read when and why they are stopped. The admission writes it.
	StopFileAnnotation = "mlbatch.dev/stop-file"
	// StopAtAnnotation and StopReasonAnnotation, on a pod, are when it is stopped at the latest, in RFC 3339, and why.
	StopAtAnnotation     = "mlbatch.dev/stop-at"
	StopReasonAnnotation = "mlbatch.dev/stop-reason"
	// StopAcknowledgedAnnotation, on a pod that was told so, is "true" once its job has saved what it has done: the job
	// is stopped at once then. The pod writes it, or whoever looks after it.
	StopAcknowledgedAnnotation = "mlbatch.dev/stop-acknowledged"
	// SubmittedAtAnnotation on a job and its Workload is when the job was created,
	// in RFC 3339 with nanoseconds: object metadata has seconds only, and jobs
	// submitted within one are to start in their order. The webhook sets it.
	SubmittedAtAnnotation = "mlbatch.dev/submitted-at"
	// AwaitedPriorityClassAnnotation on a Workload is the WorkloadPriorityClass that
	// its job names and that does not exist: the Workload is held until it does.
	AwaitedPriorityClassAnnotation = "mlbatch.dev/awaited-priority-class"
	// PodsRefusedAnnotation on a Workload is why the API server lets no pods of its job be made,
	// which was found out when it had quota: the Workload is held until they may be.
	PodsRefusedAnnotation = "mlbatch.dev/pods-refused"
	// GroupAwaitedAnnotation on a Workload is what is missing or wrong of the group of Sakkara's that pods of its job
	// are of: the Workload is held until it is there, and right.
	GroupAwaitedAnnotation = "mlbatch.dev/group-awaited"
	// SakkaraGroupAnnotation on a Workload names the group of Sakkara's as whose constraints say its pods are placed.
	SakkaraGroupAnnotation = "mlbatch.dev/sakkara-group"
	// SakkaraPlacedAnnotation on such a Workload is "true" if the constraints are written into its pod templates: they are not
	// their author's words then.
	SakkaraPlacedAnnotation = "mlbatch.dev/sakkara-placed"
	// ToldOfAnnotation on the ConfigMap of a group of Sakkara's names the Workload whose outcome is written there.
	ToldOfAnnotation = "mlbatch.dev/told-of"
	// WorkloadAnnotation on a pod names its Workload.
	WorkloadAnnotation = "kueue.x-k8s.io/workload"
	// WorkloadSliceNameAnnotation names the first slice of an elastic job.
	WorkloadSliceNameAnnotation = "kueue.x-k8s.io/workload-slice-name"
	// WorkloadSliceReplacementForAnnotation names the slice a Workload replaces.
	WorkloadSliceReplacementForAnnotation = "kueue.x-k8s.io/workload-slice-replacement-for"
	// SafeToForcefullyDeleteAnnotation on a pod allows deletion without grace
	// when its node is gone.
	SafeToForcefullyDeleteAnnotation = "kueue.x-k8s.io/safe-to-forcefully-delete"
	// StoppingAnnotation marks a Job that is being stopped.
	StoppingAnnotation = "kueue.x-k8s.io/stopping"
	// ComponentWorkloadIndexAnnotation is the index of a component's Workload.
	ComponentWorkloadIndexAnnotation = "kueue.x-k8s.io/component-workload-index"
	// MultiKueueOriginUIDAnnotation is the UID of the job in the cluster it came
	// from.
	MultiKueueOriginUIDAnnotation = "kueue.x-k8s.io/multikueue-origin-uid"
)

// Annotations of ResourceFlavors.
const (
	// NodesOnDemandAnnotation on a ResourceFlavor, if "true", says that its nodes are
	// made when pods ask for them: quota is given although no node is there yet.
	NodesOnDemandAnnotation = "mlbatch.dev/nodes-on-demand"
)

// Annotations of Workloads.
const (
	// PriorityBoostAnnotation is added to a Workload's priority.
	PriorityBoostAnnotation = "kueue.x-k8s.io/priority-boost"
	// JobOwnerGVKAnnotation is the kind of the job.
	JobOwnerGVKAnnotation = "kueue.x-k8s.io/job-owner-gvk"
	// JobOwnerNameAnnotation is the name of the job.
	JobOwnerNameAnnotation = "kueue.x-k8s.io/job-owner-name"
	// AllowedResourceFlavorsAnnotation limits the flavors a variant may use.
	AllowedResourceFlavorsAnnotation = "kueue.x-k8s.io/workload-allowed-resource-flavors"
)

// Scheduling gates of pods.
const (
	// AdmissionGate holds a pod until its workload is admitted.
	AdmissionGate = "kueue.x-k8s.io/admission"
	// TopologyGate holds a pod until it has a place.
	TopologyGate = "kueue.x-k8s.io/topology"
	// ElasticJobGate holds a pod of an elastic job until its slice is admitted.
	ElasticJobGate = "kueue.x-k8s.io/elastic-job"
)

// Finalizers.
const (
	// ResourceInUseFinalizer keeps queues, flavors and Workloads while used.
	ResourceInUseFinalizer = "kueue.x-k8s.io/resource-in-use"
	// PodFinalizer keeps pods until they are accounted for.
	PodFinalizer = "kueue.x-k8s.io/managed"
)

// Names of preemption gates and admission check controllers.
const (
	// MultiKueuePreemptionGate is opened by the cluster that sent the workload.
	MultiKueuePreemptionGate = "kueue.x-k8s.io/multikueue"
	// ConcurrentAdmissionPreemptionGate lets one variant preempt at a time.
	ConcurrentAdmissionPreemptionGate = "kueue.x-k8s.io/concurrent-admission"
	// MultiKueueControllerName answers checks by sending to other clusters.
	MultiKueueControllerName = "kueue.x-k8s.io/multikueue"
	// ProvisioningRequestControllerName answers checks by asking for nodes.
	ProvisioningRequestControllerName = "kueue.x-k8s.io/provisioning-request"
)

// ProvisioningParameterPrefix begins annotations of jobs that are passed on to
// their ProvisioningRequests as parameters.
const ProvisioningParameterPrefix = "provreq.kueue.x-k8s.io/"

// DefaultLocalQueueName is the LocalQueue of jobs that name none, where a
// namespace has one of this name.
const DefaultLocalQueueName LocalQueueName = "default"

// Labels of namespaces.
const (
	// TeamNamespaceLabel with value "true" puts a namespace under our rule.
	TeamNamespaceLabel = "mlbatch-team-namespace"
)
