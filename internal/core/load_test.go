package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Every number counts when it is asked whether something changed.
func TestLoadsDiffer(t *testing.T) {
	fr := core.FlavorResource{Flavor: "f", Resource: "cpu"}
	full := func() core.Load {
		return core.Load{
			Pending:      1,
			Inadmissible: 2,
			Reserving:    3,
			Admitted:     4,
			Reserved:     map[core.FlavorResource]core.Amount{fr: 5},
			Used:         map[core.FlavorResource]core.Amount{fr: 6},
			Consumed: core.MakeResources(
				map[string]core.Amount{"cpu": 7},
			),
			ConsumedAt: time.Unix(8, 0),
			Share:      &core.Share{Rounded: 9, Exact: 9.5},
		}
	}
	if !full().Equal(full()) {
		t.Fatal("a load differs from itself")
	}
	for name, change := range map[string]func(*core.Load){
		"pending": func(x *core.Load) { x.Pending++ }, "inadmissible": func(x *core.Load) { x.Inadmissible++ },
		"reserving": func(x *core.Load) { x.Reserving++ }, "evicting": func(x *core.Load) { x.Evicting++ }, "admitted": func(x *core.Load) { x.Admitted++ },
		"reserved": func(x *core.Load) { x.Reserved[fr]++ }, "used": func(x *core.Load) { x.Used[fr]++ },
		"consumed": func(x *core.Load) { x.Consumed = nil }, "consumed at": func(x *core.Load) { x.ConsumedAt = time.Unix(9, 0) },
		"share": func(x *core.Load) { x.Share.Exact++ }, "rounded share": func(x *core.Load) { x.Share.Rounded++ }, "no share": func(x *core.Load) { x.Share = nil },
	} {
		x := full()
		if change(&x); x.Equal(full()) || full().Equal(x) {
			t.Errorf("%s: the difference is not noticed", name)
		}
	}
	none := core.Share{Rounded: math.MaxInt64, Exact: math.NaN()}
	if !none.Equal(none) || none.Equal(core.Share{Rounded: math.MaxInt64, Exact: 1}) {
		t.Error("a share that is no number is itself, and nothing else")
	}
}
