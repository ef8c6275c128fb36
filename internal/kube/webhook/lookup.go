package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// exists looks in the cache and, before saying no, asks the API server: an
// object may have been created a moment ago by the same `kubectl apply`.
func (c Cluster) exists(ctx context.Context, key client.ObjectKey, o client.Object) (bool, error) {
	var err error
	for _, reader := range []client.Reader{c.Cached, c.Live} {
		if err = reader.Get(ctx, key, o); !apierrors.IsNotFound(err) {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up %s: %w", key, err)
	}
	return true, nil
}

// teamNamespace reports whether a namespace is a team's.
func (c Cluster) teamNamespace(ctx context.Context, name string) (bool, error) {
	for _, reader := range []client.Reader{c.Cached, c.Live} {
		ns := &corev1.Namespace{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, ns); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("look up namespace %s: %w", name, err)
		}
		if ns.Labels[kueue.TeamNamespaceLabel] == "true" {
			return true, nil
		}
	}
	return false, nil
}

// withoutRights reports whether our controllers have no rights in a namespace: see package rights.
func (c Cluster) withoutRights(ctx context.Context, namespace string) (bool, error) {
	team, err := c.teamNamespace(ctx, namespace)
	if team || err != nil {
		return false, err
	}
	for _, reader := range []client.Reader{c.Cached, c.Live} {
		queues := &kueue.LocalQueueList{}
		if err := reader.List(ctx, queues, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, fmt.Errorf("list queues of namespace %s: %w", namespace, err)
		}
		if len(queues.Items) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// missingQueue tells of a queue that the namespace does not have; "" if it has
// it.
func (c Cluster) missingQueue(ctx context.Context, namespace, name string) (string, error) {
	ok, err := c.exists(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &kueue.LocalQueue{})
	if ok || err != nil {
		return "", err
	}
	queues := &kueue.LocalQueueList{}
	if err := c.Live.List(ctx, queues, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list queues of namespace %s: %w", namespace, err)
	}
	return missing("LocalQueue", name, " in namespace "+namespace, listNames(queues.Items)), nil
}

// checkPriorityClass refuses a priority class that does not exist, or is not for
// users.
func (c Cluster) checkPriorityClass(
	ctx context.Context,
	limits jobs.Limits,
	name string,
	at *field.Path,
) (field.ErrorList, error) {
	allowed := limits.PriorityClass(name)
	ok, err := c.exists(ctx, client.ObjectKey{Name: name}, &schedulingv1.PriorityClass{})
	if ok && allowed || err != nil {
		return nil, err
	}
	classes := &schedulingv1.PriorityClassList{}
	if err := c.Live.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list priority classes: %w", err)
	}
	classes.Items = slices.DeleteFunc(classes.Items, func(p schedulingv1.PriorityClass) bool {
		return !limits.PriorityClass(p.Name)
	})
	if !allowed {
		return field.ErrorList{
			field.Forbidden(
				at,
				fmt.Sprintf("pods of jobs may not have the PriorityClass %s: %s", name, oneOf(listNames(classes.Items))),
			),
		}, nil
	}
	return field.ErrorList{unknownClass("PriorityClass", name, listNames(classes.Items), at)}, nil
}

// missingWorkloadPriorityClass tells of a workload priority class that does not
// exist; "" if it does.
func (c Cluster) missingWorkloadPriorityClass(ctx context.Context, name string) (string, error) {
	ok, err := c.exists(ctx, client.ObjectKey{Name: name}, &kueue.WorkloadPriorityClass{})
	if ok || err != nil {
		return "", err
	}
	classes := &kueue.WorkloadPriorityClassList{}
	if err := c.Live.List(ctx, classes); err != nil {
		return "", fmt.Errorf("list workload priority classes: %w", err)
	}
	return missing("WorkloadPriorityClass", name, "", listNames(classes.Items)), nil
}

// missing says of a job that what it names may come later, or be misspelt.
func missing(kind, name, where string, others []string) string {
	there := "there is no other"
	if len(others) > 0 {
		there = "there are " + strings.Join(others, ", ")
	}
	return fmt.Sprintf("the job is held until there is a %s %s%s; %s", kind, name, where, there)
}

// oneOf is what to do about a class.
func oneOf(names []string) string {
	if len(names) == 0 {
		return "remove this field"
	}
	return "use one of " + strings.Join(names, ", ")
}

func unknownClass(kind, name string, names []string, at *field.Path) *field.Error {
	if len(names) == 0 {
		return field.Invalid(
			at,
			name,
			fmt.Sprintf("there is no such %s, and no other one: remove this field", kind),
		)
	}
	return field.Invalid(
		at,
		name,
		fmt.Sprintf("there is no such %s: use one of %s", kind, strings.Join(names, ", ")),
	)
}

// named is a pointer to an API object.
type named[T any] interface {
	*T
	GetName() string
}

func listNames[T any, P named[T]](items []T) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = P(&items[i]).GetName()
	}
	slices.Sort(names)
	return names
}

// Cluster is how the webhooks look things up.
type Cluster struct {
	Scheme *runtime.Scheme
	// Cached answers at once and may be a moment behind.
	Cached client.Reader
	// Live asks the API server. It is consulted before anything is refused
	// because it does not exist.
	Live client.Reader
	// Access creates SubjectAccessReviews.
	Access client.Writer
	// Jobs is how many jobs a namespace has, and Size how many bytes they have together as
	// JSON; nil counts none.
	Jobs func(namespace string) int
	Size func(namespace string) int64
	// Trial tries to create components; nil tries nothing.
	Trial  client.Writer
	Mapper meta.RESTMapper
}

// byOperator reports whether a write is that of a controller which an administrator
// installed: an account outside the namespaces of teams, and not of the namespace that
// it writes into.
func (c Cluster) byOperator(ctx context.Context, req admission.Request) (bool, error) {
	home, _, account := strings.Cut(strings.TrimPrefix(req.UserInfo.Username, "system:serviceaccount:"), ":")
	if !account || home == req.Namespace ||
		!strings.HasPrefix(req.UserInfo.Username, "system:serviceaccount:") ||
		slices.Contains(kubeControllers(), req.UserInfo.Username) {
		return false, nil
	}
	team, err := c.teamNamespace(ctx, home)
	return !team, err
}
