package manager

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

func TestRoleOf(t *testing.T) {
	elected := make(chan struct{})
	alone, competitor := roleOf(false, elected), roleOf(true, elected)
	if alone() != metrics.RoleStandalone || competitor() != metrics.RoleFollower {
		t.Errorf("before the election: %s and %s", alone(), competitor())
	}
	close(elected)
	if alone() != metrics.RoleStandalone || competitor() != metrics.RoleLeader {
		t.Errorf("after the election: %s and %s", alone(), competitor())
	}
}
