package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// SakkaraGroups reads the ConfigMaps of groups of Sakkara's, and tells them what became of the pods.
type SakkaraGroups struct {
	Client client.Client
	// Live reads from the API server: ConfigMaps are not watched.
	Live client.Reader
}

// List are the ConfigMaps of groups in a namespace.
func (g SakkaraGroups) List(ctx context.Context, namespace string) ([]corev1.ConfigMap, error) {
	var all corev1.ConfigMapList
	if err := g.Live.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.HasLabels{sakkara.GroupLabel},
	); err != nil {
		return nil, fmt.Errorf("list ConfigMaps of groups in namespace %s: %w", namespace, err)
	}
	return all.Items, nil
}

// OneOf is the ConfigMap of a group among some. wrong says why there is none that counts.
func OneOf(all []corev1.ConfigMap, group string) (found *corev1.ConfigMap, wrong string) {
	var of []*corev1.ConfigMap
	for i := range all {
		if all[i].Data["name"] == group {
			of = append(of, &all[i])
		}
	}
	switch len(of) {
	case 0:
		return nil, fmt.Sprintf(
			"there is no ConfigMap with label %s whose key name is %q: create it", sakkara.GroupLabel, group)
	case 1:
		return of[0], ""
	}
	names := make([]string, len(of))
	for i := range of {
		names[i] = of[i].Name
	}
	slices.Sort(names)
	return nil, fmt.Sprintf(
		"ConfigMaps %s have %q for their key name: leave one of them",
		strings.Join(names, " and "),
		group,
	)
}

// Levels are the levels of all Topologies.
func (g SakkaraGroups) Levels(ctx context.Context) (out []string, err error) {
	var all kueue.TopologyList
	if err := g.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list Topologies: %w", err)
	}
	for i := range all.Items {
		for _, l := range all.Items[i].Spec.Levels {
			out = append(out, l.NodeLabel)
		}
	}
	return out, nil
}

// SakkaraOutcome is what became of a group: it was stopped, or where its pods are.
type SakkaraOutcome struct {
	Lost bool
	Pods []sakkara.Placed
	Done time.Time
}

// SakkaraOutcomeOf is false if there is nothing to tell of the pods of a group's Workload, of which so many have to
// have a node.
func SakkaraOutcomeOf(w *kueue.Workload, pods []*corev1.Pod, total int) (is SakkaraOutcome, some bool) {
	if convert.Evicted(w) && w.Status.Admission != nil {
		return SakkaraOutcome{Lost: true}, true
	}
	if !convert.Admitted(w) || convert.Finished(w) {
		return is, false
	}
	for _, p := range pods {
		rank, err := strconv.Atoi(p.Labels[sakkara.RankLabel])
		if err != nil || p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			continue
		}
		is.Pods = append(is.Pods, sakkara.Placed{Pod: p.Name, Node: p.Spec.NodeName, Rank: rank})
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(is.Done) {
				is.Done = c.LastTransitionTime.Time
			}
		}
	}
	return is, len(is.Pods) >= total
}

// Tell writes the outcome of a Workload into the ConfigMap of its group, if there is one. A group that several
// Workloads are of is told of the first that has something to tell, as long as that has quota: false means that it is
// told of another.
func (g SakkaraGroups) Tell(
	ctx context.Context,
	w *kueue.Workload,
	group string,
	is SakkaraOutcome,
) (told bool, err error) {
	all, err := g.List(ctx, w.Namespace)
	if err != nil {
		return false, err
	}
	found, _ := OneOf(all, group)
	if found == nil {
		return true, nil
	}
	if others, err := g.ofOther(ctx, found, w); err != nil || others {
		return false, err
	}
	words, err := g.words(ctx, w, is)
	if err != nil {
		return false, err
	}
	after := found.DeepCopy()
	for _, key := range sakkara.Written() {
		delete(after.Data, key)
	}
	maps.Copy(after.Data, words)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, kueue.ToldOfAnnotation, w.Name)
	if equality.Semantic.DeepEqual(found, after) {
		return true, nil
	}
	lock := client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})
	if err := g.Client.Patch(ctx, after, lock); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("write the outcome of group %s/%s: %w", w.Namespace, group, err)
	}
	return true, nil
}

// ofOther reports whether a ConfigMap is told of another Workload than this one, which has quota and is of the group.
func (g SakkaraGroups) ofOther(ctx context.Context, m *corev1.ConfigMap, w *kueue.Workload) (bool, error) {
	name := m.Annotations[kueue.ToldOfAnnotation]
	if name == "" || name == w.Name {
		return false, nil
	}
	var other kueue.Workload
	err := g.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, &other)
	if err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			err = fmt.Errorf("read workload %s/%s: %w", w.Namespace, name, err)
		}
		return false, err
	}
	of := slices.ContainsFunc(other.Spec.PodSets, func(ps kueue.PodSet) bool {
		return ps.Template.Labels[sakkara.MemberLabel] == m.Data["name"]
	})
	return of && convert.Admitted(&other) && !convert.Evicted(&other) && !convert.Finished(&other), nil
}

// words are what a ConfigMap is told of an outcome.
func (g SakkaraGroups) words(
	ctx context.Context,
	w *kueue.Workload,
	is SakkaraOutcome,
) (map[string]string, error) {
	if is.Lost {
		return sakkara.Lost(), nil
	}
	levels, err := g.levelsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	for i := range is.Pods {
		var n corev1.Node
		key := types.NamespacedName{Name: is.Pods[i].Node}
		if err := g.Client.Get(ctx, key, &n); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read node %s: %w", key.Name, err)
		}
		is.Pods[i].Domains = domains(levels, &n)
	}
	return sakkara.Outcome(is.Pods, convert.Submitted(w), is.Done)
}

// levelsOf are the labels of nodes that say in which domains the pods of a Workload are, the widest first: those of the
// Topology of its flavor or, if that has none, those that it asks for.
func (g SakkaraGroups) levelsOf(ctx context.Context, w *kueue.Workload) (out []string, err error) {
	add := func(label string) {
		if label != "" && label != corev1.LabelHostname && !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	for i := range w.Status.Admission.PodSetAssignments {
		given := w.Status.Admission.PodSetAssignments[i].Flavors
		for _, name := range slices.Sorted(maps.Values(given)) {
			var f kueue.ResourceFlavor
			err := g.Client.Get(ctx, types.NamespacedName{Name: string(name)}, &f)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read flavor %s: %w", name, err)
			}
			if f.Spec.TopologyName == nil {
				continue
			}
			var t kueue.Topology
			key := types.NamespacedName{Name: string(*f.Spec.TopologyName)}
			if err := g.Client.Get(ctx, key, &t); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read topology %s: %w", key.Name, err)
			}
			for _, l := range t.Spec.Levels {
				add(l.NodeLabel)
			}
			return out, nil
		}
	}
	for i := range w.Spec.PodSets {
		notes := w.Spec.PodSets[i].Template.Annotations
		for _, g := range kueue.TopologyGroupsOf(notes) {
			add(g.Level)
		}
		if t := w.Spec.PodSets[i].TopologyRequest; t != nil {
			for _, l := range t.PodsetSliceRequiredTopologyConstraints {
				add(l.Topology)
			}
			add(ptr.Deref(t.Required, ""))
		}
		add(notes[kueue.SpreadTopologyAnnotation])
		add(notes[kueue.PodSetPreferredTopologyAnnotation])
		for _, m := range kueue.MaxPerDomainOf(notes) {
			add(m.Level)
		}
	}
	return out, nil
}

// domains are those of a node, the widest first.
func domains(levels []string, n *corev1.Node) (out []string) {
	for _, l := range levels {
		if name := n.Labels[l]; name != "" {
			out = append(out, name)
		}
	}
	return out
}
