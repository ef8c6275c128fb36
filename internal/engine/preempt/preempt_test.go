package preempt

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// runs is a running workload: name, queue, priority, cpus, seconds of
// reservation.
type runs struct {
	name     string
	queue    string
	priority int64
	cpus     core.Amount
	reserved int64
}

func cpus(n core.Amount) []core.ResourceGroup {
	return []core.ResourceGroup{{Covered: []string{core.CPU}, Flavors: []core.FlavorQuotas{{
		Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: n}},
	}}}}
}

func TestFind(t *testing.T) {
	const (
		never  = core.PreemptNever
		lower  = core.PreemptLowerPriority
		newer  = core.PreemptLowerOrNewerEqualPrio
		always = core.PreemptAny
	)
	flat := func(f *quota.Forest) {
		f.SetQueue("a", "c", cpus(4))
		f.SetQueue("b", "c", cpus(4))
		f.SetQueue("d", "c", cpus(4))
	}
	tree := func(f *quota.Forest) {
		f.SetCohort(core.Cohort{Name: "left", Parent: "top"})
		f.SetCohort(core.Cohort{Name: "right", Parent: "top"})
		f.SetQueue("a", "left", cpus(2))
		f.SetQueue("b", "left", cpus(4))
		f.SetQueue("d", "right", cpus(2))
	}
	tests := map[string]struct {
		why    string
		build  func(*quota.Forest)
		policy core.Preemption
		runs   []runs
		need   core.Amount
		prio   int64
		spare  []core.Key
		// idle are the runs that are interrupted.
		idle []string
		want []string
	}{
		"lowest priority first": {
			why: "then the latest reservation", build: flat, policy: core.Preemption{WithinQueue: lower},
			runs: []runs{{"old", "a", 1, 4, 1}, {"new", "a", 1, 4, 2}, {"high", "a", 3, 4, 3}}, need: 4, prio: 2,
			want: []string{"new InClusterQueue"},
		},
		"equal priority is spared": {
			why: "LowerPriority means lower", build: flat, policy: core.Preemption{WithinQueue: lower},
			runs: []runs{{"a", "a", 2, 12, 1}}, need: 4, prio: 2,
		},
		"newer of equal priority": {
			why: "the request is older than what runs", build: flat, policy: core.Preemption{WithinQueue: newer},
			runs: []runs{{"a", "a", 2, 12, 1}}, need: 4, prio: 2, want: []string{"a InClusterQueue"},
		},
		"no more than needed": {
			why: "small ones are taken first by order, and given back when the large one does", build: flat,
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"small", "a", 0, 1, 1}, {"large", "a", 1, 11, 1}}, need: 4, prio: 2,
			want: []string{"large InClusterQueue"},
		},
		"reclaim from borrowers only": {
			why: "b keeps what is its own", build: flat, policy: core.Preemption{WithinQueue: never, Reclaim: always},
			runs: []runs{{"b1", "b", 9, 4, 1}, {"d1", "d", 9, 4, 1}, {"d2", "d", 9, 4, 2}}, need: 4, prio: 0,
			want: []string{"d2 InCohortReclamation"},
		},
		"others before the own queue": {
			why:    "what was borrowed goes back first",
			build:  flat,
			policy: core.Preemption{WithinQueue: lower, Reclaim: always},
			runs:   []runs{{"own", "a", 0, 2, 1}, {"d1", "d", 5, 10, 2}},
			need:   2,
			prio:   1,
			want:   []string{"d1 InCohortReclamation"},
		},
		"no reclaim above nominal": {
			why: "a request that would borrow may not reclaim", build: flat, policy: core.Preemption{Reclaim: always},
			runs: []runs{{"d1", "d", 0, 12, 1}}, need: 5, prio: 9,
		},
		"while borrowing, up to a priority": {
			why: "b2 is too important", build: flat,
			policy: core.Preemption{Reclaim: always, WhileBorrow: lower, MaxPriority: new(int32(3))},
			runs:   []runs{{"b1", "b", 4, 6, 1}, {"b2", "b", 3, 6, 1}}, need: 5, prio: 9,
			want: []string{"b2 InCohortReclaimWhileBorrowing"},
		},
		"nearest relatives": {
			why: "d borrows from the left cohort, which has the advantage", build: tree,
			policy: core.Preemption{Reclaim: always},
			runs:   []runs{{"d1", "d", 9, 8, 1}}, need: 2, prio: 0,
			want: []string{"d1 InCohortReclamation"},
		},
		"quota of a cohort above": {
			why: "a borrows from its cohort, and that takes back what it lent", build: tree,
			policy: core.Preemption{Reclaim: always},
			runs:   []runs{{"d1", "d", 9, 8, 1}}, need: 3, prio: 0,
			want: []string{"d1 InCohortReclamation"},
		},
		"without borrowing first": {
			why:    "under its quota the queue first tries to stay there: its own go, and nothing is borrowed",
			build:  flat,
			policy: core.Preemption{WithinQueue: lower, Reclaim: always},
			runs: []runs{
				{"own1", "a", 0, 1, 3},
				{"own2", "a", 0, 1, 2},
				{"own3", "a", 0, 1, 1},
				{"b1", "b", 0, 6, 1},
			},
			need: 4,
			prio: 9,
			want: []string{"own3 InClusterQueue", "own1 InClusterQueue", "own2 InClusterQueue"},
		},
		"with borrowing first": {
			why: "a queue that may evict while it borrows does so first: others go before its own", build: flat,
			policy: core.Preemption{WithinQueue: lower, Reclaim: always, WhileBorrow: lower},
			runs:   []runs{{"own", "a", 0, 4, 1}, {"b1", "b", 0, 8, 1}}, need: 4, prio: 5,
			want: []string{"b1 InCohortReclaimWhileBorrowing"},
		},
		"nobody else to take from": {
			why:    "where only its own may go, the queue borrows rather than evicts more of them",
			build:  flat,
			policy: core.Preemption{WithinQueue: lower},
			runs: []runs{
				{"own1", "a", 0, 1, 3},
				{"own2", "a", 0, 1, 2},
				{"own3", "a", 0, 1, 1},
				{"b1", "b", 0, 6, 1},
			},
			need: 4,
			prio: 9,
			want: []string{"own1 InClusterQueue"},
		},
		"while borrowing, equals are spared": {
			why: "only what is less important goes for a queue that borrows", build: flat,
			policy: core.Preemption{Reclaim: always, WhileBorrow: lower},
			runs:   []runs{{"b1", "b", 5, 12, 1}}, need: 5, prio: 5,
		},
		"within nominal, equals go": {
			why: "the queue takes back its own", build: flat,
			policy: core.Preemption{Reclaim: always, WhileBorrow: lower},
			runs:   []runs{{"b1", "b", 5, 12, 1}}, need: 4, prio: 5,
			want: []string{"b1 InCohortReclamation"},
		},
		"who must be spared": {
			why: "the one it was evicted for", build: flat, policy: core.Preemption{WithinQueue: lower},
			runs: []runs{{"x", "a", 0, 6, 2}, {"y", "a", 0, 6, 1}}, need: 4, prio: 5,
			spare: []core.Key{{Name: "x"}}, want: []string{"y InClusterQueue"},
		},
		"interrupted ones before what runs": {
			why: "it stops nothing, although it is more important", build: flat,
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"low", "a", 0, 6, 1}, {"gang", "a", 3, 6, 1}}, need: 4, prio: 5,
			idle: []string{"gang"}, want: []string{"gang InClusterQueue"},
		},
		"interrupted ones that may not be evicted": {
			why: "it is as important, and what it keeps is its own", build: flat,
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"low", "a", 0, 6, 1}, {"gang", "a", 5, 6, 1}}, need: 4, prio: 5,
			idle: []string{"gang"}, want: []string{"low InClusterQueue"},
		},
		"interrupted ones that are not enough": {
			why: "of the same priority they go first, and one that runs goes besides", build: flat,
			policy: core.Preemption{WithinQueue: lower},
			runs:   []runs{{"new", "a", 1, 6, 9}, {"gang", "a", 1, 2, 1}, {"old", "a", 1, 4, 1}}, need: 8, prio: 5,
			idle: []string{"gang"}, want: []string{"gang InClusterQueue", "new InClusterQueue"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			accounts := ledger.New(core.GPU, true)
			f := accounts.Forest
			tc.build(f)
			p := f.FlavorResource("f", core.CPU)
			f.Settle()
			s := &Searcher{Ledger: accounts}
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
					Time:     100,

					Interrupted: slices.Contains(tc.idle, r.name),
				}
				s.Add(c)
				accounts.Hold(&c.Allocation)
			}
			before := f.Queue("a").Available(core.Projected, p)
			var got []string
			victims, _ := s.Find(Request{
				Queue: f.Queue("a"), Policy: tc.policy, Priority: tc.prio, Time: 50,
				Uses: []quota.Use{{Pair: p, Amount: tc.need}}, Short: []quota.FlavorResource{p}, Spare: tc.spare,
			})
			for _, v := range victims {
				got = append(got, fmt.Sprint(v.Key.Name, " ", v.Reason))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if after := f.Queue("a").Available(core.Projected, p); after != before {
				t.Errorf("%s: the search left %v available, there was %v", tc.why, after, before)
			}
		})
	}
}
