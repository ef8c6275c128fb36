package podplan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Indexes is a set of indexes, as ranges that are sorted and apart from each other. It is
// written like a Job's completedIndexes: "1,3-5,7".
type Indexes []Range

// Range are the indexes from First to Last, both included.
type Range struct{ First, Last int32 }

// ParseIndexes reads a set, in any order. What cannot be read is left out.
func ParseIndexes(s string) Indexes {
	var out Indexes
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
		out = append(out, Range{int32(first), int32(last)})
	}
	return Union(out, nil)
}

// Union is the set of what is in either, sorted, with neighbours joined.
func Union(a, b Indexes) Indexes {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y Range) int { return cmp.Compare(x.First, y.First) })
	var out Indexes
	for _, r := range all {
		if n := len(out); n > 0 && int64(r.First) <= int64(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Has reports whether an index is in the set.
func (x Indexes) Has(i int32) bool {
	at, found := slices.BinarySearchFunc(x, i, func(r Range, i int32) int { return cmp.Compare(r.First, i) })
	return found || at > 0 && i <= x[at-1].Last
}

// Below counts those smaller than a limit.
func (x Indexes) Below(limit int32) int32 {
	n := int32(0)
	for _, r := range x {
		if last := min(r.Last, limit-1); last >= r.First {
			n += last - r.First + 1
		}
	}
	return n
}

// String writes the set as it is read.
func (x Indexes) String() string {
	parts := make([]string, len(x))
	for i, r := range x {
		parts[i] = strconv.Itoa(int(r.First))
		if r.Last > r.First {
			parts[i] += "-" + strconv.Itoa(int(r.Last))
		}
	}
	return strings.Join(parts, ",")
}
