package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// world is two queues of one cohort with four CPUs each, and two nodes with four.
type world struct {
	*ledger.Ledger
	cpus  quota.FlavorResource
	class *place.Class
}

func newWorld(fair bool) *world {
	l := ledger.New(core.GPU, fair)
	for _, q := range []string{"a", "b"} {
		l.Forest.SetQueue(
			q,
			"team",
			[]core.ResourceGroup{{Covered: []string{core.CPU}, Flavors: []core.FlavorQuotas{{
				Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: 4}},
			}}}},
		)
	}
	cpus := l.Forest.FlavorResource("f", core.CPU)
	l.Forest.Settle()
	for _, n := range []string{"n1", "n2"} {
		l.Nodes.Set(
			core.Node{
				Name:        n,
				State:       core.NodeReady,
				Allocatable: core.Resources{{Resource: core.CPU, Amount: 4}, {Resource: core.Pods, Amount: 100}},
			},
		)
	}
	return &world{
		l,
		cpus,
		l.Nodes.Class(
			core.Resources{{Resource: core.CPU, Amount: 1}, {Resource: core.Pods, Amount: 1}},
			core.Constraints{},
			core.Topology{},
		),
	}
}

// give plans n pods of one CPU each for an allocation, in a queue and on a node.
func (b *world) give(a *ledger.Allocation, queue, node string, n int64) {
	a.Queue = b.Forest.Queue(queue)
	a.Uses = []quota.Use{{Pair: b.cpus, Amount: core.Amount(n)}}
	a.Holds = []place.Hold{{Node: b.Nodes.Node(node), Class: b.class, Count: int32(n)}}
}

// room is what is free: of the quota that queue a may use, and of each node.
func (b *world) room() string {
	var out []string
	for i, account := range []string{"now", "then", "seen"} {
		out = append(out, fmt.Sprintf("%s %d", account, b.Forest.Queue("a").Room(core.Account(i), b.cpus)))
	}
	for i, view := range []place.View{place.Free, place.After} {
		spots, _, ok := b.Nodes.Place(place.Request{View: view, Sets: []place.Set{{Class: b.class, Count: 4}}})
		var names []string
		for _, s := range spots {
			for _, spot := range s {
				names = append(names, fmt.Sprintf("%s*%d", spot.Node.Name(), spot.Count))
			}
		}
		out = append(
			out,
			fmt.Sprintf("four pods %s: %t %s", []string{"at once", "once all left"}[i], ok, strings.Join(names, " ")),
		)
	}
	return strings.Join(out, "; ")
}

// What the five verbs leave of eight CPUs, four of them on each node.
func TestVerbs(t *testing.T) {
	b := newWorld(true)
	var x, y ledger.Allocation
	x.ID, y.ID = 1, 2
	for _, step := range []struct {
		why  string
		do   func()
		want string
	}{
		{"nothing is held", func() {}, "now 8; then 8; seen 8; four pods at once: true n1*4; four pods once all left: true n1*4"},
		{"what a workload is given it holds in both accounts, though it was not seen yet", func() {
			b.give(&x, "a", "n1", 4)
			x.Unseen = true
			b.Hold(&x)
		}, "now 4; then 4; seen 8; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"what was seen counts for shares", func() { b.Observe(&x) }, "now 4; then 4; seen 4; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"what leaves still holds it, and others may plan with it", func() { b.Leave(&x) }, "now 4; then 8; seen 8; four pods at once: true n2*4; four pods once all left: true n1*4"},
		{"what is promised is no other workload's, and not used yet", func() {
			b.give(&y, "b", "n1", 4)
			b.Promise(&y)
		}, "now 4; then 4; seen 8; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"an eviction that is taken back leaves less than nothing on the node", func() { b.CancelEviction(&x) }, "now 4; then 0; seen 4; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"what is gone holds nothing", func() { b.Release(&x) }, "now 8; then 4; seen 8; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"a promise that is kept is held at once", func() { b.Hold(&y) }, "now 4; then 4; seen 4; four pods at once: true n2*4; four pods once all left: true n2*4"},
		{"and given back", func() { b.Release(&y) }, "now 8; then 8; seen 8; four pods at once: true n1*4; four pods once all left: true n1*4"},
		{"a workload evicted before it was seen is on its way", func() {
			b.give(&x, "a", "n2", 2)
			b.Leave(&x)
		}, "now 6; then 8; seen 8; four pods at once: true n1*4; four pods once all left: true n1*4"},
	} {
		step.do()
		if d := cmp.Diff(step.want, b.room()); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
		if err := b.Check(slices.Values([]*ledger.Allocation{&x, &y})); err != nil {
			t.Errorf("%s: %v", step.why, err)
		}
	}
}

func TestFits(t *testing.T) {
	b := newWorld(false)
	var x, y ledger.Allocation
	x.ID, y.ID = 1, 2
	b.give(&x, "a", "n1", 3)
	b.Hold(&x)
	b.give(&y, "b", "n1", 2)
	if b.Fits(core.Current, &y) {
		t.Error("the node has one CPU left")
	}
	if !b.Try(core.Current, x.Queue, func(trial *ledger.Trial) bool {
		trial.Without(&x)
		return b.Fits(core.Current, &y)
	}) {
		t.Error("without the other it would fit")
	}
	b.Leave(&x)
	b.Promise(&y)
	if !b.StillFits(core.Projected, &y) {
		t.Error("it fits beside those that stay, as it is booked")
	}
	b.Nodes.Set(
		core.Node{
			Name:        "n1",
			State:       core.NodeReady,
			Allocatable: core.Resources{{Resource: core.CPU, Amount: 1}, {Resource: core.Pods, Amount: 100}},
		},
	)
	if b.StillFits(core.Projected, &y) {
		t.Error("the node is smaller now")
	}
}

// Whatever trials and suppositions do, nothing of it is left; whatever verbs do, the
// The accounts are what a count from scratch says.
func TestAccountsAlwaysAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newWorld(rapid.Bool().Draw(t, "fair"))
		all := make([]*ledger.Allocation, rapid.IntRange(1, 6).Draw(t, "workloads"))
		for i := range all {
			all[i] = &ledger.Allocation{ID: int32(i)}
		}
		check := func(what string) {
			if err := b.Check(slices.Values(all)); err != nil {
				t.Fatalf("after %s: %v", what, err)
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			a := rapid.SampledFrom(all).Draw(t, "workload")
			switch {
			case a.State() == ledger.Free:
				b.give(
					a,
					rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"),
					rapid.SampledFrom([]string{"n1", "n2", "gone"}).Draw(t, "node"),
					rapid.Int64Range(0, 5).Draw(t, "pods"),
				)
				a.Unseen = rapid.Bool().Draw(t, "unseen")
				rapid.SampledFrom([]func(*ledger.Allocation){b.Hold, b.Promise, b.Leave}).Draw(t, "verb")(a)
			case a.State() == ledger.Held && a.Unseen && rapid.Bool().Draw(t, "see"):
				b.Observe(a)
			case a.State() == ledger.Held:
				rapid.SampledFrom([]func(*ledger.Allocation){b.Leave, b.Release}).Draw(t, "verb")(a)
			case a.State() == ledger.Leaving:
				rapid.SampledFrom([]func(*ledger.Allocation){b.CancelEviction, b.Release}).Draw(t, "verb")(a)
			default:
				rapid.SampledFrom([]func(*ledger.Allocation){b.Hold, b.Release}).Draw(t, "verb")(a)
			}
			check("a verb")
			before, stamp := b.room(), b.Forest.Queue("a").Stamp()
			b.try(t, all)
			var undo []func()
			for _, a := range all {
				if a.State() != ledger.Free && rapid.Bool().Draw(t, "suppose") {
					undo = append(undo, b.Suppose(a, ledger.Free))
				}
			}
			for _, u := range slices.Backward(undo) {
				u()
			}
			if after := b.room(); after != before {
				t.Fatalf("questions changed %s to %s", before, after)
			}
			if now := b.Forest.Queue("a").Stamp(); now != stamp {
				t.Fatal("others would look again because of a question")
			}
			check("questions")
		}
	})
}

// try takes off, puts back and books at random, one trial within another.
func (b *world) try(t *rapid.T, all []*ledger.Allocation) {
	out := map[*ledger.Allocation]bool{}
	trial := b.Begin(
		b.Forest.Queue("a"),
		ledger.Scope{Account: core.Projected, NoNodes: rapid.Bool().Draw(t, "quota alone")},
	)
	defer trial.End()
	for range rapid.IntRange(0, 8).Draw(t, "moves") {
		a := rapid.SampledFrom(all).Draw(t, "workload")
		switch {
		case !a.State().In(core.Projected):
		case out[a]:
			trial.With(a)
			delete(out, a)
		default:
			trial.Without(a)
			out[a] = true
		}
	}
	if rapid.Bool().Draw(t, "ask") {
		trial.Ask(b.Forest.Queue("b"), []quota.Use{{Pair: b.cpus, Amount: 3}})
	}
	if rapid.Bool().Draw(t, "claim") {
		inner := b.Begin(b.Forest.Queue("b"), ledger.Scope{Account: core.Projected})
		inner.Claim(b.Forest.Queue("a"), b.cpus, 2)
		inner.Claim(b.Forest.Queue("b"), b.cpus, 5)
		inner.End()
	}
	for a := range out { // each alone, so order does not matter
		if rapid.Bool().Draw(t, "put back") {
			trial.With(a)
		}
	}
}

// A sum that reached the largest number there is cannot be undone: it is counted anew.
func TestRecount(t *testing.T) {
	b := newWorld(true)
	var x, y ledger.Allocation
	x.ID, y.ID = 1, 2
	b.give(&x, "a", "n1", 1)
	x.Uses[0].Amount = core.Unlimited
	b.give(&y, "b", "n2", 2)
	b.Hold(&x)
	b.Hold(&y)
	b.Release(&x)
	if !b.Forest.Overflown() {
		t.Fatal("nothing overflowed")
	}
	all := slices.Values([]*ledger.Allocation{&x, &y})
	b.Recount(all)
	b.Forest.Settle()
	if err := b.Check(all); err != nil {
		t.Error(err)
	}
	if got := b.Forest.Queue("a").Room(core.Current, b.cpus); got != 6 {
		t.Errorf("%d CPUs are free, want 6", got)
	}
}
