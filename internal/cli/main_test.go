package cli_test

import (
	"os"
	"testing"
	"time"
)

// TestMain has times of day printed in UTC, so that outputs are the same everywhere.
func TestMain(m *testing.M) {
	time.Local = time.UTC //nolint:gosmopolitan // that is what tests are compared with
	os.Exit(m.Run())
}
