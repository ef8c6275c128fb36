package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const (
	// streamLasts is how long jobs keep coming in BenchmarkEstimates, streamWork how long they run on
	// average, and askEvery how often is asked when they start: as often as the controller looks.
	streamLasts, streamWork, askEvery = 24 * time.Minute, time.Minute, 10 * time.Second
	// streamNodes are the nodes of each team, of 8 GPUs.
	streamNodes = 4
)

// streams are the teams of BenchmarkEstimates by the part of their GPUs' time that is taken in the
// first and in the second half of it.
func streams() map[string][2]float64 {
	return map[string][2]float64{
		"busy-0": {0.95, 0.95}, "busy-1": {0.95, 0.95}, "busy-2": {0.95, 0.95}, "busy-3": {0.95, 0.95},
		"changing-0": {0.5, 1}, "changing-1": {0.5, 1}, "changing-2": {0.5, 1}, "changing-3": {0.5, 1},
	}
}

// BenchmarkEstimates measures how right `mlbatch eta` is where jobs keep coming: the parts of those
// asked about that had started up to the two times they were told, 0.5 and 0.9 if it is perfect,
// told at the first look after they came and at those while they waited. Each team has nodes of its
// own, to which jobs of one GPU to twelve come by chance, which run for some time each.
func BenchmarkEstimates(b *testing.B) {
	teams := slices.Sorted(maps.Keys(streams()))
	bd := start(b, streamNodes*len(teams))
	for i, name := range teams {
		bd.pool(b, name, i*streamNodes)
	}
	once(b, func() { bd.stream(b, teams) })
}

// pool makes a team whose queue has some of the nodes, from the given one on.
func (bd bed) pool(b *testing.B, name string, from int) {
	b.Helper()
	const label = "bench/pool"
	var nodes corev1.NodeList
	if err := bd.client.List(b.Context(), &nodes); err != nil {
		b.Fatal(err)
	}
	for i := from; i < from+streamNodes; i++ {
		n := &nodes.Items[i]
		old := n.DeepCopy()
		n.Labels[label] = name
		if err := bd.client.Patch(b.Context(), n, client.MergeFrom(old)); err != nil {
			b.Fatal(err)
		}
	}
	group := quota(streamNodes)
	group.Flavors[0].Name = kueue.ResourceFlavorReference(name)
	for _, o := range []client.Object{
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kueue.ResourceFlavorSpec{NodeLabels: map[string]string{label: name}}},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kueue.ClusterQueueSpec{NamespaceSelector: &metav1.LabelSelector{}, ResourceGroups: []kueue.ResourceGroup{group}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: queue},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(name)},
		},
	} {
		if err := bd.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// told is an estimate that was given.
type told struct {
	team, workload string
	first          bool
	p50, p90       time.Time // zero is never
}

// stream lets jobs come, asks when they start, and reports how many did.
func (bd bed) stream(b *testing.B, teams []string) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), streamLasts)
	defer stop()
	var coming sync.WaitGroup
	for i, name := range teams {
		coming.Go(func() { bd.come(ctx, b, name, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	workloads := bd.watch(b, &kueue.WorkloadList{}, metav1.NamespaceAll)
	started := map[string]time.Time{}
	var all []told
	counted := map[string][]time.Time{}
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		select {
		case e, open := <-workloads:
			if !open { // the API server ends a watch that does not keep up; the next one begins with what there is
				workloads = bd.watch(b, &kueue.WorkloadList{}, metav1.NamespaceAll)
				continue
			}
			w, ok := e.Object.(*kueue.Workload)
			if !ok || e.Type == watch.Deleted || !convert.Admitted(w) {
				continue
			}
			if _, seen := started[w.Name]; !seen {
				started[w.Name] = time.Now().Truncate(time.Second) // as the two times that are told
			}
		case <-ask.C:
			all = append(all, bd.ask(b, counted)...)
		case <-ctx.Done():
			coming.Wait()
			reportTold(b, all, started)
			return
		}
	}
}

// come creates jobs of a team until the time is over.
func (bd bed) come(ctx context.Context, b *testing.B, name string, r *rand.Rand) {
	b.Helper()
	const spread, meanSize = 0.8, 35.0 / 9 // the first of the logarithm of how long jobs run
	sizes := []int32{1, 1, 1, 2, 2, 4, 4, 8, 12}
	began := time.Now()
	for n := 0; ; n++ {
		load := streams()[name][min(int(2*time.Since(began)/streamLasts), 1)]
		pause := r.ExpFloat64() * meanSize * float64(streamWork) / (load * streamNodes * 8)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(pause)):
		}
		work := streamWork.Seconds() * math.Exp(spread*r.NormFloat64()-spread*spread/2)
		j := job(
			fmt.Sprintf("stream-%04d", n),
			shape{pods: sizes[r.IntN(len(sizes))], gpus: 1, seconds: max(1, int(work+0.5))},
		)
		j.Namespace = name
		if err := bd.client.Create(ctx, j); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
}

// ask asks as people do. Of a workload count the first answer and one whenever it has waited twice as
// long as at the last, as in the simulator, so that one long wait is not asked about a hundred times:
// counted are when that was.
func (bd bed) ask(b *testing.B, counted map[string][]time.Time) (all []told) {
	b.Helper()
	now := time.Now()
	out, err := bd.Run(b.Context(), "eta", "-A", "-o", "json")
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var list struct{ Items []cli.WaitingRow }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	at := func(t *metav1.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	for _, row := range list.Items {
		if row.Start == nil || row.Start.Known == 0 {
			continue // not looked at yet, or a guess, which says so
		}
		before := counted[row.Workload]
		if n := len(before); n > 0 && now.Sub(before[n-1]) < max(before[n-1].Sub(before[0]), askEvery) {
			continue
		}
		counted[row.Workload] = append(before, now)
		all = append(all, told{row.Namespace, row.Workload, len(before) == 0, at(row.Start.P50), at(row.Start.P90)})
	}
	return all
}

// reportTold compares what was told with what came. Those that still wait are not known yet.
func reportTold(b *testing.B, all []told, started map[string]time.Time) {
	b.Helper()
	type row struct{ n, in50, in90 float64 }
	rows := map[string]*row{}
	for _, t := range all {
		s, ok := started[t.workload]
		if !ok {
			continue
		}
		when := "waited"
		if t.first {
			when = "came"
		}
		world, _, _ := strings.Cut(t.team, "-")
		for _, key := range []string{world + "-" + when, t.team + "-" + when} {
			if rows[key] == nil {
				rows[key] = &row{}
			}
			r := rows[key]
			r.n++
			if t.p50.IsZero() || !s.After(t.p50) {
				r.in50++
			}
			if t.p90.IsZero() || !s.After(t.p90) {
				r.in90++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		r := rows[key]
		b.Logf(
			"%-18s %4.0f estimates, %5.1f %% started up to P50, %5.1f %% up to P90",
			key,
			r.n,
			100*r.in50/r.n,
			100*r.in90/r.n,
		)
		if strings.Count(key, "-") == 1 {
			b.ReportMetric(r.in90/r.n, "P90-"+key)
		}
	}
	b.Logf("%d jobs started", len(started))
}
