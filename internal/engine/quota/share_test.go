package quota

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// offers are quotas as FLAVOR, RESOURCE, nominal.
type offer struct {
	flavor, resource string
	nominal          core.Amount
	borrowing        *core.Amount
	lending          *core.Amount
}

func offers(list ...offer) []core.ResourceGroup {
	var out []core.ResourceGroup
	for _, o := range list {
		out = append(out, core.ResourceGroup{Covered: []string{o.resource}, Flavors: []core.FlavorQuotas{
			{
				Flavor: o.flavor,
				Quotas: []core.Quota{
					{Resource: o.resource, Nominal: o.nominal, Borrowing: o.borrowing, Lending: o.lending},
				},
			},
		}})
	}
	return out
}

func TestShare(t *testing.T) {
	type used struct {
		queue, flavor, resource string
		amount                  core.Amount
	}
	tests := map[string]struct {
		why   string
		build func(f *Forest)
		used  []used
		of    string // a queue, or a cohort if there is no such queue
		want  int64
		by    string // the dominant resource
	}{
		"within nominal": {
			why: "a queue that borrows nothing has no share, however much it uses",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 8, nil, nil}))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 8}}, of: "a", want: 0,
		},
		"borrowed of what all could lend": {
			why: "2 of 16, in thousandths",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 8, nil, nil}))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 10}}, of: "a", want: 125, by: "gpu",
		},
		"rounded up": {
			why: "1 of 3 is 333.3: a share is never shown smaller than it is",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil)
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 3, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 1}}, of: "a", want: 334, by: "gpu",
		},
		"flavors of a resource add up": {
			why: "1 of f and 2 of g of 10 altogether; what is left of the own f does not offset g",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 1, nil, nil}, offer{"g", "gpu", 0, nil, nil}))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 4, nil, nil}, offer{"g", "gpu", 5, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 2}, {"a", "g", "gpu", 2}}, of: "a", want: 300, by: "gpu",
		},
		"the dominant resource counts": {
			why: "1 of 10 GPUs and 3 of 20 cpus",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil)
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 10, nil, nil}, offer{"f", "cpu", 20, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 1}, {"a", "f", "cpu", 3}}, of: "a", want: 150, by: "cpu",
		},
		"equal resources go by the alphabet": {
			why: "both are 1 of 10",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil)
				f.SetQueue("b", "c", offers(offer{"f", "zpu", 10, nil, nil}, offer{"f", "gpu", 10, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 1}, {"a", "f", "zpu", 1}}, of: "a", want: 100, by: "gpu",
		},
		"what nobody lends is left aside": {
			why: "b keeps its GPUs, so lendable is 0; a uses them after an edit",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 0, nil, nil}))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 10, nil, new(core.Amount(0))}))
			},
			used: []used{{"a", "f", "gpu", 1}}, of: "a", want: 0,
		},
		"only what is lent counts as lendable": {
			why: "b lends 5 of 10",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil)
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 10, nil, new(core.Amount(5))}))
			},
			used: []used{{"a", "f", "gpu", 1}}, of: "a", want: 200, by: "gpu",
		},
		"weight divides": {
			why: "250 by 2",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil).Weigh(new(2 * core.WeightOne))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 2}}, of: "a", want: 125, by: "gpu",
		},
		"a weight far below one": {
			why: "2 billionths, the smallest that the API takes, are exact",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil).Weigh(new(core.Weight(2)))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 2}}, of: "a", want: 125_000_000_000, by: "gpu",
		},
		"weight 0": {
			why: "infinite as soon as anything is borrowed",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil).Weigh(new(core.Weight(0)))
				f.SetQueue("b", "c", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 1}}, of: "a", want: math.MaxInt64, by: "gpu",
		},
		"weight 0 without borrowing": {
			why: "0 by 0 is 0",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 8, nil, nil})).Weigh(new(core.Weight(0)))
				f.SetQueue("b", "c", nil)
			},
			used: []used{{"a", "f", "gpu", 8}}, of: "a", want: 0,
		},
		"root": {
			why: "there is no other queue to borrow from",
			build: func(f *Forest) {
				f.SetQueue("a", "c", offers(offer{"f", "gpu", 1, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 5}}, of: "c", want: 0,
		},
		"no cohort": {
			why:   "a queue alone has no other to borrow from",
			build: func(f *Forest) { f.SetQueue("a", "", offers(offer{"f", "gpu", 1, nil, nil})) },
			used:  []used{{"a", "f", "gpu", 5}}, of: "a", want: 0,
		},
		"cohort borrows for its members": {
			why: "left owns 4, uses 7; 3 of the 12 of the whole tree",
			build: func(f *Forest) {
				f.SetCohort(core.Cohort{Name: "left", Parent: "top"})
				f.SetQueue("a", "left", offers(offer{"f", "gpu", 4, nil, nil}))
				f.SetQueue("b", "top", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 7}}, of: "left", want: 250, by: "gpu",
		},
		"a cohort's borrowing limit bounds what its members could get": {
			why: "left owns 4 and may borrow 2: 3 of 6",
			build: func(f *Forest) {
				f.SetCohort(
					core.Cohort{Name: "left", Parent: "top", Groups: offers(offer{"f", "gpu", 0, new(core.Amount(2)), nil})},
				)
				f.SetQueue("a", "left", nil)
				f.SetQueue("a2", "left", offers(offer{"f", "gpu", 4, nil, nil}))
				f.SetQueue("b", "top", offers(offer{"f", "gpu", 8, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 3}}, of: "a", want: 500, by: "gpu",
		},
		"unlimited quota": {
			why: "nothing is a large part of what has no end",
			build: func(f *Forest) {
				f.SetQueue("a", "c", nil)
				f.SetQueue("b", "c", offers(offer{"f", "gpu", core.Unlimited, nil, nil}))
			},
			used: []used{{"a", "f", "gpu", 1 << 40}}, of: "a", want: 1, by: "gpu",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := New()
			tc.build(f)
			for _, u := range tc.used {
				f.FlavorResource(u.flavor, u.resource)
			}
			f.Settle()
			for _, u := range tc.used {
				f.Add(core.Current, f.Queue(u.queue), []Use{{f.FlavorResource(u.flavor, u.resource), u.amount}})
			}
			n := f.queues[tc.of]
			if n == nil {
				n = f.Named(tc.of)
			}
			if s := n.Share(core.Current); s.Value() != tc.want || s.Resource != tc.by {
				t.Errorf("%s: share %d by %q, want %d by %q", tc.why, s.Value(), s.Resource, tc.want, tc.by)
			}
		})
	}
}

// TestShareWith compares a share with uses added to the share after adding them.
func TestShareWith(t *testing.T) {
	f := New()
	f.SetCohort(
		core.Cohort{Name: "left", Parent: "top", Groups: offers(offer{"f", "gpu", 0, nil, new(core.Amount(1))})},
	)
	a := f.SetQueue("a", "left", offers(offer{"f", "gpu", 4, nil, new(core.Amount(2))}))
	f.SetQueue("b", "top", offers(offer{"f", "gpu", 8, nil, nil}))
	p := f.FlavorResource("f", "gpu")
	f.Settle()
	for used := range core.Amount(12) {
		asked := []Use{{p, 2}}
		lifted := []Use{{p, 2}}
		queue, left := a.ShareWith(core.Current, lifted), f.Named("left")
		a.Lift(core.Current, lifted)
		cohort, borrows := left.ShareWith(core.Current, lifted), left.BorrowsOn(core.Current, asked, lifted)
		f.Add(core.Current, a, asked)
		if got := a.Share(core.Current); got != queue {
			t.Errorf("with %d in use: 2 more make %v of the queue, foretold %v", used, got, queue)
		}
		if got := left.Share(core.Current); got != cohort {
			t.Errorf("with %d in use: 2 more make %v of the cohort, foretold %v", used, got, cohort)
		}
		if got := left.Usage(core.Current, p) > left.cells[p].subtree; got != borrows {
			t.Errorf("with %d in use: 2 more make the cohort borrow: %t, foretold %t", used, got, borrows)
		}
		f.Remove(core.Current, a, asked)
		f.Add(core.Current, a, []Use{{p, 1}})
	}
}

// TestCompareShares compares the whole range of amounts and weights with exact
// fractions.
func TestCompareShares(t *testing.T) {
	amount := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) DominantResourceShare {
			s := DominantResourceShare{
				borrowed: core.Amount(rapid.OneOf(rapid.Just(int64(0)), amount).Draw(t, name)),
				lendable: core.Amount(amount.Draw(t, name+" of")),
				weight:   core.Weight(rapid.OneOf(rapid.Just(int64(0)), amount).Draw(t, name+" weight")),
			}
			return s
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "same") { // multiples are equal
			b = a
			if b.borrowed < 1<<60 && b.lendable < 1<<60 {
				b.borrowed, b.lendable = 3*b.borrowed, 3*b.lendable
			}
		}
		if got, want := a.Compare(b), exact(a, b); got != want || b.Compare(a) != -want {
			t.Fatalf("%s with %s is %d, want %d", show(a), show(b), got, want)
		}
	})
}

// Products of three words are exact, carries included.
func TestMul3(t *testing.T) {
	word := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(math.MaxUint64-9, math.MaxUint64))
	large := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		want := large(a)
		want.Mul(want, large(b)).Mul(want, large(c))
		got := new(big.Int)
		for _, w := range mul3(a, b, c) {
			got.Add(got.Lsh(got, 64), large(w))
		}
		if got.Cmp(want) != 0 {
			t.Fatalf("%d * %d * %d is %d, want %d", a, b, c, got, want)
		}
	})
}

func exact(a, b DominantResourceShare) int {
	ratio := func(s DominantResourceShare) *big.Rat { return big.NewRat(int64(s.borrowed), int64(s.lendable)) }
	switch {
	case a.Infinite() && b.Infinite():
		return ratio(a).Cmp(ratio(b))
	case a.Infinite() || b.Infinite():
		return cmp.Compare(value(a.Infinite()), value(b.Infinite()))
	case a.Zero() || b.Zero():
		return cmp.Compare(value(!a.Zero()), value(!b.Zero()))
	}
	return new(
		big.Rat,
	).Quo(ratio(a), big.NewRat(int64(a.weight), 1)).
		Cmp(new(big.Rat).Quo(ratio(b), big.NewRat(int64(b.weight), 1)))
}

func value(b bool) int { //nolint:revive // a number for a truth
	if b {
		return 1
	}
	return 0
}

func show(s DominantResourceShare) string {
	return fmt.Sprintf("%d/%d/%s", s.borrowed, s.lendable, s.weight)
}
