package bench_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const (
	// submissions is how many jobs BenchmarkSubmit starts one after the other.
	submissions = 100
	// evictions is how many gangs BenchmarkEvict drives off a node.
	evictions = 20
	// long is how many seconds a job runs that is deleted before its end.
	long = 3600
)

// stages are what happens between submitting a job and its pods running.
type stages struct {
	queued, admitted, created, bound, running []time.Duration
}

// BenchmarkSubmit measures how long a job takes from being submitted until its
// pod runs, on an idle cluster, as a watch sees it.
func BenchmarkSubmit(b *testing.B) {
	bd := start(b, 3)
	for _, k := range kinds() {
		b.Run(k.name, func(b *testing.B) {
			pods, workloads := bd.watch(b, &corev1.PodList{}, team), bd.watch(b, &kueue.WorkloadList{}, team)
			var s stages
			once(b, func() {
				s = stages{}
				for i := range submissions {
					o := k.object(fmt.Sprintf("submit-%d", i), shape{pods: 1, gpus: 1, seconds: long})
					bd.submit(b, o, pods, workloads, &s)
					bd.remove(b, o)
				}
			})
			b.ReportMetric(percentile(s.running, 50), "s-p50")
			b.ReportMetric(percentile(s.running, 99), "s-p99")
			b.Logf(
				"p50 of seconds until queued %.3f, admitted %.3f, pod created %.3f, bound %.3f, running %.3f",
				percentile(
					s.queued,
					50,
				),
				percentile(s.admitted, 50),
				percentile(s.created, 50),
				percentile(s.bound, 50),
				percentile(s.running, 50),
			)
		})
	}
}

// watch sees the objects in a namespace until the benchmark ends.
func (bd bed) watch(b *testing.B, l client.ObjectList, namespace string) <-chan watch.Event {
	b.Helper()
	w, err := bd.client.Watch(b.Context(), l, client.InNamespace(namespace))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	return w.ResultChan()
}

// submit creates a job and notes how long each stage took.
func (bd bed) submit(b *testing.B, o client.Object, pods, workloads <-chan watch.Event, s *stages) {
	b.Helper()
	began := time.Now()
	if err := bd.client.Create(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	var queued, admitted, created, bound bool
	note := func(done *bool, is bool, all *[]time.Duration) {
		if is && !*done {
			*done = true
			*all = append(*all, time.Since(began))
		}
	}
	late := time.After(patience)
	for {
		select {
		case e := <-workloads:
			if w, ok := e.Object.(*kueue.Workload); ok && e.Type != watch.Deleted && w.DeletionTimestamp == nil {
				note(&queued, true, &s.queued)
				note(&admitted, convert.Admitted(w), &s.admitted)
			}
		case e := <-pods:
			p, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted || p.DeletionTimestamp != nil {
				continue
			}
			note(&created, true, &s.created)
			note(&bound, p.Spec.NodeName != "", &s.bound)
			if p.Status.Phase == corev1.PodRunning {
				s.running = append(s.running, time.Since(began))
				return
			}
		case <-late:
			b.Fatalf("%s does not run after %s", o.GetName(), patience)
		}
	}
}

// BenchmarkEvict measures how long the four pods of an AppWrapper take to be
// gone once a node of theirs is labelled EVICT, and to run again elsewhere.
func BenchmarkEvict(b *testing.B) {
	bd := start(b, 3)
	pods := bd.watch(b, &corev1.PodList{}, team)
	var gone, again []time.Duration
	once(b, func() {
		gone, again = nil, nil
		for i := range evictions {
			w := appWrapper(fmt.Sprintf("evict-%d", i), shape{pods: 4, gpus: 4, seconds: long})
			w.Annotations = map[string]string{"workload.codeflare.dev.appwrapper/retryPausePeriodDuration": "0s"}
			if err := bd.client.Create(b.Context(), w); err != nil {
				b.Fatal(err)
			}
			gang := newGang()
			gang.await(b, pods, func() bool { return len(gang.running) == 4 })
			victims, node := gang.members()

			began := time.Now()
			bd.label(b, node, "EVICT")
			gang.await(b, pods, func() bool { return gang.without(victims) })
			gone = append(gone, time.Since(began))
			gang.await(b, pods, func() bool { return len(gang.running) == 4 })
			again = append(again, time.Since(began))
			bd.label(b, node, "PASS")
			bd.remove(b, w)
		}
	})
	b.ReportMetric(percentile(gone, 50), "s-gone-p50")
	b.ReportMetric(percentile(gone, 99), "s-gone-max")
	b.ReportMetric(percentile(again, 50), "s-again-p50")
	b.ReportMetric(percentile(again, 99), "s-again-max")
}

// label sets the health of a node.
func (bd bed) label(b *testing.B, node, health string) {
	b.Helper()
	n := &corev1.Node{}
	n.Name = node
	patch := fmt.Sprintf(`{"metadata":{"labels":{"autopilot.ibm.com/gpuhealth":%q}}}`, health)
	if err := bd.client.Patch(b.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		b.Fatal(err)
	}
}

// gang is what a watch shows of the pods of one job.
type gang struct {
	there   map[types.UID]bool
	running map[types.UID]string // the node
}

func newGang() *gang {
	return &gang{there: map[types.UID]bool{}, running: map[types.UID]string{}}
}

// await follows the watch until it shows what is wanted.
func (g *gang) await(b *testing.B, pods <-chan watch.Event, wanted func() bool) {
	b.Helper()
	late := time.After(patience)
	for !wanted() {
		select {
		case e := <-pods:
			g.see(e)
		case <-late:
			b.Fatalf("%d pods are there and %d of them run after %s", len(g.there), len(g.running), patience)
		}
	}
}

func (g *gang) see(e watch.Event) {
	p, ok := e.Object.(*corev1.Pod)
	switch {
	case !ok:
	case e.Type == watch.Deleted:
		delete(g.there, p.UID)
		delete(g.running, p.UID)
	default:
		g.there[p.UID] = true
		delete(g.running, p.UID)
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			g.running[p.UID] = p.Spec.NodeName
		}
	}
}

// members are the pods that run, and the first of their nodes by name.
func (g *gang) members() (pods []types.UID, node string) {
	for uid, n := range g.running {
		pods = append(pods, uid)
		if node == "" || n < node {
			node = n
		}
	}
	return pods, node
}

// without reports whether none of the pods is there.
func (g *gang) without(pods []types.UID) bool {
	for _, uid := range pods {
		if g.there[uid] {
			return false
		}
	}
	return true
}
