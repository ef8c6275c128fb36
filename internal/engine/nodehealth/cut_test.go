package nodehealth_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

func TestCutIsInProportion(t *testing.T) {
	for why, c := range map[string]struct {
		left           core.Amount
		promised, want []core.Amount
	}{
		"enough is there":                  {100, []core.Amount{64, 36}, []core.Amount{64, 36}},
		"half is there":                    {50, []core.Amount{64, 36}, []core.Amount{32, 18}},
		"the largest remainder gets more":  {10, []core.Amount{7, 7, 2}, []core.Amount{5, 4, 1}},
		"of equal remainders the first":    {1, []core.Amount{8, 8}, []core.Amount{1, 0}},
		"nothing is there":                 {0, []core.Amount{8, 8}, []core.Amount{0, 0}},
		"less than nothing is nothing":     {-3, []core.Amount{8}, []core.Amount{0}},
		"who was promised nothing":         {4, []core.Amount{0, 8}, []core.Amount{0, 4}},
		"without limit nobody counts":      {4, []core.Amount{core.Unlimited, 8}, []core.Amount{core.Unlimited, 8}},
		"amounts of bytes do not overflow": {1 << 61, []core.Amount{1 << 61, 1 << 61}, []core.Amount{1 << 60, 1 << 60}},
	} {
		if got := nodehealth.Cut(c.left, c.promised); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v of %v is %v, want %v", why, c.left, c.promised, got, c.want)
		}
	}
}

// What is kept is all that is there, nobody keeps more than promised, and each is within one unit of its share.
func TestCutGivesAllThatIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		promised := rapid.SliceOfN(rapid.Map(rapid.Int64Range(0, 1000), func(n int64) core.Amount {
			return core.Amount(n)
		}), 1, 8).Draw(t, "promised")
		left := core.Amount(rapid.Int64Range(0, 9000).Draw(t, "left"))
		var sum, kept core.Amount
		for _, p := range promised {
			sum += p
		}
		for i, k := range nodehealth.Cut(left, promised) {
			kept += k
			if k > promised[i] {
				t.Fatalf("%v of %v promised is kept", k, promised[i])
			}
			if left < sum && (k*sum > left*promised[i]+sum || k*sum < left*promised[i]-sum) {
				t.Fatalf("%v is more than a unit from its share of %v by %v", k, left, promised)
			}
		}
		if kept != min(left, sum) {
			t.Fatalf("%v is kept, %v is left and %v promised", kept, left, sum)
		}
	})
}
