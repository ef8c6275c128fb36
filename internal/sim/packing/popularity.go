package packing

import (
	"cmp"
	"maps"
	"slices"
)

// class is pods that are alike, but for memory, and the part of all pods that they are.
type class struct {
	shape Shape
	part  float64
}

// popular are the classes of pods, the most frequent first, of which together at least the wanted
// part of all pods are, as parts of these.
func popular(pods map[Shape]int, wanted float64) []class {
	counts, all := map[Shape]int{}, 0
	for p, n := range pods {
		p.Memory = 0
		counts[p] += n
		all += n
	}
	shapes := slices.SortedFunc(maps.Keys(counts), func(a, b Shape) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), a.compare(b))
	})
	var classes []class
	sum := 0
	for _, s := range shapes {
		if float64(sum) >= wanted*float64(all) {
			break
		}
		classes = append(classes, class{s, float64(counts[s])})
		sum += counts[s]
	}
	for i := range classes {
		classes[i].part /= float64(sum)
	}
	return classes
}

func counted(pods []Shape) map[Shape]int {
	counts := map[Shape]int{}
	for _, p := range pods {
		counts[p]++
	}
	return counts
}

// ramp sums up parts of which each has a place on a line.
type ramp []step

type step struct {
	place float64
	sum   float64 // of the parts up to here
}

func newRamp(places, parts []float64) ramp {
	r := make(ramp, len(places))
	for i := range places {
		r[i] = step{places[i], parts[i]}
	}
	slices.SortFunc(
		r,
		func(a, b step) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.sum, b.sum)) },
	)
	for i := 1; i < len(r); i++ {
		r[i].sum += r[i-1].sum
	}
	return r
}

// at is the sum of the parts whose place is at most x.
func (r ramp) at(x float64) float64 {
	below, above := 0, len(r) // all before the one are at most x, all from the other on are not
	for below < above {
		if middle := (below + above) / 2; r[middle].place <= x {
			below = middle + 1
		} else {
			above = middle
		}
	}
	if below == 0 {
		return 0
	}
	return r[below-1].sum
}
