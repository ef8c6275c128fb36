package quota_test

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Two queues own 8 GPUs each. What one does not use, the other may borrow, but for
// what the lending limit keeps back.
func Example() {
	gpus := func(nominal core.Amount, lending *core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{{Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{
			Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: nominal, Lending: lending}},
		}}}}
	}
	lent := core.Amount(6)
	f := quota.New()
	red := f.SetQueue("red", "company", gpus(8, &lent))
	blue := f.SetQueue("blue", "company", gpus(8, nil))
	pair := f.FlavorResource("h100", core.GPU)
	f.Settle()

	f.Add(core.Current, blue, []quota.Use{{Pair: pair, Amount: 12}})
	fmt.Println("blue borrows", blue.Borrowed(core.Current, pair))
	fmt.Println(
		"blue may use",
		blue.Available(core.Current, pair),
		"more, red",
		red.Available(core.Current, pair),
	)
	fmt.Println("blue's share of what all could borrow, in thousandths:", blue.Share(core.Current).Value())
	// Output:
	// blue borrows 4
	// blue may use 2 more, red 4
	// blue's share of what all could borrow, in thousandths: 286
}
