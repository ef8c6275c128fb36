package nodehealth

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Cut is what is kept of quotas of one pair that are promised, where no more than left is there: all if that is enough,
// else a share of left that is in proportion to what was promised. Shares are whole units; those that are left over
// go to the largest remainders, of equal ones to the first. A quota without limit is kept as it is: it says that
// nobody counts.
func Cut(left core.Amount, promised []core.Amount) []core.Amount {
	kept := slices.Clone(promised)
	sum := core.Amount(0)
	for _, p := range promised {
		sum = sum.Add(p)
	}
	left = max(0, left)
	if sum <= left || sum == core.Unlimited {
		return kept
	}
	type remainder struct {
		at   int
		rest uint64
	}
	rests := make([]remainder, len(promised))
	over := left
	for i, p := range promised {
		high, low := bits.Mul64(uint64(left), uint64(max(0, p)))
		whole, rest := bits.Div64(high, low, uint64(sum))
		kept[i], rests[i] = core.Amount(whole), remainder{i, rest} //nolint:gosec // p at most
		over = over.Sub(kept[i])
	}
	slices.SortStableFunc(rests, func(a, b remainder) int { return cmp.Compare(b.rest, a.rest) })
	for _, r := range rests[:over] {
		kept[r.at]++
	}
	return kept
}
