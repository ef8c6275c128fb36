package decision

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// workload is one of a Job that asks for GPUs; minutes are when it was admitted and when it
// finished, from noon on.
func workload(name string, gpus int64, minutes ...int) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "job-" + name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: new(true)}},
		},
		Spec: kueue.WorkloadSpec{
			QueueName: "q",
			PodSets: []kueue.PodSet{
				{
					Name:  "main",
					Count: 1,
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
						{
							Name: "c",
							Resources: corev1.ResourceRequirements{
								Requests: corev1.ResourceList{core.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
							},
						},
					}}},
				},
			},
		},
	}
	at := func(minute int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)) }
	if len(minutes) > 0 {
		w.Status.Admission = &kueue.Admission{ClusterQueue: "q"}
		w.Status.Conditions = []metav1.Condition{
			{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, LastTransitionTime: at(minutes[0])},
			{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, LastTransitionTime: at(minutes[0])},
		}
	}
	if len(minutes) > 1 {
		w.Status.Conditions = append(
			w.Status.Conditions,
			metav1.Condition{
				Type:               kueue.WorkloadFinished,
				Status:             metav1.ConditionTrue,
				LastTransitionTime: at(minutes[1]),
			},
		)
	}
	return w
}

// TestBook: what is known of runtimes comes from the Workloads that there are, each once,
// and those that are deleted are forgotten.
func TestBook(t *testing.T) {
	b := book{jobs: map[types.UID]*remembered{}}
	mine := workload("train-9", 8)
	first := []kueue.Workload{
		*workload("train-1", 8, 0, 30),
		*workload("train-2-x7k2p", 8, 0, 60),
		*workload("other", 1, 0, 5),
		*mine,
		*workload("held", 8),
	}
	first[4].Spec.Active = new(false)
	b.read(first)
	b.read(first)
	k := core.Key{Namespace: "blue", Name: "job-train-9"}
	if n := b.oracle.Known(b.job(k)); n != 2 {
		t.Errorf(
			"%d runs of train-# are known, want 2: numbers and what is generated tell none apart, and each counts once",
			n,
		)
	}
	if b.job(k).GPUs != 8 || b.job(k).Limit != 0 {
		t.Errorf("it asks for 8 GPUs and has no limit: %+v", b.job(k))
	}
	if b.read(nil); len(b.jobs) != 0 || len(b.byKey) != 0 {
		t.Errorf("deleted Workloads are remembered: %v", b.jobs)
	}
	limited := workload("limited", 1)
	limited.Spec.MaximumExecutionTimeSeconds, limited.Status.AccumulatedPastExecutionTimeSeconds = new(
		int32(3600),
	), new(
		int32(600),
	)
	if j := jobOf(limited); j.Limit != 50*time.Minute {
		t.Errorf("an hour, of which ten minutes are over, leaves %s", j.Limit)
	}
}

func TestStem(t *testing.T) {
	for name, want := range map[string]string{
		"train-llama-17": "train-llama-#", "train-llama-18": "train-llama-#", "short-x7k2p": "short", "eval": "eval", "run2-step10": "run#-step#",
	} {
		if got := stem(name); got != want {
			t.Errorf("stem(%s) = %s, want %s", name, got, want)
		}
	}
}

// TestForecasts: a job that waits behind one whose like ran for an hour starts when that
// hour is over; what is not asked about has no forecast, and no engine is no answer.
func TestForecasts(t *testing.T) {
	e := cycle.New(cycle.Options{})
	gpus := func(n core.Amount) core.Resources { return core.Resources{}.With(core.GPU, n) }
	told := func(name string) core.Workload {
		return core.Workload{
			Key: core.Key{
				Namespace: "blue",
				Name:      "job-" + name,
			},
			UID:       name,
			Queue:     "q",
			Created:   noon,
			QueueTime: noon,
			PodSets:   []core.PodSet{{Name: "main", Count: 1, Requests: gpus(8)}},
		}
	}
	for _, ev := range []core.Event{
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.QueueSet{Queue: core.Queue{Name: "q", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
			Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
		}}}},
		core.NamespaceSet{Namespace: core.Namespace{Name: "blue"}},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "q"}},
		core.NodeSet{Node: core.Node{Name: "n", State: core.NodeReady, Allocatable: gpus(8).With(core.Pods, 100)}},
		core.WorkloadSet{Workload: told("train-3")},
	} {
		e.Apply(ev)
	}
	for _, d := range e.Decide(noon) {
		if a, is := d.(core.Admit); is {
			w := told("train-3")
			w.Seq, w.Admission, w.Admitted, w.Ready, w.Reserved = 1, &a.Admission, true, true, noon
			e.Apply(core.WorkloadSet{Workload: w})
		}
	}
	e.Apply(core.WorkloadSet{Workload: told("train-4")})
	now := noon.Add(20 * time.Minute)
	e.Decide(now)
	objects := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(workload("train-3", 8, 0), workload("train-4", 8))
	for i := range 32 { // enough to believe them
		objects = objects.WithObjects(workload(fmt.Sprintf("train-%d", 100+i), 8, -60, 0))
	}
	known := true
	f := NewForecasts(ForecastOptions{
		Workloads: objects.Build(), Clock: clocktesting.NewFakeClock(now),
		Look: func(ask func(*cycle.Engine)) error {
			if !known {
				return errUnknown
			}
			ask(e)
			return nil
		},
	})
	k := core.Key{Namespace: "blue", Name: "job-train-4"}
	if _, is := f.Of(k); is {
		t.Error("there is a forecast before anybody looked")
	}
	if err := f.look(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	got, is := f.Of(k)
	if !is || got.Known != 32 || got.P50.Sub(now) < 39*time.Minute || got.P50.Sub(now) > 55*time.Minute {
		t.Errorf(
			"after 20 of 60 minutes the next starts in %s (%v, known %d), want 40 min, and a little for who comes later",
			got.P50.Sub(now),
			is,
			got.Known,
		)
	}
	if _, is := f.Of(core.Key{Namespace: "blue", Name: "job-train-3"}); is {
		t.Error("a job that runs has a start to come")
	}
	mine := told("train-5")
	supposed, is := f.Suppose(mine)
	if !is || supposed.Known != 32 || !supposed.P50.After(got.P50.Add(50*time.Minute)) ||
		supposed.P50.After(got.P50.Add(2*time.Hour)) {
		t.Errorf(
			"one more starts in %s (%v, known %d), want an hour after the one before it",
			supposed.P50.Sub(now),
			is,
			supposed.Known,
		)
	}
	if _, is := f.Of(mine.Key); is {
		t.Error("a job that nobody submitted has a start to come")
	}
	known = false
	if _, is := f.Suppose(mine); is {
		t.Error("nothing is known, and it is")
	}
	if err := f.look(t.Context(), now); err == nil {
		t.Error("there is no engine, and no error")
	}
}
