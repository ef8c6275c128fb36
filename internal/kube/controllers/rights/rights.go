// Package rights gives the controller its rights where jobs run, and nowhere else:
// in the namespaces of teams, and in namespaces that an administrator gave a LocalQueue.
// There it binds Role to itself. What it creates for jobs, Secrets and pods
// above all, it can thus neither read nor make in other namespaces.
//
// A binding stays as long as jobs that it makes (jobs.Kind.RunsJobs), Workloads or pods
// that it holds are left that it is needed for, even if its namespace is being deleted: what runs has to be
// stopped and cleaned up first. A finalizer sees to that.
package rights

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const (
	// Binding is the name of the binding in each namespace. It is not that of the
	// controller's role in its own namespace, whose binding is not to be taken back.
	Binding = "mlbatch-controller-team"
	// Role is the cluster role that is bound.
	Role = "mlbatch-controller-team"
	// Finalizer keeps a binding until it is not needed any more.
	Finalizer = "mlbatch.dev/rights"
)

// SystemNamespaces are those of the cluster itself. Nothing is bound in them.
func SystemNamespaces() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// Cached narrows what is watched of all bindings to ours.
func Cached() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&rbacv1.RoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", Binding)},
	}
}

// Of is the binding of a namespace.
func Of(namespace string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Binding, Finalizers: []string{Finalizer}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Role},
		Subjects:   subjects,
	}
}

// Subject is a user, as the API server calls it, as bindings do.
func Subject(user string) rbacv1.Subject {
	if namespace, name, ok := strings.Cut(
		strings.TrimPrefix(user, "system:serviceaccount:"),
		":",
	); ok &&
		strings.HasPrefix(user, "system:serviceaccount:") {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
}

// Options are what the reconciler works with.
type Options struct {
	Client client.Client
	// Kinds are the kinds of jobs that there are.
	Kinds jobs.Kinds
	// Self is the user that the controller is.
	Self string
}

type reconciler struct {
	Options
}

// made are the kinds of jobs whose namespaces the controller needs its rights in.
func (o *Options) made() jobs.Kinds {
	return o.Kinds.Where(func(k *jobs.Kind) bool { return k.RunHere() })
}

// SetupWithManager starts the reconciler. The cache must have Cached.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	comes := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	goes := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	managed := predicate.NewPredicateFuncs(
		func(o client.Object) bool { return o.GetLabels()[kueue.ManagedLabel] == "true" },
	)
	b := ctrl.NewControllerManagedBy(mgr)
	for _, k := range r.made() {
		b = b.Watches(k.New(), handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(goes))
	}
	return b.
		Named("rights").
		For(
			&corev1.Namespace{},
			builder.WithPredicates(predicate.Or[client.Object](predicate.LabelChangedPredicate{}, comes)),
		).
		Watches(
			&kueue.LocalQueue{},
			handler.EnqueueRequestsFromMapFunc(namespaceOf),
			builder.WithPredicates(comes),
		).
		Watches(&kueue.Workload{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(goes)).
		Watches(
			&corev1.Pod{},
			handler.EnqueueRequestsFromMapFunc(namespaceOf),
			builder.WithPredicates(goes, managed),
		).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(namespaceOf)).
		Complete(r)
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
}

// Reconcile binds the role in one namespace, or takes the binding back.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.do(ctx, req.Name, s, decide(s))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, nil // what it is now is on its way here
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rights in namespace %s: %w", req.Name, err)
	}
	return reconcile.Result{}, nil
}

// facts is what is known of a namespace.
type facts struct {
	// jobs: jobs run here.
	jobs bool
	// ending: the namespace is being deleted, or gone.
	ending bool
	// needed: there are jobs, Workloads or pods to look after.
	needed  bool
	binding *rbacv1.RoleBinding // nil if there is none
	self    rbacv1.Subject
}

// step is what to do.
type step int

const (
	nothing step = iota
	create
	// admit adds the controller to an existing binding, and the finalizer.
	admit
	remove
	release // the finalizer
)

func decide(s facts) step {
	b := s.binding
	switch {
	case b == nil && s.jobs && !s.ending:
		return create
	case b == nil:
		return nothing
	case b.DeletionTimestamp != nil && (s.needed || !controllerutil.ContainsFinalizer(b, Finalizer)):
		return nothing
	case b.DeletionTimestamp != nil:
		return release
	case !s.jobs && !s.needed && !s.ending, !equality.Semantic.DeepEqual(b.RoleRef, Of("").RoleRef):
		return remove
	case s.ending:
		return nothing // with the namespace goes what is in it
	case !slices.Contains(b.Subjects, s.self), !controllerutil.ContainsFinalizer(b, Finalizer):
		return admit
	}
	return nothing
}

func (r *reconciler) gather(ctx context.Context, namespace string) (facts, error) {
	s := facts{self: Subject(r.Self)}
	var ns corev1.Namespace
	err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, &ns)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	s.ending = err != nil || ns.DeletionTimestamp != nil
	var b rbacv1.RoleBinding
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Binding}, &b); {
	case err == nil:
		s.binding = &b
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read the binding in namespace %s: %w", namespace, err)
	}
	if slices.Contains(SystemNamespaces(), namespace) {
		return s, nil
	}
	queues, err := r.any(ctx, namespace, kueue.GroupVersion.WithKind("LocalQueueList"))
	if err != nil {
		return s, err
	}
	s.jobs = ns.Labels[kueue.TeamNamespaceLabel] == "true" || queues
	needing := []schema.GroupVersionKind{kueue.GroupVersion.WithKind("WorkloadList")}
	for _, k := range r.made() {
		needing = append(needing, k.ListGVK())
	}
	for _, list := range needing {
		if s.needed, err = r.any(ctx, namespace, list); s.needed || err != nil {
			return s, err
		}
	}
	s.needed, err = r.any(
		ctx,
		namespace,
		corev1.SchemeGroupVersion.WithKind("PodList"),
		client.MatchingLabels{kueue.ManagedLabel: "true"},
	)
	return s, err
}

// any reports whether a namespace has objects of a kind, of which list is a list.
func (r *reconciler) any(
	ctx context.Context,
	namespace string,
	list schema.GroupVersionKind,
	of ...client.ListOption,
) (bool, error) {
	made, err := r.Client.Scheme().New(list)
	if err != nil {
		return false, fmt.Errorf("list what is in namespace %s: %w", namespace, err)
	}
	l, _ := made.(client.ObjectList)
	of = append(of, client.InNamespace(namespace), client.Limit(1), client.UnsafeDisableDeepCopy)
	if err := r.Client.List(ctx, l, of...); err != nil {
		return false, fmt.Errorf("list what is in namespace %s: %w", namespace, err)
	}
	return meta.LenList(l) > 0, nil
}

func (r *reconciler) do(ctx context.Context, namespace string, s facts, next step) error {
	lock := client.MergeFromWithOptimisticLock{}
	switch next {
	case nothing:
	case create:
		return r.Client.Create(ctx, Of(namespace, s.self))
	case admit:
		is := s.binding.DeepCopy()
		if !slices.Contains(is.Subjects, s.self) {
			is.Subjects = append(is.Subjects, s.self)
		}
		controllerutil.AddFinalizer(is, Finalizer)
		return r.Client.Patch(ctx, is, client.MergeFromWithOptions(s.binding, lock))
	case remove:
		return r.Client.Delete(ctx, s.binding, client.Preconditions{UID: &s.binding.UID})
	case release:
		is := s.binding.DeepCopy()
		controllerutil.RemoveFinalizer(is, Finalizer)
		return r.Client.Patch(ctx, is, client.MergeFromWithOptions(s.binding, lock))
	}
	return nil
}
