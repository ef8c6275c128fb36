package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func class(name string, value int32) *kueue.WorkloadPriorityClass {
	return &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

func withClass(j *batchv1.Job) {
	metav1.SetMetaDataLabel(&j.ObjectMeta, kueue.PriorityClassLabel, "urgent")
}

// A job whose WorkloadPriorityClass comes later is held, says so, and gets
// the class's priority once it is there.
func TestJobWaitsForItsPriorityClass(t *testing.T) {
	key := types.NamespacedName{Namespace: "blue", Name: "train"}
	b := newBench(t, nil, aJob(inQueue, withClass))
	b.reconcileAll(t, key)
	w := b.workloads(t)[0]
	held := convert.Workload(&w, convert.Rules{}, convert.Surroundings{}).Held
	if want := "there is no WorkloadPriorityClass urgent: create it, or name another one in the label kueue.x-k8s.io/priority-class of the job"; held != want {
		t.Errorf("held is %q, want %q", held, want)
	}
	if got := b.events(); got != "Held" {
		t.Errorf("events are %q, want one Held", got)
	}
	if err := b.opts.Client.Create(t.Context(), class("urgent", 9)); err != nil {
		t.Fatal(err)
	}
	if woken := b.jobsOfClass(
		t.Context(),
		class("urgent", 9),
	); len(woken) != 1 ||
		woken[0].NamespacedName != key {
		t.Fatalf("the class wakes %v, want %v", woken, key)
	}
	b.reconcileAll(t, key)
	w = b.workloads(t)[0]
	if held := convert.Workload(
		&w,
		convert.Rules{},
		convert.Surroundings{},
	).Held; held != "" || *w.Spec.Priority != 9 ||
		w.Spec.PriorityClassRef.Name != "urgent" {
		t.Errorf("held is %q, priority %d of %v", held, *w.Spec.Priority, w.Spec.PriorityClassRef)
	}
}

// A class that goes while a job waits leaves it what it gave, as in Kueue.
func TestPriorityClassThatGoes(t *testing.T) {
	key := types.NamespacedName{Namespace: "blue", Name: "train"}
	urgent := class("urgent", 9)
	b := newBench(t, nil, aJob(inQueue, withClass), urgent)
	b.reconcileAll(t, key)
	if err := b.opts.Client.Delete(t.Context(), urgent); err != nil {
		t.Fatal(err)
	}
	b.reconcileAll(t, key)
	w := b.workloads(t)[0]
	if held := convert.Workload(
		&w,
		convert.Rules{},
		convert.Surroundings{},
	).Held; held != "" ||
		*w.Spec.Priority != 9 {
		t.Errorf("held is %q, priority %d", held, *w.Spec.Priority)
	}
}

// A Job of another controller gets no Workload and stays as it is.
func TestJobOfAnotherControllerIsLeftAlone(t *testing.T) {
	key := types.NamespacedName{Namespace: "blue", Name: "train"}
	b := newBench(
		t,
		nil,
		aJob(inQueue, running, func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/other") }),
	)
	if j := b.reconcileAll(t, key); *j.Spec.Suspend || len(b.workloads(t)) != 0 {
		t.Errorf("suspend is %v, workloads %d", *j.Spec.Suspend, len(b.workloads(t)))
	}
	if got := b.events(); got != "" {
		t.Errorf("it is told %q", got)
	}
}
