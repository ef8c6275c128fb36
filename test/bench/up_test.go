package bench_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mlbatch/mlbatch/test/rig"
)

// BenchmarkUp measures the command that everybody types first: how long the
// tutorial's cluster takes to be ready, new and resumed, and what it holds in
// memory while nothing happens.
func BenchmarkUp(b *testing.B) {
	var fresh, resumed time.Duration
	var rss, pss float64
	once(b, func() {
		c, err := rig.Start(b.Context(), quiet(b))
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := c.Stop(); err != nil {
				b.Error(err)
			}
		}()
		fresh = c.Took
		rss, pss = idle(b, c)
		resumed = resume(b, c)
	})
	b.ReportMetric(fresh.Seconds(), "s-new")
	b.ReportMetric(resumed.Seconds(), "s-resumed")
	b.ReportMetric(rss/(1<<20), "MiB-RSS")
	b.ReportMetric(pss/(1<<20), "MiB-PSS")
}

// idle returns the memory of all processes a minute after the start, when the
// garbage of the start has been collected.
func idle(b *testing.B, c *rig.Cluster) (rss, pss float64) {
	b.Helper()
	rest(b, time.Minute)
	components, err := c.Components(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range components {
		r, s := memory(b, p.PID)
		b.Logf("%6.0f MiB RSS, %6.0f MiB PSS  %s", r/(1<<20), s/(1<<20), short(p.Name))
		rss, pss = rss+r, pss+s
	}
	return rss, pss
}

// resume stops a cluster and measures how long it takes to be back.
func resume(b *testing.B, c *rig.Cluster) time.Duration {
	b.Helper()
	if _, err := c.Run(b.Context(), "down"); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Run(b.Context(), "up", "--detach"); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if _, err := c.Run(b.Context(), "down"); err != nil {
		b.Fatal(err)
	}
	return took
}

// rest lets time pass.
func rest(b *testing.B, d time.Duration) {
	b.Helper()
	never := func(context.Context) (bool, error) { return false, nil }
	if err := wait.PollUntilContextTimeout(b.Context(), d, d, false, never); !wait.Interrupted(err) {
		b.Fatal(err)
	}
}
