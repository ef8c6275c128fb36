package upgrade

import (
	"fmt"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
)

// What earlier programs remembered of jobs in the status of these is carried over when today's comes up on
// what the last of them left: a PyTorchJob of which two pods had failed, and a JobSet that had begun anew,
// go on with their pods, and are counted on from there.
func TestWhatWasRememberedIsCarriedOver(t *testing.T) {
	_, c := up(t, unpack(t, "testdata/recovery-kubernetes-1.37.tar.gz"))
	at := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "blue", Name: name} }
	remembered := func(job client.Object) recovery.Recovery {
		var o recovery.JobRecovery
		if err := c.Get(t.Context(), at(string(job.GetUID())), &o); err != nil {
			t.Fatal(err)
		}
		r := o.Of(job)
		if r == nil {
			t.Fatalf("what is remembered is not of the job: %+v", o)
		}
		return *r
	}
	var set jobset.JobSet
	var hardy kubeflow.PyTorchJob
	for _, of := range []struct {
		name string
		job  client.Object
		want string
	}{{"mends", &set, "attempt 1, failures 1"}, {"hardy", &hardy, "attempt 0, failures 2"}} {
		if err := c.Get(t.Context(), at(of.name), of.job); err != nil {
			t.Fatal(err)
		}
		r := remembered(of.job)
		if got := fmt.Sprintf(
			"attempt %d, failures %d",
			r.Attempt,
			r.Failures,
		); got != of.want ||
			r.StartTime == nil {
			t.Errorf("of %s is remembered: %s, begun at %v; want %s", of.name, got, r.StartTime, of.want)
		}
	}
	eventually(t, "both come to their ends", func() string {
		if err := c.Get(
			t.Context(),
			at("mends"),
			&set,
		); err != nil ||
			!apimeta.IsStatusConditionTrue(set.Status.Conditions, jobset.JobSetCompleted) {
			return fmt.Sprintf("mends says %+v, %v", set.Status, err)
		}
		if err := c.Get(t.Context(), at("hardy"), &hardy); err != nil || hardy.Status.CompletionTime == nil {
			return fmt.Sprintf("hardy says %+v, %v", hardy.Status, err)
		}
		return ""
	})
	if r := remembered(
		&set,
	); r.Attempt != 1 || r.Failures != 1 || set.Status.Restarts != 1 ||
		set.Status.RestartsCountTowardsMax != 1 {
		t.Errorf("in the end mends says %+v, and is remembered as %+v", set.Status, r)
	}
	if r := remembered(&hardy); r.Failures != 2 || r.Outcome != "Succeeded" {
		t.Errorf("in the end hardy is remembered as %+v", r)
	}
}
