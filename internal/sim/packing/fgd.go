package packing

import (
	"math"
	"slices"
)

// FGD is fragmentation gradient descent: pods go where what is left can be used the most by the pods that
// are expected. It knows from the start what pods there are, as it did for the published figures.
type FGD struct {
	fragments *fragments
	known     map[Node]float64
}

// usual is the part of pods whose classes FGD reckons with.
const usual = 0.95

// NewFGD expects pods as those of a list.
func NewFGD(pods []Shape) *FGD {
	return &FGD{newFragments(popular(counted(pods), usual)), map[Node]float64{}}
}

// Cost is Policy's.
func (f *FGD) Cost(_ Shape, before, after *Node) (cost, gpu float64) {
	gain := (f.fragment(before) - f.fragment(after)) / Whole
	// Scores were whole numbers up to 100, and ties decide much.
	cost = -math.Floor(100 / (1 + math.Exp(-gain)))
	return cost, cost
}

func (f *FGD) fragment(n *Node) float64 {
	v, ok := f.known[*n]
	if !ok {
		v = f.fragments.of(n)
		f.known[*n] = v
	}
	return v
}

// fragments measures how much of a node's idle GPUs, in thousandths of one, a pod cannot use that comes
// next: nothing is of use to a pod for which the node has not all that it needs; to others, GPUs of which
// less is left than the pod wants of each are of none. It is the mean over classes of pods.
type fragments struct {
	models [64][]group // by model of GPUs
}

// group is classes that want as much of as many GPUs.
type group struct {
	gpus, share int64
	byCPU       ramp
}

func newFragments(classes []class) *fragments {
	f := &fragments{}
	classes = slices.Clone(classes)
	slices.SortFunc(classes, func(a, b class) int { return a.shape.compare(b.shape) })
	for model := range f.models {
		for i := 0; i < len(classes); {
			like := classes[i].shape
			var cpu, parts []float64
			for ; i < len(classes) && classes[i].shape.GPUs == like.GPUs && classes[i].shape.Share == like.Share; i++ {
				if classes[i].shape.takes(uint8(model)) {
					cpu = append(cpu, float64(classes[i].shape.CPU))
					parts = append(parts, classes[i].part)
				}
			}
			if like.GPUs > 0 && len(cpu) > 0 {
				f.models[model] = append(f.models[model], group{like.GPUs, like.Share, newRamp(cpu, parts)})
			}
		}
	}
	return f
}

func (f *fragments) of(n *Node) float64 {
	unusable := float64(n.Idle())
	for i := range f.models[n.Model] {
		g := &f.models[n.Model][i]
		usable, gpus := int64(0), int64(0)
		for _, free := range n.Free[:n.GPUs] {
			if int64(free) >= g.share {
				usable += int64(free)
				gpus++
			}
		}
		if gpus >= g.gpus {
			unusable -= float64(usable) * g.byCPU.at(float64(n.CPU))
		}
	}
	return unusable
}
