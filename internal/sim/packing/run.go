package packing

// Policy says where pods go.
type Policy interface {
	// Cost is what it costs to put a pod on a node and have left of it what after says. Of several GPUs
	// a pod gets the one of least gpu, and the node counts with that one's cost; of several nodes it gets the
	// one of least cost. The first wins ties.
	Cost(p Shape, before, after *Node) (cost, gpu float64)
}

// learner is a policy that knows nothing of a list but what came.
type learner interface {
	// arrived tells of a pod before it is placed. It reports whether costs told before hold no more.
	arrived(p Shape) bool
}

// Usage is how much of all GPUs was in use, in percent, when the pods that had arrived asked together for so
// many percent of them, by that number. The last is at the end.
type Usage []float64

// At is how much was in use when pods had asked for so many percent, or at the end if they never did.
func (u Usage) At(percent int) float64 { return u[min(percent, len(u)-1)] }

// Play places pods on nodes, one after the other, and leaves both as they are.
func Play(nodes []Node, pods []Shape, policy Policy) Usage {
	x := newPlay(nodes, pods, policy)
	learns, _ := policy.(learner)
	var capacity, arrived, used int64
	for i := range nodes {
		capacity += nodes[i].Idle()
	}
	usage := Usage{0}
	for _, p := range pods {
		if learns != nil && learns.arrived(p) {
			x.forget()
		}
		arrived += p.Demand()
		if x.place(p) {
			used += p.Demand()
		}
		for capacity > 0 && 100*arrived >= int64(len(usage))*capacity {
			usage = append(usage, 100*float64(used)/float64(capacity))
		}
	}
	if capacity == 0 {
		return usage
	}
	return append(usage, 100*float64(used)/float64(capacity))
}

// play remembers what was found for nodes of which the same is left: most pods are alike, and each
// changes one node.
type play struct {
	policy Policy
	shapes map[Shape]int
	states map[Node]int32
	kinds  []kind
	nodes  []int32 // by node, its kind
}

// kind is nodes with the same left, with the best way for each shape.
type kind struct {
	left  Node
	moves []move
}

type move struct {
	cost float64
	to   int32 // the kind that the node becomes, or one of the following
}

const (
	unknown int32 = -iota
	none
)

func newPlay(nodes []Node, pods []Shape, policy Policy) *play {
	x := &play{policy: policy, shapes: map[Shape]int{}, states: map[Node]int32{}}
	x.kinds = []kind{{}} // so that none has the number that says unknown
	for i := range nodes {
		x.nodes = append(x.nodes, x.kind(&nodes[i]))
	}
	for _, p := range pods {
		if _, ok := x.shapes[p]; !ok {
			x.shapes[p] = len(x.shapes)
		}
	}
	return x
}

func (x *play) kind(n *Node) int32 {
	k, ok := x.states[*n]
	if !ok {
		k = int32(len(x.kinds)) //nolint:gosec // pods and nodes are fewer
		x.states[*n] = k
		x.kinds = append(x.kinds, kind{left: *n})
	}
	return k
}

func (x *play) forget() {
	for i := range x.kinds {
		x.kinds[i].moves = nil
	}
}

// place reports whether the pod has a place.
func (x *play) place(p Shape) bool {
	shape, best, least := x.shapes[p], -1, move{}
	for i, k := range x.nodes {
		m := x.move(k, p, shape)
		if m.to != none && (best < 0 || m.cost < least.cost) {
			best, least = i, m
		}
	}
	if best < 0 {
		return false
	}
	x.nodes[best] = least.to
	return true
}

func (x *play) move(k int32, p Shape, shape int) move {
	moves := x.kinds[k].moves
	if moves == nil {
		moves = make([]move, len(x.shapes))
		x.kinds[k].moves = moves
	}
	if moves[shape].to != unknown {
		return moves[shape]
	}
	before := x.kinds[k].left
	var least float64
	var after Node
	best := move{to: none}
	before.each(p, func(left *Node) {
		cost, gpu := x.policy.Cost(p, &before, left)
		if best.to == none || gpu < least {
			best, least, after = move{cost: cost}, gpu, *left
		}
	})
	if best.to != none {
		best.to = x.kind(&after)
	}
	moves[shape] = best
	return best
}
