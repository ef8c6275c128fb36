package v1beta2

// AppWrapperControllerName is the value of spec.managedBy that means us.
const AppWrapperControllerName = "workload.codeflare.dev/appwrapper-controller"

// Labels and finalizers.
const (
	// AppWrapperLabel on components and pods names their AppWrapper.
	AppWrapperLabel = "workload.codeflare.dev/appwrapper"
	// AppWrapperUserLabel is the name of who created the AppWrapper.
	AppWrapperUserLabel = "workload.codeflare.dev/user"
	// AppWrapperUserIDLabel is the UID of who created the AppWrapper.
	AppWrapperUserIDLabel = "workload.codeflare.dev/userid"
	// AppWrapperFinalizer keeps an AppWrapper until its components are gone.
	AppWrapperFinalizer = "workload.codeflare.dev/finalizer"
)

// Annotations that set the fault tolerance of one AppWrapper.
const (
	AnnotationPrefix = "workload.codeflare.dev.appwrapper/"

	AdmissionGracePeriodDurationAnnotation         = AnnotationPrefix + "admissionGracePeriodDuration"
	WarmupGracePeriodDurationAnnotation            = AnnotationPrefix + "warmupGracePeriodDuration"
	FailureGracePeriodDurationAnnotation           = AnnotationPrefix + "failureGracePeriodDuration"
	RetryPausePeriodDurationAnnotation             = AnnotationPrefix + "retryPausePeriodDuration"
	RetryLimitAnnotation                           = AnnotationPrefix + "retryLimit"
	ForcefulDeletionGracePeriodDurationAnnotation  = AnnotationPrefix + "forcefulDeletionGracePeriodDuration"
	DeletionOnFailureGracePeriodDurationAnnotation = AnnotationPrefix + "deletionOnFailureGracePeriodDuration"
	SuccessTTLDurationAnnotation                   = AnnotationPrefix + "successTTLDuration"
	TerminalExitCodesAnnotation                    = AnnotationPrefix + "terminalExitCodes"
	RetryableExitCodesAnnotation                   = AnnotationPrefix + "retryableExitCodes"
)

// Annotations of pod sets about placement.
const (
	TASPodIndexLabelAnnotation      = AnnotationPrefix + "tas-pod-index-label"
	TASSubGroupIndexLabelAnnotation = AnnotationPrefix + "tas-sub-group-index-label"
	TASSubGroupCountAnnotation      = AnnotationPrefix + "tas-sub-group-count"
)

// Condition types.
const (
	// QuotaReserved: the job has quota.
	QuotaReserved = "QuotaReserved"
	// ResourcesDeployed: the components exist.
	ResourcesDeployed = "ResourcesDeployed"
	// PodsReady: enough pods run or succeeded.
	PodsReady = "PodsReady"
	// Unhealthy: something is wrong with the job.
	Unhealthy = "Unhealthy"
	// DeletingResources: the components are being deleted.
	DeletingResources = "DeletingResources"
)

// Reasons of conditions.
const (
	ReasonResuming                     = "Resuming"
	ReasonSuspended                    = "Suspended"
	ReasonSucceeded                    = "Succeeded"
	ReasonTerminating                  = "Terminating"
	ReasonCreateFailed                 = "CreateFailed"
	ReasonMissingComponent             = "MissingComponent"
	ReasonFailedComponent              = "FailedComponent"
	ReasonFoundFailedPods              = "FoundFailedPods"
	ReasonFoundNoFailedPods            = "FoundNoFailedPods"
	ReasonAutopilotNoExecute           = "AutopilotNoExecute"
	ReasonSufficientPodsReady          = "SufficientPodsReady"
	ReasonInsufficientPodsReady        = "InsufficientPodsReady"
	ReasonDeletionPaused               = "DeletionPaused"
	ReasonDeletionInitiated            = "DeletionInitiated"
	ReasonComponentCreationInitiated   = "ComponentCreationInitiated"
	ReasonComponentCreatedSuccessfully = "ComponentCreatedSuccessfully"
	ReasonComponentCreationErrored     = "ComponentCreationErrored"
	// ReasonComponentDeleted is misspelled since its first release; tools match
	// on it.
	ReasonComponentDeleted = "CompononetDeleted"
)
