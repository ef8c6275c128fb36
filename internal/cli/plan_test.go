package cli_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

func TestPrintPlan(t *testing.T) {
	q := resource.MustParse
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	starts := visibility.WorkloadPlanStatus{
		Outcome:      visibility.PlanStartsAfterStops,
		ClusterQueue: "blue-cluster-queue",
		Priority:     5,
		PodSets: []visibility.PlannedAdmission{
			{
				Name:  "master",
				Count: 1,
				Flavors: []visibility.PlannedFlavor{
					{Resource: "cpu", Flavor: "h100", Amount: q("8")},
					{Resource: "nvidia.com/gpu", Flavor: "h100", Amount: q("8")},
				},
				Nodes: []visibility.PlannedNode{{Name: "node-0", Count: 1}},
			},
			{
				Name:  "worker",
				Count: 3,
				Flavors: []visibility.PlannedFlavor{
					{Resource: "cpu", Flavor: "h100", Amount: q("24")},
					{Resource: "nvidia.com/gpu", Flavor: "h100", Amount: q("24")},
				},
				Nodes: []visibility.PlannedNode{{Name: "node-1", Count: 2}, {Name: "node-2", Count: 1}},
			},
		},
		Quotas: []visibility.PlannedQuota{
			{Flavor: "h100", Resource: "cpu", Nominal: q("100"), Used: q("32"), Borrowed: q("0")},
			{Flavor: "h100", Resource: "nvidia.com/gpu", Nominal: q("16"), Used: q("32"), Borrowed: q("16")},
		},
		Preempts: []visibility.WorkloadReference{
			{Namespace: "blue", Job: "Job/old"},
			{ClusterQueue: "red-cluster-queue", UID: "123"},
		},
	}
	waits := visibility.WorkloadPlanStatus{
		At:           metav1.NewTime(noon),
		Outcome:      visibility.PlanWaits,
		ClusterQueue: "blue-cluster-queue",
		Start: &visibility.Start{
			At:    metav1.NewTime(noon),
			P50:   new(metav1.NewTime(noon.Add(40 * time.Minute))),
			P90:   new(metav1.NewTime(noon.Add(3 * time.Hour))),
			Known: 12,
		},
		Explanation: &visibility.Explanation{
			Waiting: true,
			Reason:  "WaitingForQuota",
			Message: "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed",
			Advice:  []visibility.Advice{{Kind: "FewerPods", Count: 1, Allowed: true}},
		},
	}
	for name, status := range map[string]visibility.WorkloadPlanStatus{"starts": starts, "waits": waits} {
		for _, width := range []int{60, 80, 140} {
			t.Run(fmt.Sprintf("%s-%d", name, width), func(t *testing.T) {
				var out bytes.Buffer
				if err := cli.PrintPlan(
					&out,
					"Job blue/x",
					&visibility.WorkloadPlan{Status: &status},
					cli.Style{Width: width},
					width,
				); err != nil {
					t.Fatal(err)
				}
				testkit.Golden(t, fmt.Sprintf("testdata/plan/%s-%d.txt", name, width), out.String())
			})
		}
	}
}
