package packing

import (
	"cmp"
	"maps"
	"slices"
	"sort"
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

// ramp is a function of one number that sums up parts: those whose place is at most that number.
type ramp struct {
	places, sums []float64
}

// newRamp takes places and their parts, and sorts both.
func newRamp(places, parts []float64) ramp {
	r := ramp{places: places, sums: parts}
	sort.Sort(&r)
	for i := 1; i < len(parts); i++ {
		parts[i] += parts[i-1]
	}
	return r
}

// at is the sum of the parts whose place is at most x.
func (r *ramp) at(x float64) float64 {
	i := sort.Search(len(r.places), func(i int) bool { return r.places[i] > x })
	if i == 0 {
		return 0
	}
	return r.sums[i-1]
}

func (r *ramp) Len() int           { return len(r.places) }
func (r *ramp) Less(i, j int) bool { return r.places[i] < r.places[j] }
func (r *ramp) Swap(i, j int) {
	r.places[i], r.places[j] = r.places[j], r.places[i]
	r.sums[i], r.sums[j] = r.sums[j], r.sums[i]
}
