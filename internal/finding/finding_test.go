package finding_test

import (
	"slices"
	"testing"

	"github.com/mlbatch/mlbatch/internal/finding"
)

func TestTheWorstComesFirstAndCounts(t *testing.T) {
	all := []finding.Finding{
		{
			Severity: finding.Note,
			Rule:     "a",
		},
		{Severity: finding.Warning, Rule: "b"},
		{Severity: finding.Error, Rule: "c"},
		{Severity: finding.Warning, Rule: "d"},
	}
	finding.Sort(all)
	var order []string
	for _, f := range all {
		order = append(order, f.Rule)
	}
	if want := []string{"c", "b", "d", "a"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q: those of a severity keep their order", order, want)
	}
	if finding.Count(all, finding.Warning) != 2 || !finding.Worst(all, finding.Error) ||
		finding.Worst(all[1:], finding.Error) ||
		!finding.Worst(all[3:], finding.Note) {
		t.Errorf("%d warnings", finding.Count(all, finding.Warning))
	}
}
