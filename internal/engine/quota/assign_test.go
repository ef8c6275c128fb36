package quota

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

// stage answers what Assign asks the rest of the engine. Victims are sought by
// pair, nodes by ask and option; what is not listed is free.
type stage struct {
	victims map[FlavorResource]answer
	nodes   map[[2]int]nodeAnswer
	asked   []string
}

type answer struct {
	mode  Mode
	level int
}

type nodeAnswer struct {
	mode Mode
	why  core.Reason
}

func (s *stage) Victims(p FlavorResource, need core.Amount) (Mode, int) {
	s.asked = append(s.asked, fmt.Sprintf("%d of %d", need, p))
	if a, ok := s.victims[p]; ok {
		return a.mode, a.level
	}
	return NoCandidates, 1
}

func (s *stage) Nodes(ask, option int) (Mode, core.Reason) {
	if n, ok := s.nodes[[2]int{ask, option}]; ok {
		return n.mode, n.why
	}
	return Fit, core.Reason{}
}

// Queue a has 10 cpus and 4 GPUs of flavor f, and 10 cpus of g; what b beside it
// leaves of its 5 cpus of f may be borrowed.
func TestAssign(t *testing.T) {
	const cpuF, gpuF, cpuG = FlavorResource(0), FlavorResource(1), FlavorResource(2)
	var (
		nowhere  = core.Reason{Code: core.TopologyPlacementFailed, Cause: core.PodTooLarge}
		full     = core.Reason{Code: core.TopologyPlacementFailed, Cause: core.NodesShort}
		next     = core.Fungibility{PreemptTriesNext: true}
		anywhere = core.Fungibility{PreemptTriesNext: true, BorrowTriesNext: true}
	)
	option := func(uses ...Use) Option { return Option{Uses: uses} }
	tainted := func(uses ...Use) Option { return Option{Bad: core.UntoleratedTaint, Uses: uses} }
	ask := func(name string, o ...Option) Request { return Request{PodSet: name, Options: o} }
	tests := map[string]struct {
		why      string
		used     []Use // by a
		leaving  []Use // of those, by workloads that were evicted
		lent     core.Amount
		asks     []Request
		fungible core.Fungibility
		reclaims bool
		stage    stage
		want     Assignment
		reason   core.Code
		of       string       // the pod set of the reason
		have     *core.Amount // that the reason says is there
		searched []string
	}{
		"room": {
			why:  "two pod sets of one flavor use its quota together, and the first flavor that does is taken",
			asks: []Request{ask("x", option(Use{cpuF, 4}), option(Use{cpuG, 4})), ask("y", option(Use{cpuF, 6}))},
			want: Assignment{Mode: Fit, Chosen: []int{0, 0}, Uses: []Use{{cpuF, 10}}},
		},
		"borrowing is told": {
			why:  "the second pod set brings the queue above its quota",
			asks: []Request{ask("x", option(Use{cpuF, 6})), ask("y", option(Use{cpuF, 5}))},
			want: Assignment{Mode: Fit, Level: 1, Chosen: []int{0, 0}, Uses: []Use{{cpuF, 11}}},
		},
		"borrowing tries the next flavor": {
			why:      "where the queue says so, own quota of g is taken before borrowed f",
			asks:     []Request{ask("x", option(Use{cpuF, 11}), option(Use{cpuG, 9}))},
			fungible: anywhere,
			want:     Assignment{Mode: Fit, Chosen: []int{1}, Uses: []Use{{cpuG, 9}}},
		},
		"only what is scarce is short": {
			why:   "cpus need an eviction, GPUs do not",
			used:  []Use{{cpuF, 12}, {gpuF, 1}},
			asks:  []Request{ask("x", option(Use{cpuF, 4}, Use{gpuF, 3}))},
			stage: stage{victims: map[FlavorResource]answer{cpuF: {Preempt, 0}}},
			want: Assignment{
				Mode:   Preempt,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 4}, {gpuF, 3}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			have:     new(core.Amount(3)),
			searched: []string{"4 of 0"},
		},
		"exactly what is left is not short": {
			why:   "what just fits needs no eviction of its own",
			used:  []Use{{cpuF, 15}},
			asks:  []Request{ask("x", option(Use{cpuF, 1}, Use{gpuF, 4}))},
			stage: stage{victims: map[FlavorResource]answer{cpuF: {Preempt, 0}}},
			want: Assignment{
				Mode:   Preempt,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 1}, {gpuF, 4}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0"},
		},
		"a pair is short once": {
			why:   "both pod sets need it",
			used:  []Use{{cpuF, 15}},
			asks:  []Request{ask("x", option(Use{cpuF, 1})), ask("y", option(Use{cpuF, 1}))},
			stage: stage{victims: map[FlavorResource]answer{cpuF: {Reclaim, 0}}},
			want: Assignment{
				Mode:   Reclaim,
				Chosen: []int{0, 0},
				Uses:   []Use{{cpuF, 2}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0", "2 of 0"},
		},
		"evictions under way": {
			why:  "what leaves still holds it: no other workload has to go",
			used: []Use{{cpuF, 15}}, leaving: []Use{{cpuF, 5}},
			asks:   []Request{ask("x", option(Use{cpuF, 5}))},
			want:   Assignment{Mode: Await, Level: 1, Chosen: []int{0}, Uses: []Use{{cpuF, 5}}},
			reason: core.WaitingForQuota, of: "x",
		},
		"reclaiming is worth more than evicting its own": {
			why:      "both flavors need evictions, and the next one is looked at",
			used:     []Use{{cpuF, 15}, {cpuG, 10}},
			asks:     []Request{ask("x", option(Use{cpuF, 1}), option(Use{cpuG, 1}))},
			fungible: next,
			stage:    stage{victims: map[FlavorResource]answer{cpuF: {Preempt, 0}, cpuG: {Reclaim, 0}}},
			want: Assignment{
				Mode:   Reclaim,
				Chosen: []int{1},
				Uses:   []Use{{cpuG, 1}},
				Short:  []FlavorResource{cpuG},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0", "1 of 2"},
		},
		"the first of equal flavors": {
			why:      "nothing speaks for the second",
			used:     []Use{{cpuF, 15}, {cpuG, 10}},
			asks:     []Request{ask("x", option(Use{cpuF, 1}), option(Use{cpuG, 1}))},
			fungible: next,
			stage:    stage{victims: map[FlavorResource]answer{cpuF: {Preempt, 1}, cpuG: {Preempt, 1}}},
			want: Assignment{
				Mode:   Preempt,
				Level:  1,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 1}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0", "1 of 2"},
		},
		"less borrowing rather than a better way to evict": {
			why:      "where the queue prefers preemption to borrowing",
			used:     []Use{{cpuF, 15}, {cpuG, 10}},
			asks:     []Request{ask("x", option(Use{cpuF, 1}), option(Use{cpuG, 1}))},
			fungible: core.Fungibility{PreemptTriesNext: true, PreferPreemption: true},
			stage:    stage{victims: map[FlavorResource]answer{cpuF: {Reclaim, 1}, cpuG: {Preempt, 0}}},
			want: Assignment{
				Mode:   Preempt,
				Chosen: []int{1},
				Uses:   []Use{{cpuG, 1}},
				Short:  []FlavorResource{cpuG},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0", "1 of 2"},
		},
		"whoever cannot evict is last": {
			why:      "preferring preemption does not prefer a flavor where no workload can go",
			used:     []Use{{cpuF, 15}, {cpuG, 10}},
			asks:     []Request{ask("x", option(Use{cpuF, 1}), option(Use{cpuG, 1}))},
			fungible: core.Fungibility{PreemptTriesNext: true, PreferPreemption: true},
			stage:    stage{victims: map[FlavorResource]answer{cpuF: {NoCandidates, 0}, cpuG: {Preempt, 1}}},
			want: Assignment{
				Mode:   Preempt,
				Level:  1,
				Chosen: []int{1},
				Uses:   []Use{{cpuG, 1}},
				Short:  []FlavorResource{cpuG},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"1 of 0", "1 of 2"},
		},
		"no search above the own quota": {
			why:  "a queue that would borrow all the way up and may not evict while borrowing needs no search",
			lent: 1, used: []Use{{cpuF, 10}},
			asks:   []Request{ask("x", option(Use{cpuF, 11}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.WaitingForQuota, of: "x", have: new(core.Amount(4)),
		},
		"a search above the own quota": {
			why:      "the policy lets it evict while it borrows",
			lent:     1,
			used:     []Use{{cpuF, 10}},
			reclaims: true,
			asks:     []Request{ask("x", option(Use{cpuF, 11}))},
			stage:    stage{victims: map[FlavorResource]answer{cpuF: {Reclaim, 1}}},
			want: Assignment{
				Mode:   Reclaim,
				Level:  1,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 11}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"11 of 0"},
		},
		"exactly the own quota is searched for": {
			why:  "it takes back what is its own",
			used: []Use{{cpuF, 15}},
			asks: []Request{ask("x", option(Use{cpuF, 10}))},
			want: Assignment{
				Mode:   NoCandidates,
				Level:  1,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 10}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"10 of 0"},
		},
		"more than there is": {
			why:    "no eviction gives 16 of 15: there is no search, and no other queue's quota is told",
			used:   []Use{{cpuF, 3}},
			asks:   []Request{ask("x", option(Use{cpuF, 16}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.ExceedsMaxQuota, of: "x", have: new(core.Amount(0)),
		},
		"exactly all there is": {
			why:      "15 of 15 may be had",
			used:     []Use{{cpuF, 3}},
			asks:     []Request{ask("x", option(Use{cpuF, 15}))},
			reclaims: true,
			want: Assignment{
				Mode:   NoCandidates,
				Level:  1,
				Chosen: []int{0},
				Uses:   []Use{{cpuF, 15}},
				Short:  []FlavorResource{cpuF},
			},
			reason:   core.WaitingForQuota,
			of:       "x",
			searched: []string{"15 of 0"},
		},
		"no flavor will do": {
			why:    "the mildest of both is told: quota may grow, taints are what the pods do not tolerate",
			asks:   []Request{ask("x", tainted(Use{cpuF, 1}), option(Use{cpuG, 11}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.ExceedsMaxQuota, of: "x",
		},
		"nodes that could never hold it": {
			why:    "worth saying although quota is short too",
			used:   []Use{{cpuF, 15}},
			asks:   []Request{ask("x", option(Use{cpuF, 1}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{0, 0}: {NoFit, nowhere}}},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.TopologyPlacementFailed, searched: []string{"1 of 0"},
		},
		"full nodes": {
			why:    "quota is there, so that nothing is short of it",
			asks:   []Request{ask("x", option(Use{cpuF, 1}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{0, 0}: {Preempt, full}}},
			want:   Assignment{Mode: Preempt, Chosen: []int{0}, Uses: []Use{{cpuF, 1}}},
			reason: core.TopologyPlacementFailed,
		},
		"a later pod set can never be had": {
			why:  "the gravest is told at once, not after the first pod set has what it waits for",
			lent: 1, used: []Use{{cpuF, 10}},
			asks:   []Request{ask("x", option(Use{cpuF, 11})), ask("y", tainted(Use{cpuG, 1}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.NoMatchingFlavor, of: "y",
		},
		"a later pod set is too large": {
			why:  "the mildest of its flavors, but graver than waiting",
			lent: 1, used: []Use{{cpuF, 10}},
			asks:   []Request{ask("x", option(Use{cpuF, 11})), ask("y", tainted(Use{cpuF, 1}), option(Use{cpuG, 11}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.ExceedsMaxQuota, of: "y",
		},
		"a later pod set that nodes cannot hold": {
			why:  "graver than waiting",
			lent: 1, used: []Use{{cpuF, 10}},
			asks:   []Request{ask("x", option(Use{cpuF, 11})), ask("y", option(Use{cpuG, 1}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{1, 0}: {NoFit, nowhere}}},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.TopologyPlacementFailed,
		},
		"a later pod set is too large, and nodes cannot hold the first": {
			why:    "nodes come and go, the limit stays",
			asks:   []Request{ask("x", option(Use{cpuF, 1})), ask("y", option(Use{cpuG, 11}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{0, 0}: {NoFit, nowhere}}},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.ExceedsMaxQuota, of: "y",
		},
		"a later pod set that nodes cannot hold, and the first is too large": {
			why:    "the same in another order",
			asks:   []Request{ask("x", option(Use{cpuF, 16})), ask("y", option(Use{cpuG, 1}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{1, 0}: {NoFit, nowhere}}},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.ExceedsMaxQuota, of: "x",
		},
		"one flavor is too small, and nodes of the other cannot hold it": {
			why:    "the mildest of both is told: nodes come and go",
			asks:   []Request{ask("x", option(Use{cpuF, 16}), option(Use{cpuG, 1}))},
			stage:  stage{nodes: map[[2]int]nodeAnswer{{0, 1}: {NoFit, nowhere}}},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.TopologyPlacementFailed,
		},
		"a later pod set that waits": {
			why:  "one of its flavors may do: nothing is said of it",
			lent: 1, used: []Use{{cpuF, 10}},
			asks:   []Request{ask("x", option(Use{cpuF, 11})), ask("y", tainted(Use{cpuF, 1}), option(Use{cpuG, 1}))},
			want:   Assignment{Mode: NoFit, Chosen: []int{-1}},
			reason: core.WaitingForQuota, of: "x",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := New()
			for _, u := range [][2]string{{"f", "cpu"}, {"f", "gpu"}, {"g", "cpu"}} {
				f.FlavorResource(u[0], u[1])
			}
			a := f.SetQueue(
				"a",
				"c",
				offers(offer{"f", "cpu", 10, nil, nil}, offer{"f", "gpu", 4, nil, nil}, offer{"g", "cpu", 10, nil, nil}),
			)
			b := f.SetQueue("b", "c", offers(offer{"f", "cpu", 5, nil, nil}))
			f.Settle()
			f.Add(core.Projected, a, tc.used)
			f.Add(core.Current, a, tc.used)
			f.Remove(core.Projected, a, tc.leaving)
			for _, l := range []core.Account{core.Projected, core.Current} {
				f.Add(l, b, []Use{{cpuF, tc.lent}})
			}
			var got Assignment
			f.Assign(
				&CompiledRequests{Queue: a, Requests: tc.asks, Fungibility: tc.fungible, Reclaims: tc.reclaims},
				nil,
				&tc.stage,
				&got,
			)
			if got.Why.Code != tc.reason || got.Why.PodSet != tc.of {
				t.Errorf(
					"%s: the reason is %s of %q, want %s of %q",
					tc.why,
					got.Why.Code,
					got.Why.PodSet,
					tc.reason,
					tc.of,
				)
			}
			if tc.have != nil && got.Why.Have != *tc.have {
				t.Errorf("%s: the reason says that %v are there, want %v", tc.why, got.Why.Have, *tc.have)
			}
			got.Why = core.Reason{}
			if d := cmp.Diff(tc.want, got, cmp.Transformer("slice", func(l []Use) string { return fmt.Sprint(l) }),
				cmp.Transformer("pairs", func(l []FlavorResource) string { return fmt.Sprint(l) })); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if d := cmp.Diff(tc.searched, tc.stage.asked); d != "" {
				t.Errorf("%s: victims searched for (-want +got):\n%s", tc.why, d)
			}
		})
	}
}

// Each combination of options is tried once, the last ask's first.
func TestAdvance(t *testing.T) {
	f := New()
	a := f.SetQueue("a", "", offers(offer{"f", "cpu", 9, nil, nil}))
	p := f.FlavorResource("f", "cpu")
	f.Settle()
	two := []Option{{Uses: []Use{{p, 1}}}, {Uses: []Use{{p, 1}}}}
	tests := map[string]struct {
		why  string
		asks []Request
		bad  map[[2]int]nodeAnswer
		want string
	}{
		"all": {
			why:  "as one counts",
			asks: []Request{{Options: two}, {Options: two}},
			want: "[0 0] [0 1] [1 0] [1 1]",
		},
		"one way only": {
			why:  "an ask without another option stays",
			asks: []Request{{Options: two}, {Options: two[:1]}},
			want: "[0 0] [1 0]",
		},
		"a dead end": {
			why:  "where nothing serves the last ask, only those before it can help",
			asks: []Request{{Options: two}, {Options: two}}, bad: map[[2]int]nodeAnswer{{1, 0}: {}, {1, 1}: {}},
			want: "[0 -1] [1 -1]",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan, tried, got := &CompiledRequests{Queue: a, Requests: tc.asks}, make([]uint64, len(tc.asks)), ""
			for i := 0; ; i++ {
				var assigned Assignment
				f.Assign(plan, tried, &stage{nodes: tc.bad}, &assigned)
				got += fmt.Sprint(assigned.Chosen)
				if i == 9 || !assigned.Advance(plan, tried) {
					break
				}
				got += " "
			}
			if got != tc.want {
				t.Errorf("%s: tried %s, want %s", tc.why, got, tc.want)
			}
		})
	}
}
