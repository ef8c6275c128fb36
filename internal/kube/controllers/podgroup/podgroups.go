package podgroup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// open reads how many pods of a unit start together, where a PodGroup says it. Once quota
// was reserved, it is for as many as it was reserved for.
func (r *reconciler) open(ctx context.Context, s *facts) error {
	group := s.unit.OfPodGroup()
	if group == "" {
		return nil
	}
	if w := s.workload; w != nil && w.Status.Admission != nil {
		n := int32(0)
		for i := range w.Spec.PodSets {
			n += w.Spec.PodSets[i].Count
		}
		s.unit.AtLeast(n, "")
		return nil
	}
	if group == podmeta.SakkaraGroup {
		return r.openSakkara(ctx, s)
	}
	if r.Composites {
		if stay, err := r.regroup(ctx, s); err != nil || !stay {
			return err
		}
	}
	if group == podmeta.CompositeGroup {
		return r.openComposite(ctx, s)
	}
	kind, known := podmeta.GangKind(group)
	if !known { // somebody changed it
		s.unit.AtLeast(1, fmt.Sprintf("PodGroups of %s are not known", group))
		return nil
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	if apimeta.IsNoMatchError(err) {
		s.unit.AtLeast(1, fmt.Sprintf("this cluster has no PodGroups of %s: create the pods anew", group))
		return nil
	}
	if err != nil {
		return fmt.Errorf("find PodGroups of %s: %w", group, err)
	}
	key := types.NamespacedName{Namespace: s.unit.Pods[0].Namespace, Name: s.unit.Name}
	spec, written, err := r.specOf(ctx, key, mapping.GroupVersionKind, &s.podGroup)
	if apierrors.IsNotFound(err) {
		s.unit.AtLeast(1, fmt.Sprintf("there is no PodGroup %s of %s: create it", key.Name, group))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PodGroup %s: %w", key, err)
	}
	if written {
		s.unit.AtLeast(1, fmt.Sprintf(
			"PodGroup %s was written for other pods, by whose job it is known: make one of another name for these (spec.schedulingGroup)",
			key.Name,
		))
		return nil
	}
	// These may change as long as the pods wait.
	s.unwatched = group == podmeta.KAIGroup ||
		group == podmeta.NativeGroup && !r.watches(mapping.GroupVersionKind)
	var levels []string
	if group == podmeta.KAIGroup { // their words for levels may be short
		if levels, err = r.sakkara().Levels(ctx); err != nil {
			return err
		}
	}
	gang, err := pod.GangOf(group, spec, levels)
	if parent := jobs.Text(spec, "parentCompositePodGroupName"); parent != "" && group == podmeta.NativeGroup &&
		!r.Composites {
		err = composite.NotServed(parent)
	}
	if err != nil {
		s.unit.AtLeast(1, fmt.Sprintf("PodGroup %s: %v", key.Name, err))
		return nil
	}
	s.unit.As(gang)
	return nil
}

// setDomains are labels of nodes of which those of all pods of a pod set have one value, by pod set. A value is "" as long
// as no node is known.
type setDomains map[kueue.PodSetReference]map[string]string

// domainsOf reads in which domains the pods of an admitted Workload have to be.
func (r *reconciler) domainsOf(ctx context.Context, w *kueue.Workload) (setDomains, error) {
	out := setDomains{}
	places := convert.Admission(w.Status.Admission).PodSets
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		in := map[string]string{}
		out[ps.Name] = in
		for _, g := range kueue.TopologyGroupsOf(ps.Template.Annotations) {
			in[g.Level] = ""
		}
		if ps.TopologyRequest != nil && ps.TopologyRequest.Required != nil {
			in[*ps.TopologyRequest.Required] = ""
		}
		at := slices.IndexFunc(places, func(a core.PodSetAdmission) bool { return a.Name == string(ps.Name) })
		if len(in) == 0 || at < 0 {
			continue
		}
		for _, place := range places[at].Places {
			var n corev1.Node
			err := r.Client.Get(ctx, types.NamespacedName{Name: place.Node}, &n, client.UnsafeDisableDeepCopy)
			if client.IgnoreNotFound(err) != nil {
				return out, fmt.Errorf("read node %s: %w", place.Node, err)
			}
			if err == nil {
				for label := range in {
					in[label] = n.Labels[label]
				}
				break
			}
		}
	}
	return out, nil
}

// of are the domains in which a pod has to be that comes on top of those of a Workload: those of the pods like it or, if
// none is, those that all pods have in common that are in the same group within its PodGroup.
func (d setDomains) of(w *kueue.Workload, p *corev1.Pod) map[string]string {
	if in, like := d[pod.Role(p)]; like {
		return in
	}
	var out map[string]string
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		if podmeta.Within(&ps.Template, &ps.Template.Spec) != podmeta.Within(p, &p.Spec) {
			continue
		}
		if out == nil {
			out = maps.Clone(d[ps.Name])
		}
		maps.DeleteFunc(out, func(label, value string) bool {
			own, has := d[ps.Name][label]
			return !has || own != value
		})
	}
	return out
}

// specOf reads the spec of a PodGroup: from the cache where it is watched, and from the API server
// what the cache does not have, or not yet. written says that mlbatch wrote it, for a Workload. What the API server
// answers is kept in live.
func (r *reconciler) specOf(
	ctx context.Context,
	key types.NamespacedName,
	kind schema.GroupVersionKind,
	live *livePodGroup,
) (spec map[string]any, written bool, err error) {
	if r.watches(kind) {
		var g schedulingv1beta1.PodGroup
		err := r.Client.Get(ctx, key, &g)
		if err == nil {
			spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&g.Spec)
			return spec, admission.OfWorkload(&g) != "", err
		}
		if !apierrors.IsNotFound(err) {
			return nil, false, err
		}
	}
	o, err := live.read(ctx, r.Live, key, kind)
	if err != nil {
		return nil, false, err
	}
	spec, _, _ = unstructured.NestedMap(o.Object, "spec")
	return spec, admission.OfWorkload(o) != "", nil
}

// livePodGroup is what the API server says of the PodGroup of a unit, which is asked once in a look.
type livePodGroup struct {
	asked bool
	is    *unstructured.Unstructured
	err   error
}

// read asks the API server, if that was not done. Do not change what it returns.
func (l *livePodGroup) read(
	ctx context.Context,
	live client.Reader,
	key types.NamespacedName,
	kind schema.GroupVersionKind,
) (*unstructured.Unstructured, error) {
	if !l.asked {
		l.asked, l.is = true, &unstructured.Unstructured{}
		l.is.SetGroupVersionKind(kind)
		l.err = live.Get(ctx, key, l.is)
	}
	return l.is, l.err
}

// watches reports whether PodGroups of a kind are watched.
func (r *reconciler) watches(kind schema.GroupVersionKind) bool {
	return r.Native && kind.GroupVersion() == schedulingv1beta1.SchemeGroupVersion
}

// Unqueued says why the pods of a unit have no Workload; "" if they should have one soon, or each by itself.
func (o Options) Unqueued(ctx context.Context, unit types.NamespacedName) (string, error) {
	r := &reconciler{Options: o}
	pods, err := r.podsOf(ctx, unit)
	if err != nil {
		return "", err
	}
	s := facts{unit: pod.NewUnit(pods, nil)}
	if s.unit.OfPodGroup() == "" {
		return "", nil
	}
	if err := r.open(ctx, &s); err != nil {
		return "", err
	}
	switch {
	case len(s.move) > 0:
		return "", nil
	case s.unit.Wrong != "":
		return s.unit.Wrong, nil
	case !s.unit.Single && s.unit.Missing() > 0:
		return fmt.Sprintf("It waits until all of its %d pods are created", s.unit.Total), nil
	}
	return "", nil
}

// ofNativeGroup leads from a PodGroup of Kubernetes to the unit of the pods that name it, and to that of the
// CompositePodGroup with which these start.
func (r *reconciler) ofNativeGroup(ctx context.Context, o client.Object) []reconcile.Request {
	out := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	if g, is := o.(*schedulingv1beta1.PodGroup); is && r.Composites && composite.ParentOf(g) != "" {
		out = append(out, gangsOf(ctx, r.Client, g)...)
	}
	return out
}

// respecified lets through PodGroups, and CompositePodGroups, that come, go or say something else.
func respecified() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		switch was := e.ObjectOld.(type) {
		case *schedulingv1beta1.PodGroup:
			now, is := e.ObjectNew.(*schedulingv1beta1.PodGroup)
			return is && !equality.Semantic.DeepEqual(was.Spec, now.Spec)
		case *schedulingv1alpha3.CompositePodGroup:
			now, is := e.ObjectNew.(*schedulingv1alpha3.CompositePodGroup)
			return is && !equality.Semantic.DeepEqual(was.Spec, now.Spec)
		}
		return false
	}}
}
