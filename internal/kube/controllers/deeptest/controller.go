package deeptest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

const owner = client.FieldOwner("mlbatch-deep-test")

const (
	// lookEvery is how often is looked at all nodes if nothing happens.
	lookEvery = 30 * time.Second
	// together is how long is waited for more changes: all nodes are looked at for each.
	together = 500 * time.Millisecond
)

// Options are what the controller works with.
type Options struct {
	Client   client.Client
	Clock    clock.Clock
	Recorder events.EventRecorder
	// Memory reads what is remembered of nodes, a ConfigMap in Home.
	Memory cache.Cache
	Home   string
	// Namespace of the Jobs.
	Namespace string
	Policy    nodehealth.TestPolicy
	// Flavors whose nodes are tested; none is all.
	Flavors []string
	// Spares are how many nodes of flavors are kept for recovery, which no queue gives to tests.
	Spares   map[string]nodehealth.Spares
	Template Template
	// Overdue is told how many nodes were not tested for too long, by flavor; nil is not told.
	Overdue func(flavors map[string]int)
}

// SetupWithManager adds the controller to the manager. It needs list and watch on namespaces, nodes, pods, resourceflavors
// and jobs, create and patch on events, and create and delete on jobs in its namespace.
func SetupWithManager(mgr manager.Manager, o Options) error {
	r := &reconciler{Options: o, memory: o.Memory, told: map[string]bool{}, waited: map[string]time.Time{}}
	c, err := controller.New("deeptest", mgr, controller.Options{Reconciler: r})
	if err != nil {
		return fmt.Errorf("make the controller of deep tests: %w", err)
	}
	for _, s := range []source.Source{
		source.Kind(mgr.GetCache(), &batchv1.Job{}, look[*batchv1.Job](),
			predicate.NewTypedPredicateFuncs(func(j *batchv1.Job) bool {
				return j.Namespace == o.Namespace && j.Labels[convert.DeepTestLabel] != ""
			})),
		source.Kind(mgr.GetCache(), &corev1.Node{}, look[*corev1.Node](), nodeChanged()),
		source.Kind(mgr.GetCache(), &corev1.Pod{}, look[*corev1.Pod](), letsGo()),
		source.Kind(o.Memory, &corev1.ConfigMap{}, look[*corev1.ConfigMap]()),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch for the controller of deep tests: %w", err)
		}
	}
	return nil
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// look asks for one look at all nodes, once for all that happens within a moment.
func look[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	all := reconcile.Request{NamespacedName: client.ObjectKey{Name: "nodes"}}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[T], q queue) { q.AddAfter(all, together) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[T], q queue) { q.AddAfter(all, together) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { q.AddAfter(all, together) },
	}
}

// letsGo lets through pods that do not hold GPUs any more.
func letsGo() predicate.TypedPredicate[*corev1.Pod] {
	return predicate.TypedFuncs[*corev1.Pod]{
		CreateFunc: func(event.TypedCreateEvent[*corev1.Pod]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
			return convert.HoldsGPUs(e.ObjectOld) && !convert.HoldsGPUs(e.ObjectNew)
		},
		DeleteFunc: func(e event.TypedDeleteEvent[*corev1.Pod]) bool { return convert.HoldsGPUs(e.Object) },
	}
}

// nodeChanged lets through what decides whether a node is tested; heartbeats do not.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return !reflect.DeepEqual(e.ObjectOld.Labels, e.ObjectNew.Labels) ||
				!reflect.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec) || ready(e.ObjectOld) != ready(e.ObjectNew) ||
				wanted(e.ObjectOld) != wanted(e.ObjectNew) || whole(e.ObjectOld) != whole(e.ObjectNew)
		},
	}
}

type reconciler struct {
	Options
	memory client.Reader
	// told are the tests of which it was said that none follows, or that they do not start.
	told map[string]bool
	// waited is when tests of nodes last waited too long, by the UIDs of nodes. It is lost with the process: then such a
	// node is not behind others.
	waited map[string]time.Time
}

// Reconcile looks at all nodes.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// 1. Gather.
	if err := r.namespace(ctx); err != nil {
		return reconcile.Result{}, err
	}
	byName, candidates, err := r.nodes(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	jobs, tests, err := r.tests(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	// 2. Decide.
	plan := nodehealth.PlanTests(r.Policy, candidates, tests, now)
	// 3. Write.
	var errs []error
	for _, t := range plan.Remove {
		errs = append(errs, r.remove(ctx, jobs[convert.TestJobName(&t)]))
	}
	for _, t := range plan.Start {
		errs = append(errs, r.start(ctx, &t, byName[t.Node]))
	}
	for _, name := range plan.Waited {
		r.waited[string(byName[name].UID)] = now
	}
	r.tell(&plan, byName)
	if r.Overdue != nil {
		r.Overdue(plan.Overdue)
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	wait := lookEvery
	if !plan.Next.IsZero() {
		wait = max(min(wait, plan.Next.Sub(now)), time.Second)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// namespace refuses that of a team, which could write there what is believed of nodes.
func (r *reconciler) namespace(ctx context.Context) error {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, client.ObjectKey{Name: r.Namespace}, &ns); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	}
	if ns.Labels[kueue.TeamNamespaceLabel] == "true" {
		return fmt.Errorf(
			"namespace %s is a team's, as its label %s says, and what passes a deep test there is believed: "+
				"name another one in nodeHealth.deepTest.namespace. No node is tested",
			r.Namespace, kueue.TeamNamespaceLabel,
		)
	}
	return nil
}

// nodes are all that exist.
func (r *reconciler) nodes(ctx context.Context) (map[string]*corev1.Node, []nodehealth.TestNode, error) {
	var all kueue.ResourceFlavorList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, nil, fmt.Errorf("list flavors: %w", err)
	}
	flavors := make([]core.Flavor, len(all.Items))
	for i := range all.Items {
		flavors[i] = convert.Flavor(&all.Items[i])
	}
	jobs, tests, err := r.busy(ctx)
	if err != nil {
		return nil, nil, err
	}
	var m corev1.ConfigMap
	err = r.memory.Get(ctx, client.ObjectKey{Namespace: r.Home, Name: convert.HealthMemory}, &m)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read ConfigMap %s/%s: %w", r.Home, convert.HealthMemory, err)
	}
	healths, _ := convert.Healths(&m)
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	byName, waited := map[string]*corev1.Node{}, map[string]time.Time{}
	out := make([]nodehealth.TestNode, len(nodes.Items))
	members, unused := map[string][]string{}, map[string]bool{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		byName[n.Name] = n
		if at, is := r.waited[string(n.UID)]; is {
			waited[string(n.UID)] = at
		}
		pools := nodehealth.Pools(flavors, convert.NodeSignals(n))
		state := convert.NodeWith(n, healths[n.Name]).State
		out[i] = nodehealth.TestNode{
			Name: n.Name, UID: string(n.UID), Pools: pools,
			Wanted: wanted(n) && (len(r.Flavors) == 0 ||
				slices.ContainsFunc(pools, func(p string) bool { return slices.Contains(r.Flavors, p) })),
			Whole: whole(n), Idle: !jobs[n.Name], Up: ready(n), Ready: free(n), InService: state.TakesWork(),
			Waited: waited[string(n.UID)],
			Health: convert.OfNode(n, healths[n.Name]),
		}
		unused[n.Name] = state == core.NodeReady && !jobs[n.Name] && !tests[n.Name]
		for _, p := range pools {
			members[p] = append(members[p], n.Name)
		}
	}
	r.waited = waited
	kept := map[string]bool{}
	for flavor, spares := range r.Spares { // each by itself, so order does not matter
		slices.Sort(members[flavor])
		for _, name := range spares.Keep(members[flavor], func(node string) bool { return unused[node] }) {
			kept[name] = true
		}
	}
	for i := range out {
		out[i].Spare = kept[out[i].Name]
	}
	return byName, out, nil
}

// busy are the nodes of which pods of jobs hold GPUs, and those of which pods of tests do.
func (r *reconciler) busy(ctx context.Context) (jobs, tests map[string]bool, err error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	jobs, tests = map[string]bool{}, map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch ours := p.Namespace == r.Namespace && p.Labels[convert.DeepTestLabel] != ""; {
		case !convert.HoldsGPUs(p):
		case ours:
			tests[p.Spec.NodeName] = true
		default:
			jobs[p.Spec.NodeName] = true
		}
	}
	return jobs, tests, nil
}

// wanted reports whether a node has GPUs, and whole whether pods can ask for all of them.
func wanted(n *corev1.Node) bool {
	return slices.ContainsFunc(convert.GPUsOf(n), func(gpu corev1.ResourceName) bool {
		amount := n.Status.Capacity[gpu]
		return !amount.IsZero()
	})
}

func whole(n *corev1.Node) bool {
	return !slices.ContainsFunc(convert.GPUsOf(n), func(gpu corev1.ResourceName) bool {
		all, left := n.Status.Capacity[gpu], n.Status.Allocatable[gpu]
		return left.Cmp(all) < 0
	})
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// free reports whether a node is up, and neither people nor other programs have it in hand.
func free(n *corev1.Node) bool {
	_, drained := n.Annotations[view.DrainAnnotation]
	mark := convert.HealthMark(n)
	theirs := nodehealth.IsTest(n.Labels) && (mark == nil || mark.Set != n.Labels[nodehealth.HealthLabel])
	return ready(n) && n.DeletionTimestamp == nil && !n.Spec.Unschedulable && !drained && !theirs
}

// tests are those that there are, and their Jobs by name.
func (r *reconciler) tests(ctx context.Context) (map[string]*batchv1.Job, []nodehealth.Test, error) {
	var list batchv1.JobList
	if err := r.Client.List(
		ctx, &list, client.InNamespace(r.Namespace), client.HasLabels{convert.DeepTestLabel},
	); err != nil {
		return nil, nil, fmt.Errorf("list Jobs in %s: %w", r.Namespace, err)
	}
	jobs := map[string]*batchv1.Job{}
	var tests []nodehealth.Test
	for i := range list.Items {
		j := &list.Items[i]
		t, is := convert.TestOf(j)
		if !is || j.DeletionTimestamp != nil && t.Verdict != "" {
			continue
		}
		jobs[j.Name] = j
		tests = append(tests, t)
	}
	return jobs, tests, nil
}

// start makes the Job of a test. One that is there already is seen later.
func (r *reconciler) start(ctx context.Context, t *nodehealth.Test, n *corev1.Node) error {
	j, err := r.Template.job(t, n, r.Namespace)
	if err != nil {
		return err
	}
	err = r.Client.Create(ctx, j, owner)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return fmt.Errorf(
			"deep tests need namespace %s with LocalQueue %s, as docs/node-health.md says: node %s is not tested: %w",
			r.Namespace, r.Template.Queue, t.Node, err,
		)
	case err != nil:
		return fmt.Errorf("test node %s: %w", t.Node, err)
	}
	r.Recorder.Eventf(n, nil, corev1.EventTypeNormal, "DeepTestStarted", "TestNode", "%s",
		fmt.Sprintf("Its GPUs are tested (%s) by Job %s/%s", t.Cause, j.Namespace, j.Name))
	return nil
}

// remove deletes the Job of a test as it was seen: one that began meanwhile stays.
func (r *reconciler) remove(ctx context.Context, j *batchv1.Job) error {
	if j == nil || j.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.Delete(ctx, j, client.PropagationPolicy("Background"),
		client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Job %s/%s: %w", j.Namespace, j.Name, err)
	}
	return nil
}

// tell says once of each node that it is not tested any more, or not yet.
func (r *reconciler) tell(plan *nodehealth.TestPlan, nodes map[string]*corev1.Node) {
	now := map[string]bool{}
	once := func(t *nodehealth.Test, reason, words string) {
		key := reason + " " + convert.TestJobName(t)
		if now[key] = true; !r.told[key] {
			r.Recorder.Eventf(nodes[t.Node], nil, corev1.EventTypeWarning, reason, "TestNode", "%s", words)
		}
	}
	for i := range plan.GivenUp {
		t := &plan.GivenUp[i]
		once(t, "DeepTestGivenUp", t.GivenUpWords())
	}
	for i := range plan.Partial {
		t := &plan.Partial[i]
		once(t, "DeepTestWaits", t.PartialWords())
	}
	r.told = now
}
