package apply

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// TestConditionsNameNoOthers evicts for a workload of another namespace: tenants
// know it by queue and UID; and tells a reason with holders, whom it does not name.
func TestConditionsNameNoOthers(t *testing.T) {
	red := core.Key{Namespace: "red", Name: "secret"}
	with := scene{now: at, sentence: explain.Paragraph}
	next, ok := status(aWorkload(admittedOn("n")), core.Evict{
		Key: key, For: red, ForUID: "u7", Reason: core.InCohortReclamation, Why: core.Reason{Queue: "red-queue"},
	}, with)
	if !ok {
		t.Fatal("not evicted")
	}
	for _, kind := range []string{kueue.WorkloadEvicted, kueue.WorkloadPreempted} {
		m := apimeta.FindStatusCondition(next.Conditions, kind).Message
		if strings.Contains(m, "secret") || !strings.Contains(m, "u7") || !strings.Contains(m, "red-queue") {
			t.Errorf("%s: %s", kind, m)
		}
	}
	next, _ = status(
		aWorkload(admittedOn("n")),
		core.Evict{Key: key, For: core.Key{Namespace: "blue", Name: "mine"}, Reason: core.InClusterQueue},
		with,
	)
	if m := apimeta.FindStatusCondition(
		next.Conditions,
		kueue.WorkloadEvicted,
	).Message; !strings.Contains(
		m,
		"blue/mine",
	) {
		t.Errorf("one's own is not named: %s", m)
	}
}
