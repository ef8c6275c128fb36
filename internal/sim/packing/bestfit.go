package packing

import "math"

// The largest node of the published list, by which CPUs and GPUs are made comparable.
const (
	mostCPU = 128000
	mostGPU = maxGPUs * Whole
)

// BestFit puts pods where the least is left, of CPUs and GPUs alike, in percent of the largest node;
// of its GPUs a node gives the one of which the least is left.
type BestFit struct{}

// Cost is Policy's.
func (BestFit) Cost(_ Shape, _, after *Node) (cost, gpu float64) {
	// Scores were whole numbers, and ties decide much.
	return -math.Floor(100 * (1 - left(after)/2)), tightest(after)
}

// left is what is left of a node, 2 for all of the largest.
func left(n *Node) float64 { return float64(n.CPU)/mostCPU + float64(n.Idle())/mostGPU }

// tightest is least if the pod got the GPU of which the least is left: of all ways to take the same from
// one of several numbers, taking it from the smallest leaves the largest sum of squares.
func tightest(n *Node) float64 {
	squares := 0.0
	for _, f := range n.Free[:n.GPUs] {
		squares += float64(f) * float64(f)
	}
	return -squares
}
