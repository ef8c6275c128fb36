package raycluster_test

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// TestReplicaFailure: a cluster of which a pod cannot be made says so, and why, as long as that is
// so and it is to run.
func TestReplicaFailure(t *testing.T) {
	c := &api.RayCluster{}
	if err := yaml.UnmarshalStrict(
		[]byte(
			`{metadata: {name: c, namespace: b, generation: 3}, spec: {headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: c, image: i}]}}}}}`,
		),
		c,
	); err != nil {
		t.Fatal(err)
	}
	k := raycluster.Kind()
	p, err := k.Running.Operator.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	project := func(s jobs.Progress) {
		t.Helper()
		is, typed := k.Running.Operator.Project(c, p, &s).(*api.RayCluster)
		if !typed {
			t.Fatal("it is another kind")
		}
		c = is
	}
	find := func() (reason, message string) {
		x := apimeta.FindStatusCondition(c.Status.Conditions, api.ClusterReplicaFailure)
		if x == nil {
			return "", ""
		}
		if x.ObservedGeneration != 3 {
			t.Errorf("it is of generation %d", x.ObservedGeneration)
		}
		return x.Reason, x.Message
	}
	project(jobs.Progress{NotMade: "because"})
	if reason, message := find(); reason != "FailedCreateHeadPod" || message != "because" {
		t.Errorf("%s: %s", reason, message)
	}
	project(jobs.Progress{NotMade: "because", Counts: map[string]podplan.Tally{raycluster.Head: {Active: 1}}})
	if reason, _ := find(); reason != "FailedCreateWorkerPod" {
		t.Error(reason)
	}
	project(jobs.Progress{})
	if reason, _ := find(); reason != "" {
		t.Errorf("all could be made, and it says %s", reason)
	}
}
