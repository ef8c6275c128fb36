package preempt

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Where a bound says that a search would find no victim, it finds none.
func TestBoundsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			var fair *core.FairSharing
			if rapid.Bool().Draw(t, "fair") {
				fair = core.DefaultFairSharing()
				fair.ReclaimNominal = rapid.Bool().Draw(t, "reclaim nominal")
			}
			w := drawWorld(t, fair)
			s, r := w.search, w.req
			if len(r.Short) == 0 {
				continue
			}
			none := ""
			switch {
			case s.Infeasible(r.Queue, r.Policy, r.Priority, r.Short):
				none = "infeasible"
			case s.Toothless(r.Queue, r.Policy, r.Priority, r.Uses):
				none = "toothless"
			case s.Outweighed(r.Queue, r.Policy, r.Priority, r.Uses):
				none = "outweighed"
			case Forbids(r.Policy):
				none = "forbidden"
			}
			if v, _ := s.Find(r); v != nil && none != "" {
				t.Fatalf("called %s, and finds %v", none, names(v))
			}
		}
	})
}

// Queues a, b and d of a cohort own 4 cpus each; x and y hang below a cohort of
// their own beside them, with 4 each.
func TestBounds(t *testing.T) {
	const (
		never = core.PreemptNever
		lower = core.PreemptLowerPriority
		newer = core.PreemptLowerOrNewerEqualPrio
		all   = core.PreemptAny
	)
	tests := map[string]struct {
		why     string
		fair    bool
		nominal bool
		queue   string
		policy  core.Preemption
		runs    []runs
		need    core.Amount
		want    string // "infeasible", "toothless", "outweighed"
	}{
		"nobody borrows": {
			why:    "everybody keeps what it owns",
			policy: core.Preemption{Reclaim: all},
			runs:   []runs{{"b", "b", 0, 4, 1}},
			need:   4,
			want:   "infeasible",
		},
		"somebody borrows": {
			why:    "b may give",
			policy: core.Preemption{Reclaim: all},
			runs:   []runs{{"b", "b", 0, 5, 1}},
			need:   4,
		},
		"no reclaiming": {
			why:    "the policy spares b",
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"b", "b", 0, 5, 1}},
			need:   4,
			want:   "infeasible",
		},
		"nobody less important": {
			why:    "equals are spared",
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"a", "a", 5, 4, 1}},
			need:   4,
			want:   "infeasible",
		},
		"newer ones may go": {
			why:    "an equal one may be newer",
			policy: core.Preemption{WithinQueue: newer},
			runs:   []runs{{"a", "a", 5, 4, 1}},
			need:   4,
		},
		"nobody newer is lower": {
			why:    "all are more important",
			policy: core.Preemption{WithinQueue: newer},
			runs:   []runs{{"a", "a", 6, 4, 1}},
			need:   4,
			want:   "infeasible",
		},
		"the least important counts": {
			why:    "it goes first",
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"a1", "a", 9, 2, 1}, {"a2", "a", 4, 2, 1}},
			need:   4,
		},
		"its own may not go": {
			why:    "the policy spares them, though they are less important",
			policy: core.Preemption{WithinQueue: never},
			runs:   []runs{{"a", "a", 0, 4, 1}},
			need:   4,
			want:   "infeasible",
		},

		"borrowing while evicting": {
			why: "5 of its own 4 would borrow, and the cohort is the root", policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 9, 1}}, need: 5, want: "toothless",
		},
		"exactly its own": {
			why:    "it takes back what it owns",
			policy: core.Preemption{Reclaim: all},
			runs:   []runs{{"b", "b", 0, 9, 1}},
			need:   4,
		},
		"a policy that borrows": {
			why: "it may evict what is less important", policy: core.Preemption{Reclaim: all, WhileBorrow: lower},
			runs: []runs{{"b", "b", 0, 9, 1}}, need: 5,
		},
		"its own side": {
			why:    "x and y own 8 together, which their cohort takes back",
			queue:  "x",
			policy: core.Preemption{Reclaim: all},
			runs:   []runs{{"b", "b", 0, 9, 1}},
			need:   8,
		},
		"more than its own side": {
			why: "x and y own 8 together", queue: "x", policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 9, 1}}, need: 9, want: "toothless",
		},
		"its own who are less important": {
			why: "they may go, whatever others borrow", policy: core.Preemption{WithinQueue: lower, Reclaim: all},
			runs: []runs{{"a", "a", 0, 4, 1}, {"b", "b", 0, 9, 1}}, need: 5,
		},

		"the largest share": {
			why: "it would borrow 3, b borrows 2", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 6, 1}}, need: 7, want: "outweighed",
		},
		"a smaller share": {
			why: "it would borrow 1, b borrows 2", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 6, 1}}, need: 5,
		},
		"an equal share that would fall": {
			why: "b would have less if any workload were evicted", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 6, 1}}, need: 6, want: "outweighed",
		},
		"two equal shares that would fall": {
			why: "either of them", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 6, 1}, {"d", "d", 0, 6, 1}}, need: 6, want: "outweighed",
		},
		"an equal share that stays": {
			why:    "cohorts are not looked into: what goes there may have been within what the cohort keeps",
			fair:   true,
			policy: core.Preemption{Reclaim: all},
			runs:   []runs{{"x", "x", 0, 10, 1}},
			need:   6,
		},
		"quota of its own": {
			why:     "it takes back what it owns, whatever the shares are",
			fair:    true,
			nominal: true,
			policy:  core.Preemption{Reclaim: all},
			runs:    []runs{{"b", "b", 0, 9, 1}},
			need:    4,
		},
		"quota of its own, with the rule off": {
			why: "4 of 4 are no share at all", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 9, 1}}, need: 4,
		},
		"more than its own, with the rule on": {
			why: "5 are not its own", fair: true, nominal: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 5, 1}}, need: 6, want: "outweighed",
		},
		"its own who are less important, by shares": {
			why: "they may go", fair: true, policy: core.Preemption{WithinQueue: lower, Reclaim: all},
			runs: []runs{{"a", "a", 0, 4, 1}, {"b", "b", 0, 6, 1}}, need: 7,
		},
		"nothing asked for": {
			why: "nothing is known", fair: true, policy: core.Preemption{Reclaim: all},
			runs: []runs{{"b", "b", 0, 6, 1}}, need: 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			accounts := ledger.New(core.GPU, true)
			f := accounts.Forest
			for _, q := range []string{"a", "b", "d"} {
				f.SetQueue(q, "top", cpus(4))
			}
			f.SetCohort(core.Cohort{Name: "side", Parent: "top"})
			f.SetQueue("x", "side", cpus(4))
			f.SetQueue("y", "side", cpus(4))
			p := f.FlavorResource("f", core.CPU)
			f.Settle()
			s := &Searcher{Ledger: accounts}
			if tc.fair {
				s.Fair = core.DefaultFairSharing()
				s.Fair.ReclaimNominal = tc.nominal
			}
			for i, r := range tc.runs {
				c := &Candidate{
					Allocation: ledger.Allocation{
						ID:    int32(i),
						Queue: f.Queue(r.queue),
						Uses:  []quota.Use{{Pair: p, Amount: r.cpus}},
					},
					Key:      core.Key{Name: r.name},
					UID:      r.name,
					Priority: r.priority,
					Reserved: r.reserved,
				}
				s.Add(c)
				accounts.Hold(&c.Allocation)
			}
			if tc.queue == "" {
				tc.queue = "a"
			}
			q, uses := f.Queue(tc.queue), []quota.Use{{Pair: p, Amount: tc.need}}
			for range 2 { // the second answer is remembered
				got := ""
				switch {
				case s.Infeasible(q, tc.policy, 5, []quota.FlavorResource{p}):
					got = "infeasible"
				case s.Toothless(q, tc.policy, 5, uses):
					got = "toothless"
				case s.Outweighed(q, tc.policy, 5, uses):
					got = "outweighed"
				}
				if got != tc.want {
					t.Errorf("%s: called %q, want %q", tc.why, got, tc.want)
				}
			}
		})
	}
}

// A queue that asks for another resource than the one that it borrows most of keeps
// its share: it is no rival of its own.
func TestTiedWithItself(t *testing.T) {
	accounts := ledger.New(core.GPU, true)
	f := accounts.Forest
	a, b := f.SetQueue("a", "c", nil), f.SetQueue("b", "c", nil)
	f.SetQueue(
		"owner",
		"c",
		[]core.ResourceGroup{{Covered: []string{core.CPU, core.GPU}, Flavors: []core.FlavorQuotas{{
			Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: 10}, {Resource: core.GPU, Nominal: 10}},
		}}}},
	)
	cpu, gpu := f.FlavorResource("f", core.CPU), f.FlavorResource("f", core.GPU)
	f.Settle()
	s := &Searcher{Ledger: accounts, Fair: core.DefaultFairSharing()}
	for _, c := range []*Candidate{
		{Allocation: ledger.Allocation{ID: 1, Queue: a, Uses: []quota.Use{{Pair: cpu, Amount: 5}}}, Priority: 9},
		{Allocation: ledger.Allocation{ID: 2, Queue: a, Uses: []quota.Use{{Pair: gpu, Amount: 1}}}, Priority: 9},
		{Allocation: ledger.Allocation{ID: 3, Queue: b, Uses: []quota.Use{{Pair: cpu, Amount: 5}, {Pair: gpu, Amount: 4}}}},
	} {
		s.Add(c)
		accounts.Hold(&c.Allocation)
	}
	uses := []quota.Use{{Pair: gpu, Amount: 3}}
	if !s.Outweighed(a, core.Preemption{Reclaim: core.PreemptAny}, 5, uses) {
		t.Error(
			"b has the same share and would have less, so that no workload can be evicted: a search is not worth it",
		)
	}
}

// Victims of many queues go in one order.
func TestOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accounts := ledger.New(core.GPU, true)
		f := accounts.Forest
		p := f.FlavorResource("f", core.CPU)
		owner := f.SetQueue("owner", "c", cpus(100))
		var all []*Candidate
		s := &Searcher{Ledger: accounts}
		for i := range rapid.IntRange(1, 30).Draw(t, "running") {
			c := &Candidate{
				UID:      string(rune('A' + i)),
				Priority: rapid.Int64Range(0, 3).Draw(t, "priority"),
				Reserved: rapid.Int64Range(0, 3).Draw(t, "reserved"),
				Time:     rapid.Int64Range(0, 2).Draw(t, "time"),
			}
			c.ID, c.Uses = int32(i), []quota.Use{{Pair: p, Amount: 1}}
			c.Queue = f.SetQueue(string(rune('a'+rapid.IntRange(0, 9).Draw(t, "queue"))), "c", cpus(0))
			f.Settle()
			s.Add(c)
			accounts.Hold(&c.Allocation)
			all = append(all, c)
		}
		slices.SortFunc(all, victimOrder)
		n := rapid.IntRange(1, len(all)).Draw(t, "victims")
		need := owner.Room(core.Projected, p) + core.Amount(n)
		var got, want string
		victims, _ := s.Find(Request{
			Queue:  owner,
			Policy: core.Preemption{Reclaim: core.PreemptAny},
			Uses:   []quota.Use{{Pair: p, Amount: need}},
			Short:  []quota.FlavorResource{p},
		})
		for _, v := range victims {
			got += v.UID
		}
		for _, c := range all[:n] {
			want += c.UID
		}
		if got != want {
			t.Fatalf("evicts %s, want %s", got, want)
		}
	})
}

// Where a policy does not reach, it permits nothing at that priority or above: a search may end there.
func TestReachesBoundsPermits(t *testing.T) {
	t.Parallel()
	policies := []core.PreemptionPolicy{
		"",
		core.PreemptNever,
		core.PreemptAny,
		core.PreemptLowerPriority,
		core.PreemptLowerOrNewerEqualPrio,
	}
	for _, p := range policies {
		for request := int64(-1); request <= 1; request++ {
			for running := int64(-2); running <= 2; running++ {
				some := false
				for newer := int64(-1); newer <= 1; newer++ {
					for higher := running; higher <= 2; higher++ {
						some = some || permits(p, &Request{Priority: request}, &Candidate{Priority: higher, Time: newer})
					}
				}
				if some != reaches(p, request, running) {
					t.Errorf(
						"%q: a request of priority %d may evict one of %d or above: %v, and reaches says %v",
						p,
						request,
						running,
						some,
						!some,
					)
				}
			}
		}
	}
}
