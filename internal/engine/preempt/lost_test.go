package preempt

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What a job tells counts within bounds: those of its own interval, of the setting, and of its admission.
func TestWhatCountsAsLost(t *testing.T) {
	const hour = 3600
	for _, tc := range []struct {
		why       string
		saves     *Saves
		now, want int64
	}{
		{"it tells of none", nil, 10 * hour, 0},
		{"how often it saves is not known", &Saves{At: 2 * hour}, 3 * hour, 0},
		{"it tells of them regularly", &Saves{At: 3 * hour, Every: 600}, 3*hour + 300, 300},
		{"the next one is overdue", &Saves{At: 3 * hour, Every: 600}, 3*hour + 900, 600},
		{"it has lapsed", &Saves{At: 3 * hour, Every: 600}, 3*hour + 1201, 0},
		{"each second", &Saves{At: 3 * hour, Every: 1}, 3*hour + 1, 1},
		{"so seldom that most does not count", &Saves{At: 3 * hour, Every: 500 * hour}, 5*hour - 1, hour},
		{"so seldom that it lapses before the next", &Saves{At: 3 * hour, Every: 500 * hour}, 5*hour + 1, 0},
		{"of a time before it started", &Saves{At: hour / 2, Every: 10 * hour}, 2 * hour, 0},
		{"a hundred years ago", &Saves{At: -876000 * hour, Every: hour}, 2 * hour, 0},
		{"of the future", &Saves{At: 9 * hour, Every: hour}, 3 * hour, 0},
		{"a clock went back", &Saves{At: 3 * hour, Every: -hour}, 3*hour + 1, 0},
	} {
		c := &Candidate{Reserved: hour, Saves: tc.saves}
		if got := c.Counted(tc.now, hour); got != tc.want {
			t.Errorf("%s: %d seconds count, want %d", tc.why, got, tc.want)
		}
	}
}

// Victims are found where they are in Kueue's order, none is needless, and what they lose is never more. Where nobody tells
// of checkpoints, they are the same.
func TestLeastIsLost(t *testing.T) {
	better := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			w := drawWorld(t, rapid.SampledFrom([]*core.FairSharing{nil, core.DefaultFairSharing()}).Draw(t, "fair"))
			if len(w.req.Short) == 0 {
				continue
			}
			w.req.Now = 100
			found, _ := w.search.Find(w.req)
			before := slices.Clone(found)
			w.req.Policy.LeastLost = time.Hour
			if silent, _ := w.search.Find(w.req); !slices.Equal(silent, before) {
				t.Fatalf("nobody told of checkpoints, and %v go, and not %v", names(silent), names(before))
			}
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					if rapid.IntRange(0, 3).Draw(t, "saves") > 0 {
						c.Saves = &Saves{At: rapid.Int64Range(50, 100).Draw(t, "at"), Every: 40}
					}
				}
			}
			found, _ = w.search.Find(w.req)
			after := slices.Clone(found)
			if (after == nil) != (before == nil) {
				t.Fatalf("victims are %v, and were %v", names(after), names(before))
			}
			if after == nil {
				continue
			}
			w.search.req = w.req
			switch by := w.search.priceOf(after).compare(w.search.priceOf(before)); {
			case by > 0:
				t.Fatalf("%v lose more than %v", names(after), names(before))
			case by < 0:
				better++
			}
			for i := range after {
				for j := range after {
					if j != i {
						w.take(after[j].Candidate)
					}
				}
				if w.search.Fair != nil && w.fits() {
					t.Errorf("%s goes for nothing", after[i].Key.Name)
				}
				for j := range after {
					if j != i {
						w.back(after[j].Candidate)
					}
				}
			}
		}
	})
	if better == 0 {
		t.Error("in no world less was lost")
	}
}

// What runs in a queue is sorted once in a search, by what its jobs have told of until then.
func TestQueuesAreSortedOnceInASearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, rapid.SampledFrom([]*core.FairSharing{nil, core.DefaultFairSharing()}).Draw(t, "fair"))
		w.req.Now, w.req.Policy.LeastLost = 100, time.Hour
		for range 3 {
			for _, q := range w.queues {
				for _, c := range w.runs[q] {
					c.Saves = &Saves{At: rapid.Int64Range(50, 100).Draw(t, "at"), Every: 40}
				}
			}
			w.search.Find(w.req)
			w.search.order = ordering{w.search.counting(), rapid.Bool().Draw(t, "by second")}
			for _, q := range w.queues {
				l := w.search.ordered(q)
				if !slices.Equal(l, w.search.order.sorted(w.search.Running(q))) {
					t.Fatalf("%s is in the order of another search", q.Name)
				}
				if again := w.search.ordered(q); len(l) > 0 && &again[0] != &l[0] {
					t.Fatalf("%s is sorted twice", q.Name)
				}
			}
			w.search.order = ordering{}
		}
	})
}
