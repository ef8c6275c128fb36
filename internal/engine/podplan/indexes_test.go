package podplan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

func TestIndexes(t *testing.T) {
	for text, want := range map[string]struct {
		why, written string
		below4       int32
	}{
		"":              {"none", "", 0},
		"1,3-5,7":       {"as Kubernetes writes it", "1,3-5,7", 2},
		"5,3-4,0":       {"in any order, neighbours joined", "0,3-5", 2},
		"0-9,2-3":       {"one within another", "0-9", 4},
		"x,-1,3-1,1-x":  {"what cannot be read is left out", "", 0},
		"2147483647,2":  {"the last index has no next", "2,2147483647", 1},
		"1,1,1":         {"once", "1", 1},
		"2147483648, 1": {"beyond what an index can be", "", 0},
	} {
		x := podplan.ParseIndexes(text)
		if got := x.String(); got != want.written {
			t.Errorf("%q (%s): %q, want %q", text, want.why, got, want.written)
		}
		if got := x.Below(4); got != want.below4 {
			t.Errorf("%q (%s): %d below 4, want %d", text, want.why, got, want.below4)
		}
	}
}

// TestIndexesAreASet: whatever is put in, in whatever order, is in it and nothing else.
func TestIndexesAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[int32]bool{}
		var x podplan.Indexes
		for _, i := range rapid.SliceOf(rapid.Int32Range(0, 20)).Draw(t, "indexes") {
			in[i] = true
			x = podplan.Union(x, podplan.Indexes{{First: i, Last: i}})
		}
		var n int32
		for i := range int32(22) {
			if x.Has(i) != in[i] {
				t.Fatalf("%s has %d: %t", x, i, x.Has(i))
			}
			if x.Below(i) != n {
				t.Fatalf("%s has %d below %d, want %d", x, x.Below(i), i, n)
			}
			if in[i] {
				n++
			}
		}
		if diff := cmp.Diff(x, podplan.ParseIndexes(x.String())); diff != "" {
			t.Fatalf("read again (-was +is):\n%s", diff)
		}
	})
}
