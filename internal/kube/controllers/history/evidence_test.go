package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestEvidenceIsKeptWithItsJob: as long as the job is there or recorded, and an hour in any case.
func TestEvidenceIsKeptWithItsJob(t *testing.T) {
	kept := func(name, of string, minutes int) *api.JobEvidence {
		return &api.JobEvidence{ObjectMeta: metav1.ObjectMeta{
			Namespace:         "blue",
			Name:              name,
			Labels:            map[string]string{api.WorkloadUIDLabel: of},
			CreationTimestamp: at(minutes),
		}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", UID: "runs"}},
		&api.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: pageName(1)},
			Records:    []api.JobRecord{{UID: "recorded"}},
		},
		kept("of-one-that-runs", "runs", 0), kept("of-one-recorded", "recorded", 0),
		kept("of-one-forgotten", "forgotten", 0), kept("new", "ended", 100),
	).Build()
	r := &reconciler{Options{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(at(120).Time)}}
	if err := r.pruneEvidence(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left api.JobEvidenceList
	if err := c.List(t.Context(), &left, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"new", "of-one-recorded", "of-one-that-runs"}) {
		t.Errorf("left are %v", names)
	}
}

// TestEvidenceIsBounded: a namespace keeps the newest, however many jobs of it hang.
func TestEvidenceIsBounded(t *testing.T) {
	var all []metav1.PartialObjectMetadata
	for i := range mostEvidence + 2 {
		all = append(all, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf(
				"e%02d",
				i,
			),
			CreationTimestamp: at(i),
			Labels:            map[string]string{api.WorkloadUIDLabel: "u"},
		}})
	}
	out := outdatedEvidence(all, map[types.UID]bool{"u": true}, at(100).Add(time.Second))
	if len(out) != 2 || out[0].Name != "e01" || out[1].Name != "e00" {
		t.Errorf("outdated are %d: %+v", len(out), out)
	}
}
