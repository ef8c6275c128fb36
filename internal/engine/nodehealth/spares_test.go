package nodehealth_test

import (
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
