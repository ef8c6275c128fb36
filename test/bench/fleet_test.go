package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// The scenarios of which KAI Scheduler publishes figures (docs/scale-tests of v0.17.0): 500 nodes of 8 GPUs.
const (
	fleetNodes = 500
	fleetGPUs  = 8 * fleetNodes
	borrower   = "borrower"
)

// BenchmarkFleet measures them one after the other in one cluster: how long a gang of 512 pods takes to run that wants
// to be in one rack, how long 4,000 jobs of one GPU take to fill all GPUs, how long it takes to take one GPU back for
// another queue, to say that a job has no place, and to take all GPUs back for one job of 500 pods. Then the same with the
// scheduler of Kubernetes, which knows no queues: jobs take GPUs back by their priority, and pods of a gang come one by
// one, wherever there is room.
func BenchmarkFleet(b *testing.B) {
	b.Run("mlbatch", func(b *testing.B) {
		bd := start(b, fleetNodes, "--racks", "32")
		bd.lendAll(b)
		w := walk{
			gang: func(j *batchv1.Job) {
				j.Spec.Template.Annotations = map[string]string{
					kueue.PodSetPreferredTopologyAnnotation: "cloud.provider.com/topology-rack",
				}
			},
			lesser:  func(j *batchv1.Job) { j.Labels[kueue.QueueNameLabel] = borrower },
			greater: func(*batchv1.Job) {},
			refused: func(b *testing.B) <-chan struct{} {
				b.Helper()
				return refusal(b, bd.watch(b, &kueue.WorkloadList{}, team), func(o runtime.Object) bool {
					w, is := o.(*kueue.Workload)
					return is && strings.HasPrefix(w.Name, "job-none") &&
						apimeta.IsStatusConditionFalse(w.Status.Conditions, kueue.WorkloadQuotaReserved)
				})
			},
		}
		once(b, func() { w.measure(b, bd) })
	})
	b.Run("stock", func(b *testing.B) {
		bd := start(b, fleetNodes, "--racks", "32", "--stock-scheduler")
		bd.namespace = metav1.NamespaceDefault
		for name, value := range map[string]int32{"lesser": 1, "greater": 2} {
			c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
			if err := bd.client.Create(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
		unqueued := func(class string) func(j *batchv1.Job) {
			return func(j *batchv1.Job) {
				j.Namespace, j.Labels = metav1.NamespaceDefault, nil
				j.Spec.Template.Spec.PriorityClassName = class
			}
		}
		w := walk{
			gang: unqueued("greater"), lesser: unqueued("lesser"), greater: unqueued("greater"),
			refused: func(b *testing.B) <-chan struct{} {
				b.Helper()
				return refusal(b, bd.watch(b, &corev1.PodList{}, bd.namespace), func(o runtime.Object) bool {
					p, is := o.(*corev1.Pod)
					return is && p.Labels[batchv1.JobNameLabel] == "none" &&
						slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
							return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
						})
				})
			},
		}
		once(b, func() { w.measure(b, bd) })
	})
}

// walk is what is measured in a cluster, by jobs as its scheduler takes them.
type walk struct {
	// gang, lesser and greater make a job one that wants to be in one rack, one that others may take GPUs from, and one that
	// may take them.
	gang, lesser, greater func(*batchv1.Job)
	// refused is told once the job "none" was told that it has no place.
	refused func(*testing.B) <-chan struct{}
}

func (w walk) measure(b *testing.B, bd bed) {
	b.Helper()
	f := bd.follow(b)
	gang := job("gang", shape{pods: 512, gpus: 1, seconds: 1_000_000})
	w.gang(gang)
	b.ReportMetric(f.until(b, 512, gang).Seconds(), "s-gang-512")
	f.remove(b, gang)
	f.empty(b)

	var ones []client.Object
	for i := range fleetGPUs {
		one := job(fmt.Sprintf("one-%d", i), shape{pods: 1, gpus: 1, seconds: 1_000_000})
		w.lesser(one)
		ones = append(ones, one)
	}
	b.ReportMetric(f.until(b, fleetGPUs, ones...).Seconds(), "s-fill-4000")
	b.ReportMetric(f.settled(b, ones).Seconds(), "s-settle")
	one := job("reclaim-1", shape{pods: 1, gpus: 1, seconds: 1_000_000})
	w.greater(one)
	b.ReportMetric(f.until(b, 1, one).Seconds(), "s-reclaim-1")

	none := job("none", shape{pods: 10, gpus: 8, seconds: 1_000_000})
	w.lesser(none)
	refused := w.refused(b)
	began := time.Now()
	if err := bd.client.Create(b.Context(), none); err != nil {
		b.Fatal(err)
	}
	select {
	case <-refused:
	case <-time.After(patience):
		b.Fatal("it is not told why it waits")
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-verdict")

	all := job("reclaim-500", shape{pods: fleetNodes - 1, gpus: 8, seconds: 1_000_000})
	w.greater(all)
	b.ReportMetric(f.until(b, fleetNodes-1, all).Seconds(), "s-reclaim-all")
}

// lendAll makes a queue that owns nothing and borrows what the other may take back.
func (bd bed) lendAll(b *testing.B) {
	b.Helper()
	var owner kueue.ClusterQueue
	if err := bd.client.Get(b.Context(), client.ObjectKey{Name: queue}, &owner); err != nil {
		b.Fatal(err)
	}
	before := owner.DeepCopy()
	owner.Spec.CohortName = "fleet"
	owner.Spec.Preemption = &kueue.ClusterQueuePreemption{ReclaimWithinCohort: kueue.PreemptionPolicyAny}
	if err := bd.client.Patch(b.Context(), &owner, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	nothing := *owner.Spec.ResourceGroups[0].DeepCopy()
	for i := range nothing.Flavors[0].Resources {
		nothing.Flavors[0].Resources[i].NominalQuota = resource.MustParse("0")
	}
	for _, o := range []client.Object{
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: borrower}, Spec: kueue.ClusterQueueSpec{
			CohortName: "fleet", NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups: []kueue.ResourceGroup{nothing},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: borrower},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: borrower},
		},
	} {
		if err := bd.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// fleet follows which pods run, and counts those of jobs that were asked for.
type fleet struct {
	bed
	mu      sync.Mutex
	running map[types.UID]bool
	asked   map[string]bool
	count   int
	changed chan struct{}
}

// follow notes what becomes of pods until the benchmark ends. A watch that the API server ends is begun anew.
func (bd bed) follow(b *testing.B) *fleet {
	b.Helper()
	f := &fleet{bed: bd, running: map[types.UID]bool{}, changed: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			w, err := bd.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(f.namespace))
			if err != nil {
				continue
			}
			for e := range w.ResultChan() {
				if p, is := e.Object.(*corev1.Pod); is {
					f.see(e.Type, p)
				}
			}
			w.Stop()
		}
	})
	b.Cleanup(func() { stop(); ended.Wait() })
	return f
}

func (f *fleet) see(what watch.EventType, p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if what == watch.Deleted {
		delete(f.running, p.UID)
	} else if p.Status.Phase == corev1.PodRunning && !f.running[p.UID] {
		f.running[p.UID] = true
		if f.asked[p.Labels[batchv1.JobNameLabel]] {
			f.count++
		}
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// ask begins to count pods of jobs that run.
func (f *fleet) ask(jobs []client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.count = map[string]bool{}, 0
	for _, j := range jobs {
		f.asked[j.GetName()] = true
	}
}

// counted is how many have run since.
func (f *fleet) counted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// until submits jobs and says how long it takes until so many pods of theirs run.
func (f *fleet) until(b *testing.B, pods int, jobs ...client.Object) time.Duration {
	b.Helper()
	f.ask(jobs)
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		var g errgroup.Group
		g.SetLimit(submitters)
		for _, j := range jobs {
			g.Go(func() error { return f.client.Create(b.Context(), j) })
		}
		sent <- g.Wait()
	}()
	for late := time.After(3 * patience); f.counted() < pods; {
		select {
		case <-f.changed:
		case <-late:
			b.Fatalf("%d of %d pods run", f.counted(), pods)
		}
	}
	took := time.Since(began)
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	return took
}

// settled waits until the API says of all these jobs that their pods are ready, and returns how long that took.
func (f *fleet) settled(b *testing.B, jobs []client.Object) time.Duration {
	b.Helper()
	began := time.Now()
	err := wait.PollUntilContextTimeout(
		b.Context(),
		time.Second,
		patience,
		true,
		func(ctx context.Context) (bool, error) {
			var all batchv1.JobList
			if err := f.client.List(ctx, &all, client.InNamespace(f.namespace)); err != nil {
				return false, err
			}
			ready := 0
			for i := range all.Items {
				if r := all.Items[i].Status.Ready; r != nil && *r > 0 {
					ready++
				}
			}
			var waits kueue.WorkloadList
			if err := f.client.List(ctx, &waits, client.InNamespace(f.namespace)); err != nil {
				return false, err
			}
			for i := range waits.Items {
				if !apimeta.IsStatusConditionTrue(waits.Items[i].Status.Conditions, kueue.WorkloadPodsReady) {
					return false, nil
				}
			}
			return ready >= len(jobs), nil
		},
	)
	if err != nil {
		b.Fatalf("wait until %d jobs are said to be ready: %v", len(jobs), err)
	}
	return time.Since(began)
}

// refusal is closed once something that is watched says what is waited for.
func refusal(b *testing.B, changes <-chan watch.Event, says func(runtime.Object) bool) <-chan struct{} {
	b.Helper()
	said := make(chan struct{})
	go func() {
		for e := range changes {
			if says(e.Object) {
				close(said)
				return
			}
		}
	}()
	return said
}
