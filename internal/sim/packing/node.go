package packing

import "cmp"

// Whole is one GPU, in thousandths.
const Whole = 1000

// maxGPUs is the most GPUs that a node may have.
const maxGPUs = 8

// Models is a set of GPU models, a bit for each; 0 is any.
type Models uint64

// Shape is what a pod asks for.
type Shape struct {
	// CPU is in thousandths of a core, Memory in MiB.
	CPU, Memory int64
	// GPUs is how many it asks for, Share how much of each, in thousandths of one. Only pods of
	// one GPU may share it.
	GPUs, Share int64
	// Models are those of which the GPUs may be.
	Models Models
}

// Demand is how much the pod asks for of all GPUs, in thousandths of one.
func (p Shape) Demand() int64 { return p.GPUs * p.Share }

func (p Shape) shares() bool { return p.GPUs == 1 && p.Share < Whole }

func (p Shape) takes(model uint8) bool { return p.Models == 0 || p.Models>>model&1 != 0 }

func (p Shape) compare(o Shape) int {
	return cmp.Or(
		cmp.Compare(p.GPUs, o.GPUs), cmp.Compare(p.Share, o.Share), cmp.Compare(p.CPU, o.CPU),
		cmp.Compare(p.Memory, o.Memory), cmp.Compare(p.Models, o.Models),
	)
}

// Node is what is left of a node.
type Node struct {
	CPU, Memory int64
	// Free is what is left of each GPU, in thousandths.
	Free [maxGPUs]int16
	// GPUs is how many the node has, in use or not.
	GPUs uint8
	// Model is the bit of its GPUs' model in Models.
	Model uint8
}

// Idle is what is left of all GPUs, in thousandths of one.
func (n *Node) Idle() int64 {
	sum := int64(0)
	for _, f := range n.Free[:n.GPUs] {
		sum += int64(f)
	}
	return sum
}

// whole is how many GPUs nobody uses.
func (n *Node) whole() int64 {
	count := int64(0)
	for _, f := range n.Free[:n.GPUs] {
		if f == Whole {
			count++
		}
	}
	return count
}

// each calls yield with what is left of the node for each way to put a pod there: one for each GPU
// that a sharing pod could have, in their order. Pods that share no GPU have the first that are whole.
func (n *Node) each(p Shape, yield func(left *Node)) {
	if n.CPU < p.CPU || n.Memory < p.Memory || p.GPUs > 0 && !p.takes(n.Model) {
		return
	}
	left := *n
	left.CPU -= p.CPU
	left.Memory -= p.Memory
	if p.shares() {
		for i, f := range left.Free[:n.GPUs] {
			if int64(f) >= p.Share {
				left.Free[i] -= int16(p.Share) //nolint:gosec // below Whole
				yield(&left)
				left.Free[i] = f
			}
		}
		return
	}
	if n.whole() < p.GPUs {
		return
	}
	for i, wanted := 0, p.GPUs; wanted > 0; i++ {
		if left.Free[i] == Whole {
			left.Free[i] = 0
			wanted--
		}
	}
	yield(&left)
}
