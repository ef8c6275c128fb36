package settings

// Reasons that several gates share.
const (
	builtIn     = "it is how mlbatch works; take the gate out"
	internal    = "it is about the inside of Kueue, which is made differently here"
	noMulti     = "mlbatch does not send jobs to other clusters yet"
	noDevices   = "mlbatch does not count devices of dynamic resource allocation yet"
	noElastic   = "mlbatch does not resize running jobs yet"
	byTopology  = "gangs are placed, and their lost nodes replaced, by the Topology of their flavor in any case"
	nearest     = "the best domain is found exactly, by mlbatch's own search"
	noLikes     = "mlbatch does not weigh preferred node affinity yet"
	noSuchKind  = "mlbatch does not queue this kind of job yet"
	noVariants  = "mlbatch does not try several flavors of one job at a time yet"
	hardened    = "such objects are refused in any case"
	alwaysThere = "the metrics are always there; they cost little"
)

// gates are all feature gates of Kueue 0.20, in the order of its documentation.
func gates() []gate {
	return []gate{
		{"PartialAdmission", "Beta", true, choice, "", ""},
		{
			"FlavorFungibility",
			"Beta",
			true,
			always,
			"",
			"set whenCanBorrow and whenCanPreempt to TryNextFlavor or MayStopSearch in the queue instead",
		},
		{"FlavorFungibilityPreserveScanProgress", "Beta", true, always, "FlavorFungibility", builtIn},
		{"VisibilityOnDemand", "Beta", true, always, "", builtIn},
		{"DisableWaitForPodsReady", "Alpha", false, choice, "", ""},
		{"PrioritySortingWithinCohort", "Beta", true, always, "", builtIn},
		{
			"PrioritizePreemptorWorkloads",
			"Alpha",
			false,
			inner,
			"",
			"who waits for its own evictions keeps its claim in any case",
		},
		{"RecomputeAssignmentUponPreemptionTargetsOverlap", "Beta", true, inner, "", internal},
		{"FairSharingPreemptWithinNominal", "Beta", true, choice, "", ""},
		{"FairSharingPrioritizeNonBorrowing", "Beta", true, choice, "", ""},
		{
			"AdmissionFairSharing",
			"Beta",
			true,
			always,
			"",
			"it is on for queues that ask for it; set admissionScope in the queue instead",
		},
		{"SchedulingEquivalenceHashing", "Beta", true, inner, "", internal},
		{"PriorityBoost", "Alpha", false, choice, "", ""},
		{"AdmissionGatedBy", "Beta", true, choice, "", ""},
		{"ConcurrentAdmission", "Alpha", false, absent, "", noVariants},
		{"QuotaCheckStrategy", "Beta", true, always, "", "set resources.quotaCheckStrategy instead"},
		{"ReclaimablePods", "Beta", true, choice, "", ""},
		{"TopologyAwareScheduling", "Beta", true, inner, "", byTopology},
		{"TASProfileMixed", "Beta", true, inner, "", nearest},
		{"TASBalancedPlacement", "Alpha", false, choice, "TopologyAwareScheduling", ""},
		{"TASMultiLayerTopology", "Beta", true, inner, "", byTopology},
		{"TASRespectNodeAffinityPreferred", "Alpha", false, absent, "TopologyAwareScheduling", noLikes},
		{"TASFailedNodeReplacement", "Beta", true, inner, "", byTopology},
		{"TASFailedNodeReplacementFailFast", "Beta", true, inner, "", byTopology},
		{"TASReplaceNodeOnPodTermination", "Beta", true, inner, "", byTopology},
		{"TASReplaceNodeOnNodeTaints", "Beta", true, inner, "", byTopology},
		{
			"TASReplaceNodeDueToNotReadyOverFixedTime",
			"Deprecated",
			false,
			absent,
			"TopologyAwareScheduling",
			"pods get other nodes when Kubernetes takes them off a node, or may not start there",
		},
		{"SkipReassignmentForPodOwnedWorkloads", "Beta", true, inner, "", internal},
		{"TASRecomputeAssignmentWithinSchedulingCycle", "Beta", true, inner, "", internal},
		{"TASHandleOverlappingFlavors", "Beta", true, inner, "", internal},
		{"TASAssignmentsEncodingByHostnamePrefix", "Beta", true, inner, "", internal},
		{"TASCacheNodeMatchResults", "Beta", true, inner, "", internal},
		{"TASCachingRemainingResources", "Beta", true, inner, "", internal},
		{"TASCacheTopologyTree", "Beta", true, inner, "", internal},
		{"VectorizedResourceRequests", "Beta", true, inner, "", internal},
		{"TASValidateWorkloadSliceSize", "Beta", true, inner, "", internal},
		{"ElasticJobsViaWorkloadSlices", "Beta", true, inner, "", noElastic},
		{"ElasticJobsViaWorkloadSlicesWithTAS", "Alpha", false, absent, "ElasticJobsViaWorkloadSlices", noElastic},
		{"KueueDRAIntegration", "Beta", true, inner, "", noDevices},
		{"KueueDRAIntegrationExtendedResource", "Beta", true, inner, "", noDevices},
		{"KueueDRAIntegrationPartitionableDevices", "Beta", true, inner, "", noDevices},
		{"KueueDRAIntegrationConsumableCapacity", "Alpha", false, absent, "KueueDRAIntegration", noDevices},
		{"KueueDRARejectWorkloadsWhenDRADisabled", "Beta", true, inner, "", noDevices},
		{"MultiKueue", "Beta", true, inner, "", noMulti},
		{"MultiKueueAdaptersForCustomJobs", "Beta", true, inner, "", noMulti},
		{"MultiKueueClusterProfile", "Alpha", false, absent, "MultiKueue", noMulti},
		{"MultiKueueOrchestratedPreemption", "Alpha", false, absent, "MultiKueue", noMulti},
		{"MultiKueueIncrementalDispatcherConfig", "Beta", true, inner, "", noMulti},
		{"MultiKueueIncrementalDispatcherRespectConfigOrder", "Beta", true, inner, "", noMulti},
		{"MultiKueueManagerQuotaAutomation", "Alpha", false, absent, "MultiKueue", noMulti},
		{"MultiKueueRemoteSpecSync", "Beta", true, inner, "", noMulti},
		{"MultiKueueKubeConfigPathValidation", "Beta", true, inner, "", noMulti},
		{"LocalQueueMetrics", "Beta", true, choice, "", ""},
		{"MetricsForCohorts", "Beta", true, always, "", alwaysThere},
		{"MetricForWorkloadCreationLatency", "Beta", true, always, "", alwaysThere},
		{customLabelsGate, "Alpha", false, choice, "", ""},
		{"UnadmittedWorkloadsObservability", "Beta", true, always, "", builtIn},
		{"UnadmittedWorkloadsExplicitStatus", "Beta", false, choice, "", ""},
		{
			"FailureRecoveryPolicy",
			"Alpha",
			false,
			inner,
			"",
			"pods of unreachable nodes are deleted by force 60 s after their time to end, those of StatefulSets if annotated",
		},
		{"FinishOrphanedWorkloads", "Beta", true, always, "", builtIn},
		{"CleanupProvisioningRequestsOnEviction", "Beta", true, always, "", builtIn},
		{
			"FastQuotaReleaseInPodIntegration",
			"Alpha",
			false,
			absent,
			"",
			"quota is released when the pods are gone, never before",
		},
		{"WorkloadPriorityClassDefaulting", "Beta", true, choice, "", ""},
		{"WorkloadIdentifierAnnotations", "Beta", true, inner, "", noSuchKind},
		{
			"ShortWorkloadNames",
			"Alpha",
			false,
			inner,
			"",
			"names of Workloads have 63 characters at most in any case",
		},
		{"WorkloadRequestUseMergePatch", "Alpha", false, inner, "", internal},
		{"AssignQueueLabelsForPods", "Beta", true, choice, "", ""},
		{"RemoveFinalizersWithStrictPatch", "Beta", true, inner, "", internal},
		{"RejectUpdatesToCQWithInvalidOnFlavors", "Alpha", false, inner, "", hardened},
		{"WorkloadValidateResourcesAreNonNegative", "Beta", true, always, "", hardened},
		{"WorkloadValidationForPodSetMetadata", "Beta", true, always, "", hardened},
		{"LWSImmutableGroupSize", "Beta", true, inner, "", noSuchKind},
		{"PodIntegrationValidateGroupOwner", "Beta", true, inner, "", noSuchKind},
		{"ValidateRayAndSparkJobUpdates", "Beta", true, inner, "", noSuchKind},
		{"SkipAncestorCheckForDeletedWorkloads", "Beta", true, inner, "", internal},
		{"DeferRayServiceFinalizationForRedisCleanup", "Beta", true, inner, "", noSuchKind},
		{"SparkApplicationIntegration", "Alpha", false, absent, "", noSuchKind},
		{
			"SchedulerLibraryIntegration",
			"Alpha",
			false,
			inner,
			"",
			"mlbatch decides nodes and quota together in any case",
		},
		{"ManagedJobsNamespaceSelectorAlwaysRespected", "GA", true, always, "", "it is locked in Kueue too"},
		{"TLSOptions", "GA", true, always, "", "it is locked in Kueue too"},
	}
}

// retiredGates are gates of earlier releases that files may still name, with
// the value that they have for good.
func retiredGates() map[string]bool {
	return map[string]bool{
		"LendingLimit":                               true,
		"MultiplePreemptions":                        true,
		"ConfigurableResourceTransformations":        true,
		"AdmissionCheckValidationRules":              false,
		"ExposeFlavorsInLocalQueue":                  true,
		"HierarchicalCohorts":                        true,
		"KeepQuotaForProvReqRetry":                   false,
		"ManagedJobsNamespaceSelector":               true,
		"MultiKueueBatchJobWithManagedBy":            true,
		"ObjectRetentionPolicies":                    true,
		"QueueVisibility":                            false,
		"TASProfileLeastFreeCapacity":                false,
		"TASProfileMostFreeCapacity":                 false,
		"WorkloadResourceRequestsSummary":            true,
		"FlavorFungibilityImplicitPreferenceDefault": false,
	}
}
