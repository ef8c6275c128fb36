package nodehealth

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// ended is the condition that tells of an attempt that ended on a node.
func ended(node string, at time.Time, why core.Category) []metav1.Condition {
	end := metav1.NewTime(at)
	return []metav1.Condition{{
		Type: kueue.WorkloadAttempts, Status: metav1.ConditionTrue, Reason: "Stopped",
		Message: view.AttemptsText(history.Attempts{Attempts: []history.Attempt{{
			Start: metav1.NewTime(at.Add(-time.Hour)), End: &end, Category: string(why), FailedNodes: []string{node},
		}}}),
	}}
}

func lostWorkload(name, job, node string, why core.Category) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name},
		Status:     kueue.WorkloadStatus{Conditions: ended(node, noon, why)},
	}
	if job != "" {
		w.OwnerReferences = []metav1.OwnerReference{{Kind: "AppWrapper", Name: job, Controller: new(true)}}
	}
	return w
}

func lostWrapper(name, node string) *appwrapper.AppWrapper {
	return &appwrapper.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name},
		Status:     appwrapper.AppWrapperStatus{Conditions: ended(node, noon, core.CategoryNodeFailure)},
	}
}

// isDown is a node that does not answer since a time, and came long before.
func isDown(name string, since time.Time) *corev1.Node {
	n := node(name, "")
	n.CreationTimestamp = metav1.NewTime(noon.Add(-24 * time.Hour))
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(since)
	return n
}

func (w *world) faults(name string) []nodehealth.Fault {
	w.Helper()
	return w.health(name).Faults
}

func (w *world) health(name string) nodehealth.Health {
	w.Helper()
	var m corev1.ConfigMap
	w.must(client.IgnoreNotFound(w.c.Get(
		w.Context(), client.ObjectKey{Namespace: "mlbatch-system", Name: convert.HealthMemory}, &m,
	)))
	healths, torn := convert.Healths(&m)
	if len(torn) > 0 {
		w.Fatalf("what is remembered of %v cannot be read", torn)
	}
	return healths[name]
}

// Jobs that a node failed under count with its fault, each once whatever tells of it; those that failed by themselves do not.
func TestJobsThatWereLostCount(t *testing.T) {
	w := newWorld(
		t,
		isDown("a", noon.Add(-2*time.Minute)),
		node("b", ""),
		lostWorkload(
			"of-one",
			"one",
			"a",
			core.CategoryNodeFailure,
		),
		lostWrapper("one", "a"),
		lostWrapper("two", "a"),
		lostWorkload("three", "", "a", core.CategoryNetworkFailure),
		lostWorkload(
			"user",
			"",
			"a",
			core.CategoryUserError,
		),
		lostWorkload("memory", "", "a", core.CategoryOutOfMemory),
		lostWorkload(
			"preempted",
			"",
			"a",
			core.CategoryPreemption,
		),
		lostWorkload("elsewhere", "", "b", core.CategoryNodeFailure),
	)
	w.look()
	if got := w.faults("a"); len(got) != 1 || got[0].Kind != nodehealth.FaultDown || got[0].Jobs != 3 {
		t.Errorf("its faults are %+v, want that it is down and three jobs were lost", got)
	}
	if got := w.faults("b"); len(got) > 0 {
		t.Errorf("a node that is well has the faults %+v for what a job says", got)
	}
	w.must(w.c.DeleteAllOf(w.Context(), &kueue.Workload{}, client.InNamespace("blue")))
	w.clock.Step(time.Hour)
	w.restart(false)
	w.look()
	if got := w.faults("a"); len(got) != 1 || got[0].Jobs != 3 {
		t.Errorf("the jobs are gone, the controller was killed, and the faults are %+v, want what they were", got)
	}
}

// Nodes that people take out of service, that just came or are silent for a moment have no fault.
func TestNodesThatAreDownForAReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   int
	}{
		"by itself": {func(*corev1.Node) {}, 1},
		"cordoned":  {func(n *corev1.Node) { n.Spec.Unschedulable = true }, 0},
		"drained":   {func(n *corev1.Node) { n.Annotations = map[string]string{view.DrainAnnotation: `{"by":"ann"}`} }, 0},
		"deleted":   {func(n *corev1.Node) { n.DeletionTimestamp, n.Finalizers = new(metav1.NewTime(noon)), []string{"x/y"} }, 0},
		"new":       {func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-9 * time.Minute)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := isDown("a", noon.Add(-2*time.Minute))
			c.change(n)
			w := newWorld(t, n, node("b", ""))
			w.look()
			if got := w.faults("a"); len(got) != c.want {
				t.Errorf("its faults are %+v, want %d", got, c.want)
			}
		})
	}
	w := newWorld(t, isDown("a", noon.Add(-10*time.Second)), node("b", ""))
	if next := w.look(); len(w.faults("a")) > 0 || next.RequeueAfter <= 0 || next.RequeueAfter > time.Minute {
		t.Errorf(
			"its faults are %+v, and it is looked again after %s: want none, and within a minute",
			w.faults("a"),
			next.RequeueAfter,
		)
	}
}

// A node that is down still when another one has just come back has what kept both down in common with it, for ten minutes.
func TestTheLastOneBackIsNotToBlame(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   int
	}{
		"it came back":                {func(*corev1.Node) {}, 0},
		"it came back long ago":       {func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Hour)) }, 1},
		"it is new":                   {func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-6 * time.Minute)) }, 1},
		"it came back and is drained": {func(n *corev1.Node) { n.Annotations = map[string]string{view.DrainAnnotation: `{"by":"ann"}`} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			other := isDown("b", noon.Add(-5*time.Minute))
			other.Status.Conditions[0].Status = corev1.ConditionTrue
			c.change(other)
			w := newWorld(t, isDown("a", noon.Add(-6*time.Minute)), other)
			w.look()
			if got := w.faults("a"); len(got) != c.want {
				t.Errorf("its faults are %+v, want %d", got, c.want)
			}
			w.clock.Step(5 * time.Minute)
			w.look()
			if got := w.faults("a"); len(got) != 1 {
				t.Errorf("ten minutes after the other one came back its faults are %+v, want one", got)
			}
		})
	}
}
