package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// children reads the members of a job that are no pods.
func (r *reconciler) children(
	ctx context.Context,
	l *look,
	from client.Reader,
	mine []client.ListOption,
) error {
	for i := range r.kind.Running.Operated.Children {
		kind := &r.kind.Running.Operated.Children[i]
		gvk := kind.GVK
		gvk.Kind += "List"
		made, err := r.Client.Scheme().New(gvk)
		list, is := made.(client.ObjectList)
		if err != nil || !is {
			return fmt.Errorf("list %s: %w", kind.GVK.Kind, err)
		}
		if err := from.List(ctx, list, mine...); err != nil {
			return fmt.Errorf("list %s: %w", kind.GVK.Kind, err)
		}
		_ = apimeta.EachListItem(list, func(o runtime.Object) error { // what it is given returns no error
			if c, is := o.(jobs.Object); is && metav1.IsControlledBy(c, l.job) {
				l.members = append(l.members, member{c, kind})
				l.seen = append(l.seen, l.plan.SeeChild(kind, c))
			}
			return nil
		})
	}
	return nil
}

// hold holds members back.
func (r *reconciler) hold(ctx context.Context, l *look, s *podplan.Actions) error {
	return admission.InParallel(len(s.Hold), func(i int) error {
		m := l.members[s.Hold[i]]
		o, is := m.Object.(jobs.Object)
		if !is || m.kind == nil || m.kind.Hold == nil {
			return fmt.Errorf("%s %s cannot be held back", m.called(), m.GetName())
		}
		return r.Client.Update(ctx, m.kind.Hold(o))
	})
}

// release lets members run that were held back, and changes running ones as far as their
// kind allows. A write fails if the object is not as it was seen.
func (r *reconciler) release(ctx context.Context, l *look, s *podplan.Actions) error {
	held := make(map[int]bool, len(s.Release))
	for _, i := range s.Release {
		held[i] = true
	}
	var changed []member
	for i, m := range l.members {
		next, err := r.next(l, i, held[i], &s.Memory)
		if err != nil {
			return err
		}
		if next != nil && !equality.Semantic.DeepEqual(m.Object, next) {
			changed = append(changed, member{next, m.kind})
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if same, err := r.same(ctx, l.job); err != nil || !same {
		return err
	}
	return admission.InParallel(
		len(changed),
		func(i int) error { return r.Client.Update(ctx, changed[i].Object) },
	)
}

// next is a child as it is to be; nil is as it is.
func (r *reconciler) next(l *look, i int, held bool, m *podplan.Memory) (jobs.Object, error) {
	c, seen := l.members[i], &l.seen[i]
	is, _ := c.Object.(jobs.Object)
	change := func(k *jobs.ChildKind) func(is, wanted jobs.Object) jobs.Object { return k.Adjust }
	switch {
	case c.kind == nil || is == nil || seen.Role == "" || seen.Leaving || seen.Attempt < m.Attempt || seen.Life >= podplan.Succeeded:
		return nil, nil //nolint:nilnil // it stays
	case held:
		change = func(k *jobs.ChildKind) func(is, wanted jobs.Object) jobs.Object { return k.Release }
	case seen.Held:
		return nil, nil //nolint:nilnil // it is not its turn
	}
	to := change(c.kind)
	if to == nil {
		return nil, nil //nolint:nilnil // it stays as it was made
	}
	wanted, err := r.made(l, seen.Member, m)
	if err != nil {
		return nil, err
	}
	as, _ := wanted.Object.(jobs.Object)
	return to(is, as), nil
}
