package packing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// node is one with so many whole GPUs.
func node(gpus uint8, cpu int64) Node {
	n := Node{CPU: cpu, Memory: 1 << 20, GPUs: gpus}
	for i := range gpus {
		n.Free[i] = Whole
	}
	return n
}

// with is the node with so much left of its GPUs.
func with(n Node, free ...int16) Node {
	n.GPUs = uint8(len(free))
	copy(n.Free[:], free)
	return n
}

func shape(gpus, share, cpu int64) Shape { return Shape{GPUs: gpus, Share: share, CPU: cpu} }

// chosen is the node that gets a pod, -1 for none, and what is left of it then.
func chosen(policy Policy, p Shape, nodes ...Node) (int, Node) {
	x := newPlay(nodes, []Shape{p}, policy)
	was := slices.Clone(x.nodes)
	if !x.place(p) {
		return -1, Node{}
	}
	for i := range was {
		if x.nodes[i] != was[i] {
			return i, x.kinds[x.nodes[i]].left
		}
	}
	panic("a pod was placed and no node changed")
}

func TestPodsGoOnlyWhereAllTheyAskForIs(t *testing.T) {
	big := node(2, 8000)
	big.Memory = 64
	cases := map[string]struct {
		pod  Shape
		node Node
		fits bool
		why  string
	}{
		"all is there": {Shape{8000, 64, 2, Whole, 0}, big, true, "the last of everything may be taken"},
		"CPUs":         {Shape{8001, 64, 2, Whole, 0}, big, false, "one thousandth is missing"},
		"memory":       {Shape{8000, 65, 2, Whole, 0}, big, false, "one MiB is missing"},
		"GPUs":         {Shape{1000, 1, 3, Whole, 0}, big, false, "there are two"},
		"whole GPUs": {
			Shape{1000, 1, 2, Whole, 0},
			with(big, Whole, 990),
			false,
			"a GPU in use is not whole",
		},
		"a share": {
			Shape{1000, 1, 1, 600, 0},
			with(big, 500, 500),
			false,
			"shares of two GPUs are not one",
		},
		"the model":         {Shape{1000, 1, 1, 500, 1 << 3}, big, false, "the node's GPUs are another model"},
		"one of the models": {Shape{1000, 1, 1, 500, 1<<3 | 1<<0}, big, true, "either does"},
		"no GPU, whatever model": {
			Shape{1000, 1, 0, 0, 1 << 3},
			big,
			true,
			"who asks for no GPU asks for no model",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, policy := range []Policy{BestFit{}, NewFGD(nil), Fullest{}, NewLeastWaste()} {
				if at, _ := chosen(policy, c.pod, c.node); (at == 0) != c.fits {
					t.Errorf("%T: has a place is %v, want %v: %s", policy, at == 0, c.fits, c.why)
				}
			}
		})
	}
}

func TestWhoFindsNoPlaceHasFailedForGood(t *testing.T) {
	pods := []Shape{shape(1, Whole, 0), shape(2, Whole, 0), shape(1, 500, 0), shape(1, 500, 0), shape(1, 500, 0)}
	usage := Play([]Node{node(2, 1000)}, pods, Fullest{})
	for percent, want := range map[int]float64{0: 0, 49: 50, 50: 50, 51: 50, 150: 50, 175: 75, 200: 100, 225: 100, 300: 100} {
		if got := usage.At(percent); got != want {
			t.Errorf("%v %% is in use when %d %% were asked for, want %v", got, percent, want)
		}
	}
	if got := Play(nil, pods, Fullest{}).At(100); got != 0 {
		t.Errorf("%v %% of no GPU is in use", got)
	}
}

func TestOfEqualNodesTheFirstIsTaken(t *testing.T) {
	for _, policy := range []Policy{BestFit{}, NewFGD(nil), Fullest{}, NewLeastWaste()} {
		if at, _ := chosen(policy, shape(1, 500, 100), node(1, 50), node(2, 1000), node(2, 1000)); at != 1 {
			t.Errorf("%T takes node %d, want 1", policy, at)
		}
	}
}

// TestWhatIsRememberedChangesNothing plays as Play does, but looks at each node anew for each pod.
func TestWhatIsRememberedChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 0))
		nodes, pods := make([]Node, 1+r.IntN(5)), make([]Shape, r.IntN(60))
		for i := range nodes {
			nodes[i] = node(uint8(r.IntN(4)), 1000*r.Int64N(40))
			nodes[i].Model = uint8(r.IntN(2))
		}
		shares := []int64{190, 320, 470, 530, 650, 810, Whole}
		for i := range pods {
			pods[i] = shape(r.Int64N(3), Whole, 500*r.Int64N(12))
			pods[i].Memory = r.Int64N(1 << 18)
			pods[i].Models = Models(r.IntN(4))
			if pods[i].GPUs == 1 {
				pods[i].Share = shares[r.IntN(len(shares))]
			}
		}
		for _, policy := range []func() Policy{
			func() Policy { return BestFit{} }, func() Policy { return NewFGD(pods) },
			func() Policy { return Fullest{} }, func() Policy { return NewLeastWaste() },
		} {
			got := Play(nodes, pods, policy())
			if want := slowly(t, nodes, pods, policy()); !slices.Equal(got, want) {
				t.Fatalf("%T: %v, want %v", policy(), got, want)
			}
		}
	})
}

func slowly(t *rapid.T, nodes []Node, pods []Shape, policy Policy) Usage {
	nodes = slices.Clone(nodes)
	var capacity, arrived, used int64
	for i := range nodes {
		capacity += nodes[i].Idle()
	}
	usage := Usage{0}
	if capacity == 0 {
		return usage
	}
	for _, p := range pods {
		if l, ok := policy.(learner); ok {
			l.arrived(p)
		}
		best, least, to := -1, 0.0, Node{}
		for i := range nodes {
			found, cost, tightest, after := false, 0.0, 0.0, Node{}
			nodes[i].each(p, func(left *Node) {
				if c, g := policy.Cost(p, &nodes[i], left); !found || g < tightest {
					found, cost, tightest, after = true, c, g, *left
				}
			})
			if found && (best < 0 || cost < least) {
				best, least, to = i, cost, after
			}
		}
		arrived += p.Demand()
		if best >= 0 {
			before := nodes[best]
			nodes[best] = to
			used += p.Demand()
			if before.Idle()-to.Idle() != p.Demand() || before.CPU-to.CPU != p.CPU || to.CPU < 0 ||
				before.Memory-to.Memory != p.Memory || to.Memory < 0 || slices.Min(to.Free[:]) < 0 {
				t.Fatalf("%v took from %v and left %v", p, before, to)
			}
		}
		for 100*arrived >= int64(len(usage))*capacity {
			usage = append(usage, 100*float64(used)/float64(capacity))
		}
	}
	return append(usage, 100*float64(used)/float64(capacity))
}
