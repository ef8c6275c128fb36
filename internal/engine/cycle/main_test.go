package cycle_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain makes the random worlds of a CI run always the same ones, and ten
// times as many: whether a change lands must not be a matter of luck. Everybody
// else gets new ones each time, and as many as -rapid.checks asks for.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("CI") != "" {
		for name, value := range map[string]string{"rapid.seed": "20261121", "rapid.checks": "1000"} {
			if f := flag.Lookup(name); f.Value.String() == f.DefValue {
				if err := f.Value.Set(value); err != nil {
					fmt.Fprintf(os.Stderr, "set -%s: %v\n", name, err)
					os.Exit(1)
				}
			}
		}
	}
	os.Exit(m.Run())
}
