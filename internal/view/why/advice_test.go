package why

import (
	"slices"
	"testing"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// What the asker may do comes first; what takes a right that he lacks names whom to ask.
func TestAdviceOfHoldsGatesAndQueues(t *testing.T) {
	x := &visibility.Explanation{Advice: []visibility.Advice{
		{
			Kind:   "Release",
			Detail: []string{"it is deactivated (spec.active is false)"},
			Needs:  "patch workloads.kueue.x-k8s.io",
		},
		{Kind: "OpenGate", Detail: []string{"example.com/gate"}, Allowed: true},
		{Kind: "OpenGate", Detail: []string{"mlbatch.dev/after (ok:train)"}, Allowed: true},
		{Kind: "OtherQueue", Queue: "spare", Allowed: true},
		{Kind: "AwaitBackOff", Allowed: true},
	}}
	var e Explanation
	e.helps(x)
	want := []string{
		"open the gate example.com/gate",
		"wait for what it comes after (ok:train), or remove the annotation mlbatch.dev/after of the job, and it waits for no other",
		"submit it to LocalQueue spare (label kueue.x-k8s.io/queue-name)",
		"wait: it comes back to its queue by itself",
		"ask an administrator (who may patch workloads.kueue.x-k8s.io) to end the hold: it is deactivated (spec.active is false)",
	}
	if !slices.Equal(e.Advice, want) {
		t.Errorf("advice %q, want %q", e.Advice, want)
	}
}
