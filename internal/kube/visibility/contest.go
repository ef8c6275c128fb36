package visibility

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// contest answers how a workload that waits stands to another one. Whoever may not read that
// one can ask about it by the UID that explanations tell, and does not learn its name.
func (a *asker) contest(ctx context.Context, w *kueue.Workload, other string) (any, error) {
	o, err := a.named(ctx, other)
	if err != nil {
		return nil, err
	}
	key := core.Key{Namespace: w.Namespace, Name: w.Name}
	x, waits, err := a.lines.Compare(key, core.Key{Namespace: o.Namespace, Name: o.Name}, a.clock.Now())
	if err != nil {
		return nil, later(err)
	}
	out := a.answer(w, waits)
	if !waits {
		return out, nil
	}
	if err := a.tell(ctx, out, key, x.Waits); err != nil {
		return nil, err
	}
	c := &v1beta2.Contest{
		Self: a.contestant(ctx, x.Self), Other: a.contestant(ctx, x.Other), Cohort: x.Cohort,
		Order: string(x.Order), OtherFirst: x.OtherFirst, Strict: x.Strict, Spared: string(x.Spared),
	}
	if c.Policy = string(x.Policy); c.Policy != "" {
		c.Field = "spec.preemption.reclaimWithinCohort"
		if x.Order != "" || x.Cohort == "" {
			c.Field = "spec.preemption.withinClusterQueue"
		}
	}
	for _, q := range x.Quotas {
		c.Quotas = append(c.Quotas, v1beta2.ContestQuota{
			ClusterQueue: q.Queue,
			Flavor:       q.Flavor,
			Resource:     q.Resource,
			Nominal: convert.Quantity(
				q.Resource,
				q.Nominal,
			),
			Used:     convert.Quantity(q.Resource, q.Used),
			Borrowed: convert.Quantity(q.Resource, q.Borrowed),
		})
	}
	for _, s := range x.Shares {
		c.Shares = append(
			c.Shares,
			v1beta2.ContestShare{
				Name:   s.Name,
				Cohort: s.IsCohort,
				Weight: s.Weight.String(),
				Now:    s.Now,
				Then:   s.Then,
			},
		)
	}
	if g := x.Gone; g.Tried {
		c.OtherGone = &v1beta2.OtherGone{
			Anyway:   g.Anyway,
			Starts:   g.Starts,
			Awaits:   g.Awaits,
			Preempts: g.Preempts,
			Instead:  g.Instead,
		}
		if g.Why.Code != "" {
			c.OtherGone.Reason, c.OtherGone.Cause, c.OtherGone.Message = string(
				g.Why.Code,
			), string(
				g.Why.Cause,
			), sentence(
				g.Why,
			)
		}
	}
	out.Contest = c
	return out, nil
}

// named is the workload that a question names, by NAMESPACE/NAME if the asker may read it, or
// by its UID.
func (a *asker) named(ctx context.Context, other string) (*kueue.Workload, error) {
	gone := func() error {
		return apierrors.NewNotFound(
			schema.GroupResource{Group: kueue.GroupVersion.Group, Resource: workloads},
			other,
		)
	}
	namespace, name, qualified := strings.Cut(other, "/")
	if !qualified {
		objects, err := a.objects(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range objects { // a UID is that of one
			if o.UID == types.UID(other) {
				return o, nil
			}
		}
		return nil, gone()
	}
	if !a.sees(ctx, namespace) { // whether it is there is not told either
		return nil, apierrors.NewForbidden(
			schema.GroupResource{Group: kueue.GroupVersion.Group, Resource: workloads},
			other,
			fmt.Errorf(
				"you may not read the Workloads of namespace %s; ask by the UID that an explanation tells",
				namespace,
			),
		)
	}
	var o kueue.Workload
	err := a.workloads.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, gone()
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("read the workload: %w", err))
	}
	return &o, nil
}

// contestant is one of both workloads as far as the asker may know it.
func (a *asker) contestant(ctx context.Context, x core.Contestant) v1beta2.Contestant {
	out := v1beta2.Contestant{
		WorkloadReference: a.reference(ctx, x.Key),
		Stage:             string(x.Stage),
		Priority:          shown(x.Priority),
	}
	if x.Queue != "" {
		out.ClusterQueue = x.Queue
	}
	if !x.Time.IsZero() {
		out.QueueTime = new(metav1.NewTime(x.Time))
	}
	if !x.Reserved.IsZero() {
		out.ReservedTime = new(metav1.NewTime(x.Reserved))
	}
	for _, u := range x.Uses {
		out.Uses = append(
			out.Uses,
			v1beta2.FlavorAmount{
				Flavor:   u.Flavor,
				Resource: u.Resource,
				Amount:   convert.Quantity(u.Resource, u.Amount),
			},
		)
	}
	return out
}
