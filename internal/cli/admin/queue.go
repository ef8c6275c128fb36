package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// NewQueue is a ClusterQueue that is to be made.
type NewQueue struct {
	Name     string
	Quotas   Quotas
	Cohort   string
	Strategy string
	// Reclaim, Within and Borrow are the preemption policies.
	Reclaim, Within, Borrow string
	// Namespaces are labels of the namespaces that may use it; all may if there are none.
	Namespaces map[string]string
	Weight     *resource.Quantity
}

// Object is the ClusterQueue. Errors name the field, as the webhook does.
func (n NewQueue) Object() (*kueue.ClusterQueue, error) {
	groups, err := n.Quotas.Groups()
	if err != nil {
		return nil, err
	}
	q := newQueue(n.Name)
	q.Spec = kueue.ClusterQueueSpec{
		ResourceGroups:    groups,
		CohortName:        kueue.CohortReference(n.Cohort),
		QueueingStrategy:  kueue.QueueingStrategy(n.Strategy),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: n.Namespaces},
		Preemption: &kueue.ClusterQueuePreemption{
			ReclaimWithinCohort: kueue.PreemptionPolicy(
				n.Reclaim,
			),
			WithinClusterQueue: kueue.PreemptionPolicy(n.Within),
			BorrowWithinCohort: &kueue.BorrowWithinCohort{Policy: kueue.BorrowWithinCohortPolicy(n.Borrow)},
		},
	}
	if n.Weight != nil {
		q.Spec.FairSharing = &kueue.FairSharing{Weight: n.Weight}
	}
	if errs := kueue.ValidateClusterQueue(q); len(errs) > 0 {
		return nil, errs.ToAggregate() //nolint:wrapcheck // it names the field
	}
	return q, nil
}

// LocalQueue is a LocalQueue that leads to a ClusterQueue.
func LocalQueue(namespace, name, queue string) (*kueue.LocalQueue, error) {
	q := newLocalQueue(namespace, name, queue)
	if errs := kueue.ValidateLocalQueue(q); len(errs) > 0 {
		return nil, errs.ToAggregate() //nolint:wrapcheck // it names the field
	}
	return q, nil
}

// Hints are what will keep a new ClusterQueue from doing what is expected of it.
func (h Hardware) Hints(q *kueue.ClusterQueue) []string {
	var out []string
	for _, g := range q.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			if !slices.ContainsFunc(h.Flavors, func(o kueue.ResourceFlavor) bool { return o.Name == string(f.Name) }) {
				out = append(
					out,
					fmt.Sprintf(
						"there is no flavor %s: the queue admits nothing before there is: mlbatch flavor create %s",
						f.Name,
						f.Name,
					),
				)
			}
		}
	}
	if len(q.Spec.ResourceGroups) == 0 {
		out = append(
			out,
			fmt.Sprintf(
				"it has no quota: mlbatch queue edit %s --quota RESOURCE=AMOUNT --flavor NAME gives it some",
				q.Name,
			),
		)
	}
	if p := q.Spec.Preemption; q.Spec.CohortName != "" &&
		(p == nil || p.ReclaimWithinCohort == "" || p.ReclaimWithinCohort == kueue.PreemptionPolicyNever) {
		out = append(
			out,
			fmt.Sprintf(
				"what it lends it gets back only when jobs of others end: mlbatch queue edit %s --reclaim-within-cohort Any takes it back",
				q.Name,
			),
		)
	}
	return append(out, h.Overbooked(*q)...)
}

// Queue is a ClusterQueue or, in a namespace, a LocalQueue.
type Queue struct {
	object    client.Object
	policy    *kueue.StopPolicy
	Running   int
	Waiting   int
	Reserving int
}

// FindQueue reads a ClusterQueue or, in a namespace, a LocalQueue.
func FindQueue(ctx context.Context, c client.Reader, namespace, name string) (*Queue, error) {
	if namespace != "" {
		var q kueue.LocalQueue
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &q); err != nil {
			return nil, notThere(err, "LocalQueue", namespace+"/"+name, "mlbatch queue -n "+namespace)
		}
		q.SetGroupVersionKind(kueue.GroupVersion.WithKind("LocalQueue"))
		return &Queue{
			&q,
			q.Spec.StopPolicy,
			int(q.Status.AdmittedWorkloads),
			int(q.Status.PendingWorkloads),
			int(q.Status.ReservingWorkloads),
		}, nil
	}
	q, err := ClusterQueue(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return &Queue{
		q,
		q.Spec.StopPolicy,
		int(q.Status.AdmittedWorkloads),
		int(q.Status.PendingWorkloads),
		int(q.Status.ReservingWorkloads),
	}, nil
}

// ClusterQueue reads one.
func ClusterQueue(ctx context.Context, c client.Reader, name string) (*kueue.ClusterQueue, error) {
	var q kueue.ClusterQueue
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &q); err != nil {
		return nil, notThere(err, "ClusterQueue", name, "mlbatch queue")
	}
	q.SetGroupVersionKind(kueue.GroupVersion.WithKind("ClusterQueue"))
	return &q, nil
}

// notThere says of an object that cannot be read how to find one that can.
func notThere(err error, kind, name, lists string) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s %s: %s lists those that there are", kind, name, lists)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not read %s %s: %w", kind, name, err)
	}
	return fmt.Errorf("read %s %s: %w", kind, name, err)
}

// Name is that of the queue as kubectl has it.
func (q *Queue) Name() string { return Name(q.object) }

// Policy is its stop policy.
func (q *Queue) Policy() kueue.StopPolicy {
	if q.policy == nil {
		return kueue.StopPolicyNone
	}
	return *q.policy
}

// Set changes the stop policy.
func (q *Queue) Set(ctx context.Context, c client.Client, p kueue.StopPolicy) error {
	return patchStop(ctx, c, q.object, p)
}

// Delete removes the queue.
func (q *Queue) Delete(ctx context.Context, c client.Client) error {
	if err := c.Delete(ctx, q.object); err != nil {
		return fmt.Errorf("delete %s: %w", q.Name(), err)
	}
	return nil
}

func patchStop(ctx context.Context, c client.Client, q client.Object, p kueue.StopPolicy) error {
	patch := fmt.Sprintf(`{"spec":{"stopPolicy":%q}}`, p)
	if err := c.Patch(ctx, q, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("set the stop policy of %s: %w", q.GetName(), err)
	}
	return nil
}

// finished reports whether the job of a Workload has ended.
func finished(w *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished)
}

// Leading are the LocalQueues that lead to a ClusterQueue, as NAMESPACE/NAME.
func Leading(ctx context.Context, c client.Reader, queue string) ([]string, error) {
	var list kueue.LocalQueueList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	var out []string
	for i := range list.Items {
		if l := &list.Items[i]; string(l.Spec.ClusterQueue) == queue {
			out = append(out, l.Namespace+"/"+l.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// SetActive stops a Workload, or lets it be queued again.
func SetActive(ctx context.Context, c client.Client, namespace, name string, active bool) error {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := fmt.Sprintf(`{"spec":{"active":%t}}`, active)
	err := c.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil {
		return notThere(err, "Workload", namespace+"/"+name, "mlbatch list workload -n "+namespace)
	}
	return nil
}

// ParseLabels reads KEY=VALUE pairs.
func ParseLabels(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		key, value, has := strings.Cut(text, "=")
		if !has || key == "" {
			return nil, fmt.Errorf("--%s %s: write KEY=VALUE", flag, text)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("--%s: %s is said twice", flag, key)
		}
		out[key] = value
	}
	return out, nil
}
