package cycle_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain gives the random worlds of a CI run a seed made from the commit
// (MLBATCH_SIM_SEED, see .ci/test) and makes them three times as many: each commit
// tries new worlds, and the same commit always the same ones. Everybody else gets
// new ones each time, and as many as -rapid.checks asks for. What fails says by
// which -rapid.seed it fails again.
func TestMain(m *testing.M) {
	flag.Parse()
	preset := map[string]string{"rapid.seed": os.Getenv("MLBATCH_SIM_SEED")}
	if os.Getenv("CI") != "" {
		preset["rapid.checks"] = "300"
	}
	if checks := os.Getenv("MLBATCH_SIM_CHECKS"); checks != "" {
		preset["rapid.checks"] = checks
	}
	for name, value := range preset {
		if f := flag.Lookup(name); value != "" && f.Value.String() == f.DefValue {
			if err := f.Value.Set(value); err != nil {
				fmt.Fprintf(os.Stderr, "set -%s: %v\n", name, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}
