package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// interval is a range of completion indexes, both ends included.
type interval struct{ first, last int64 }

// intervals reads what a Job's status says about indexes, e.g. "1,3-5,7". What
// cannot be read is left out.
func intervals(s string) []interval {
	var out []interval
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseInt(from, 10, 32)
		if err != nil || first < 0 {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.ParseInt(to, 10, 32); err != nil || last < first {
				continue
			}
		}
		out = append(out, interval{first, last})
	}
	return out
}

// covered counts the indexes below limit that are in any of the intervals, each
// once.
func covered(in []interval, limit int32) int32 {
	slices.SortFunc(in, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	n, next := int64(0), int64(0)
	for _, i := range in {
		first, last := max(i.first, next), min(i.last, int64(limit)-1)
		if first <= last {
			n += last - first + 1
			next = last + 1
		}
	}
	return int32(n) // at most limit
}
