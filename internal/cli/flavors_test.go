package cli_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Amounts are sorted as such, and not as texts; nothing is least.
func TestFlavorsAreSortedByAmounts(t *testing.T) {
	rows := []view.FlavorCapacity{
		{Flavor: "c", Lent: "1k"},
		{Flavor: "b", Lent: "16"},
		{Flavor: "a", Lent: "8"},
		{},
	}
	if err := cli.SortBy(cli.FlavorColumns(time.Time{}), rows, "lent"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "8", "16", "1k"} {
		if rows[i].Lent != want {
			t.Errorf("at %d is %q, want %q", i, rows[i].Lent, want)
		}
	}
}
