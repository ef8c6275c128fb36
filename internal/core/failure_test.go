package core

import (
	"slices"
	"testing"
)

func TestCategoryOf(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		e    Evidence
		want Category
	}{
		"exit code":            {"the program ended by itself on a healthy node: it would do so anywhere", Evidence{ExitCode: 1, Container: "Error"}, CategoryUserError},
		"command not found":    {"shells say 127 of it, which is the author's to mend", Evidence{ExitCode: 127}, CategoryUserError},
		"exit code 255":        {"exit(-1) is no signal", Evidence{ExitCode: 255}, CategoryUserError},
		"segmentation fault":   {"a signal that the program caused may be the hardware's fault, too", Evidence{ExitCode: 139}, CategoryCrash},
		"abort":                {"collectives that time out abort their process: a peer may be to blame", Evidence{ExitCode: 134}, CategoryCrash},
		"killed":               {"SIGKILL comes from outside, and nobody said from whom", Evidence{ExitCode: 137, Container: "Error"}, CategoryUnknown},
		"terminated":           {"so does SIGTERM", Evidence{ExitCode: 143}, CategoryUnknown},
		"OOMKilled":            {"the kernel says why it killed", Evidence{ExitCode: 137, Container: "OOMKilled"}, CategoryOutOfMemory},
		"OOM on a bad node":    {"memory that ran out is not the node's fault", Evidence{ExitCode: 137, Container: "OOMKilled", Node: NodeBad}, CategoryOutOfMemory},
		"node out of memory":   {"the kubelet ended it for the memory that it used", Evidence{PodReason: "Evicted", PodMessage: "The node was low on resource: memory."}, CategoryOutOfMemory},
		"node out of storage":  {"and here for storage", Evidence{PodReason: "Evicted", PodMessage: "The node was low on resource: ephemeral-storage.", Disruption: "TerminationByKubelet"}, CategoryStorageFailure},
		"own storage limit":    {"local storage has limits of its own", Evidence{PodReason: "Evicted", PodMessage: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."}, CategoryStorageFailure},
		"no more processes":    {"what else a node is short of is the node's", Evidence{PodReason: "Evicted", PodMessage: "The node was low on resource: pids."}, CategoryNodeFailure},
		"exit on a bad node":   {"what fails on a bad node proves nothing of the program", Evidence{ExitCode: 1, Node: NodeBad}, CategoryNodeFailure},
		"node without network": {"peers were out of reach", Evidence{ExitCode: 1, Node: NodeCutOff}, CategoryNetworkFailure},
		"drained node":         {"somebody empties it, whatever pods say on leaving", Evidence{ExitCode: 143, Disruption: "EvictionByEvictionAPI", Node: NodeDrained}, CategoryMaintenance},
		"eviction API":         {"so does who evicts pods by the API", Evidence{ExitCode: 143, Disruption: "EvictionByEvictionAPI"}, CategoryMaintenance},
		"taint manager":        {"Kubernetes gave the node up", Evidence{Disruption: "DeletionByTaintManager"}, CategoryNodeFailure},
		"out of reach":         {"mlbatch says so of pods of silent nodes", Evidence{Disruption: "NodeUnreachable"}, CategoryNodeFailure},
		"scheduler":            {"a pod outside the queues took its place", Evidence{Disruption: "PreemptionByScheduler"}, CategoryPreemption},
		"node shut down":       {"in order, which somebody asked for", Evidence{PodReason: "Terminated", ExitCode: 143}, CategoryMaintenance},
		"pod deadline":         {"activeDeadlineSeconds", Evidence{PodReason: "DeadlineExceeded", ExitCode: 137}, CategoryTimeLimit},
		"did not start":        {"the runtime refused the command", Evidence{Container: "StartError", ExitCode: 128}, CategoryStartFailure},
		"device taken":         {"the kubelet found no device for it", Evidence{PodReason: "UnexpectedAdmissionError"}, CategoryStartFailure},
		"nothing known":        {"nothing is made up", Evidence{}, CategoryUnknown},

		"preempted":        {"for another job", Evidence{Evicted: "Preempted", Cause: "InCohortReclamation"}, CategoryPreemption},
		"relocated":        {"it continues elsewhere", Evidence{Evicted: "Preempted", Cause: "Relocated"}, CategoryRelocation},
		"nodes failed":     {"and there are no others", Evidence{Evicted: "NodeFailures"}, CategoryNodeFailure},
		"pods late":        {"they did not come up", Evidence{Evicted: "PodsReadyTimeout", Cause: "WaitForStart"}, CategoryStartFailure},
		"late too often":   {"and is deactivated for it", Evidence{Evicted: "Deactivated", Cause: "RequeuingLimitExceeded"}, CategoryStartFailure},
		"time over":        {"its own limit", Evidence{Evicted: "Deactivated", Cause: "MaximumExecutionTimeExceeded"}, CategoryTimeLimit},
		"held":             {"a person's word", Evidence{Evicted: "Deactivated"}, CategoryStopped},
		"queue stopped":    {"an administrator's", Evidence{Evicted: "ClusterQueueStopped"}, CategoryStopped},
		"eviction counts":  {"pods that were stopped fail, too, which says nothing", Evidence{Evicted: "Preempted", ExitCode: 143}, CategoryPreemption},
		"unknown eviction": {"by somebody else's rule", Evidence{Evicted: "Whim"}, CategoryUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CategoryOf(c.e); got != c.want {
				t.Errorf("%+v is %s, want %s: %s", c.e, got, c.want, c.why)
			}
		})
	}
}

// Every rule by which the engine evicts has a category, so that a new one is not told as unknown.
func TestEveryEvictionHasACategory(t *testing.T) {
	for _, r := range []EvictReason{
		InClusterQueue, InCohortReclamation, InCohortFairSharing, InCohortReclaimWhileBorrow,
		ClusterQueueStopped, LocalQueueStopped, NodeFailures, Relocated,
	} {
		e := Evidence{Evicted: string(r)}
		if r.Preempted() {
			e = Evidence{Evicted: "Preempted", Cause: string(r)}
		}
		if c := CategoryOf(e); c == CategoryUnknown {
			t.Errorf("an eviction for %s is %s", r, c)
		}
	}
}

// Whatever is made of evidence is a category that readers know.
func TestOnlyKnownCategories(t *testing.T) {
	for _, table := range []map[string]Category{evictions(), disruptions()} {
		for word, c := range table {
			if !slices.Contains(Categories(), c) {
				t.Errorf("%s is %q, which Categories does not have", word, c)
			}
		}
	}
}
