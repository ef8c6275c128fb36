// Package evacuation takes the pods of jobs off nodes that they have to leave, which
// is decided for every kind by jobs.MustLeave. Here it is done one by one, where the
// controller of the job replaces its pods (jobs.Kind.Replaces); other jobs are moved
// as a whole by their own controllers. The job keeps its quota, and the decision
// loop plans other nodes for what comes instead.
//
// A pod is evicted as the API has it, so that it carries the condition
// DisruptionTarget, which a Job's podFailurePolicy may ignore. Pods whose eviction
// would end the job stay where they are, and an event says so.
package evacuation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/turns"
)

// NodeIndex is the name of the cache index from a node to the pods of Workloads on it.
const NodeIndex = "mlbatch.dev/node"

// IndexNode returns the node of a pod that belongs to a Workload, for NodeIndex.
func IndexNode(o client.Object) []string {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" || p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}

// recount is when a job is looked at again whose retries are not all counted: some may
// be left.
const recount = 10 * time.Second

// Reasons of events on jobs.
const (
	// Evacuated: a pod was taken off its node.
	Evacuated = "Evacuated"
	// NotEvacuated: a pod should have been.
	NotEvacuated = "NotEvacuated"
)

// Options are what the controller works with.
type Options struct {
	Client client.Client
	// Live reads from the API server how many pods a job can still do without.
	Live     client.Reader
	Recorder events.EventRecorder
	// Kinds are the kinds of jobs that are queued.
	Kinds jobs.Kinds
	// Avoid says which nodes have to be left.
	Avoid []jobs.Avoid
	// PodIndex is the name of the cache index from a Workload's name to its pods.
	PodIndex string
}

type reconciler struct{ Mover }

// Mover has pods leave that their job's controller replaces.
type Mover struct{ Options }

// Goer is a pod that has to leave, and why.
type Goer struct {
	Pod *corev1.Pod
	Why string
}

// SetupWithManager starts the controller. The cache must have NodeIndex and PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{Mover{opts}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("evacuation").
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(r.turnsBad())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(arrives())).
		WithOptions(turns.Options()).
		Complete(r)
}

// turnsBad lets through nodes that pods have to leave from now on.
func (r *reconciler) turnsBad() predicate.Predicate {
	bad := func(o client.Object) bool { return jobs.Driving(o.GetLabels(), r.Avoid) != "" }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return bad(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return bad(e.ObjectNew) && !bad(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// arrives lets through pods that get a node.
func arrives() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(IndexNode(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return len(IndexNode(e.ObjectNew)) > 0 && len(IndexNode(e.ObjectOld)) == 0
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofNode leads from a node to the Workloads with pods on it.
func (r *reconciler) ofNode(ctx context.Context, o client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{NodeIndex: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List pods of a node", "node", o.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		if req := workloadOf(&pods.Items[i]); !slices.Contains(out, req) {
			out = append(out, req)
		}
	}
	return out
}

// ofPod leads to the Workload of a pod on a node that has to be left.
func (r *reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	p, is := o.(*corev1.Pod)
	if !is {
		return nil
	}
	if why, err := r.mustLeave(ctx, p); why == "" || err != nil {
		return nil
	}
	return []reconcile.Request{workloadOf(p)}
}

func workloadOf(p *corev1.Pod) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Annotations[kueue.WorkloadAnnotation]}}
}

// mustLeave says why a pod has to leave its node; "" if it may stay, or there is no
// such node.
func (r *reconciler) mustLeave(ctx context.Context, p *corev1.Pod) (string, error) {
	if p.Spec.NodeName == "" {
		return "", nil
	}
	var node corev1.Node
	err := r.Client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, &node, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return jobs.MustLeave(p, &node, r.Avoid), nil
}

// Reconcile evicts the pods of one Workload that have to leave their nodes.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pods, going, err := r.pods(ctx, req.NamespacedName)
	if err != nil || len(going) == 0 {
		return reconcile.Result{}, err
	}
	var w kueue.Workload
	if err := r.Client.Get(ctx, req.NamespacedName, &w, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again, err := r.Move(ctx, &w, pods, going)
	return reconcile.Result{RequeueAfter: again}, err
}

// Move evicts pods of a Workload, of all the pods that it has, as far as its job survives that.
// It says of the others, by events, that they stay. again is when to look whether more may go, 0
// if never.
func (m *Mover) Move(ctx context.Context, w *kueue.Workload, pods []corev1.Pod, going []Goer) (again time.Duration, err error) {
	if ofPods(w) {
		return 0, m.each(ctx, going)
	}
	job, k, err := m.job(ctx, w)
	if err != nil || job == nil {
		return 0, err
	}
	replaced, open := k.Replaceable(job, pods)
	left := int(replaced)
	for i, p := range going {
		if i >= left {
			m.Recorder.Eventf(job, p.Pod, corev1.EventTypeWarning, NotEvacuated, NotEvacuated,
				"Pod %s stays although %s: %d pods have to leave, and the job would fail after %d more. %s, or submit it again",
				p.Pod.Name, p.Why, len(going), left, cure(k))
			if open {
				return recount, nil
			}
			break
		}
		if err := m.evict(ctx, p.Pod); err != nil {
			return 0, fmt.Errorf("evict pod %s of workload %s, because %s: %w", p.Pod.Name, client.ObjectKeyFromObject(w), p.Why, err)
		}
		m.Recorder.Eventf(job, p.Pod, corev1.EventTypeNormal, Evacuated, Evacuated, "Evicted pod %s: %s", p.Pod.Name, p.Why)
	}
	return 0, nil
}

// ofPods reports whether a Workload is that of pods that are queued by themselves.
func ofPods(w *kueue.Workload) bool {
	owner := metav1.GetControllerOf(w)
	return convert.OfGroup(w) || owner != nil && owner.Kind == "Pod" && owner.APIVersion == corev1.SchemeGroupVersion.String()
}

// each evicts those pods that their controller makes anew. What a user made alone stays:
// it would be gone for good.
func (m *Mover) each(ctx context.Context, going []Goer) error {
	for _, p := range going {
		if o := metav1.GetControllerOf(p.Pod); o == nil || !strings.HasPrefix(o.APIVersion, "apps/") {
			m.Recorder.Eventf(p.Pod, nil, corev1.EventTypeWarning, NotEvacuated, NotEvacuated,
				"It stays although %s: nobody makes it anew. Delete it and create it again, or let a Deployment or an AppWrapper make it", p.Why)
			continue
		}
		if err := m.evict(ctx, p.Pod); err != nil {
			return fmt.Errorf("evict pod %s/%s, because %s: %w", p.Pod.Namespace, p.Pod.Name, p.Why, err)
		}
		m.Recorder.Eventf(p.Pod, nil, corev1.EventTypeNormal, Evacuated, Evacuated, "Evicted: %s", p.Why)
	}
	return nil
}

// cure is what lets a job survive that pods leave.
func cure(k *jobs.Kind) string {
	if k.Operated != nil {
		return "Give all its pods the restartPolicy OnFailure"
	}
	return "Let a podFailurePolicy ignore DisruptionTarget"
}

// pods finds the pods of a Workload, and those of them that have to leave, by name.
func (r *reconciler) pods(ctx context.Context, workload types.NamespacedName) (all []corev1.Pod, going []Goer, err error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(workload.Namespace), client.MatchingFields{r.PodIndex: workload.Name}); err != nil {
		return nil, nil, fmt.Errorf("list pods of workload %s: %w", workload, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if !convert.PodState(p).HoldsQuota() || p.DeletionTimestamp != nil {
			continue
		}
		why, err := r.mustLeave(ctx, p)
		if err != nil {
			return nil, nil, fmt.Errorf("read node %s: %w", p.Spec.NodeName, err)
		}
		if why != "" {
			going = append(going, Goer{p, why})
		}
	}
	slices.SortFunc(going, func(a, b Goer) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return list.Items, going, nil
}

// job finds the job of a Workload and its kind; nil if the job's controller replaces
// no pods one by one.
func (m *Mover) job(ctx context.Context, w *kueue.Workload) (jobs.Object, *jobs.Kind, error) {
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return nil, nil, nil
	}
	k := m.Kinds.Find(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if k == nil || k.Replaces == nil && k.Operated == nil {
		return nil, nil, nil
	}
	o := k.New()
	err := m.Live.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, o)
	if apierrors.IsNotFound(err) || err == nil && o.GetUID() != owner.UID {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s %s of workload %s: %w", owner.Kind, owner.Name, client.ObjectKeyFromObject(w), err)
	}
	return o, k, nil
}

// evict lets a pod go, unless it is another one by now.
func (m *Mover) evict(ctx context.Context, p *corev1.Pod) error {
	err := m.Client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
