package podgroup

import (
	"context"
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// regroup finds pods that wait in a unit and start with others: their PodGroup came after them, or a CompositePodGroup
// around it did, or it was made anew. It returns whether the unit may be read on: otherwise some have to move first, or
// what is wrong with a PodGroup keeps all waiting.
func (r *reconciler) regroup(ctx context.Context, s *facts) (bool, error) {
	found := map[string]composite.Group{}
	for _, p := range s.held() {
		kind, name := p.Annotations[podmeta.PodGroupKindAnnotation], podmeta.NativeName(&p.Spec)
		if name == "" || kind != podmeta.NativeGroup && kind != podmeta.CompositeGroup {
			continue
		}
		of, known := found[name]
		if !known {
			var err error
			of, err = r.groupOf(ctx, types.NamespacedName{Namespace: p.Namespace, Name: name})
			if f := composite.AsFault(err); f != nil {
				s.unit.AtLeast(1, f.Why)
				s.move = nil
				return false, nil //nolint:nilerr // it is told to those who wait
			}
			if err != nil {
				return false, err
			}
			found[name] = of
		}
		if of.Kind != kind || of.Name != s.unit.Name {
			s.move = append(s.move, pod.Join(p, of.Kind, of.Name))
		}
	}
	if len(s.move) > 0 {
		s.unit.AtLeast(1, "some of the pods start with others")
	}
	return len(s.move) == 0, nil
}

// groupOf is the group of pods that those of a PodGroup are in. What the cache does not have, or not yet, is asked of the
// API server.
func (r *reconciler) groupOf(ctx context.Context, key types.NamespacedName) (composite.Group, error) {
	var g schedulingv1beta1.PodGroup
	err := r.Client.Get(ctx, key, &g, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &g)
	}
	if apierrors.IsNotFound(err) {
		return composite.Group{}, &composite.FaultError{
			Why: fmt.Sprintf("there is no PodGroup %s of %s: create it", key.Name, podmeta.NativeGroup),
		}
	}
	if err != nil {
		return composite.Group{}, fmt.Errorf("read PodGroup %s: %w", key, err)
	}
	return composite.GroupOf(ctx, r.Client, &g)
}

// openComposite reads how many pods of a unit start together, where a CompositePodGroup says it.
func (r *reconciler) openComposite(ctx context.Context, s *facts) error {
	key := types.NamespacedName{Namespace: s.unit.Pods[0].Namespace, Name: s.unit.Name}
	if !r.Composites {
		s.unit.AtLeast(1, "CompositePodGroups are not served any more: create the pods anew")
		return nil
	}
	var o schedulingv1alpha3.CompositePodGroup
	err := r.Client.Get(ctx, key, &o, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		s.unit.AtLeast(1, fmt.Sprintf("there is no CompositePodGroup %s: create it", key.Name))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read CompositePodGroup %s: %w", key, err)
	}
	whole, err := r.partsOf(ctx, &o, new(pod.MostGroups))
	if err == nil {
		var gang pod.Gang
		if gang, err = pod.GangOfComposite(&whole); err == nil {
			s.unit.As(gang)
			return nil
		}
		s.unit.AtLeast(1, err.Error())
		return nil
	}
	if f := composite.AsFault(err); f != nil {
		s.unit.AtLeast(1, f.Why)
		return nil //nolint:nilerr // so is this
	}
	return err
}

// partsOf reads all that a CompositePodGroup consists of, and no more of it than left: what has more is not read on.
func (r *reconciler) partsOf(
	ctx context.Context,
	o *schedulingv1alpha3.CompositePodGroup,
	left *int,
) (pod.Composite, error) {
	out := pod.Composite{Name: o.Name, Spec: o.Spec}
	// Those that are too deep, whose pods are in no group, would be read down to the end.
	if _, err := composite.Around(ctx, r.Client, o); err != nil {
		return out, err
	}
	parts, err := composite.PartsOf(ctx, r.Client, o.Namespace, o.Name)
	if err != nil {
		return out, err
	}
	room := max(*left, 0) + 1 // one more shows that there are too many
	*left -= len(parts.Groups) + len(parts.Composites)
	for i := range parts.Groups[:min(len(parts.Groups), room)] {
		g := &parts.Groups[i]
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&g.Spec)
		if err != nil {
			return out, fmt.Errorf("read PodGroup %s/%s: %w", g.Namespace, g.Name, err)
		}
		is := pod.NativePodGroup{Name: g.Name, Spec: spec}
		if ref := g.Spec.WorkloadRef; ref != nil {
			is.Workload = ref.WorkloadName
		}
		out.Groups = append(out.Groups, is)
	}
	for i := range parts.Composites[:min(len(parts.Composites), room)] {
		inner := pod.Composite{Name: parts.Composites[i].Name, Spec: parts.Composites[i].Spec}
		if *left >= 0 {
			if inner, err = r.partsOf(ctx, &parts.Composites[i], left); err != nil {
				return out, err
			}
		}
		out.Composites = append(out.Composites, inner)
	}
	return out, nil
}

// ofComposite leads from a CompositePodGroup to the units that it has a say in: that of its name, that of the one around
// it with which it starts, and those of its PodGroups, whose pods may have waited for it.
func (r *reconciler) ofComposite(ctx context.Context, o client.Object) []reconcile.Request {
	g, is := o.(*schedulingv1alpha3.CompositePodGroup)
	if !is {
		return nil
	}
	out := append([]reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(g)}},
		gangsOf(ctx, r.Client, g)...)
	groups, composites, err := composite.Below(ctx, r.Client, g.Namespace, g.Name)
	if err != nil {
		return out // the cache was filled before anything is watched
	}
	for _, names := range [][]string{groups, composites} {
		for _, name := range names {
			out = append(out, reconcile.Request{
				NamespacedName: types.NamespacedName{Namespace: g.Namespace, Name: name},
			})
		}
	}
	return out
}

// gangsOf leads to the units of all CompositePodGroups around an object, as far as they are there.
func gangsOf(ctx context.Context, c client.Reader, o client.Object) []reconcile.Request {
	around, _ := composite.Around(ctx, c, o) // what is wrong with them is told to their pods
	var out []reconcile.Request
	for _, g := range around {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(g)})
	}
	return out
}
