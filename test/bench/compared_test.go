package bench_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatGrewIsMarked(t *testing.T) {
	before := usage{
		cpu: map[string]time.Duration{
			"apiserver": time.Second,
			"etcd":      200 * time.Millisecond,
			"nodes":     10 * time.Millisecond,
		},
		writes: map[string]float64{"POST events": 40, "PUT jobs/status": 10},
	}
	now := usage{
		cpu: map[string]time.Duration{
			"apiserver": 1200 * time.Millisecond,
			"etcd":      210 * time.Millisecond,
			"nodes":     20 * time.Millisecond,
		},
		writes: map[string]float64{"POST events": 40, "PATCH jobs": 10, "PUT jobs/status": 9.5},
	}
	want := `
    100.00     120.00 ms apiserver  GREW by 20 %
     20.00      21.00 ms etcd
      1.00       2.00 ms nodes
    121.00     143.00 ms all processes  GREW by 18 %
      0.00       1.00    PATCH jobs  NEW
      4.00       4.00    POST events
      1.00       0.95    PUT jobs/status
      5.00       5.95    all writes  GREW by 19 %`
	if diff := cmp.Diff(want, compared(before, now, 10)); diff != "" {
		t.Error(diff)
	}
}
