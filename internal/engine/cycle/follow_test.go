package cycle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// TestFollowersKnowTheLine lets an engine follow one that decides, through random
// worlds. Once all decisions have been seen, both give the same answers. Where
// past usage orders the line, the follower knows it as it was observed, not what
// was charged in advance: the same workloads wait then, in whatever order.
func TestFollowersKnowTheLine(t *testing.T) {
	for name, fair := range map[string]*core.FairSharing{"classical": nil, "fair": core.DefaultFairSharing()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := newDuel(t, fair)
				f := cycle.New(x.options)
				tell := func(ev core.Event) {
					switch ev.(type) {
					case core.NodeSet, core.NodeGone:
					default:
						f.Apply(ev)
					}
				}
				for _, ev := range x.log {
					tell(ev)
				}
				x.told = tell
				x.decided = func() { f.Follow(x.now) }
				x.play()
				f.Follow(x.now)
				for q := range x.ref.queues {
					want, got := x.engine.Positions(q), f.Positions(q)
					if x.byUsage {
						slices.SortFunc(want, core.Key.Compare)
						slices.SortFunc(got, core.Key.Compare)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("the line of %s (-decides +follows):\n%s\n%s", q, diff, x.dump())
					}
					if diff := cmp.Diff(x.engine.Usage(q), f.Usage(q)); diff != "" {
						t.Fatalf("the usage of %s (-decides +follows):\n%s\n%s", q, diff, x.dump())
					}
				}
				count := map[bool]int{}
				x.engine.EachWaiting(func(_ string, _ core.Key, parked bool) { count[parked]++ })
				for q := range x.ref.queues {
					c := x.engine.Counts(q)
					count[false] -= c.Active
					count[true] -= c.Inadmissible
				}
				if count[false] != 0 || count[true] != 0 {
					t.Fatalf("who waits one by one, less what is counted, active: %d, parked: %d", count[false], count[true])
				}
			})
		})
	}
}
