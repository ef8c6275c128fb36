package memo_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

func TestNotesAreOfOneObject(t *testing.T) {
	var table memo.Table[int]
	a, b := types.NamespacedName{Namespace: "blue", Name: "a"}, types.NamespacedName{Namespace: "red", Name: "a"}
	if got := table.Get(a); got != 0 {
		t.Errorf("nothing was noted, and it is %d", got)
	}
	table.Set(a, 1)
	table.Set(b, 2)
	table.Set(a, 3)
	if table.Get(a) != 3 || table.Get(b) != 2 {
		t.Errorf("notes are %d and %d, want 3 and 2", table.Get(a), table.Get(b))
	}
	table.Forget(a)
	if table.Get(a) != 0 || table.Get(b) != 2 {
		t.Errorf("notes are %d and %d, want none and 2", table.Get(a), table.Get(b))
	}
}

func TestSinceBeginsAnewWhenItWasNotTrueMeanwhile(t *testing.T) {
	var s memo.Since
	job, t0 := types.NamespacedName{Namespace: "blue", Name: "a"}, time.Unix(1000, 0)
	for i, step := range []struct {
		is   bool
		want int // seconds after t0
	}{{is: true}, {is: true}, {is: false}, {true, 3}, {true, 3}} {
		if !step.is {
			s.Forget(job)
			continue
		}
		if got := s.Of(
			job,
			t0.Add(time.Duration(i)*time.Second),
		); !got.Equal(
			t0.Add(time.Duration(step.want) * time.Second),
		) {
			t.Errorf("look %d: since %s, want %d s", i, got.Sub(t0), step.want)
		}
	}
}
