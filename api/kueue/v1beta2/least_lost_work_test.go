package v1beta2_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A ClusterQueue that says nothing that can be meant is refused, and chooses victims as without it if it is there all the
// same.
func TestLeastLostWork(t *testing.T) {
	for text, want := range map[string]struct {
		most  time.Duration
		valid bool
	}{
		"0s":   {0, true},
		"1h":   {time.Hour, true},
		"24h":  {24 * time.Hour, true},
		"25h":  {0, false},
		"":     {0, false},
		"-1h":  {0, false},
		"true": {0, false},
	} {
		q := queue("", group(flavor("spot", quota("cpu", "1"))))
		q.Annotations = map[string]string{v1beta2.LeastLostWorkAnnotation: text}
		if got := v1beta2.LeastLostWorkOf(q.Annotations); got != want.most {
			t.Errorf("%q counts %s at most, want %s", text, got, want.most)
		}
		if errs := v1beta2.ValidateClusterQueue(q); (len(errs) == 0) != want.valid {
			t.Errorf("%q: %v", text, errs)
		}
	}
}
