package preempt

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// TestSparedAreNotEvicted draws worlds: whom a search evicts is never said to be spared. By
// shares that is so of one that is evicted alone: others that go first change them, also
// those that are put back in the end.
func TestSparedAreNotEvicted(t *testing.T) {
	met, evicted := map[core.SpareRule]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			fair := rapid.SampledFrom([]*core.FairSharing{nil, core.DefaultFairSharing()}).Draw(t, "fair")
			if fair != nil {
				fair.ReclaimNominal = rapid.Bool().Draw(t, "reclaim nominal")
			}
			w := drawWorld(t, fair)
			if len(w.req.Short) == 0 {
				continue
			}
			var victims []Victim
			found, _ := w.search.Find(w.req)
			victims = append(victims, found...)
			alone := &naive{world: w}
			if fair != nil {
				alone.find()
			}
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					out := w.search.Against(w.req, c)
					met[out.Rule]++
					i := slices.IndexFunc(victims, func(v Victim) bool { return v.Candidate == c })
					if i < 0 {
						continue
					}
					evicted++
					if out.Rule != "" && (out.Rule != core.SparedByShare || alone.went == 1) {
						t.Fatalf("%s is evicted (%s), and was said to be spared: %s", c.Key.Name, victims[i].Reason, out.Rule)
					}
				}
			}
			if err := w.forest.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, rule := range []core.SpareRule{
		"", core.SparedOtherQuota, core.SparedByPolicy, core.SparedByPriority, core.SparedWithinNominal, core.SparedByBorrowing, core.SparedByShare, core.SparedUnseen,
	} {
		if met[rule] == 0 {
			t.Errorf("no world had rule %q", rule)
		}
	}
	if evicted == 0 {
		t.Error("nobody was evicted")
	}
}

// TestAlonePermittedIsEvicted: in worlds with one workload that runs, one that is not spared
// goes if that is enough.
func TestAlonePermittedIsEvicted(t *testing.T) {
	went := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			w := drawWorld(t, rapid.SampledFrom([]*core.FairSharing{nil, core.DefaultFairSharing()}).Draw(t, "fair"))
			if len(w.req.Short) == 0 {
				continue
			}
			var only *Candidate
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					if only == nil && w.search.Against(w.req, c).Rule == "" {
						only = c
					}
				}
			}
			if only == nil {
				continue
			}
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					if c != only {
						w.search.Remove(c)
					}
				}
			}
			w.take(only)
			enough := w.fits()
			w.back(only)
			if !enough || w.search.mustBorrow() { // who else goes changes what has to be borrowed
				continue
			}
			went++
			if found, _ := w.search.Find(w.req); len(found) != 1 {
				t.Fatalf("%s may be evicted and that is enough, and it is not: %v", only.Key.Name, names(found))
			}
		}
	})
	if went == 0 {
		t.Error("no world had such a workload")
	}
}

// TestWhoBorrowsNothingIsSpared: by shares, a workload of another queue is spared if that uses
// no more of what is short than is its own, or if it or a cohort around it, up to where the two
// part, borrows nothing of anything. Neither implies the other.
func TestWhoBorrowsNothingIsSpared(t *testing.T) {
	onlyWithin, onlyNothing := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			w := drawWorld(t, core.DefaultFairSharing())
			if len(w.req.Short) == 0 {
				continue
			}
			n := &naive{world: w}
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					out := w.search.Against(w.req, c)
					switch out.Rule {
					case "", core.SparedWithinNominal, core.SparedByShare:
					default:
						continue // by a rule that goes before
					}
					if q == w.req.Queue || q.Root() != w.req.Queue.Root() {
						continue
					}
					_, theirs := n.sides(q)
					within, nothing := q.WithinNominal(quota.Seen, w.req.Short), false
					for x := q; x != theirs.Parent(); x = x.Parent() {
						nothing = nothing || n.share(x).Zero()
					}
					if (within || nothing) != (out.Rule == core.SparedWithinNominal) {
						t.Fatalf(
							"%s of %s: within its own: %t, borrows nothing: %t, and the rule is %q",
							c.Key.Name,
							q.Name,
							within,
							nothing,
							out.Rule,
						)
					}
					if within && !nothing {
						onlyWithin++
					}
					if nothing && !within {
						onlyNothing++
					}
				}
			}
		}
	})
	if onlyWithin == 0 || onlyNothing == 0 {
		t.Errorf(
			"%d were spared only as within their own, %d only as borrowing nothing: both have to occur",
			onlyWithin,
			onlyNothing,
		)
	}
}
