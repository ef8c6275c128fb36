package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkBind measures how fast the pods of a thousand admitted two-pod jobs
// get their nodes, with the API server on the same machine: all of them wait
// when the scheduler starts. Its start counts.
func BenchmarkBind(b *testing.B) {
	w := newWorld(b)
	w.installKinds()
	const jobs, nodes = 1000, 100
	for i := range nodes {
		w.node(fmt.Sprintf("bench%d", i), 2*jobs/nodes, nil)
	}
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		ns := w.namespace(fmt.Sprintf("bench-%d", round))
		parallel(jobs, func(i int) {
			wl := w.workload(ns, fmt.Sprintf("job%d", i), 2)
			w.admit(wl, placed(fmt.Sprintf("bench%d", i%nodes), 2))
			for p := range 2 {
				w.create(planned(pod(ns, fmt.Sprintf("job%d-%d", i, p), 1), wl.Name, "main"))
			}
		})
		b.StartTimer()
		start := time.Now()
		stop := w.schedule()
		w.drain(b, ns)
		b.ReportMetric(2*jobs/time.Since(start).Seconds(), "pods/s")
		b.StopTimer()
		stop()
		w.kill(ns, "")
		b.StartTimer()
	}
}

// drain returns when no pod of the namespace is without a node. It looks
// seldom: reading thousands of pods all the time would be part of what is
// measured.
func (w *world) drain(b *testing.B, ns string) {
	b.Helper()
	err := wait.PollUntilContextTimeout(
		w.ctx,
		200*time.Millisecond,
		5*time.Minute,
		true,
		func(ctx context.Context) (bool, error) {
			var list corev1.PodList
			err := w.c.List(
				ctx,
				&list,
				client.InNamespace(ns),
				client.MatchingFields{"spec.nodeName": ""},
				client.Limit(1),
			)
			return len(list.Items) == 0, err
		},
	)
	w.must(err, "wait for nodes of pods")
}

// parallel does n things, sixteen at a time.
func parallel(n int, do func(int)) {
	var wg sync.WaitGroup
	for k := range 16 {
		wg.Go(func() {
			for i := k; i < n; i += 16 {
				do(i)
			}
		})
	}
	wg.Wait()
}
