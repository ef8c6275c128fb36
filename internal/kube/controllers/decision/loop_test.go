package decision_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	source "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/decision"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/record"
)

// shop is a decision loop over objects that the test puts there. What the loop writes
// goes to the API server, and from there to the watches when the test says so.
type shop struct {
	*testing.T
	*watches
	server   client.Client
	loop     *decision.Loop
	registry *prometheus.Registry
	stop     context.CancelFunc
	ended    chan error
}

func newShop(t *testing.T, o decision.Options, objects ...client.Object) *shop {
	t.Helper()
	s := &shop{
		T:        t,
		registry: prometheus.NewRegistry(),
		ended:    make(chan error, 1),
		watches: &watches{
			sources:   map[reflect.Type]*source.FakeControllerSource{},
			informers: map[reflect.Type]toolscache.SharedIndexInformer{},
		},
	}
	objects = append(
		objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			CohortName:        "tree",
			ResourceGroups: []kueue.ResourceGroup{
				{CoveredResources: []corev1.ResourceName{"cpu"}, Flavors: []kueue.FlavorQuotas{{
					Name: "f", Resources: []kueue.ResourceQuota{{Name: "cpu", NominalQuota: resource.MustParse("1")}},
				}}},
			},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "local"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "q"},
		},
	)
	var stored []client.Object
	for _, object := range objects {
		copied, is := object.DeepCopyObject().(client.Object)
		if !is {
			t.Fatalf("%T", object)
		}
		stored = append(stored, copied)
	}
	s.put(objects...)
	s.server = fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(stored...).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(
			interceptor.Funcs{
				// The watches number versions by themselves, so that the server cannot compare them.
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					is := &kueue.Workload{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), is); err != nil {
						return err
					}
					o.SetResourceVersion(is.ResourceVersion)
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
			},
		).
		Build()
	m, err := metrics.New(s.registry, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Cache, o.Client, o.Metrics, o.Clock, o.Recorder, o.Writers = s.watches, s.server, m, clock.RealClock{}, events.NewFakeRecorder(
		1000,
	), 2
	s.loop = decision.New(o)
	return s
}

func (s *shop) start() {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	s.stop = stop
	go func() { s.ended <- s.loop.Start(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			s.Errorf("the loop ended with %v", err)
		}
	})
	<-s.loop.Decides()
}

// until waits until look answers "".
func (s *shop) until(why string, look func() string) {
	s.Helper()
	var last string
	err := wait.PollUntilContextTimeout(
		s.Context(),
		time.Millisecond,
		10*time.Second,
		true,
		func(context.Context) (bool, error) {
			last = look()
			return last == "", nil
		},
	)
	if err != nil {
		s.Fatalf("%s: %s", why, last)
	}
}

// workload is what the API server has.
func (s *shop) workload(name string) *kueue.Workload {
	s.Helper()
	w := &kueue.Workload{}
	if err := s.server.Get(s.Context(), client.ObjectKey{Namespace: "blue", Name: name}, w); err != nil {
		s.Fatal(err)
	}
	return w
}

// admits waits until a workload has quota, and lets the watches tell of it.
func (s *shop) admits(name string) {
	s.Helper()
	s.until(name+" is admitted", func() string {
		if s.workload(name).Status.Admission == nil {
			return "it has no quota"
		}
		return ""
	})
	s.source(&kueue.Workload{}).Modify(s.workload(name))
}

func (s *shop) attempts(result string) float64 {
	s.Helper()
	all, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range all {
		if !strings.HasSuffix(f.GetName(), "admission_attempts_total") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == result {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// What the watches tell is decided and written, and the numbers say so.
func TestLoop(t *testing.T) {
	s := newShop(t, decision.Options{}, waiting("low", 1), waiting("high", 9), waiting("middle", 5))
	if !s.loop.NeedLeaderElection() {
		t.Error("two processes must not decide")
	}
	if _, known := s.loop.Queue("q"); known {
		t.Error("numbers before anything was counted: a restart would show none")
	}
	if _, known := s.loop.LocalQueue("blue", "local"); known {
		t.Error("numbers of a local queue before anything was counted")
	}
	s.start()
	s.admits("high")
	cpu := func(n core.Amount) map[core.FlavorResource]core.Amount {
		return map[core.FlavorResource]core.Amount{{Flavor: "f", Resource: core.CPU}: n}
	}
	full := core.Load{Inadmissible: 2, Reserving: 1, Admitted: 1, Reserved: cpu(1000), Used: cpu(1000)}
	s.until("the numbers follow", func() string {
		q, _ := s.loop.Queue("q")
		l, _ := s.loop.LocalQueue("blue", "local")
		q.ConsumedAt, l.ConsumedAt = time.Time{}, time.Time{}
		return cmp.Diff([]core.Load{full, full}, []core.Load{q, l}, cmpopts.EquateEmpty())
	})
	if q, _ := s.loop.Queue("q"); q.Share != nil {
		t.Errorf("share %v without fair sharing", q.Share)
	}
	if _, known := s.loop.CohortShare("tree"); known {
		t.Error("a share of a cohort without fair sharing")
	}
	var line, running []string
	s.loop.EachWaiting(func(queue string, k core.Key, parked bool) { line = append(line, queue+" "+k.Name) })
	s.loop.EachAdmitted(func(queue string, k core.Key) { running = append(running, queue+" "+k.Name) })
	slices.Sort(line)
	if diff := cmp.Diff([][]string{{"q low", "q middle"}, {"q high"}}, [][]string{line, running}); diff != "" {
		t.Errorf("what waits and what runs (-want +got):\n%s", diff)
	}
	if n := s.attempts("success"); n != 1 {
		t.Errorf("%v cycles that admitted a workload, want 1", n)
	}
	ask := decision.Answers{Loop: s.loop}
	why, waits, err := ask.Explain(core.Key{Namespace: "blue", Name: "middle"}, time.Now(), nil)
	if err != nil || !waits || why.Reason.Code != core.WaitingForQuota {
		t.Errorf("middle: waits %v for %+v, %v", waits, why.Reason, err)
	}
	if _, waits, err := ask.Explain(
		core.Key{Namespace: "blue", Name: "high"},
		time.Now(),
		nil,
	); waits ||
		err != nil {
		t.Errorf("high waits: %v, %v", waits, err)
	}
	if q, known, err := ask.QueueOf("blue", "local"); q != "q" || !known || err != nil {
		t.Errorf("the local queue leads to %q, %v, %v", q, known, err)
	}

	// One goes, and the next is admitted.
	s.source(&kueue.Workload{}).Delete(s.workload("high"))
	s.admits("middle")
	s.until("a cycle finds that there is no quota for the last", func() string {
		if n := s.attempts("inadmissible"); n < 1 {
			return fmt.Sprintf("%v cycles that admitted no workload", n)
		}
		return ""
	})
	if s.workload("low").Status.Admission != nil {
		t.Error("two have the quota of one")
	}
}

// That a node is not held any more may have another one kept for recovery, and who waits for that one starts at once,
// though nothing happens: here n3 is kept in place of n2, once nobody has others evicted any more to start there.
func TestAHoldThatEndsWakesWhoWaits(t *testing.T) {
	objects := []client.Object{
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			Preemption:        &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueue.ResourceGroup{
				{CoveredResources: []corev1.ResourceName{"cpu"}, Flavors: []kueue.FlavorQuotas{{
					Name: "f", Resources: []kueue.ResourceQuota{{Name: "cpu", NominalQuota: resource.MustParse("9")}},
				}}},
			},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "wide"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "wide"},
		},
	}
	has := corev1.ResourceList{
		corev1.ResourceCPU:  resource.MustParse("1"),
		corev1.ResourcePods: resource.MustParse("9"),
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": name}},
			Status: corev1.NodeStatus{
				Capacity: has, Allocatable: has,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	job := func(name string, priority int32) *kueue.Workload {
		w := waiting(name, priority)
		w.Spec.QueueName = "wide"
		return w
	}
	on := func(node string, w *kueue.Workload) *kueue.Workload {
		w.Status.Admission = convert.StatusAdmission(core.Admission{Queue: "wide", PodSets: []core.PodSetAdmission{
			{
				Name:    "main",
				Count:   1,
				Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "f"}},
				Usage: core.MakeResources(
					map[string]core.Amount{core.CPU: 1000},
				),
				Places: []core.Place{{Node: node, Count: 1}},
			},
		}})
		for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
			w.Status.Conditions = append(
				w.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c},
			)
		}
		return w
	}
	high, waits := job("high", 9), job("waits", 0)
	high.Spec.PodSets[0].Count = 2
	waits.Spec.PodSets[0].Template.Spec.NodeSelector = map[string]string{"is": "n2"}
	low1, low3 := on("n1", job("low1", 1)), on("n3", job("low3", 1))
	s := newShop(
		t, decision.Options{Rules: convert.Rules{Spares: map[string]nodehealth.Spares{"f": {Nodes: 1}}}},
		append(objects, high, low1, low3, waits)...,
	)
	s.start()
	s.source(low3).Delete(low3)
	s.until("one of two is gone that were evicted", func() string {
		all := ""
		s.loop.EachAdmitted(func(_ string, k core.Key) { all += k.Name })
		if all != "low1" {
			return "there are " + all
		}
		return ""
	})
	if s.workload("waits").Status.Admission != nil {
		t.Error("a job starts on a node that is kept for recovery")
	}
	s.source(high).Delete(high)
	s.admits("waits")
}

// Shares are told once there is fair sharing.
func TestLoopWithShares(t *testing.T) {
	s := newShop(
		t,
		decision.Options{Engine: cycle.Options{FairSharing: &core.FairSharing{}}},
		waiting("high", 9),
	)
	if _, known := s.loop.CohortShare("tree"); known {
		t.Error("a share before anything was counted")
	}
	s.start()
	s.admits("high")
	s.until("the shares are told", func() string {
		q, _ := s.loop.Queue("q")
		if q.Share == nil {
			return "none of the queue"
		}
		if c, known := s.loop.CohortShare("tree"); !known || math.IsNaN(c.Exact) {
			return "none of its cohort"
		}
		return ""
	})
}

// Everything that is decided can be decided again from what is recorded.
func TestLoopIsRecorded(t *testing.T) {
	dir := t.TempDir()
	ring, err := record.OpenRing(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, decision.Options{Flight: ring}, waiting("high", 9))
	s.start()
	s.admits("high")
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	s.ended <- nil
	files, err := record.Segments(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "high") {
		t.Errorf("%v: the record does not know of the workload: %s", err, text)
	}
}

// A loop that cannot see everything does not begin.
func TestLoopWithoutWatches(t *testing.T) {
	away := errors.New("no such kind")
	for name, kind := range map[string]client.Object{"queues": &kueue.ClusterQueue{}, "nodes": &corev1.Node{}, "workloads": &kueue.Workload{}} {
		s := newShop(t, decision.Options{})
		blind := &blindTo{s.watches, reflect.TypeOf(kind), away}
		l := decision.New(decision.Options{Cache: blind, Clock: clock.RealClock{}})
		if err := l.Start(t.Context()); !errors.Is(err, away) || !strings.Contains(err.Error(), "watch *") {
			t.Errorf("%s: %v", name, err)
		}
		f := decision.NewFollower(decision.FollowerOptions{Cache: blind, Clock: clock.RealClock{}})
		if err := f.Start(t.Context()); !errors.Is(err, away) {
			t.Errorf("a follower without %s: %v", name, err)
		}
	}
}

type blindTo struct {
	*watches
	kind reflect.Type
	err  error
}

func (b *blindTo) GetInformer(
	ctx context.Context,
	o client.Object,
	opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if reflect.TypeOf(o) == b.kind {
		return nil, b.err
	}
	return b.watches.GetInformer(ctx, o, opts...)
}
