package podgroup

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// openSakkara reads of a group of Sakkara's how many pods it has, and how near to each other they have to be.
func (r *reconciler) openSakkara(ctx context.Context, s *facts) error {
	first := s.unit.First()
	for _, p := range s.unit.Pods {
		if name := p.Labels[sakkara.MemberLabel]; sakkara.GroupName(name) != s.unit.Name {
			s.unit.AtLeast(
				1,
				fmt.Sprintf("pod %s is of group %q by its label %s, and was made as one of group %s: create it anew",
					p.Name, name, sakkara.MemberLabel, s.unit.Name),
			)
			return nil
		}
	}
	found, wrong, err := r.groupMap(ctx, first.Namespace, first.Labels[sakkara.MemberLabel])
	if err != nil || wrong != "" {
		s.unit.AtLeast(1, wrong)
		return err
	}
	known, err := r.knownLevels(ctx)
	if err != nil {
		return err
	}
	g, err := sakkara.ReadGroup(found.Data)
	if err == nil {
		s.unit.Near, err = g.Near(known)
	}
	if err != nil {
		s.unit.AtLeast(1, fmt.Sprintf("ConfigMap %s: %v", found.Name, err))
		return nil
	}
	s.unit.AtLeast(g.Size, notWith(&g, s))
	return nil
}

// knownLevels are the levels of all Topologies.
func (r *reconciler) knownLevels(ctx context.Context) (out []string, err error) {
	var all kueue.TopologyList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list Topologies: %w", err)
	}
	for i := range all.Items {
		for _, l := range all.Items[i].Spec.Levels {
			out = append(out, l.NodeLabel)
		}
	}
	return out, nil
}

// notWith says what the pods of a group say that does not go with its constraints; "" if all does.
func notWith(g *sakkara.Group, s *facts) string {
	roles := map[string]bool{}
	for _, p := range s.held() {
		roles[p.Annotations[kueue.RoleHashAnnotation]] = true
		for _, key := range append(kueue.NearAnnotations(), kueue.KAIAnnotations()...) {
			if p.Annotations[key] != "" && len(s.unit.Near) > 0 && !slices.Contains(nests(), key) {
				return fmt.Sprintf(
					"pod %s says by annotation %s how near its group has to be, and the ConfigMap of the group does by constraints: leave one of them out",
					p.Name,
					key,
				)
			}
		}
	}
	if key := g.Alike(); key != "" && len(roles) > 1 {
		return fmt.Sprintf(
			"%s counts pods that ask for the same, and those of the group differ: give all the same requests, selectors and tolerations",
			key,
		)
	}
	return ""
}

// nests are the annotations of pods that hold within what the constraints of their group say.
func nests() []string {
	return []string{kueue.PodSetRequiredTopologyAnnotation, kueue.TopologyGroupsAnnotation}
}

// groupMap finds the ConfigMap of a group of a namespace. wrong says why there is none that counts.
func (r *reconciler) groupMap(
	ctx context.Context,
	namespace, group string,
) (found *corev1.ConfigMap, wrong string, err error) {
	var all corev1.ConfigMapList
	if err := r.Live.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.HasLabels{sakkara.GroupLabel},
	); err != nil {
		return nil, "", fmt.Errorf("list ConfigMaps of groups in namespace %s: %w", namespace, err)
	}
	of := slices.DeleteFunc(all.Items, func(m corev1.ConfigMap) bool { return m.Data["name"] != group })
	switch len(of) {
	case 0:
		return nil, fmt.Sprintf(
			"there is no ConfigMap with label %s whose key name is %q: create it", sakkara.GroupLabel, group), nil
	case 1:
		return &of[0], "", nil
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
	), nil
}

// report tells the ConfigMap of a group where its pods are, once all have nodes, and when they were stopped.
func (r *reconciler) report(ctx context.Context, unit types.NamespacedName, s *facts) error {
	if s.unit.OfPodGroup() != podmeta.SakkaraGroup || s.workload == nil || s.theirs || !s.covered {
		return nil
	}
	is, some := outcomeOf(s)
	digest := fmt.Sprint(is)
	if last, ok := r.reported.Load(unit); !some || ok && last == digest {
		return nil
	}
	name := s.unit.First().Labels[sakkara.MemberLabel]
	if sakkara.GroupName(name) != unit.Name {
		return nil // somebody changed it, and the ConfigMap is that of another group
	}
	found, _, err := r.groupMap(ctx, unit.Namespace, name)
	if err != nil {
		return err
	}
	if found != nil {
		told, err := r.words(ctx, s.workload, is)
		if err != nil {
			return err
		}
		after := found.DeepCopy()
		for _, key := range sakkara.Written() {
			delete(after.Data, key)
		}
		maps.Copy(after.Data, told)
		if !equality.Semantic.DeepEqual(found.Data, after.Data) {
			lock := client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})
			if err := r.Client.Patch(ctx, after, lock); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write the outcome of group %s: %w", unit, err)
			}
		}
	}
	r.reported.Store(unit, digest)
	return nil
}

// outcome is what became of a group: it was stopped, or where its pods are.
type outcome struct {
	lost bool
	pods []sakkara.Placed
	done time.Time
}

// outcomeOf is false if there is nothing to tell.
func outcomeOf(s *facts) (is outcome, some bool) {
	w := s.workload
	if convert.Evicted(w) && w.Status.Admission != nil {
		return outcome{lost: true}, true
	}
	if !convert.Admitted(w) || convert.Finished(w) {
		return is, false
	}
	for _, p := range s.unit.Pods {
		rank, err := strconv.Atoi(p.Labels[sakkara.RankLabel])
		if err != nil || p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			continue
		}
		is.pods = append(is.pods, sakkara.Placed{Pod: p.Name, Node: p.Spec.NodeName, Rank: rank})
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(is.done) {
				is.done = c.LastTransitionTime.Time
			}
		}
	}
	return is, len(is.pods) >= int(s.unit.Total)
}

// words are what a ConfigMap is told of an outcome.
func (r *reconciler) words(ctx context.Context, w *kueue.Workload, is outcome) (map[string]string, error) {
	if is.lost {
		return sakkara.Lost(), nil
	}
	levels, err := r.levels(ctx, w)
	if err != nil {
		return nil, err
	}
	for i := range is.pods {
		var n corev1.Node
		key := types.NamespacedName{Name: is.pods[i].Node}
		if err := r.Client.Get(ctx, key, &n); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read node %s: %w", key.Name, err)
		}
		is.pods[i].Domains = domains(levels, &n)
	}
	return sakkara.Outcome(is.pods, convert.Submitted(w), is.done)
}

// levels are the labels of nodes that say in which domains the pods of a Workload are, the widest first: those of the
// Topology of its flavor or, if that has none, those that it asks for.
func (r *reconciler) levels(ctx context.Context, w *kueue.Workload) (out []string, err error) {
	add := func(label string) {
		if label != "" && label != corev1.LabelHostname && !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	for i := range w.Status.Admission.PodSetAssignments {
		given := w.Status.Admission.PodSetAssignments[i].Flavors
		for _, name := range slices.Sorted(maps.Values(given)) {
			var f kueue.ResourceFlavor
			if err := r.Client.Get(
				ctx,
				types.NamespacedName{Name: string(name)},
				&f,
			); client.IgnoreNotFound(
				err,
			) != nil {
				return nil, fmt.Errorf("read flavor %s: %w", name, err)
			}
			if f.Spec.TopologyName == nil {
				continue
			}
			var t kueue.Topology
			key := types.NamespacedName{Name: string(*f.Spec.TopologyName)}
			if err := r.Client.Get(ctx, key, &t); client.IgnoreNotFound(err) != nil {
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
