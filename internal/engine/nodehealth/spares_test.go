package nodehealth_test

import (
	"slices"
	"testing"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

func TestHowManyNodesAreKept(t *testing.T) {
	for _, c := range []struct {
		spares   nodehealth.Spares
		of, want int
	}{
		{nodehealth.Spares{Nodes: 2}, 64, 2},
		{nodehealth.Spares{Nodes: 2}, 1, 1},
		{nodehealth.Spares{Percent: 5}, 64, 4}, // 3.2 are not enough
		{nodehealth.Spares{Percent: 5}, 1, 1},
		{nodehealth.Spares{Percent: 100}, 8, 8},
		{nodehealth.Spares{Percent: 5}, 0, 0},
		{nodehealth.Spares{}, 64, 0},
	} {
		if got := c.spares.Of(c.of); got != c.want {
			t.Errorf("%+v of %d nodes are %d, want %d", c.spares, c.of, got, c.want)
		}
	}
}

// Spares are kept among the nodes that failed least; of equal ones the last.
func TestLemonsAreNoSpares(t *testing.T) {
	faults := map[string]int32{"c": 1, "e": 2, "f": 3}
	kept := func(spares int, taken ...string) []string {
		out := nodehealth.Spares{Nodes: spares}.Keep(
			[]string{"a", "b", "c", "d", "e", "f"},
			func(n string) bool { return !slices.Contains(taken, n) },
			func(n string) int32 { return faults[n] },
		)
		slices.Sort(out)
		return out
	}
	for _, c := range []struct {
		spares int
		taken  []string
		want   []string
	}{
		{2, nil, []string{"b", "d"}},
		{2, []string{"b", "d"}, []string{"a", "c"}}, // better a lemon than none
		{5, nil, []string{"a", "b", "c", "d", "e"}},
		{0, nil, []string{}},
	} {
		if got := kept(c.spares, c.taken...); !slices.Equal(got, c.want) {
			t.Errorf("of six nodes without %v the spares are %v, want %v", c.taken, got, c.want)
		}
	}
}
