package appwrapper

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// ratherWeight is the weight of avoiding a node that may be used.
const ratherWeight = 50

// InjectOptions are what a cluster adds to every component.
type InjectOptions struct {
	// Schedulers say which scheduler the pods have.
	Schedulers jobs.Schedulers
	Avoid      []jobs.Avoidance
}

// Inject returns the object to create for a component of w. infos are what the
// admission adds, in the order of the component's pod sets; none if it adds
// nothing. An error is final: the manifest contradicts itself or the admission.
func Inject(
	w *aw.AppWrapper,
	c Component,
	infos []aw.AppWrapperPodSetInfo,
	o InjectOptions,
) (*unstructured.Unstructured, error) {
	if len(infos) != 0 && len(infos) != len(c.PodSets) {
		return nil, fmt.Errorf("%s has %d pod sets, its podSetInfos are %d", c.Title(), len(c.PodSets), len(infos))
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.template)}
	object.SetNamespace(w.Namespace)
	object.SetName(c.Name)
	object.SetGenerateName("")
	k, _ := kindOf(c.GVK)
	if k.Injected == nil { // otherwise pod templates are there
		unstructured.RemoveNestedField(object.Object, "status")
	}
	labels := object.GetLabels()
	if err := jobs.Merge("label", &labels, map[string]string{aw.AppWrapperLabel: w.Name}); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Title(), err)
	}
	object.SetLabels(labels)
	object.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(w, aw.GroupVersion.WithKind(aw.AppWrapperKind)),
	})
	for _, f := range k.Dropped {
		unstructured.RemoveNestedField(object.Object, f...)
	}
	for i, ps := range c.PodSets {
		var info aw.AppWrapperPodSetInfo
		if len(infos) > 0 {
			info = infos[i]
		}
		at, err := lookup(object.Object, ps.Path)
		if err == nil {
			err = injectPods(at, w.Name, ps, info, o)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, pods at %s: %w", c.Title(), ps.Path, err)
		}
	}
	if k.Injected != nil {
		if err := k.Injected(object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Title(), err)
		}
		unstructured.RemoveNestedField(object.Object, "status")
	}
	return object, nil
}

// injectPods changes the pod template at.
func injectPods(
	at map[string]any,
	wrapper string,
	ps PodSet,
	info aw.AppWrapperPodSetInfo,
	o InjectOptions,
) error {
	t := ps.Template.DeepCopy()
	own := map[string]string{aw.AppWrapperLabel: wrapper, kueue.PodSetLabel: ps.Name}
	for _, m := range []struct {
		what string
		dst  *map[string]string
		add  map[string]string
	}{
		{"label", &t.Labels, own},
		{"label", &t.Labels, info.Labels},
		{"annotation", &t.Annotations, info.Annotations},
		{"nodeSelector", &t.Spec.NodeSelector, info.NodeSelector},
	} {
		if err := jobs.Merge(m.what, m.dst, m.add); err != nil {
			return err
		}
	}
	t.Spec.Tolerations = jobs.Tolerate(t.Spec.Tolerations, info.Tolerations)
	for _, g := range info.SchedulingGates {
		if !slices.ContainsFunc(
			t.Spec.SchedulingGates,
			func(x corev1.PodSchedulingGate) bool { return x.Name == g.Name },
		) {
			t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, g)
		}
	}
	t.Spec.SchedulerName = o.Schedulers.Of(t.Spec.SchedulerName)
	for _, a := range o.Avoid {
		if jobs.Asks(&t.Spec, a.Resource) {
			t.Spec.Affinity = avoid(t.Spec.Affinity, a)
		}
	}
	return write(at, t)
}

// write puts the fields that injection may change back into the object. The
// rest of the object stays exactly as its user wrote it.
func write(at map[string]any, t *corev1.PodTemplateSpec) error {
	changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodSpec{
		NodeSelector:    t.Spec.NodeSelector,
		Tolerations:     t.Spec.Tolerations,
		SchedulingGates: t.Spec.SchedulingGates,
		SchedulerName:   t.Spec.SchedulerName,
		Affinity:        t.Spec.Affinity,
	})
	if err != nil {
		return fmt.Errorf("write the pod template: %w", err)
	}
	delete(changed, "containers") // always written, and not changed
	spec, ok := at["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("it has no spec")
	}
	maps.Copy(spec, changed)
	metadata, ok := at["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		at["metadata"] = metadata
	}
	for name, m := range map[string]map[string]string{"labels": t.Labels, "annotations": t.Annotations} {
		if len(m) == 0 {
			continue
		}
		if err := unstructured.SetNestedStringMap(metadata, m, name); err != nil {
			return fmt.Errorf("write the pod template: %w", err)
		}
	}
	return nil
}

// avoid adds an anti-affinity to nodes. Terms of required affinity are
// alternatives, so the condition goes into each of them.
func avoid(old *corev1.Affinity, a jobs.Avoidance) *corev1.Affinity {
	out := &corev1.Affinity{}
	if old != nil {
		out = old.DeepCopy()
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	n := out.NodeAffinity
	if len(a.Required) > 0 {
		n.RequiredDuringSchedulingIgnoredDuringExecution = never(
			n.RequiredDuringSchedulingIgnoredDuringExecution,
			notIn(a.Label, a.Required),
		)
	}
	if len(a.Preferred) > 0 {
		n.PreferredDuringSchedulingIgnoredDuringExecution = append(
			n.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: ratherWeight, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{notIn(a.Label, a.Preferred)},
			}},
		)
	}
	return out
}

func notIn(label string, values []string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key:      label,
		Operator: corev1.NodeSelectorOpNotIn,
		Values:   slices.Clone(values),
	}
}

func never(s *corev1.NodeSelector, r corev1.NodeSelectorRequirement) *corev1.NodeSelector {
	if s == nil || len(s.NodeSelectorTerms) == 0 {
		return &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{r}}},
		}
	}
	for i := range s.NodeSelectorTerms {
		t := &s.NodeSelectorTerms[i]
		// An empty term matches no node, and must not begin to match some.
		if len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, r)
		}
	}
	return s
}
