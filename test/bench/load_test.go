package bench_test

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	mlwebhook "github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// The load that Kueue publishes for its own scalability test.
const (
	loadCohorts   = 5
	loadQueues    = 6 // in each cohort
	loadNominal   = 20
	loadBorrowing = 100
	loadClients   = 32
)

// asController writes Workloads under the name of the controllers: those that
// make them for jobs, and end them. The webhooks are for Workloads of others.
const asController = client.FieldOwner(mlwebhook.FieldOwner)

// loadClass is one kind of workload of the load, in each queue.
type loadClass struct {
	name     string
	count    int
	every    time.Duration
	runs     time.Duration
	cpus     int64
	priority int32
}

func loadClasses() []loadClass {
	return []loadClass{
		{"small", 350, 100 * time.Millisecond, 200 * time.Millisecond, 1, 50},
		{"medium", 100, 500 * time.Millisecond, 500 * time.Millisecond, 5, 100},
		{"large", 50, 1200 * time.Millisecond, time.Second, 20, 200},
	}
}

// loadDivisor is how many times smaller the load is than the published one: the
// processor time for each workload can be compared in a tenth of the time
// (MLBATCH_LOAD_DIVISOR=10), the waits cannot.
func loadDivisor(b *testing.B) int {
	b.Helper()
	text := os.Getenv("MLBATCH_LOAD_DIVISOR")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 50 {
		b.Fatalf("MLBATCH_LOAD_DIVISOR is %q: use a whole number from 1 to 50", text)
	}
	return n
}

// BenchmarkLoad creates 15,000 Workload objects, and finishes each when it has
// run for its time: what is left is the queueing itself. Controllers finishes them
// as the controllers of jobs would, Stranger as a controller of which mlbatch knows
// nothing. Racks is the load that Kueue publishes for topology-aware scheduling: 640 nodes of 96 processors in ten racks,
// and all workloads want one rack.
func BenchmarkLoad(b *testing.B) {
	b.Run("Controllers", func(b *testing.B) {
		bd := start(b, 1)
		l := newLoad(bd, bd.client, asController)
		l.measure(b, l.finishAll)
	})
	b.Run("Stranger", func(b *testing.B) {
		bd := start(b, 1)
		c := bd.stranger(b)
		l := newLoad(bd, c)
		l.measure(b, (&stranger{load: l, client: c}).finishAll)
	})
	rack := new("cloud.provider.com/topology-rack")
	for name, near := range map[string]*kueue.PodSetTopologyRequest{
		"required": {Required: rack}, "preferred": {Preferred: rack},
	} {
		b.Run("Racks/"+name, func(b *testing.B) {
			bd := start(b, 640, "--racks", "10", "--blocks", "1", "--cpus-per-node", "96")
			l := newLoad(bd, bd.client, asController)
			l.near = near
			l.measure(b, l.finishAll)
		})
	}
}

// measure runs the load once. finish ends all workloads.
func (l *load) measure(b *testing.B, finish func(ctx context.Context, total int) error) {
	b.Helper()
	l.classes = loadClasses()
	for i := range l.classes {
		l.classes[i].count /= loadDivisor(b)
	}
	l.loadQueues(b, l.flavor(b))
	var took time.Duration
	var used usage
	once(b, func() {
		before := l.used(b)
		took = l.run(b, finish)
		used = l.used(b).since(before)
	})
	total := 0
	for _, c := range l.classes {
		total += c.count * loadCohorts * loadQueues
		var sum time.Duration
		for _, w := range l.waits[c.name] {
			sum += w
		}
		b.ReportMetric(sum.Seconds()/float64(len(l.waits[c.name])), "s-wait-"+c.name)
	}
	cpu, writes := used.totals()
	b.ReportMetric(took.Seconds(), "s-total")
	b.ReportMetric(float64(l.evicted), "evictions")
	b.ReportMetric(cpu.Seconds()*1000/float64(total), "cpu-ms/workload")
	b.ReportMetric(writes/float64(total), "writes/workload")
	b.Logf("%d watches; each workload took%s", l.watches, used.perJob(total))
}

func loadQueue(i int) string { return fmt.Sprintf("load-%d-%d", i/loadQueues, i%loadQueues) }

// flavor makes one whose nodes come later, so that quota alone decides, or one of all nodes in their racks.
func (l *load) flavor(b *testing.B) kueue.ResourceFlavorReference {
	b.Helper()
	f := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
	if l.near == nil {
		f.Annotations = map[string]string{kueue.NodesOnDemandAnnotation: "true"}
		f.Spec.NodeLabels = map[string]string{"load": "nowhere"}
	} else {
		f.Spec.TopologyName = new(kueue.TopologyReference("load"))
		f.Spec.NodeLabels = map[string]string{corev1.LabelOSStable: "linux"}
		t := &kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
		for _, level := range []string{
			"cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", corev1.LabelHostname,
		} {
			t.Spec.Levels = append(t.Spec.Levels, kueue.TopologyLevel{NodeLabel: level})
		}
		if err := l.client.Create(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.client.Create(b.Context(), f); err != nil {
		b.Fatal(err)
	}
	return kueue.ResourceFlavorReference(f.Name)
}

func (bd bed) loadQueues(b *testing.B, flavor kueue.ResourceFlavorReference) {
	b.Helper()
	var objects []client.Object
	limit := resource.MustParse(fmt.Sprint(loadBorrowing))
	for i := range loadCohorts * loadQueues {
		name := loadQueue(i)
		objects = append(
			objects,
			&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kueue.ClusterQueueSpec{
				CohortName:        kueue.CohortReference(fmt.Sprintf("load-%d", i/loadQueues)),
				NamespaceSelector: &metav1.LabelSelector{},
				Preemption: &kueue.ClusterQueuePreemption{
					ReclaimWithinCohort: kueue.PreemptionPolicyAny, WithinClusterQueue: kueue.PreemptionPolicyLowerPriority,
				},
				ResourceGroups: []kueue.ResourceGroup{{
					CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
					Flavors: []kueue.FlavorQuotas{{Name: flavor, Resources: []kueue.ResourceQuota{
						{
							Name:           corev1.ResourceCPU,
							NominalQuota:   resource.MustParse(fmt.Sprint(loadNominal)),
							BorrowingLimit: &limit,
						},
					}}},
				}},
			}},
			&kueue.LocalQueue{
				ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name},
				Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(name)},
			},
		)
	}
	for _, o := range objects {
		if err := bd.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// load plays users and jobs.
type load struct {
	bed
	classes []loadClass
	// creator creates the workloads, with the options of creation.
	creator client.Client
	options []client.CreateOption
	// near is how near their pods want to be; nil for a load that needs no nodes.
	near *kueue.PodSetTopologyRequest

	mu      sync.Mutex
	created map[string]time.Time // by name, when the API server had it
	stays   map[string]*stay     // by name, once admitted
	waits   map[string][]time.Duration
	evicted int
	done    int
	watches int
}

func newLoad(bd bed, creator client.Client, options ...client.CreateOption) *load {
	return &load{
		bed: bd, creator: creator, options: options,
		waits: map[string][]time.Duration{}, created: map[string]time.Time{}, stays: map[string]*stay{},
	}
}

// stay is what became of an admitted workload.
type stay struct {
	runs  bool
	times int // that it was admitted
}

// arrival is one workload to create.
type arrival struct {
	at    time.Duration
	class loadClass
	queue int
	n     int
}

type arrivals []arrival

// Len implements heap.Interface.
func (a *arrivals) Len() int { return len(*a) }

// Less implements heap.Interface.
func (a *arrivals) Less(i, j int) bool { return (*a)[i].at < (*a)[j].at }

// Swap implements heap.Interface.
func (a *arrivals) Swap(i, j int) { (*a)[i], (*a)[j] = (*a)[j], (*a)[i] }

// Push implements heap.Interface.
func (a *arrivals) Push(x any) { *a = append(*a, x.(arrival)) }

// Pop implements heap.Interface.
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// run creates all, finishes all, and returns how long that took.
func (l *load) run(b *testing.B, finish func(ctx context.Context, total int) error) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Minute)
	defer cancel()
	var queue arrivals
	total := 0
	for q := range loadCohorts * loadQueues {
		for _, c := range l.classes {
			queue = append(queue, arrival{at: c.every, class: c, queue: q})
			total += c.count
		}
	}
	heap.Init(&queue)
	began := time.Now()
	finished := make(chan error, 1)
	go func() { finished <- finish(ctx, total) }()

	g, ctx2 := errgroup.WithContext(ctx)
	g.SetLimit(loadClients)
	for len(queue) > 0 {
		a := queue[0]
		if wait := time.Until(began.Add(a.at)); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx2.Done():
			}
		}
		g.Go(func() error { return l.create(ctx2, a) })
		if queue[0].n++; queue[0].n == a.class.count {
			heap.Pop(&queue)
			continue
		}
		queue[0].at += a.class.every
		heap.Fix(&queue, 0)
	}
	if err := g.Wait(); err != nil {
		b.Fatalf("create workloads: %v", err)
	}
	b.Logf("all were created after %s", time.Since(began).Round(100*time.Millisecond))
	if err := <-finished; err != nil {
		b.Fatalf("%v; %d of %d finished", err, l.done, total)
	}
	return time.Since(began)
}

func (l *load) create(ctx context.Context, a arrival) error {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team,
			Name:      fmt.Sprintf("%s-%s-%d", loadQueue(a.queue), a.class.name, a.n),
		},
		Spec: kueue.WorkloadSpec{
			QueueName: kueue.LocalQueueName(loadQueue(a.queue)),
			Priority:  &a.class.priority,
			PodSets: []kueue.PodSet{
				{Name: "main", Count: 1, TopologyRequest: l.near, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{
							corev1.ResourceCPU: *resource.NewQuantity(a.class.cpus, resource.DecimalSI),
						},
					}}},
				}}},
			},
		},
	}
	err := l.creator.Create(ctx, w, l.options...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.created[w.Name]; !ok { // else its admission came first
		l.created[w.Name] = time.Now()
	}
	return err
}

// byPriority are the classes by the priority of their workloads.
func (l *load) byPriority() map[int32]loadClass {
	out := map[int32]loadClass{}
	for _, c := range l.classes {
		out[c.priority] = c
	}
	return out
}

// finishAll watches for admissions and ends each workload after its time.
func (l *load) finishAll(ctx context.Context, total int) error {
	runs := l.byPriority()
	var g errgroup.Group
	// Where the watch goes on when the API server ends it, which it does to clients
	// that read slowly. To begin again with all that exists would be slower still.
	seen := ""
	// Whichever ends last ends the watch of that moment, which need not be the one that showed it.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for {
		events, err := l.client.Watch(
			watching,
			&kueue.WorkloadList{},
			client.InNamespace(team),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: seen}},
		)
		if watching.Err() != nil && ctx.Err() == nil {
			return g.Wait() // all had ended before it was asked for
		}
		if err != nil {
			return fmt.Errorf("watch workloads: %w", err)
		}
		l.watches++
		for e := range events.ResultChan() {
			w, ok := e.Object.(*kueue.Workload)
			if !ok { // an error: what was seen last is too old to go on from
				seen = ""
				break
			}
			if newer, err := resourceversion.CompareResourceVersion(
				w.ResourceVersion,
				cmp.Or(seen, "1"),
			); err == nil &&
				newer > 0 {
				seen = w.ResourceVersion
			}
			if w.Spec.Priority == nil {
				continue
			}
			class := runs[*w.Spec.Priority]
			turn := l.follow(w, class.name)
			if turn == 0 {
				continue
			}
			g.Go(func() error {
				select {
				case <-time.After(class.runs):
				case <-ctx.Done():
					return ctx.Err()
				}
				if !l.still(w.Name, turn) {
					return nil // evicted: it has to start over
				}
				if err := l.finish(ctx, w); err != nil {
					return err
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.done++; l.done == total {
					stop()
				}
				return nil
			})
		}
		events.Stop()
		l.mu.Lock()
		all := l.done == total
		l.mu.Unlock()
		if all || ctx.Err() != nil {
			return g.Wait()
		}
	}
}

// follow notes what happened to a workload. It returns which turn of it began
// now, counted from one; zero if none did.
func (l *load) follow(w *kueue.Workload, class string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.stays[w.Name]
	runs := w.Status.Admission != nil &&
		!apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted)
	switch {
	case st != nil && st.runs && !runs:
		st.runs = false
		l.evicted++
		return 0
	case !runs || st != nil && st.runs:
		return 0
	case st == nil:
		st = &stay{}
		l.stays[w.Name] = st
		at, ok := l.created[w.Name]
		if !ok { // its creation was not answered yet
			at = time.Now()
			l.created[w.Name] = at
		}
		l.waits[class] = append(l.waits[class], time.Since(at))
	}
	st.runs = true
	st.times++
	return st.times
}

// still reports whether the given turn of a workload goes on.
func (l *load) still(name string, turn int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.stays[name]
	return st.runs && st.times == turn
}

// finish says that a workload is done. Its object may have changed since it was
// seen.
func (l *load) finish(ctx context.Context, w *kueue.Workload) error {
	next := w.DeepCopy()
	for {
		apimeta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
			Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.ReasonSucceeded, Message: "done",
		})
		err := l.client.Status().Update(ctx, next, asController)
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("finish %s: %w", w.Name, err)
		}
		if err := l.client.Get(ctx, client.ObjectKeyFromObject(w), next); err != nil {
			return fmt.Errorf("read %s: %w", w.Name, err)
		}
		if next.Status.Admission == nil ||
			apimeta.IsStatusConditionTrue(next.Status.Conditions, kueue.WorkloadEvicted) {
			l.mu.Lock()
			l.done-- // its next turn counts
			l.mu.Unlock()
			return nil
		}
	}
}
