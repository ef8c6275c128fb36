package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
)

// TestJobEnded: ETTR of a queue is a quotient of two counters, and causes are told apart.
func TestJobEnded(t *testing.T) {
	m, err := New(prometheus.NewRegistry(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &history.JobRecord{
		ClusterQueue: "blue",
		Ended:        metav1.NewTime(start.Add(400 * time.Second)),
		AttemptsTotal: &history.AttemptSum{
			Attempts:          3,
			Replacements:      1,
			Start:             new(metav1.NewTime(start)),
			ProductiveSeconds: 100,
			GPUSeconds:        2400,
			LostGPUSeconds:    1600,
			Categories:        map[string]int32{"Preemption": 2, "NodeFailure": 1},
		},
	}
	m.JobEnded(r)
	m.JobEnded(&history.JobRecord{ClusterQueue: "blue"}) // it never ran
	for name, c := range map[string]struct {
		got  float64
		want float64
	}{
		"preempted":  {testutil.ToFloat64(m.jobAttempts.ended.WithLabelValues("blue", "Preemption")), 2},
		"succeeded":  {testutil.ToFloat64(m.jobAttempts.ended.WithLabelValues("blue", "Succeeded")), 1},
		"used":       {testutil.ToFloat64(m.jobAttempts.gpuSeconds.WithLabelValues("blue")), 2400},
		"lost":       {testutil.ToFloat64(m.jobAttempts.lost.WithLabelValues("blue")), 1600},
		"wall":       {testutil.ToFloat64(m.jobAttempts.wall.WithLabelValues("blue")), 400},
		"productive": {testutil.ToFloat64(m.jobAttempts.productive.WithLabelValues("blue")), 100},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
