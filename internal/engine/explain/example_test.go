package explain_test

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// The sentence is made of the facts of a reason, in the words that Kueue's users know.
func ExampleSentence() {
	fmt.Println(explain.Sentence(core.Reason{
		Code: core.WaitingForQuota, Cause: core.QuotaShort, Queue: "blue", PodSet: "worker",
		Flavor: "h100", Resource: core.GPU, Need: 8, Have: 2, Limit: 16,
	}))
	// Output: couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor h100, 6 more needed
}
