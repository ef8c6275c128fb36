package packing

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBestFit(t *testing.T) {
	cases := map[string]struct {
		pod   Shape
		nodes []Node
		want  int
		left  Node
		why   string
	}{
		"the node of which the least is left": {
			shape(1, Whole, 1000),
			[]Node{node(8, 96000), node(2, 96000)},
			1, with(node(2, 95000), 0, Whole),
			"of GPUs 7 of 8 or 1 of 8 would be left",
		},
		"CPUs count as much as GPUs": {
			shape(1, Whole, 1000),
			[]Node{node(4, 96000), node(5, 16000)},
			1, with(node(5, 15000), 0, Whole, Whole, Whole, Whole),
			"one GPU of the largest node is an eighth, and 80 cores are more",
		},
		"the GPU of which the least is left": {
			shape(1, 300, 0),
			[]Node{with(node(4, 1000), Whole, 400, 300, 600)},
			0, with(node(4, 1000), Whole, 400, 0, 600),
			"it fits exactly",
		},
		"scores are whole numbers": {
			shape(1, Whole, 1000),
			[]Node{node(1, 3000), node(1, 2000)},
			0, with(node(1, 2000), 0),
			"a core is less than one percent, and the first of equal ones is taken",
		},
		"GPUs are compared within a node only": {
			shape(1, 500, 0),
			[]Node{with(node(2, 0), Whole, 500), with(node(2, 0), 750, 750)},
			0, with(node(2, 0), Whole, 0),
			"the same is left of both nodes",
		},
		"a node without GPUs is no better": {
			shape(0, 0, 1000),
			[]Node{node(0, 21000), node(1, 2000)},
			1, node(1, 1000),
			"an eighth of the GPUs and a core are less than 20 cores",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if at, left := chosen(BestFit{}, c.pod, c.nodes...); at != c.want || at >= 0 && left != c.left {
				t.Errorf("node %d with %v left, want %d with %v: %s", at, left, c.want, c.left, c.why)
			}
		})
	}
}

func TestFullest(t *testing.T) {
	cases := map[string]struct {
		pod   Shape
		nodes []Node
		want  int
		left  Node
		why   string
	}{
		"the node with the fewest free GPUs": {
			shape(1, Whole, 0),
			[]Node{node(4, 0), with(node(8, 0), 0, 0, 0, 0, 0, Whole, Whole, 0)},
			1,
			with(node(8, 0), 0, 0, 0, 0, 0, 0, Whole, 0),
			"whole nodes stay free for those who need them",
		},
		"a GPU that is broken, though on an emptier node": {
			shape(1, 300, 0),
			[]Node{with(node(2, 0), Whole, 0), with(node(4, 0), Whole, Whole, 500, Whole)},
			1,
			with(node(4, 0), Whole, Whole, 200, Whole),
			"breaking a whole one costs what whole ones are kept for",
		},
		"the broken GPU that fits best": {
			shape(1, 300, 0),
			[]Node{with(node(3, 0), 900, 350, 500)},
			0, with(node(3, 0), 900, 50, 500),
			"the others hold larger pods",
		},
		"CPUs do not count": {
			shape(1, Whole, 1000),
			[]Node{node(1, 90000), node(2, 1000)},
			0, with(node(1, 89000), 0),
			"the engine keeps GPUs free, and nothing else",
		},
		"pods without GPUs go to full nodes": {
			shape(0, 0, 1000),
			[]Node{node(2, 8000), with(node(2, 8000), 0, 0)},
			1, with(node(2, 7000), 0, 0),
			"nobody who wants a GPU misses its CPUs",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if at, left := chosen(Fullest{}, c.pod, c.nodes...); at != c.want || left != c.left {
				t.Errorf("node %d with %v left, want %d with %v: %s", at, left, c.want, c.left, c.why)
			}
		})
	}
}

func repeat(counts map[Shape]int) []Shape {
	var pods []Shape
	for p, n := range counts {
		for range n {
			pods = append(pods, p)
		}
	}
	return pods
}

func TestFGD(t *testing.T) {
	half, whole, eight := shape(1, 500, 1000), shape(1, Whole, 4000), shape(8, Whole, 8000)
	cases := map[string]struct {
		known map[Shape]int
		pod   Shape
		nodes []Node
		want  int
		left  Node
		why   string
	}{
		"a GPU that is broken": {
			map[Shape]int{half: 1, whole: 1},
			half,
			[]Node{node(2, 80000), with(node(2, 80000), Whole, 500)},
			1,
			with(node(2, 79000), Whole, 0), "pods that want a whole one cannot use half of one",
		},
		"the last CPUs are kept for GPUs": {
			map[Shape]int{whole: 1},
			shape(0, 0, 1000),
			[]Node{node(1, 4000), with(node(1, 4000), 0)},
			1,
			with(node(1, 3000), 0), "without them nobody could use the GPU",
		},
		"a node that holds the largest": {
			map[Shape]int{whole: 1, eight: 1},
			whole,
			[]Node{node(8, 80000), with(node(8, 80000), 0, Whole, Whole, Whole, Whole, Whole, Whole, Whole)},
			1,
			with(node(
				8,
				76000,
			), 0, 0, Whole, Whole, Whole, Whole, Whole, Whole),
			"seven GPUs are no use to a pod that wants eight",
		},
		"who is rare does not count": {
			map[Shape]int{whole: 96, eight: 4},
			whole,
			[]Node{node(8, 80000), with(node(8, 80000), 0, Whole, Whole, Whole, Whole, Whole, Whole, Whole)},
			0,
			with(node(
				8,
				76000,
			), 0, Whole, Whole, Whole, Whole, Whole, Whole, Whole),
			"the others are 95 % of the pods, and both nodes are equal to them",
		},
		"the model that others can use": {
			map[Shape]int{{CPU: 1000, GPUs: 1, Share: Whole, Models: 1 << 0}: 1, whole: 1},
			whole,
			[]Node{node(1, 8000), {CPU: 8000, Memory: 1 << 20, GPUs: 1, Free: [maxGPUs]int16{Whole}, Model: 1}},
			1,
			Node{CPU: 4000, Memory: 1 << 20, GPUs: 1, Model: 1},
			"some pods can use the first only",
		},
		"scores are whole numbers": {
			map[Shape]int{half: 1000, shape(1, 990, 1000): 60},
			shape(1, 10, 0),
			[]Node{node(1, 8000), with(node(1, 8000), 400)},
			0, with(node(1, 8000), 990),
			"a hundredth of a GPU is below what scores tell apart",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if at, left := chosen(NewFGD(repeat(c.known)), c.pod, c.nodes...); at != c.want || left != c.left {
				t.Errorf("node %d with %v left, want %d with %v: %s", at, left, c.want, c.left, c.why)
			}
		})
	}
}

// informed has seen pods.
func informed(pods []Shape) *LeastWaste {
	l := NewLeastWaste()
	for range 20 { // enough of them that all are reckoned with
		for _, p := range pods {
			l.arrived(p)
		}
	}
	l.until = 0
	if len(pods) > 0 && !l.arrived(pods[0]) {
		panic("nothing was reckoned anew")
	}
	return l
}

func TestLeastWaste(t *testing.T) {
	light, heavy := shape(1, Whole, 2000), shape(1, Whole, 20000)
	cases := map[string]struct {
		seen  map[Shape]int
		pod   Shape
		nodes []Node
		want  int
		left  Node
		why   string
	}{
		"CPUs run out before the last pod": {
			map[Shape]int{light: 1, heavy: 1},
			shape(0, 0, 20000),
			[]Node{node(4, 44000), node(1, 120000)},
			1,
			node(
				1,
				100000,
			),
			"one GPU never needs 120 cores, four may need more than 44. FGD sees no difference before 20 are left",
		},
		"pods of few CPUs go where CPUs are few": {
			map[Shape]int{light: 1, heavy: 1},
			light,
			[]Node{node(8, 128000), node(4, 104000)},
			0,
			with(node(8, 126000), 0, Whole, Whole, Whole, Whole, Whole, Whole, Whole),
			"eight heavy ones would not fit there. FGD sees no difference, and the second node is fuller",
		},
		"a gap that the next pods fill": {
			map[Shape]int{shape(1, 650, 0): 1, shape(1, 470, 0): 2, shape(1, 350, 0): 1},
			shape(1, 350, 0),
			[]Node{with(node(1, 1000), 530), with(node(1, 1000), 350)},
			1,
			with(node(1, 1000), 0), "530 is kept for 470",
		},
		"a gap that the next pod fills best": {
			map[Shape]int{shape(1, 470, 0): 1},
			shape(1, 320, 0),
			[]Node{node(1, 0), with(node(2, 0), Whole, 790)},
			1, with(node(2, 0), Whole, 470),
			"there is room for the next pod in both, but 680 is never filled. To FGD both are equal",
		},
		"nothing is known": {
			nil, light,
			[]Node{node(8, 96000), node(2, 96000)},
			1,
			with(node(2, 94000), 0, Whole), "the fullest is as good a guess as any",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if at, left := chosen(informed(repeat(c.seen)), c.pod, c.nodes...); at != c.want || left != c.left {
				t.Errorf("node %d with %v left, want %d with %v: %s", at, left, c.want, c.left, c.why)
			}
		})
	}
}

// TestLeastWasteLearnsFromWhatCame has pods come that fit nowhere, for want of memory, and would fill what two
// others could leave.
func TestLeastWasteLearnsFromWhatCame(t *testing.T) {
	p, q, r := shape(1, 300, 0), shape(1, 350, 0), shape(1, 230, 0)
	nodes := []Node{
		with(node(1, 1000), 530), with(node(1, 1000), 530), with(node(1, 1000), 350), with(node(1, 1000), 350),
	}
	pods := []Shape{p} // while nothing is known, to the fullest
	for range 200 {
		large, small := q, r
		large.Memory, small.Memory = 1<<30, 1<<30
		pods = append(pods, large, small)
	}
	pods = append(pods, p, q, q, r)
	const all = 300 + 300 + 350 + 350 + 230
	if got, want := Play(nodes, pods, NewLeastWaste()).At(1<<20), 100*float64(all)/(2*530+2*350); got != want {
		t.Errorf(
			"%.1f %% is in use, want the %.1f of all pods that could fit: the second goes to 530, of which it leaves 230",
			got,
			want,
		)
	}
}

// TestWasteIsTheMeanOverClasses compares with sums over all classes, one by one.
func TestWasteIsTheMeanOverClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		pods := map[Shape]int{}
		for range 1 + r.IntN(8) {
			p := shape(r.Int64N(4), Whole, 1000*r.Int64N(6))
			if p.GPUs == 1 {
				p.Share = 10 * (1 + r.Int64N(100))
			}
			p.Models = Models(r.IntN(4))
			pods[p] += 1 + r.IntN(9)
		}
		classes := popular(pods, 1)
		n := node(4, 1000*r.Int64N(12))
		n.Model = uint8(r.IntN(2))
		for i := range n.Free[:n.GPUs] {
			n.Free[i] = int16(10 * r.IntN(101))
		}
		var unusable, stranded float64
		for _, c := range classes {
			unusable += c.part * useless(n, c.shape)
			if p := c.shape; p.GPUs > 0 && p.CPU > 0 && p.takes(n.Model) {
				enough := float64(n.CPU) / float64(p.CPU) * float64(p.Demand())
				stranded += c.part * max(0, float64(n.Idle())-enough)
			}
		}
		if got := newFragments(classes).of(&n); math.Abs(got-unusable) > 1e-6 {
			t.Fatalf("%v of %v cannot be used by %v, want %v", got, n, classes, unusable)
		}
		strand := newStrand(classes, n.Model)
		if got := strand.of(&n); math.Abs(got-stranded) > 1e-6 {
			t.Fatalf("%v of %v is stranded for %v, want %v", got, n, classes, stranded)
		}
	}
}

// useless is how much of a node's GPUs is no use to a pod.
func useless(n Node, p Shape) float64 {
	if p.GPUs == 0 || n.CPU < p.CPU || !p.takes(n.Model) {
		return float64(n.Idle())
	}
	gpus, small := int64(0), 0.0
	for _, f := range n.Free[:n.GPUs] {
		if int64(f) >= p.Share {
			gpus++
		} else {
			small += float64(f)
		}
	}
	if gpus < p.GPUs {
		return float64(n.Idle())
	}
	return small
}

func TestGapsAreWhatNobodyWillFill(t *testing.T) {
	waste := gaps(
		[]class{
			{shape(1, 470, 0), 0.5},
			{shape(1, 320, 0), 0.25},
			{shape(2, Whole, 0), 0.125},
			{shape(0, 0, 1), 0.125},
		},
	)
	for free, want := range map[int]float64{0: 0, 319: 319, 469: 149, 470: 0, 640: 0, 940: 0} {
		if got := waste[free]; math.Abs(got-want) > 10 {
			t.Errorf("%.1f of %d is left over, want about %v", got, free, want)
		}
	}
	if waste[530] < 55 || waste[530] > 65 {
		t.Errorf(
			"%.1f of 530 is left over, want about 60: 470 is what most want, though 320 comes first at times",
			waste[530],
		)
	}
}

func TestPopularClasses(t *testing.T) {
	a, b, c := shape(1, 500, 1), shape(1, 500, 2), shape(1, 500, 3)
	more := a
	more.Memory = 7
	pods := map[Shape]int{a: 30, more: 20, b: 45, c: 5}
	got := popular(pods, 0.95)
	if len(got) != 2 || got[0].shape != a || got[1].shape != b {
		t.Fatalf(
			"popular are %v, want the two that are 95 %% of the pods, the most frequent first; memory tells none apart",
			got,
		)
	}
	if sum := got[0].part + got[1].part; math.Abs(sum-1) > 1e-9 || math.Abs(got[0].part-50.0/95) > 1e-9 {
		t.Errorf("parts are %v and %v, want those of the two together", got[0].part, got[1].part)
	}
	if got := popular(pods, 1); len(got) != 3 {
		t.Errorf("all classes are %v", got)
	}
	if got := popular(nil, 1); len(got) != 0 {
		t.Errorf("no pods are of %v", got)
	}
}
