package packing

// Fullest is the order in which engine/place fills nodes, so that whole ones stay free: those with the fewest
// free GPUs first. It does for GPUs what it does for nodes: a pod that shares one breaks no whole GPU while
// it has a place in one that is broken.
type Fullest struct{}

// Cost is Policy's.
func (Fullest) Cost(p Shape, before, after *Node) (cost, gpu float64) {
	cost = float64(after.Idle())
	if p.shares() && after.whole() < before.whole() {
		cost += mostGPU
	}
	return cost, tightest(after)
}
