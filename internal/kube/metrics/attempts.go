package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// attempts counts the attempts of jobs that ended, when their jobs are recorded: only then it is known of
// all of them what they came to.
type attempts struct {
	ended                              *prometheus.CounterVec
	gpuSeconds, lost, wall, productive *prometheus.CounterVec
	hangs                              *prometheus.CounterVec
}

func newAttempts(b *builder) attempts {
	return attempts{
		ended: b.queueCounter(
			"job_attempts_total",
			"Attempts of jobs that ended, by the category of the cause, or Succeeded.",
			"cluster_queue",
			"category",
		),
		gpuSeconds: b.queueCounter("job_gpu_seconds_total", "GPU-seconds of jobs that ended.", "cluster_queue"),
		lost: b.queueCounter(
			"job_lost_gpu_seconds_total",
			"GPU-seconds of attempts that were stopped or failed, since their last checkpoints.",
			"cluster_queue",
		),
		wall: b.queueCounter(
			"job_wall_seconds_total",
			"Seconds from the first admission of jobs to their ends.",
			"cluster_queue",
		),
		productive: b.queueCounter(
			"job_productive_seconds_total",
			"Seconds of these in which jobs ran and that were not lost.",
			"cluster_queue",
		),
		hangs: b.queueCounter(
			"job_hangs_total",
			"Jobs that made no progress for longer than they had stated, by what was done: Restarted or Observed.",
			"cluster_queue",
			"action",
		),
	}
}

// expect makes the series of a queue, at 0 if nothing was counted yet.
func (a attempts) expect(queue string) {
	for _, action := range hangActions() {
		a.hangs.WithLabelValues(queue, action)
	}
	for _, v := range []*prometheus.CounterVec{a.gpuSeconds, a.lost, a.wall, a.productive} {
		v.WithLabelValues(queue)
	}
}

// What is done about a job that hangs.
const (
	observed  = "Observed"
	restarted = "Restarted"
)

func hangActions() []string { return []string{observed, restarted} }

// Hung counts a job that hangs, once it is settled whether it is restarted.
func (m *Metrics) Hung(w *kueue.Workload, restart bool) { //nolint:revive // a fact
	if w.Status.Admission == nil {
		return
	}
	action := observed
	if restart {
		action = restarted
	}
	m.jobAttempts.hangs.WithLabelValues(string(w.Status.Admission.ClusterQueue), action).Inc()
}

// JobEnded counts the attempts of a job that is recorded.
func (m *Metrics) JobEnded(r *history.JobRecord) {
	t := r.AttemptsTotal
	if t == nil || t.Start == nil || r.ClusterQueue == "" {
		return
	}
	a := m.jobAttempts
	well := t.Attempts + t.Replacements
	for category, n := range t.Categories { // each by itself
		a.ended.WithLabelValues(r.ClusterQueue, category).Add(float64(n))
		well -= n
	}
	if well > 0 {
		a.ended.WithLabelValues(r.ClusterQueue, string(history.Succeeded)).Add(float64(well))
	}
	a.gpuSeconds.WithLabelValues(r.ClusterQueue).Add(float64(t.GPUSeconds))
	a.lost.WithLabelValues(r.ClusterQueue).Add(float64(t.LostGPUSeconds))
	a.wall.WithLabelValues(r.ClusterQueue).Add(max(r.Ended.Sub(t.Start.Time), 0).Seconds())
	a.productive.WithLabelValues(r.ClusterQueue).Add(float64(t.ProductiveSeconds))
}
