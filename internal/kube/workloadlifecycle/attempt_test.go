package workloadlifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// onNodes has a workload that was admitted an hour ago run pods with 4 GPUs each on nodes.
func onNodes(places ...core.Place) *kueue.Workload {
	w := facts(admitted(time.Hour)).Workload
	var n int32
	for _, p := range places {
		n += p.Count
	}
	w.Spec.PodSets = []kueue.PodSet{
		{Name: "main", Count: n, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{core.GPU: resource.MustParse("4")},
			}}},
		}}},
	}
	w.Status.Admission = convert.StatusAdmission(
		core.Admission{Queue: "q", PodSets: []core.PodSetAdmission{{Name: "main", Count: n, Places: places}}},
	)
	return w
}

// An eviction tells of the attempt that it ends, and where and why, in the write that it is.
func TestEvictTellsTheAttempt(t *testing.T) {
	w := onNodes(core.Place{Node: "n1", Count: 2}, core.Place{Node: "n2", Count: 1})
	next := w.Status.DeepCopy()
	NewConditions(
		w,
		next,
		now,
	).Set(kueue.WorkloadPreempted, metav1.ConditionTrue, kueue.ReasonInCohortReclamation, "for another")
	Evict(w, next, now, Eviction{Reason: kueue.ReasonPreempted, Message: "for another"})
	w.Status = *next
	told := view.StoppedAttempts(w).Attempts
	if len(told) != 1 {
		t.Fatalf("told of %+v", told)
	}
	a := told[0]
	if a.Category != string(core.CategoryPreemption) || a.Reason != kueue.ReasonInCohortReclamation ||
		a.GPUs != 12 ||
		a.GPUSeconds != 12*3600 ||
		a.LostGPUSeconds != 12*3600 ||
		fmt.Sprint(a.Nodes) != "[n1 n2]" {
		t.Errorf("told of %+v", a)
	}

	// Once its pods are gone it is known what the job saved.
	job := &metav1.ObjectMeta{Annotations: map[string]string{
		history.CheckpointAnnotation: now.Add(-time.Minute).UTC().Format(time.RFC3339),
	}}
	next, _ = Stopped(w, Config{}, now.Add(time.Second))
	NoteCheckpoint(w, next, now.Add(time.Second), job)
	w.Status = *next
	if a := view.StoppedAttempts(w).Attempts[0]; a.LostGPUSeconds != 12*60 {
		t.Errorf("with a checkpoint a minute before, %d GPU-seconds are lost", a.LostGPUSeconds)
	}
	if w.Status.Admission != nil {
		t.Error("it has quota yet")
	}
}

// What was not admitted, or has not run, ends no attempt; and none is counted twice when what an interrupted
// workload kept is taken, too.
func TestNoAttemptWithoutARun(t *testing.T) {
	for name, c := range map[string]struct {
		w *kueue.Workload
		e Eviction
	}{
		"reserved": {facts(reserved("solid")).Workload, Eviction{Reason: kueue.ReasonAdmissionCheck}},
		"refused":  {onNodes(core.Place{Node: "n1", Count: 1}), Eviction{Reason: kueue.ReasonNodesRefused, Unbegun: true}},
	} {
		next := c.w.Status.DeepCopy()
		Evict(c.w, next, now, c.e)
		c.w.Status = *next
		if told := view.StoppedAttempts(c.w); len(told.Attempts) > 0 {
			t.Errorf("%s: told of %+v", name, told.Attempts)
		}
	}
	w := onNodes(core.Place{Node: "n1", Count: 1})
	next := w.Status.DeepCopy()
	Interrupt(w, next, Config{KeepNodes: time.Hour}, now, "n1 failed", []string{"n1"})
	w.Status = *next
	next = w.Status.DeepCopy()
	Evict(w, next, now.Add(time.Minute), Eviction{Reason: kueue.ReasonPreempted})
	w.Status = *next
	if told := view.StoppedAttempts(w).Attempts; len(told) != 1 || fmt.Sprint(told[0].FailedNodes) != "[n1]" {
		t.Errorf("told of %+v", told)
	}
}

// A Workload with as many conditions as the API takes is evicted all the same.
func TestEvictNeedsNoRoomForAttempts(t *testing.T) {
	w := onNodes(core.Place{Node: "n1", Count: 1})
	for len(w.Status.Conditions) <= mostConditions {
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{Type: fmt.Sprintf("example.com/%d", len(w.Status.Conditions))},
		)
	}
	next := w.Status.DeepCopy()
	Evict(w, next, now, Eviction{Reason: kueue.ReasonPreempted})
	const most = 16
	if n := len(next.Conditions); n > most {
		t.Errorf("%d conditions", n)
	}
}

// Pods that get other nodes while the others run on are told of with their own time, and their nodes.
func TestNodesReplaced(t *testing.T) {
	w := onNodes(core.Place{Node: "n1", Count: 2}, core.Place{Node: "n2", Count: 1})
	next := w.Status.DeepCopy()
	next.Admission = onNodes(core.Place{Node: "n2", Count: 1}, core.Place{Node: "n3", Count: 2}).Status.Admission
	NodesReplaced(w, next, now)
	w.Status = *next
	told := view.StoppedAttempts(w).Attempts
	if len(told) != 1 || told[0].ReplacedPods != 2 || told[0].GPUs != 8 ||
		fmt.Sprint(told[0].FailedNodes) != "[n1]" ||
		told[0].Category != string(core.CategoryNodeFailure) {
		t.Errorf("told of %+v", told)
	}

	starts := onNodes(core.Place{Node: "n1", Count: 2})
	NewConditions(
		starts,
		&starts.Status,
		now,
	).Set(kueue.WorkloadPodsReady, metav1.ConditionFalse, kueue.ReasonWaitForStart, "")
	next = starts.Status.DeepCopy()
	next.Admission = onNodes(core.Place{Node: "n3", Count: 2}).Status.Admission
	NodesReplaced(starts, next, now)
	starts.Status = *next
	if told := view.StoppedAttempts(starts); len(told.Attempts) > 0 {
		t.Errorf("pods that have not run lost %+v", told.Attempts)
	}
}
