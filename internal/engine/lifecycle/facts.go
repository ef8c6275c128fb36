package lifecycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Phase is where a job is in its life.
type Phase string

// The phases.
const (
	// New has not been looked at yet.
	New Phase = ""
	// Suspended waits for quota and has no pods.
	Suspended Phase = "Suspended"
	// Resuming creates the components.
	Resuming Phase = "Resuming"
	// Running watches the components and their pods.
	Running Phase = "Running"
	// Resetting deletes everything and starts again with the same quota.
	Resetting Phase = "Resetting"
	// Suspending deletes everything and gives the quota back.
	Suspending Phase = "Suspending"
	// Succeeded ended well.
	Succeeded Phase = "Succeeded"
	// Failed ended badly.
	Failed Phase = "Failed"
	// Terminating deletes everything because the job itself goes.
	Terminating Phase = "Terminating"
)

// Phases lists every phase but New.
func Phases() []Phase {
	return []Phase{Suspended, Resuming, Running, Resetting, Suspending, Succeeded, Failed, Terminating}
}

// ConditionType is the type of a status condition.
type ConditionType string

// The condition types.
const (
	// QuotaReserved is true while the job uses its quota.
	QuotaReserved ConditionType = "QuotaReserved"
	// ResourcesDeployed is true while components exist or are being created.
	ResourcesDeployed ConditionType = "ResourcesDeployed"
	// PodsReady is true while every expected pod runs or has succeeded.
	PodsReady ConditionType = "PodsReady"
	// Unhealthy is true while something is wrong with the components.
	Unhealthy ConditionType = "Unhealthy"
	// DeletingResources is true while components are being deleted.
	DeletingResources ConditionType = "DeletingResources"
)

// Reasons of conditions; a condition set by entering a phase has the phase's
// name as its reason.
const (
	CreateFailed          = "CreateFailed"
	MissingComponent      = "MissingComponent"
	FailedComponent       = "FailedComponent"
	FoundFailedPods       = "FoundFailedPods"
	FoundNoFailedPods     = "FoundNoFailedPods"
	AutopilotNoExecute    = "AutopilotNoExecute"
	NodeGone              = "NodeGone"
	ComponentNotGone      = "ComponentNotGone"
	PodsTerminating       = "PodsTerminating"
	SufficientPodsReady   = "SufficientPodsReady"
	InsufficientPodsReady = "InsufficientPodsReady"
	DeletionInitiated     = "DeletionInitiated"
	DeletionForced        = "DeletionForced"
	DeletionPaused        = "DeletionPaused"
	DeletionCompleted     = "DeletionCompleted"
	UnfinishedPods        = "UnfinishedPods"
)

// Condition is one status condition.
type Condition struct {
	Type    ConditionType
	True    bool
	Reason  string
	Message string
	// Since is when True last changed.
	Since time.Time
}

// Outcome is what a component says about its own end.
type Outcome int

// The outcomes.
const (
	// Undecided goes on, or never says.
	Undecided Outcome = iota
	// Completed ended well.
	Completed
	// Broken ended badly; another attempt may do better.
	Broken
	// NonRetryable ended badly by a rule of its own that says another attempt will
	// not do better, such as a Job's podFailurePolicy.
	NonRetryable
)

// PodSet is a number of equal pods that a component runs.
type PodSet struct {
	Name string
	// Expected pods that run at the same time, or that succeed.
	Expected int32
	// HeldBack is true while the component starts these pods later on purpose.
	HeldBack bool
}

// Component is one object that the job consists of.
type Component struct {
	// Name is for people: kind and name.
	Name string
	// Exists is true if the object is there and ours.
	Exists bool
	// Deleting is true if it is there and marked for deletion.
	Deleting bool
	// Watched is true if changes of the object are noticed without asking.
	Watched bool
	// Reports is true for kinds whose controller replaces failed pods and says
	// by itself when the whole is done or has failed. Other components are
	// judged by their pods.
	Reports bool
	Outcome Outcome
	// Message explains the outcome.
	Message string
	// Deputies is true for kinds whose pods are made by objects of their own, as a
	// Deployment's are by its ReplicaSet: these work on while something keeps the
	// deleted component.
	Deputies bool
	// Unreadable says why the object may not be read, and that trying again would
	// find the same; "" if it was read. Exists then says whether it was created.
	Unreadable string
	// Finalizers keep the object once it is marked for deletion.
	Finalizers []string
	// NodeGone says of a component that does not exist how it went with its node; ""
	// if it did not.
	NodeGone string
	PodSets  []PodSet
}

// maker is what decides whether the component may make pods. forced is true once
// deletion was ordered of what it owns, too. One that may not be read counts as
// deleted from the order on: there is no way to learn that it is.
func (c Component) maker(ordered, forced bool) core.MakerState {
	return core.MakerState{
		Gone:     !c.Exists,
		Ended:    c.Reports && c.Outcome != Undecided,
		Deleting: c.Deleting || c.Unreadable != "" && ordered,
		Outlived: c.Deputies && c.Unreadable == "" && !forced,
	}
}

// PodPhase is status.phase of a pod.
type PodPhase string

// The phases of pods.
const (
	PodPending   PodPhase = "Pending"
	PodRunning   PodPhase = "Running"
	PodSucceeded PodPhase = "Succeeded"
	PodFailed    PodPhase = "Failed"
)

// Pod is one pod of the job.
type Pod struct {
	Name string
	// UID tells it from another pod of the same name.
	UID string
	// PodSet is the name of its pod set; "" if the pod does not say.
	PodSet string
	Node   string
	Phase  PodPhase
	// Deleting is true if the pod is marked for deletion.
	Deleting bool
	// Until is when the grace of a deleted pod is over; zero if it has none.
	Until time.Time
	// OnBadNode says why the pod has to leave its node; "" if it may stay. NodeGone
	// is true if there is no such node any more, or it was evicted from it.
	OnBadNode string
	NodeGone  bool
	// ExitCodes are the codes other than 0 that its containers ended with.
	ExitCodes []int32
	// Finalizers keep the object once it is marked for deletion.
	Finalizers []string
}

// State is what decides which quota and place the pod holds.
func (p Pod) State() core.PodState {
	return core.PodState{Bound: p.Node != "", Ended: p.Finished(), Deleting: p.Deleting}
}

// Finished reports whether the pod has ended and uses nothing any more. A pod
// whose phase is unknown has not.
func (p Pod) Finished() bool { return p.Phase == PodSucceeded || p.Phase == PodFailed }

// CreateError is why a component could not be created.
type CreateError struct {
	Component string
	Message   string
	// Fatal errors will not go away by trying again.
	Fatal bool
}

// Facts are everything a decision depends on, besides the time.
type Facts struct {
	Phase      Phase
	Retries    int32
	Conditions []Condition
	// Kind is what the job is called in messages, such as AppWrapper.
	Kind string
	// Suspend is true while the job may not run, Deleting that it is marked for
	// deletion.
	Suspend, Deleting bool
	// Finalizer is true if ours is on the object.
	Finalizer bool
	// Invalid says why the components can never run; "" if they can.
	Invalid string
	Policy  Policy
	// Components are in the order of creation.
	Components []Component
	// Pods are all pods that are known as the job's, sorted by name.
	Pods []Pod
	// Failure is how the pod failed that did so first, and Earlier are the attempts before this one.
	Failure core.Failure
	Earlier core.RetryHistory
	// CreateError is the result of a create that was carried out for this very
	// decision; nil if none was, or if it went well.
	CreateError *CreateError
	// Fresh is true if Components and Pods were read from the API server for
	// this decision and not from a cache that may lag behind.
	Fresh bool
}

// Action is what is to be done to components and pods.
type Action string

// The actions.
const (
	// Nothing is to be done.
	Nothing Action = "Nothing"
	// Create makes the components that do not exist, in order. Its result is
	// put into the facts and Decide is asked again before status is written.
	Create Action = "Create"
	// Delete deletes components and pods that are not marked for deletion yet.
	Delete Action = "Delete"
	// ForceDelete deletes pods without grace; components too once no pod is left.
	ForceDelete Action = "ForceDelete"
)

// FinalizerChange is what is to be done to our finalizer.
type FinalizerChange string

// The changes of the finalizer.
const (
	KeepFinalizer   FinalizerChange = ""
	AddFinalizer    FinalizerChange = "Add"
	RemoveFinalizer FinalizerChange = "Remove"
)

// Event tells people what happened.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Transition is the answer to Facts.
type Transition struct {
	Phase   Phase
	Retries int32
	// Conditions are all of them, as they are to be written, in a fixed order.
	Conditions []Condition
	Action     Action
	Finalizer  FinalizerChange
	Events     []Event
	// ResetReason is the reason of a reset that begins with this step; else "".
	ResetReason string
	// RecheckAfter is when to ask again even if nothing changes; 0 is never.
	RecheckAfter time.Duration
	// Confirm is true if the step relies on something being absent and the facts
	// were not Fresh. It must not be carried out: read fresh facts and ask again.
	Confirm bool
}
