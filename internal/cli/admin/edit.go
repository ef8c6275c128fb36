package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// QueueEdit are the values of a ClusterQueue that are to change; nil ones stay.
type QueueEdit struct {
	Quotas   Quotas
	Cohort   *string
	Strategy *string
	// Reclaim, Within and Borrow are the preemption policies.
	Reclaim, Within, Borrow *string
	Weight                  *resource.Quantity
}

// FieldChange is a value that changes.
type FieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// String is the change in a line.
func (c FieldChange) String() string { return fmt.Sprintf("%s: %s -> %s", c.Field, c.Before, c.After) }

// changes collects them.
type changes []FieldChange

// set notes a change, if it is one.
func (c *changes) set(field, before, after string) bool {
	if before == after {
		return false
	}
	*c = append(*c, FieldChange{field, cmp.Or(before, none), cmp.Or(after, none)})
	return true
}

// Apply is a ClusterQueue with what changes, and the changes in order.
func (e QueueEdit) Apply(is *kueue.ClusterQueue) (*kueue.ClusterQueue, []FieldChange, error) {
	out := is.DeepCopy()
	var done changes
	if e.Cohort != nil && done.set("cohort", string(out.Spec.CohortName), *e.Cohort) {
		out.Spec.CohortName = kueue.CohortReference(*e.Cohort)
	}
	if e.Strategy != nil && done.set("queueing strategy", string(out.Spec.QueueingStrategy), *e.Strategy) {
		out.Spec.QueueingStrategy = kueue.QueueingStrategy(*e.Strategy)
	}
	e.preemption(out, &done)
	if e.Weight != nil {
		before := "1"
		if f := is.Spec.FairSharing; f != nil && f.Weight != nil {
			before = f.Weight.String()
		}
		if done.set("weight in fair sharing", before, e.Weight.String()) {
			out.Spec.FairSharing = &kueue.FairSharing{Weight: e.Weight}
		}
	}
	if err := e.quotas(out, &done); err != nil {
		return nil, nil, err
	}
	if errs := kueue.ValidateClusterQueueUpdate(is, out); len(errs) > 0 {
		return nil, nil, errs.ToAggregate() //nolint:wrapcheck // it names the field
	}
	return out, done, nil
}

func (e QueueEdit) preemption(out *kueue.ClusterQueue, done *changes) {
	p := out.Spec.Preemption.DeepCopy()
	if p == nil {
		p = &kueue.ClusterQueuePreemption{}
	}
	if p.BorrowWithinCohort == nil {
		p.BorrowWithinCohort = &kueue.BorrowWithinCohort{}
	}
	n := len(*done)
	if e.Reclaim != nil && done.set("reclaim within cohort", orNever(p.ReclaimWithinCohort), *e.Reclaim) {
		p.ReclaimWithinCohort = kueue.PreemptionPolicy(*e.Reclaim)
	}
	if e.Within != nil && done.set("preemption within queue", orNever(p.WithinClusterQueue), *e.Within) {
		p.WithinClusterQueue = kueue.PreemptionPolicy(*e.Within)
	}
	if e.Borrow != nil &&
		done.set("preemption while borrowing", orNever(p.BorrowWithinCohort.Policy), *e.Borrow) {
		p.BorrowWithinCohort.Policy = kueue.BorrowWithinCohortPolicy(*e.Borrow)
	}
	if len(*done) > n {
		out.Spec.Preemption = p
	}
}

// orNever is what a policy that is not said means.
func orNever[T ~string](p T) string { return cmp.Or(string(p), "Never") }

// quotas changes quotas and limits.
func (e QueueEdit) quotas(out *kueue.ClusterQueue, done *changes) error {
	for _, x := range []struct {
		what     string
		settings []Setting
		get      func(*kueue.ResourceQuota) *resource.Quantity
		set      func(*kueue.ResourceQuota, *resource.Quantity)
	}{
		{
			"quota", e.Quotas.Nominal, func(r *kueue.ResourceQuota) *resource.Quantity { return &r.NominalQuota },
			func(r *kueue.ResourceQuota, a *resource.Quantity) { r.NominalQuota = *a },
		},
		{
			"borrowing limit", e.Quotas.Borrowing, func(r *kueue.ResourceQuota) *resource.Quantity { return r.BorrowingLimit },
			func(r *kueue.ResourceQuota, a *resource.Quantity) { r.BorrowingLimit = a },
		},
		{
			"lending limit", e.Quotas.Lending, func(r *kueue.ResourceQuota) *resource.Quantity { return r.LendingLimit },
			func(r *kueue.ResourceQuota, a *resource.Quantity) { r.LendingLimit = a },
		},
	} {
		for _, s := range x.settings {
			flavor, err := flavorOf(out, s)
			if err != nil {
				return err
			}
			field := fmt.Sprintf("%s of %s in flavor %s", x.what, s.Resource, flavor)
			r := find(out, flavor, s.Resource)
			if r == nil {
				if x.what != "quota" {
					return fmt.Errorf(
						"%s has no quota of %s in flavor %s that could be bounded",
						out.Name,
						s.Resource,
						flavor,
					)
				}
				if err := cover(out, flavor, s); err != nil {
					return err
				}
				done.set(field, "not there", text(s.Amount))
				continue
			}
			if !same(s.Resource, x.get(r), s.Amount) {
				done.set(field, text(x.get(r)), text(s.Amount))
				x.set(r, s.Amount)
			}
		}
	}
	return nil
}

// flavorOf is the flavor that an amount is of: the one that was said, or the only one that has
// the resource, or the only one that there is.
func flavorOf(q *kueue.ClusterQueue, s Setting) (string, error) {
	if s.Flavor != "" {
		return s.Flavor, nil
	}
	var all, having []string
	for _, f := range view.Flavors(q) {
		all = append(all, f.Flavor)
		if slices.ContainsFunc(f.Quotas, func(own core.Quota) bool { return own.Resource == string(s.Resource) }) {
			having = append(having, f.Flavor)
		}
	}
	switch {
	case len(having) == 1:
		return having[0], nil
	case len(having) == 0 && len(all) == 1:
		return all[0], nil
	}
	if len(having) == 0 {
		having = all
	}
	if len(having) == 0 {
		return "", fmt.Errorf("%s has no flavors yet: say of which one %s is, with --flavor", q.Name, s.Resource)
	}
	return "", fmt.Errorf(
		"%s has several flavors: say of which one %s is, with --flavor %s",
		q.Name,
		s.Resource,
		strings.Join(having, " or "),
	)
}

// cover gives a queue a quota of a resource that it had none of. That is possible where its
// group has one flavor: a resource that a group has, all flavors of the group have.
func cover(q *kueue.ClusterQueue, flavor string, s Setting) error {
	added := kueue.ResourceQuota{Name: s.Resource, NominalQuota: *s.Amount}
	for i := range q.Spec.ResourceGroups {
		g := &q.Spec.ResourceGroups[i]
		if !slices.ContainsFunc(g.Flavors, func(f kueue.FlavorQuotas) bool { return string(f.Name) == flavor }) {
			continue
		}
		if len(g.Flavors) > 1 {
			return fmt.Errorf(
				"flavor %s of %s is in a group with others, which all need a quota of %s: kubectl edit clusterqueue %s",
				flavor,
				q.Name,
				s.Resource,
				q.Name,
			)
		}
		g.CoveredResources = append(g.CoveredResources, s.Resource)
		g.Flavors[0].Resources = append(g.Flavors[0].Resources, added)
		return nil
	}
	// A flavor that the queue did not have.
	for i := range q.Spec.ResourceGroups {
		if slices.Contains(q.Spec.ResourceGroups[i].CoveredResources, s.Resource) {
			g := &q.Spec.ResourceGroups[i]
			if len(g.CoveredResources) > 1 {
				return fmt.Errorf(
					"flavor %s is none of %s: a new flavor needs quotas of all of %s: kubectl edit clusterqueue %s",
					flavor,
					q.Name,
					list(g.CoveredResources),
					q.Name,
				)
			}
			g.Flavors = append(
				g.Flavors,
				kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(flavor), Resources: []kueue.ResourceQuota{added}},
			)
			return nil
		}
	}
	q.Spec.ResourceGroups = append(q.Spec.ResourceGroups, kueue.ResourceGroup{
		CoveredResources: []corev1.ResourceName{s.Resource},
		Flavors: []kueue.FlavorQuotas{
			{Name: kueue.ResourceFlavorReference(flavor), Resources: []kueue.ResourceQuota{added}},
		},
	})
	return nil
}

func list(names []corev1.ResourceName) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return strings.Join(out, ", ")
}

// Consequences says what a changed queue means for the jobs that run in it, as its status tells
// what they have. Nothing is stopped by a lower quota itself; what is beyond it is borrowed, and
// others may take it back.
func Consequences(is, will *kueue.ClusterQueue, all []kueue.ClusterQueue) []string {
	load := view.LoadOf(is.Status)
	var out []string
	for _, f := range view.Flavors(will) {
		for _, own := range f.Quotas {
			used := load.Reserved[core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}]
			before := find(is, f.Flavor, corev1.ResourceName(own.Resource))
			over := used.Sub(own.Nominal)
			wasOver := core.Amount(0)
			if before != nil {
				wasOver = max(0, used.Sub(convert.Amount(before.Name, before.NominalQuota)))
			}
			told := view.Amounts(
				own.Resource,
				view.AmountText(own.Resource, used),
				view.AmountText(own.Resource, over),
			)
			switch {
			case over <= 0 || over <= wasOver && is.Spec.CohortName == will.Spec.CohortName && is.Spec.CohortName != "":
			case will.Spec.CohortName == "":
				out = append(
					out,
					fmt.Sprintf(
						"%s of %s in use are %s more than the quota: nothing is stopped, and nothing more starts before so much has ended",
						told[0],
						own.Resource,
						told[1],
					),
				)
			default:
				out = append(out, fmt.Sprintf("%s of %s in use are %s more than the quota: nothing is stopped now, %s",
					told[0], own.Resource, told[1], reclaimers(will, all, f.Flavor, own.Resource)))
			}
		}
	}
	return out
}

// reclaimers says who may take back what a queue borrows.
func reclaimers(q *kueue.ClusterQueue, all []kueue.ClusterQueue, flavor, of string) string {
	var who []string
	for i := range all {
		o := &all[i]
		p := o.Spec.Preemption
		if o.Name == q.Name || o.Spec.CohortName != q.Spec.CohortName || p == nil || p.ReclaimWithinCohort == "" ||
			p.ReclaimWithinCohort == kueue.PreemptionPolicyNever {
			continue
		}
		if r := find(o, flavor, corev1.ResourceName(of)); r != nil && r.NominalQuota.Sign() > 0 {
			who = append(who, o.Name)
		}
	}
	slices.Sort(who)
	const most = 4
	if len(who) > most {
		who = append(who[:most], fmt.Sprintf("%d more", len(who)-most))
	}
	if len(who) == 0 {
		return "and no other queue of cohort " + string(q.Spec.CohortName) + " may take it back"
	}
	return "but jobs of " + strings.Join(who, ", ") + " may take it back, and evict for it"
}

// Empty reports whether nothing is to change.
func (e QueueEdit) Empty() bool {
	return e.Quotas.Empty() && e.Cohort == nil && e.Strategy == nil && e.Reclaim == nil && e.Within == nil &&
		e.Borrow == nil &&
		e.Weight == nil
}

// errChanged is the refusal of a change that would not be the one that was shown.
var errChanged = errors.New(
	"somebody has changed it since it was read: run the command again to see what it changes now",
)

// UpdateShown changes the spec of a ClusterQueue from what it is to what it will be, as people were
// shown. Its status and labels may have been written meanwhile, as happens all the time in a busy
// queue; another spec is left alone, and the error says so.
func UpdateShown(ctx context.Context, c client.Client, is, will *kueue.ClusterQueue) error {
	now := will
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := c.Update(ctx, now)
		if !apierrors.IsConflict(err) {
			return err
		}
		conflict := err
		now = &kueue.ClusterQueue{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(is), now); err != nil {
			return err
		}
		if now.Generation != is.Generation || now.UID != is.UID {
			return errChanged
		}
		now.Spec = will.Spec
		return conflict
	})
}
