package bench_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	drainNodes = 100
	drainJobs  = 1000
	drainPods  = 2 // of each job
	drainGPUs  = 4 // of each pod: 100 jobs fit at a time
	submitters = 8
)

// BenchmarkDrain measures how fast many small jobs go through one queue: from
// the first that is submitted until the last has finished. Pods run for 0.1 s,
// so that the system is the limit and not their sleep. Bare jobs have no queue:
// what Kubernetes alone does on the same machine.
func BenchmarkDrain(b *testing.B) {
	for _, k := range append(kinds(), bare()) {
		b.Run(k.name, func(b *testing.B) {
			bd := start(b, drainNodes, "--time-scale", "10")
			var submitted, took time.Duration
			var used usage
			once(b, func() {
				before := bd.used(b)
				submitted, took = bd.drain(b, k, drainJobs)
				used = bd.used(b).since(before)
				bd.count(b, k)
			})
			cpu, writes := used.totals()
			b.ReportMetric(drainJobs*drainPods/took.Seconds(), "pods/s")
			b.ReportMetric(submitted.Seconds(), "s-submit")
			b.ReportMetric(cpu.Seconds()*1000/drainJobs, "cpu-ms/job")
			b.ReportMetric(writes/drainJobs, "writes/job")
			b.Logf("each job took%s", used.perJob(drainJobs))
		})
	}
}

// drain submits so many jobs and returns how long that took, and how long it took
// until all of them had finished.
func (bd bed) drain(b *testing.B, k kind, jobs int) (submitted, took time.Duration) {
	b.Helper()
	events := bd.watch(b, k.list(), k.namespace)
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		var g errgroup.Group
		g.SetLimit(submitters)
		for i := range jobs {
			g.Go(func() error {
				return bd.client.Create(
					b.Context(),
					k.object(
						fmt.Sprintf("%s-%d", strings.ToLower(k.name), i),
						shape{pods: drainPods, gpus: drainGPUs, seconds: 1},
					),
				)
			})
		}
		err := g.Wait()
		submitted = time.Since(began)
		sent <- err
	}()
	bd.awaitDone(b, k, jobs, events)
	took = time.Since(began)
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	return submitted, took
}

// awaitDone follows a watch until all jobs are done. The API server ends a watch
// that does not keep up; the next one begins with what there is.
func (bd bed) awaitDone(b *testing.B, k kind, jobs int, events <-chan watch.Event) {
	b.Helper()
	done := map[string]bool{}
	late := time.After(patience)
	for len(done) < jobs {
		select {
		case e, open := <-events:
			if !open {
				events = bd.watch(b, k.list(), k.namespace)
				continue
			}
			o, ok := e.Object.(client.Object)
			if ok && k.done(e.Object) {
				done[o.GetName()] = true
			}
		case <-late:
			b.Fatalf("%d of %d jobs are done after %s", len(done), jobs, patience)
		}
	}
}

// count checks that every pod ran once.
func (bd bed) count(b *testing.B, k kind) {
	b.Helper()
	var pods corev1.PodList
	if err := bd.client.List(b.Context(), &pods, client.InNamespace(k.namespace)); err != nil {
		b.Fatal(err)
	}
	succeeded := 0
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodSucceeded {
			succeeded++
		}
	}
	if succeeded != drainJobs*drainPods || len(pods.Items) != succeeded {
		b.Fatalf("%d pods, %d of them succeeded, want %d", len(pods.Items), succeeded, drainJobs*drainPods)
	}
}
