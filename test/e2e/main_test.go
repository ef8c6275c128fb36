package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/test/rig"
)

// cluster is shared by all tests; each empties it before it begins.
var cluster *rig.Cluster

// timeScale divides how long simulated pods run, so that the tutorial's ten
// minutes last half a minute. Durations of the system itself are not scaled.
const timeScale = "20"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	cluster, err = rig.StartAudited(context.Background(), os.Stderr, "--time-scale", timeScale, "--config", "testdata/configuration.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	// Whatever the tests did, kills included: every decision is reproduced.
	if out, err := cluster.Run(context.Background(), "replay", filepath.Join(cluster.Dir, "flights")); err != nil {
		fmt.Fprintf(os.Stderr, "replay of all that was decided: %v\n%s\n", err, out)
		code = 1
	}
	if wrong := auditRoles(context.Background(), everything()); len(wrong) > 0 {
		fmt.Fprintf(os.Stderr, "roles against what was asked for:\n    %s\n", strings.Join(wrong, "\n    "))
		if os.Getenv(strictVariable) == "strict" {
			code = 1
		}
	}
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
