package quota

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

// cpu is a resource group of one flavor and resource. Negative limits mean none.
func cpu(nominal, borrowing, lending core.Amount) []core.ResourceGroup {
	q := core.Quota{Resource: core.CPU, Nominal: nominal}
	if borrowing >= 0 {
		q.Borrowing = &borrowing
	}
	if lending >= 0 {
		q.Lending = &lending
	}
	return []core.ResourceGroup{
		{Covered: []string{core.CPU}, Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{q}}}},
	}
}

func TestAvailable(t *testing.T) {
	type use map[string]core.Amount
	tests := map[string]struct {
		why    string
		build  func(f *Forest)
		use    use
		want   map[string][2]core.Amount // available, limit
		levels map[string]int            // of one more unit
	}{
		"alone": {
			why:   "a queue without cohort has its nominal quota, whatever limits say",
			build: func(f *Forest) { f.SetQueue("a", "", cpu(10, -1, -1)) },
			use:   use{"a": 4},
			want:  map[string][2]core.Amount{"a": {6, 10}},
		},
		"borrow everything": {
			why: "without limits all unused quota of the cohort may be borrowed",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(10, -1, -1))
				f.SetQueue("b", "c", cpu(5, -1, -1))
			},
			use:    use{"a": 10, "b": 1},
			want:   map[string][2]core.Amount{"a": {4, 15}, "b": {4, 15}},
			levels: map[string]int{"a": 1, "b": 0},
		},
		"borrowing limit": {
			why: "no more than the limit above nominal",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(10, 2, -1))
				f.SetQueue("b", "c", cpu(5, -1, -1))
			},
			use:  use{"a": 11},
			want: map[string][2]core.Amount{"a": {1, 12}, "b": {4, 15}},
		},
		"lending limit": {
			why: "what is not lent stays with its owner, even when others are short",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(10, -1, 4))
				f.SetQueue("b", "c", cpu(5, -1, -1))
			},
			use:  use{"b": 9},
			want: map[string][2]core.Amount{"a": {6, 15}, "b": {0, 9}},
		},
		"kept part first": {
			why: "usage within the kept part does not reach the cohort",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(10, -1, 4))
				f.SetQueue("b", "c", cpu(5, -1, -1))
			},
			use:  use{"a": 6, "b": 2},
			want: map[string][2]core.Amount{"a": {7, 15}, "b": {7, 9}},
		},
		"quota cut below usage": {
			why: "available is negative and nothing wraps",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(3, -1, -1))
				f.SetQueue("b", "c", cpu(2, -1, -1))
			},
			use:  use{"a": 20},
			want: map[string][2]core.Amount{"a": {-15, 5}, "b": {-15, 5}},
		},
		"tree": {
			why: "a cohort's own quota, and limits on the way",
			build: func(f *Forest) {
				f.SetCohort(core.Cohort{Name: "top", Groups: cpu(4, -1, -1)})
				f.SetCohort(core.Cohort{Name: "left", Parent: "top", Groups: cpu(0, 3, -1)})
				f.SetCohort(core.Cohort{Name: "right", Parent: "top", Groups: cpu(0, -1, 2)})
				f.SetQueue("a", "left", cpu(4, -1, -1))
				f.SetQueue("b", "left", cpu(4, -1, -1))
				f.SetQueue("d", "right", cpu(6, -1, -1))
			},
			use: use{"a": 6},
			// left may use 8 and borrow 3; right keeps 4 of its 6.
			want:   map[string][2]core.Amount{"a": {5, 11}, "b": {5, 11}, "d": {12, 18}},
			levels: map[string]int{"a": 1, "b": 0, "d": 0},
		},
		"unlimited": {
			why: "quotas saturate, and unlimited stays unlimited",
			build: func(f *Forest) {
				f.SetQueue("a", "c", cpu(core.Unlimited, -1, -1))
				f.SetQueue("b", "c", cpu(math.MaxInt64-1, -1, -1))
			},
			use:  use{"a": math.MaxInt64 - 5, "b": 100},
			want: map[string][2]core.Amount{"a": {core.Unlimited, core.Unlimited}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := New()
			tc.build(f)
			p := f.FlavorResource("f", core.CPU)
			f.Settle()
			for q, v := range tc.use {
				f.Add(core.Projected, f.Queue(q), []Use{{p, v}})
			}
			if err := f.Check(); err != nil {
				t.Errorf("%s: %v", tc.why, err)
			}
			got := map[string][2]core.Amount{}
			for q := range tc.want {
				got[q] = [2]core.Amount{f.Queue(q).Available(core.Projected, p), f.Queue(q).Limit(p)}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			for q, want := range tc.levels {
				if got, _ := f.Queue(q).Level(core.Projected, p, 1); got != want {
					t.Errorf("%s: %s borrows from level %d, want %d", tc.why, q, got, want)
				}
			}
			for q, v := range tc.use {
				f.Remove(core.Projected, f.Queue(q), []Use{{p, v}})
			}
			for q := range tc.use {
				if got := f.Queue(q).Root().Usage(core.Projected, p); got != 0 && !f.Overflown() {
					t.Errorf("%s: %v of %s is left after everything was removed", tc.why, got, q)
				}
			}
		})
	}
}

func TestOverflowIsCountedAnew(t *testing.T) {
	f := New()
	n := f.SetQueue("a", "", cpu(core.Unlimited, -1, -1))
	p := f.FlavorResource("f", core.CPU)
	f.Settle()
	huge := []Use{{p, math.MaxInt64 - 1}}
	f.Add(core.Projected, n, huge)
	f.Add(core.Projected, n, huge)
	f.Remove(core.Projected, n, huge)
	if !f.Overflown() {
		t.Fatal("an overflow went unnoticed")
	}
	f.ClearUsage()
	f.Add(core.Projected, n, huge)
	f.Settle()
	if got := n.Usage(core.Projected, p); got != math.MaxInt64-1 || f.Overflown() {
		t.Errorf("usage is %v after counting anew", got)
	}
}

func TestCycles(t *testing.T) {
	f := New()
	f.SetCohort(core.Cohort{Name: "x", Parent: "y"})
	f.SetCohort(core.Cohort{Name: "y", Parent: "x"})
	in := f.SetQueue("in", "x", cpu(1, -1, -1))
	out := f.SetQueue("out", "z", cpu(1, -1, -1))
	f.Settle()
	if !in.Cyclic() || out.Cyclic() {
		t.Errorf("cyclic: in %t, out %t", in.Cyclic(), out.Cyclic())
	}
	f.DropCohort("y")
	f.Settle()
	if in.Cyclic() || in.Root().Name != "y" {
		t.Errorf("after mending: cyclic %t, root %s", in.Cyclic(), in.Root().Name)
	}
}

// However many there are, cohorts stand before queues, each by name: decisions go
// through them in this order.
func TestManyChildren(t *testing.T) {
	f, want := New(), []string{}
	for i := range 40 {
		f.SetQueue(fmt.Sprintf("q%02d", 39-i), "top", nil)
		f.SetCohort(core.Cohort{Name: fmt.Sprintf("c%02d", 39-i), Parent: "top"})
	}
	for _, kind := range []string{"c", "q"} {
		for i := range 40 {
			want = append(want, fmt.Sprintf("%s%02d", kind, i))
		}
	}
	f.Settle()
	var got []string
	for _, n := range f.Named("top").Children() {
		got = append(got, n.Name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
