package convert_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// How many workloads may be relocated is told by the ClusterQueue, and when one was by its condition.
func TestRelocation(t *testing.T) {
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{kueue.RelocationsPerHourAnnotation: "3"},
	}}
	if got := convert.Queue(q).RelocationsPerHour; got != 3 {
		t.Errorf("%d may be relocated, want 3", got)
	}
	at := metav1.NewTime(time.Unix(1000, 0))
	w := &kueue.Workload{}
	if got := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).Relocated; !got.IsZero() {
		t.Errorf("relocated at %s, and never was", got)
	}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadRelocated, Status: metav1.ConditionTrue, LastTransitionTime: at},
	}
	if got := convert.Workload(w, convert.Rules{}, convert.Surroundings{}).Relocated; !got.Equal(at.Time) {
		t.Errorf("relocated at %s, want %s", got, at)
	}
}

// What is held for a Workload is for the spec that it was decided for.
func TestWhatIsHeldIsForTheSameSpec(t *testing.T) {
	held := &core.Admission{Queue: "q", PodSets: []core.PodSetAdmission{{
		Name: "main", Count: 2,
		Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "f"}},
		Usage:   core.MakeResources(map[string]core.Amount{core.CPU: 2000}),
		Places:  []core.Place{{Node: "n-1", Count: 1}, {Node: "n-2", Count: 1}},
	}}}
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	w.Status.NextAdmission = convert.StatusNext(held, w)
	next := func() *core.Admission { return convert.Workload(w, convert.Rules{}, convert.Surroundings{}).Next }
	if diff := cmp.Diff(held, next()); diff != "" {
		t.Error(diff)
	}
	w.Generation++
	if got := next(); got != nil {
		t.Errorf("after a change of the spec %+v is held", got)
	}
}
