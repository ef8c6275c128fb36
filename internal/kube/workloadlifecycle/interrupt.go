package workloadlifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// A workload that is interrupted was evicted because nodes of it failed, and keeps its quota and its healthy nodes
// for Config.KeepNodes. It goes on when the engine finds nodes for all its pods, and else gives back what it kept.

// mostUnhealthy is how many nodes status.unhealthyNodes lists.
const mostUnhealthy = 8

// Interrupt writes that a workload is evicted because nodes failed, and keeps what else it has.
func Interrupt(
	w *kueue.Workload,
	next *kueue.WorkloadStatus,
	c Config,
	now time.Time,
	message string,
	failed []string,
) Event {
	until := now.Add(c.KeepNodes)
	told := Evict(w, next, now, Eviction{Reason: kueue.ReasonNodeFailures, Message: message, Nodes: failed})
	for _, name := range failed[:min(len(failed), mostUnhealthy)] {
		next.UnhealthyNodes = append(next.UnhealthyNodes, kueue.UnhealthyNode{Name: name})
	}
	NewConditions(w, next, now).Set(
		kueue.WorkloadNodesKept, metav1.ConditionTrue, kueue.ReasonPodsStopping,
		"Its quota and its healthy nodes are kept for it until "+until.UTC().Format(time.RFC3339),
	)
	return told
}

// Stopped returns the status of an evicted workload whose pods have ended: Released, or that it keeps what it has.
// It is nil while that is so, and again is when that ends.
func Stopped(w *kueue.Workload, c Config, now time.Time) (next *kueue.WorkloadStatus, again time.Time) {
	end := keptUntil(w, c)
	if !end.After(now) {
		return Released(w, now), time.Time{}
	}
	if convert.Interruption(w) == core.InterruptedStopped {
		return nil, end
	}
	next = w.Status.DeepCopy()
	leaveAdmitted(w, next, now)
	set := NewConditions(w, next, now)
	kept := condition(w, kueue.WorkloadNodesKept)
	set.Set(kueue.WorkloadNodesKept, metav1.ConditionTrue, kueue.ReasonAwaitingNodes, kept.Message)
	set.Set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonAwaitingNodes,
		"It waits for nodes in place of those that failed")
	set.clear(kueue.ReasonWaitForStart, notAllReady, kueue.WorkloadPodsReady)
	return next, end
}

// keptUntil is until when an interrupted workload keeps what it has; zero if it keeps nothing.
func keptUntil(w *kueue.Workload, c Config) time.Time {
	if convert.Interruption(w) == core.NotInterrupted {
		return time.Time{}
	}
	return condition(w, kueue.WorkloadNodesKept).LastTransitionTime.Add(c.KeepNodes)
}
