package core

import "strings"

// Category is the kind of cause that ended an attempt of a job. It is what a policy of retries can be a
// table over: whether another attempt may end otherwise, where, and whether the job is to blame.
type Category string

// The categories, in the terms of the literature on failures of training jobs (Kokolis et al.,
// arXiv 2410.21680; Llama 3, arXiv 2407.21783) and of schedulers.
const (
	// CategoryUserError: the program ended by itself with an exit code of its own, on a healthy node.
	CategoryUserError Category = "UserError"
	// CategoryCrash: a signal that the program caused ended it, such as SIGSEGV or SIGABRT: a fault of its own, of
	// the hardware, or a peer that it waited for in vain.
	CategoryCrash Category = "Crash"
	// CategoryOutOfMemory: it needed more memory than its limit, or than its node had.
	CategoryOutOfMemory Category = "OutOfMemory"
	// CategoryNodeFailure: its node, or a device of it, failed.
	CategoryNodeFailure Category = "NodeFailure"
	// CategoryNetworkFailure: its node had no network.
	CategoryNetworkFailure Category = "NetworkFailure"
	// CategoryStorageFailure: it used more local storage than its limit, or than its node had.
	CategoryStorageFailure Category = "StorageFailure"
	// CategoryStartFailure: its pods did not come up in time, or could not be started.
	CategoryStartFailure Category = "StartFailure"
	// CategoryPreemption: another job needed its quota or nodes.
	CategoryPreemption Category = "Preemption"
	// CategoryRelocation: it was to continue elsewhere, where its quota and nodes were free.
	CategoryRelocation Category = "Relocation"
	// CategoryMaintenance: people or programs emptied its node.
	CategoryMaintenance Category = "Maintenance"
	// CategoryHang: it ran, and made no progress for longer than it had stated.
	CategoryHang Category = "Hang"
	// CategoryTimeLimit: its time was over.
	CategoryTimeLimit Category = "TimeLimit"
	// CategoryStopped: people stopped it, its queue, or a check took its admission back.
	CategoryStopped Category = "Stopped"
	// CategoryUnknown: nobody said why, as of a process that something killed.
	CategoryUnknown Category = "Unknown"
)

// Categories are all of them.
func Categories() []Category {
	return []Category{
		CategoryUserError,
		CategoryCrash,
		CategoryOutOfMemory,
		CategoryNodeFailure,
		CategoryNetworkFailure,
		CategoryStorageFailure,
		CategoryStartFailure,
		CategoryPreemption,
		CategoryRelocation,
		CategoryMaintenance,
		CategoryHang,
		CategoryTimeLimit,
		CategoryStopped,
		CategoryUnknown,
	}
}

// NodeTrouble is what was wrong with a node when a pod failed there.
type NodeTrouble int

// What may be wrong.
const (
	NodeFine NodeTrouble = iota
	// NodeBad: it is gone or not ready, health checks say that its work has to leave, or a device failed.
	NodeBad
	// NodeCutOff: it has no network.
	NodeCutOff
	// NodeDrained: somebody is emptying it.
	NodeDrained
)

// Evidence is what is known of how an attempt, or a pod, ended. Either Evicted is set, or what is known
// of the pod is.
type Evidence struct {
	// Evicted and Cause are the reason of the eviction of its Workload and the finer one within it.
	Evicted, Cause string
	// Disruption is the reason of the pod's condition DisruptionTarget; "" if it was not disrupted.
	Disruption string
	// PodReason and PodMessage are what Kubernetes says of the pod as a whole.
	PodReason, PodMessage string
	// Container is the reason of the container that failed first, ExitCode its exit code: 0 if none failed.
	Container string
	ExitCode  int32
	// Node is the state of its node.
	Node NodeTrouble
}

// Pressure reports whether a kubelet ended the pod for what its node had too little of.
func (e *Evidence) Pressure() bool {
	return e.PodReason == "Evicted" && strings.Contains(e.PodMessage, "low on resource")
}

// CategoryOf is the category of what is known. What says most counts: an eviction's reason; that memory
// ran out, on whatever node; then the node, because what fails on a bad one proves nothing of the
// program; then what was done to the pod; and only then the exit code.
func CategoryOf(e Evidence) Category {
	if e.Evicted != "" {
		return first(evictions(), e.Cause, e.Evicted)
	}
	if e.Container == "OOMKilled" {
		return CategoryOutOfMemory
	}
	if e.PodReason == "Evicted" { // by the kubelet, for what the pod or its node used too much of
		return ofPressure(e.PodMessage)
	}
	switch e.Node {
	case NodeDrained:
		return CategoryMaintenance
	case NodeCutOff:
		return CategoryNetworkFailure
	case NodeBad:
		return CategoryNodeFailure
	case NodeFine:
	}
	if c := first(disruptions(), e.Disruption, e.PodReason, e.Container); c != CategoryUnknown {
		return c
	}
	return ofExit(e.ExitCode)
}

// first is the category of the first of some words that a table has.
func first(table map[string]Category, of ...string) Category {
	for _, word := range of {
		if c, known := table[word]; known {
			return c
		}
	}
	return CategoryUnknown
}

// evictions are the categories of evictions, by reason or by the cause within it.
func evictions() map[string]Category {
	return map[string]Category{
		"Preempted":                    CategoryPreemption,
		string(Relocated):              CategoryRelocation,
		"FlavorMigration":              CategoryRelocation,
		string(NodeFailures):           CategoryNodeFailure,
		"NodesRefused":                 CategoryStartFailure,
		"PodsReadyTimeout":             CategoryStartFailure,
		"RequeuingLimitExceeded":       CategoryStartFailure,
		"Hang":                         CategoryHang,
		"MaximumExecutionTimeExceeded": CategoryTimeLimit,
		string(ClusterQueueStopped):    CategoryStopped,
		string(LocalQueueStopped):      CategoryStopped,
		"AdmissionCheck":               CategoryStopped,
		"Deactivated":                  CategoryStopped,
	}
}

// disruptions are the categories of what is done to pods: reasons of the condition DisruptionTarget, of
// pods that their kubelet ended or did not take, and of containers that could not be started.
func disruptions() map[string]Category {
	return map[string]Category{
		"PreemptionByScheduler":      CategoryPreemption,
		"Preempting":                 CategoryPreemption, // by the kubelet, for a critical pod
		"DeletionByTaintManager":     CategoryNodeFailure,
		"DeletionByPodGC":            CategoryNodeFailure,
		"NodeUnreachable":            CategoryNodeFailure,
		"NodeLost":                   CategoryNodeFailure,
		"EvictionByEvictionAPI":      CategoryMaintenance,
		"Terminated":                 CategoryMaintenance, // the node shut down in order
		"NodeShutdown":               CategoryMaintenance,
		"DeadlineExceeded":           CategoryTimeLimit,
		"UnexpectedAdmissionError":   CategoryStartFailure,
		"NodeAffinity":               CategoryStartFailure,
		"OutOfcpu":                   CategoryStartFailure,
		"OutOfmemory":                CategoryStartFailure,
		"OutOfpods":                  CategoryStartFailure,
		"OutOfnvidia.com/gpu":        CategoryStartFailure,
		"StartError":                 CategoryStartFailure,
		"ContainerCannotRun":         CategoryStartFailure,
		"CreateContainerError":       CategoryStartFailure,
		"CreateContainerConfigError": CategoryStartFailure,
		"RunContainerError":          CategoryStartFailure,
		"ErrImagePull":               CategoryStartFailure,
		"ImagePullBackOff":           CategoryStartFailure,
		"ErrImageNeverPull":          CategoryStartFailure,
		"InvalidImageName":           CategoryStartFailure,
		"ContainerStatusUnknown":     CategoryNodeFailure, // its node forgot it, as after a crash
		"TerminationByKubelet":       CategoryMaintenance, // for pressure it is told as Evicted, above
	}
}

// ofPressure is the category of an eviction by the kubelet, which tells of what there was too little only
// in its message.
func ofPressure(message string) Category {
	switch {
	case strings.Contains(message, "torage"), strings.Contains(message, "EmptyDir"),
		strings.Contains(message, "nodefs"), strings.Contains(message, "imagefs"), strings.Contains(message, "inodes"):
		return CategoryStorageFailure
	case strings.Contains(message, "memory"):
		return CategoryOutOfMemory
	}
	return CategoryNodeFailure
}

// ofExit is the category of an exit code. Those above 128 tell of a signal, as shells and runtimes count.
func ofExit(code int32) Category {
	const signal, ill, trap, abrt, bus, fpe, kill, segv, pipe, term, interrupt, hup = 128, 4, 5, 6, 7, 8, 9, 11, 13, 15, 2, 1
	switch code {
	case 0:
		return CategoryUnknown
	case signal + ill, signal + trap, signal + abrt, signal + bus, signal + fpe, signal + segv, signal + pipe:
		return CategoryCrash
	case signal + kill, signal + term, signal + interrupt, signal + hup: // from outside, by nobody who said so
		return CategoryUnknown
	}
	return CategoryUserError
}
