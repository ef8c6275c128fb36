package admin_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
)

// TestMembersSeeTheirQuota: a member of a team, who may not read its ClusterQueue, sees its quota as
// it is told for a LocalQueue; who may read it is not told twice.
func TestMembersSeeTheirQuota(t *testing.T) {
	asked := ""
	told := func(namespace, localQueue string) ([]visibility.QueueQuota, error) {
		asked = namespace + "/" + localQueue
		limit := resource.MustParse("4")
		return []visibility.QueueQuota{
			{Flavor: "h100", Resource: "memory", Nominal: resource.MustParse("1953125000Ki"), Used: resource.MustParse("0")},
			{Flavor: "h100", Resource: "nvidia.com/gpu", Nominal: resource.MustParse("8"), BorrowingLimit: &limit, Used: resource.MustParse("9"), Borrowed: resource.MustParse("1")},
		}, nil
	}
	row := admin.TeamRow{Name: "blue", LocalQueues: []string{"a", "default-queue"}, ClusterQueue: "blue", Unread: []string{"ClusterQueues", "RoleBindings"}, Shares: []admin.Share{{Flavor: "h100", Resource: "nvidia.com/gpu", Used: "3"}}}
	row.AddQuotas(told)
	want := admin.Share{Flavor: "h100", Resource: "nvidia.com/gpu", Nominal: "8", Used: "9", Borrowed: "1", BorrowingLimit: "4"}
	if asked != "blue/default-queue" || len(row.Shares) != 2 || row.Shares[0] != want || !slices.Equal(row.Unread, []string{"RoleBindings"}) {
		t.Errorf("asked for %s: %+v", asked, row)
	}
	admins := admin.TeamRow{Name: "blue", LocalQueues: []string{"a"}, Shares: []admin.Share{want}}
	if admins.AddQuotas(told); len(admins.Shares) != 1 {
		t.Errorf("%+v", admins)
	}
}
