package bench_test

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mlbatch/mlbatch/test/rig"
)

// BenchmarkUp measures the command that everybody types first: how long the
// tutorial's cluster takes to be ready, new and resumed, how many times as long
// as its API server, what that holds right after, and what all processes hold
// while nothing happens.
func BenchmarkUp(b *testing.B) {
	var fresh, resumed, server time.Duration
	var rss, pss, begun float64
	once(b, func() {
		said := quiet(b)
		c, err := rig.Start(b.Context(), said)
		if err != nil {
			b.Fatal(err)
		}
		_, begun = memory(b, serverOf(b, c).PID)
		server = serverTook(b, said.Name())
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
	b.ReportMetric(fresh.Seconds()/server.Seconds(), "x-apiserver")
	b.ReportMetric(begun/(1<<20), "MiB-apiserver-at-ready")
	b.ReportMetric(rss/(1<<20), "MiB-RSS")
	b.ReportMetric(pss/(1<<20), "MiB-PSS")
}

// serverOf is the API server's process.
func serverOf(b *testing.B, c *rig.Cluster) rig.Component {
	b.Helper()
	components, err := c.Components(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range components {
		if p.Name == "kube-apiserver" {
			return p
		}
	}
	b.Fatal("no API server among the components")
	return rig.Component{}
}

// serverTook is how long the API server took by what mlbatch up printed, which is when each
// component was ready.
func serverTook(b *testing.B, file string) time.Duration {
	b.Helper()
	said, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	at := map[string]time.Duration{}
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9.]+s)  (\S+) ready$`).FindAllStringSubmatch(string(said), -1) {
		if at[m[2]], err = time.ParseDuration(m[1]); err != nil {
			b.Fatal(err)
		}
	}
	if at["etcd"] == 0 || at["kube-apiserver"] <= at["etcd"] {
		b.Fatalf("mlbatch up does not say when its API server was ready:\n%s", said)
	}
	return at["kube-apiserver"] - at["etcd"]
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
