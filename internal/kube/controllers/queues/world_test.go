package queues

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tallies are numbers that a test sets.
type tallies struct {
	queues, local map[string]core.Load
	cohorts       map[string]core.Share
	changed       chan struct{}
}

func newTallies() *tallies {
	return &tallies{
		queues:  map[string]core.Load{},
		local:   map[string]core.Load{},
		cohorts: map[string]core.Share{},
		changed: make(chan struct{}, 1),
	}
}

func (n *tallies) Queue(name string) (core.Load, bool) { t, ok := n.queues[name]; return t, ok }

func (n *tallies) LocalQueue(namespace, name string) (core.Load, bool) {
	t, ok := n.local[namespace+"/"+name]
	return t, ok
}

func (n *tallies) CohortShare(name string) (core.Share, bool) {
	s, ok := n.cohorts[name]
	return s, ok
}

func (n *tallies) Changed() <-chan struct{} { return n.changed }

// gauges keeps what is shown.
type gauges struct {
	queues map[string]view.ClusterQueue
	local  map[string]view.LocalQueue
	// cohorts are the shares of cohorts.
	cohorts map[string]float64
}

func (g *gauges) SetQueue(q view.ClusterQueue)       { g.queues[q.Name] = q }
func (g *gauges) ForgetQueue(name string)            { delete(g.queues, name) }
func (g *gauges) SetCohortShare(n string, s float64) { g.cohorts[n] = s }
func (g *gauges) ForgetCohort(name string)           { delete(g.cohorts, name) }
func (g *gauges) SetLocalQueue(q view.LocalQueue)    { g.local[q.Namespace+"/"+q.Name] = q }
func (g *gauges) ForgetLocalQueue(ns, name string)   { delete(g.local, ns+"/"+name) }

// world is an API server with the reconcilers on it.
type world struct {
	*testing.T
	c       client.Client
	clock   *clocktesting.FakeClock
	numbers *tallies
	gauges  *gauges
	events  *events.FakeRecorder
	writes  int   // of status
	fails   error // what they end with
	queues  *clusterQueues
	local   *localQueues
	flavors *flavors
	checks  *checks
	cohorts *cohorts
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), kueue.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{
		T:       t,
		numbers: newTallies(),
		events:  events.NewFakeRecorder(10),
		clock:   clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		gauges: &gauges{
			queues:  map[string]view.ClusterQueue{},
			local:   map[string]view.LocalQueue{},
			cohorts: map[string]float64{},
		},
	}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&kueue.ClusterQueue{}, &kueue.LocalQueue{}, &kueue.Workload{}, &kueue.Cohort{}).
		WithInterceptorFuncs(
			interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					if w.writes++; w.fails != nil {
						return w.fails
					}
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			},
		).Build()
	o := Options{Numbers: w.numbers, Gauges: w.gauges, Interval: DefaultInterval, Clock: w.clock}
	w.queues, w.local, w.flavors = newClusterQueues(w.c, o), newLocalQueues(w.c, o), newFlavors(w.c, w.events)
	w.cohorts, w.checks = newCohorts(w.c, o), newChecks(w.c, w.events)
	return w
}

func clusterQueue() *kueue.ClusterQueue {
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: kueue.ClusterQueueSpec{CohortName: "c", ResourceGroups: []kueue.ResourceGroup{{
			CoveredResources: []corev1.ResourceName{corev1.ResourceCPU, "nvidia.com/gpu"},
			Flavors: []kueue.FlavorQuotas{{Name: "f", Resources: []kueue.ResourceQuota{
				{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse("8")},
				{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("4")},
			}}},
		}}},
	}
}

func localQueue() *kueue.LocalQueue {
	return &kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l"}, Spec: kueue.LocalQueueSpec{ClusterQueue: "q"},
	}
}

func flavor() *kueue.ResourceFlavor {
	return &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) reconcile(r reconcile.Reconciler, o client.Object) reconcile.Result {
	w.Helper()
	result, err := r.Reconcile(w.Context(), request(o))
	w.must(err)
	return result
}

func (w *world) read(o client.Object) {
	w.Helper()
	w.must(w.c.Get(w.Context(), client.ObjectKeyFromObject(o), o))
}

func (w *world) exists(o client.Object) bool {
	w.Helper()
	err := w.c.Get(w.Context(), client.ObjectKeyFromObject(o), o)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}
