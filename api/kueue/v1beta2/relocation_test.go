package v1beta2_test

import (
	"testing"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A ClusterQueue that says nothing that can be meant is refused, and lets no workload be relocated if it is there all
// the same.
func TestRelocationsPerHour(t *testing.T) {
	for text, want := range map[string]struct {
		n     int32
		valid bool
	}{
		"0":           {0, true},
		"2":           {2, true},
		"":            {0, false},
		"-1":          {0, false},
		"many":        {0, false},
		"1.5":         {0, false},
		"99999999999": {0, false},
	} {
		q := queue("", group(flavor("spot", quota("cpu", "1"))))
		q.Annotations = map[string]string{v1beta2.RelocationsPerHourAnnotation: text}
		if got := v1beta2.RelocationsPerHourOf(q.Annotations); got != want.n {
			t.Errorf("%q lets %d be relocated, want %d", text, got, want.n)
		}
		if errs := v1beta2.ValidateClusterQueue(q); (len(errs) == 0) != want.valid {
			t.Errorf("%q: %v", text, errs)
		}
	}
	if n := v1beta2.RelocationsPerHourOf(nil); n != 0 {
		t.Errorf("no annotation lets %d be relocated", n)
	}
}
