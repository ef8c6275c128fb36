package job

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// refusedPause is after how long a Workload that was refused is tried again if
// nothing says that it may be created now.
const refusedPause = 5 * time.Minute

// countedWorkloads is what a ResourceQuota calls the number of Workloads.
const countedWorkloads corev1.ResourceName = "count/workloads.kueue.x-k8s.io"

// refused tells a job that the API server does not let its Workload be created, and
// notes it down for when there is room.
func (r *reconciler) refused(s facts, err error) reconcile.Result {
	again := "it is tried again in 5 minutes"
	if strings.Contains(err.Error(), "exceeded quota") {
		again = "it is tried again as soon as jobs are gone, or the quota is larger"
	}
	r.event(
		s.job,
		jobEvent{
			reason:  kueue.EventWorkloadRefused,
			message: "The job cannot be queued, because its Workload may not be created: " + err.Error() + "; " + again,
			warning: true,
		},
	)
	r.waiting.add(client.ObjectKeyFromObject(s.job))
	return reconcile.Result{RequeueAfter: refusedPause}
}

// waitList has the jobs that wait to create a Workload, in the order in which they
// came. It is only about which are woken: a restart looks at every job anyway.
type waitList struct {
	mu   sync.Mutex
	last uint64
	of   map[string]map[string]uint64 // namespace, name, number in the line
}

func (c *waitList) add(k types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.of[k.Namespace]
	if line[k.Name] != 0 {
		return // it keeps its place
	}
	if c.of == nil {
		c.of = map[string]map[string]uint64{}
	}
	if line == nil {
		line = map[string]uint64{}
		c.of[k.Namespace] = line
	}
	c.last++
	line[k.Name] = c.last
}

func (c *waitList) forget(k types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.of[k.Namespace]
	if delete(line, k.Name); len(line) == 0 {
		delete(c.of, k.Namespace)
	}
}

// first are those of a namespace that came first, n at most.
func (c *waitList) first(namespace string, n int64) []reconcile.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.of[namespace]
	out := make([]reconcile.Request, 0, len(line))
	for name := range line {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	slices.SortFunc(out, func(a, b reconcile.Request) int { return cmp.Compare(line[a.Name], line[b.Name]) })
	return out[:min(n, int64(len(out)))]
}

// roomFor leads from a ResourceQuota to the jobs whose Workloads it has room for:
// no more, or thousands would be refused again for every one that ends.
func (r *reconciler) roomFor(_ context.Context, o client.Object) []reconcile.Request {
	q, ok := o.(*corev1.ResourceQuota)
	if !ok {
		return nil
	}
	free := int64(math.MaxInt64)
	if hard, counted := q.Status.Hard[countedWorkloads]; counted && q.DeletionTimestamp == nil {
		hard.Sub(q.Status.Used[countedWorkloads])
		free = max(hard.Value(), 0)
	}
	return r.waiting.first(q.Namespace, free)
}

// givesRoom lets through ResourceQuotas that let more Workloads be created than a
// moment ago.
func givesRoom() builder.Predicates { return builder.WithPredicates(resourceQuotas()) }

func resourceQuotas() predicate.Funcs {
	amount := func(l corev1.ResourceList) resource.Quantity { return l[countedWorkloads] }
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok1 := e.ObjectOld.(*corev1.ResourceQuota)
			is, ok2 := e.ObjectNew.(*corev1.ResourceQuota)
			if !ok1 || !ok2 {
				return false
			}
			hard, used := amount(is.Status.Hard), amount(is.Status.Used)
			return !equality.Semantic.DeepEqual(hard, amount(was.Status.Hard)) || used.Cmp(amount(was.Status.Used)) < 0
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}
