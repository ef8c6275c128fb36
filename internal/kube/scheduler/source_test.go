package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

func TestRegistryTellsChanges(t *testing.T) {
	r := newRegistry()
	g := gang.Gang{
		Key:  gang.Key{Kind: gang.KindWorkload, Namespace: "blue", Name: "job"},
		Sets: []gang.Set{{Name: "main", Count: 1}},
	}
	if !r.put(g) || r.put(g) {
		t.Error("want a change at the first put and none at the second")
	}
	g.Sets = []gang.Set{{Name: "main", Count: 1, Places: []core.Place{placed("n", 1)}}}
	if !r.put(g) {
		t.Error("want a change when the plan changes")
	}
}

// What is kept of a Workload is what is read of it.
func TestKeptOfWorkload(t *testing.T) {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		kueue.EndsOnceAnnotation: "true", kueue.LaterPodSetsAnnotation: "work", "other": "x",
	}}}
	workloadSource().slim(w)
	if diff := cmp.Diff(
		map[string]string{kueue.EndsOnceAnnotation: "true", kueue.LaterPodSetsAnnotation: "work"},
		w.Annotations,
	); diff != "" {
		t.Error(diff)
	}
}
