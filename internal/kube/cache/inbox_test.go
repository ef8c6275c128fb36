package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
)

// TestAnswersComeInOrder: the engine hears what was written before it hears what was
// refused on top of it, each workload's newest, by key; and nothing is woken by what
// will be seen anyway.
func TestAnswersComeInOrder(t *testing.T) {
	b := cache.NewInbox()
	one, two := core.Key{Namespace: "blue", Name: "one"}, core.Key{Namespace: "blue", Name: "two"}
	b.Applied(two, 7)
	b.Applied(one, 9)
	b.Applied(one, 8)
	select {
	case <-b.Wake():
		t.Error("an accepted write woke the loop")
	default:
	}
	b.Refused(one, "")
	_, got := b.Take()
	want := []core.Event{core.Applied{Key: one, Seq: 9}, core.Applied{Key: two, Seq: 7}, core.Refused{Key: one}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
	if _, again := b.Take(); len(again) > 0 {
		t.Errorf("told twice: %v", again)
	}
}
