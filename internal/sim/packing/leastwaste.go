package packing

import "math"

// LeastWaste puts pods where the least of what is left will be wasted. It learns from the pods that come what
// to expect, and adds up three kinds of waste, in thousandths of a GPU:
//
//   - what FGD counts: no use to a pod that comes next;
//   - GPUs for which no CPUs are left, if only pods of one class came from now on, by class;
//   - of each GPU, what is left over when it takes, of the next pods, those that fit it best.
//
// FGD sees a node run out of CPUs only with the last pod that it can hold, and values a GPU only by
// the next pod that goes there. Where more pods come than fit, both matter.
type LeastWaste struct {
	pods        map[Shape]int
	seen, until int // pods; when to reckon anew
	fragments   *fragments
	strands     [64]strand
	gaps        [Whole + 1]float64
	known       map[Node]float64
}

// How the kinds of waste are weighed. These were chosen by trying some, on other samples of the lists that
// docs/benchmarks.md has figures of.
const (
	strandWeight = 2
	gapWeight    = 4
	offers       = 20 // pods of which a GPU may choose
)

// NewLeastWaste expects nothing yet.
func NewLeastWaste() *LeastWaste {
	return &LeastWaste{pods: map[Shape]int{}, known: map[Node]float64{}, fragments: newFragments(nil)}
}

// Cost is Policy's.
func (l *LeastWaste) Cost(_ Shape, before, after *Node) (cost, gpu float64) {
	const tie = 1e-9 // below all that matters, so that the fullest of equal nodes is taken
	cost = l.waste(after) - l.waste(before) + tie*left(after)
	return cost, cost
}

// arrived is learner's. What is expected is reckoned anew each time that a fifth more pods have come.
func (l *LeastWaste) arrived(p Shape) bool {
	l.pods[p]++
	if l.seen++; l.seen < l.until {
		return false
	}
	l.until = l.seen + l.seen/5 + 10
	classes := popular(l.pods, 1)
	l.fragments = newFragments(classes)
	for model := range l.strands {
		l.strands[model] = newStrand(classes, uint8(model))
	}
	l.gaps = gaps(classes)
	clear(l.known)
	return true
}

func (l *LeastWaste) waste(n *Node) float64 {
	v, ok := l.known[*n]
	if !ok {
		v = l.fragments.of(n) + strandWeight*l.strands[n.Model].of(n)
		for _, free := range n.Free[:n.GPUs] {
			v += gapWeight * l.gaps[free]
		}
		l.known[*n] = v
	}
	return v
}

// strand measures GPUs for which no CPUs are left.
type strand struct {
	parts, worth ramp // by how much of GPUs a class takes for each CPU; worth is that times the part
}

func newStrand(classes []class, model uint8) strand {
	var ratios, parts, worth []float64
	for _, c := range classes {
		if c.shape.GPUs == 0 || c.shape.CPU == 0 || !c.shape.takes(model) {
			continue
		}
		ratio := float64(c.shape.Demand()) / float64(c.shape.CPU)
		ratios = append(ratios, ratio)
		parts = append(parts, c.part)
		worth = append(worth, c.part*ratio)
	}
	return strand{newRamp(ratios, parts), newRamp(ratios, worth)}
}

// of is the mean over classes of what is idle beyond that for which the node has CPUs.
func (s *strand) of(n *Node) float64 {
	idle, cpu := float64(n.Idle()), float64(n.CPU)
	ratio := math.Inf(1)
	if cpu > 0 {
		ratio = idle / cpu
	}
	return idle*s.parts.at(ratio) - cpu*s.worth.at(ratio)
}

// gaps is how much is left over, on average, of a GPU of which so much is left, if it may take or leave each of the
// next pods.
func gaps(classes []class) (waste [Whole + 1]float64) {
	var share [Whole + 1]float64 // the part of GPUs of which so much is wanted
	all := 0.0
	for _, c := range classes {
		if c.shape.GPUs > 0 {
			share[c.shape.Share] += c.part * float64(c.shape.GPUs)
			all += c.part * float64(c.shape.GPUs)
		}
	}
	for free := range waste {
		waste[free] = float64(free)
	}
	for range offers {
		before := waste
		for wanted, part := range share {
			if part == 0 {
				continue
			}
			for free := wanted; free <= Whole; free++ {
				waste[free] -= part / all * max(0, before[free]-before[free-wanted])
			}
		}
	}
	return waste
}
