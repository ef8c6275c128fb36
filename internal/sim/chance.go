package sim

import (
	"math"
	"time"
)

// chance draws numbers from a seed, a name and a count, so that what is drawn for
// one object does not depend on what happens to others: a shortened script keeps
// the luck of what is left.
func chance(seed uint64, name string, n uint64) uint64 {
	h := seed ^ 0x9e3779b97f4a7c15
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	h += n * 0xbf58476d1ce4e5b9
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// share is a draw evenly from 0 up to 1.
func share(x uint64) float64 { return float64(x>>11) / (1 << 53) }

func (s Span) draw(x uint64) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(x%uint64(s.Max-s.Min+1)) //nolint:gosec // positive
}

// exponential is a draw with the given mean, at least a second.
func exponential(mean time.Duration, x uint64) time.Duration {
	d := -math.Log(1-share(x)) * float64(mean)
	return max(time.Second, time.Duration(math.Min(d, math.MaxInt64/4)))
}
