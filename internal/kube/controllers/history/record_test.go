package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// at is a moment some minutes after all began.
func at(minutes int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC))
}

func condition(kind, status, reason, message string, minutes int) metav1.Condition {
	return metav1.Condition{
		Type:               kind,
		Status:             metav1.ConditionStatus(status),
		Reason:             reason,
		Message:            message,
		LastTransitionTime: at(minutes),
	}
}

// train is the Workload of a job of 2 pods of 4 GPUs each.
func train(uid string, change ...func(*kueue.Workload)) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace:         "blue",
		Name:              "job-" + uid,
		UID:               "w-" + "uid-of-" + "x",
		CreationTimestamp: at(0),
		Finalizers:        []string{api.Finalizer, kueue.ResourceInUseFinalizer},
		Annotations:       map[string]string{api.UserAnnotation: "alice"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: uid, UID: "j", Controller: new(true)},
		},
	}}
	w.UID = "w-" + w.OwnerReferences[0].UID
	w.Spec = kueue.WorkloadSpec{
		QueueName: "default-queue",
		Priority:  new(int32(5)),
		PodSets:   []kueue.PodSet{{Name: "main", Count: 2}},
	}
	w.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{
		{
			Name: "work",
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")},
			},
		},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

func running(w *kueue.Workload) {
	w.Status.Admission = &kueue.Admission{
		ClusterQueue: "blue-queue",
		PodSetAssignments: []kueue.PodSetAssignment{
			{
				Name:    "main",
				Count:   new(int32(2)),
				Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{"nvidia.com/gpu": "h100", "cpu": "h100"},
			},
		},
	}
	w.Status.Conditions = append(
		w.Status.Conditions,
		condition(kueue.WorkloadAdmitted, "True", "Admitted", "", 2),
	)
}

func finished(reason, message string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.Conditions = append(
			w.Status.Conditions,
			condition(kueue.WorkloadFinished, "True", reason, message, 12),
		)
	}
}

// TestRecord: what is kept of a job.
func TestRecord(t *testing.T) {
	base := func(change func(*api.JobRecord)) api.JobRecord {
		r := api.JobRecord{
			UID:          "w-j",
			Kind:         "Job",
			Name:         "train",
			Queue:        "default-queue",
			User:         "alice",
			Priority:     new(int32(5)),
			ClusterQueue: "blue-queue",
			Flavor:       "h100",
			State:        api.Succeeded,
			Reason:       "Succeeded",
			Submitted:    at(0),
			Started:      new(at(2)),
			Ended:        at(12),
			RanSeconds:   600,
			Pods:         2,
			GPUs:         8,
		}
		change(&r)
		return r
	}
	failed := func(name string, code int32, minutes int) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "node-" + name}}
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{
				State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(minutes)},
				},
			},
		}
		return p
	}
	for name, tc := range map[string]struct {
		why  string
		of   ended
		want api.JobRecord
	}{
		"succeeded": {
			"times are those of its conditions", ended{workload: train("train", running, finished("Succeeded", ""))}, base(func(*api.JobRecord) {}),
		},
		"failed": {
			"the pod that failed first, whatever its name",
			ended{workload: train("train", running, finished("Failed", "backoff")), pods: []corev1.Pod{failed("a", 1, 11), failed("b", 137, 10)}, restarts: 3},
			base(func(r *api.JobRecord) {
				r.State, r.Reason, r.Message, r.ExitCode, r.FailedPod, r.FailedNode, r.Restarts = api.Failed, "Failed", "backoff", new(int32(137)), "b", "node-b", 3
			}),
		},
		"failed, and its pods are gone": {
			"AppWrappers say which pod it was",
			ended{workload: train("train", running, finished("Failed", "Job x failed (pod x-0 failed on node-2 with exit code 3, pod x-1 failed on node-2 with exit code 4)"))},
			base(func(r *api.JobRecord) {
				r.State, r.Reason, r.ExitCode, r.FailedPod, r.FailedNode = api.Failed, "Failed", new(int32(3)), "x-0", "node-2"
				r.Message = "Job x failed (pod x-0 failed on node-2 with exit code 3, pod x-1 failed on node-2 with exit code 4)"
			}),
		},
		"deleted while it ran": {
			"it ran until then",
			ended{workload: train("train", running, func(w *kueue.Workload) { w.DeletionTimestamp = new(at(7)) })},
			base(func(r *api.JobRecord) {
				r.State, r.Reason, r.Ended, r.RanSeconds = api.Cancelled, "Deleted", at(7), 300
			}),
		},
		"deleted while it waited": {
			"what for is worth knowing",
			ended{workload: train("train", func(w *kueue.Workload) {
				w.DeletionTimestamp = new(at(7))
				w.Status.Conditions = []metav1.Condition{condition(kueue.WorkloadQuotaReserved, "False", "WaitingForQuota", "8 more needed", 1)}
			})},
			base(func(r *api.JobRecord) {
				r.State, r.Reason, r.Message, r.Ended, r.RanSeconds = api.Cancelled, "Deleted", "It waited: 8 more needed", at(7), 0
				r.Started, r.ClusterQueue, r.Flavor = nil, "", ""
			}),
		},
		"evicted before": {
			"earlier runs count",
			ended{workload: train("train", running, finished("Succeeded", ""), func(w *kueue.Workload) {
				w.Status.AccumulatedPastExecutionTimeSeconds = new(int32(50))
				w.Status.SchedulingStats = &kueue.SchedulingStats{Evictions: []kueue.WorkloadSchedulingStatsEviction{{Reason: "Preempted", Count: 2}, {Reason: "PodsReadyTimeout", Count: 1}}}
			})},
			base(func(r *api.JobRecord) { r.RanSeconds, r.Evictions = 650, 3 }),
		},
		"partly admitted": {
			"it had the quota that it was given",
			ended{workload: train("train", running, finished("Succeeded", ""), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].Count = new(int32(1))
			})},
			base(func(r *api.JobRecord) { r.Pods, r.GPUs = 1, 4 }),
		},
		"parts of GPUs": {
			"they are counted by their sort, of each pod that was admitted",
			ended{workload: train("train", running, finished("Succeeded", ""), func(w *kueue.Workload) {
				w.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/mig-1g.5gb": resource.MustParse("3")}
			})},
			base(func(r *api.JobRecord) { r.GPUs, r.Slices = 0, map[string]int64{"mig-1g.5gb": 6} }),
		},
		"more sorts than are told": {
			"whoever asks for many keeps nothing of others from being remembered",
			ended{workload: train("train", running, finished("Succeeded", ""), func(w *kueue.Workload) {
				list := corev1.ResourceList{}
				for i := range 20 {
					list[corev1.ResourceName(fmt.Sprintf("nvidia.com/mig-%02d", i))] = resource.MustParse("1")
				}
				w.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Limits = list
			})},
			base(func(r *api.JobRecord) {
				r.GPUs, r.Slices = 0, map[string]int64{}
				for i := range 16 {
					r.Slices[fmt.Sprintf("mig-%02d", i)] = 2
				}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := cmpopts.IgnoreFields(api.JobRecord{}, "Attempts", "AttemptsTotal") // see TestRecordsAttempts
			if diff := cmp.Diff(tc.want, tc.of.record(), attempts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestShortened: messages stay below what the API server takes, and whole characters.
func TestShortened(t *testing.T) {
	if s := shortened("short", 512); s != "short" {
		t.Error(s)
	}
	for n := range 4 {
		s := shortened(strings.Repeat("a", n)+strings.Repeat("é", 400), 512)
		if len(s) > 512 || len(s) < 505 || strings.ContainsRune(s, '�') || !strings.HasSuffix(s, "…") {
			t.Errorf("%d bytes: %q", len(s), s)
		}
	}
}
