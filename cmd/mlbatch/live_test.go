//go:build !noembed

package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestQueueTableSumsUpFlavors: what status and the live view say of queues, flavors summed up.
func TestQueueTableSumsUpFlavors(t *testing.T) {
	quota := func(flavor string) v1beta2.FlavorQuotas {
		return v1beta2.FlavorQuotas{
			Name:      v1beta2.ResourceFlavorReference(flavor),
			Resources: []v1beta2.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("8")}},
		}
	}
	used := func(flavor, n string) v1beta2.FlavorUsage {
		return v1beta2.FlavorUsage{
			Name:      v1beta2.ResourceFlavorReference(flavor),
			Resources: []v1beta2.ResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse(n)}},
		}
	}
	busy := &v1beta2.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	busy.Spec.ResourceGroups = []v1beta2.ResourceGroup{{Flavors: []v1beta2.FlavorQuotas{quota("a"), quota("b")}}}
	busy.Status = v1beta2.ClusterQueueStatus{
		PendingWorkloads:   3,
		AdmittedWorkloads:  2,
		FlavorsReservation: []v1beta2.FlavorUsage{used("a", "8"), used("b", "4")},
		Conditions:         []metav1.Condition{{Type: "Active", Status: metav1.ConditionTrue}},
	}
	stopped := &v1beta2.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "red"}}
	stopped.Status.Conditions = []metav1.Condition{
		{Type: "Active", Status: metav1.ConditionFalse, Reason: "Stopped"},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(busy, stopped, node).Build()
	var out bytes.Buffer
	if err := nodesAndQueues(t.Context(), &out, c); err != nil {
		t.Fatal(err)
	}
	const want = `0 of 1 nodes ready, 0 pods

QUEUE   ACTIVE        WAITING   ADMITTED   GPUS
blue    yes           3         2          12 of 16
red     no: Stopped   0         0          -
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
