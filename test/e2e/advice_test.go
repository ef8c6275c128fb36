package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// P9: where quota or nodes are short, a piece of advice is taken from the answer and followed
// as its user would: the job runs.
func TestAdviceIsFollowed(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	remove := func(name string) {
		t.Helper()
		if err := alice.Delete(t.Context(), wrapper(t, "blue", name), client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" is gone", func() string {
			if err := alice.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, &aw.AppWrapper{}); !apierrors.IsNotFound(err) {
				return fmt.Sprint("it is there still: ", err)
			}
			return ""
		})
	}
	for _, c := range []struct {
		code, kind string
		// waits brings about that job x waits, follow does what the advice says.
		waits  func()
		follow func(visibility.Advice)
	}{
		{
			"ExceedsMaxQuota", "FewerPods",
			func() { create(t, alice, gang("x", 100, 8, 6000), "blue") },
			func(a visibility.Advice) { remove("x"); create(t, alice, gang("x", int(a.Count), 8, 6000), "blue") },
		},
		{
			"TopologyPlacementFailed", "SmallerPods",
			func() { create(t, alice, gang("x", 1, 9, 6000), "blue") },
			func(a visibility.Advice) {
				remove("x")
				create(t, alice, gang("x", 1, int(a.Amount.Value()), 6000), "blue")
			},
		},
		{
			"WaitingForQuota TopologyPlacementFailed", "WaitFor",
			func() {
				create(t, alice, gang("before", 3, 8, 6000), "blue")
				eventually(t, "all is taken", inPhase(t, "Running", "blue", "before"))
				create(t, alice, gang("x", 3, 8, 6000), "blue")
			},
			func(a visibility.Advice) {
				_, name, _ := strings.Cut(a.Workloads[0].Job, "/")
				remove(name)
			},
		},
	} {
		c.waits()
		var advice visibility.Advice
		eventually(t, c.code+": "+c.kind+" is advised", func() string {
			e, text := whyAs(t, "alice", "blue/x")
			if e.Answer == nil || !slices.Contains(strings.Fields(c.code), e.Answer.Reason) {
				return text
			}
			i := slices.IndexFunc(e.Answer.Advice, func(a visibility.Advice) bool { return a.Kind == c.kind })
			if i < 0 {
				return text
			}
			advice = e.Answer.Advice[i]
			return ""
		})
		c.follow(advice)
		eventually(t, c.code+": after "+c.kind+" it runs", inPhase(t, "Running", "blue", "x"))
		remove("x")
		awaitEmpty(t, "blue")
	}
}
