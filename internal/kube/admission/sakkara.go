package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
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
	// Shared is what was read a moment ago, by whomever; nil reads each time.
	Shared *SakkaraMaps
}

// Limits of what is read of the ConfigMaps of groups in a namespace, which any of its members may make.
const (
	// mostMaps are the first ones, by name, mapsPage how many are read at a time, and longestValue how much counts of a value.
	mostMaps, mapsPage, longestValue = 256, 16, 64 << 10
	// sharedFor is how long what was read is good for others, mostShared for how many namespaces it is kept.
	sharedFor  = 5 * time.Second
	mostShared = 256
)

// SakkaraMaps are the ConfigMaps of groups that were read a moment ago, by namespace: hundreds of jobs that wait for one
// have them read once.
type SakkaraMaps struct {
	Clock clock.PassiveClock
	mu    sync.Mutex
	of    map[string]*readMaps
}

type readMaps struct {
	mu  sync.Mutex
	at  time.Time
	all []corev1.ConfigMap
}

// in are those of a namespace. All are forgotten when there are too many.
func (s *SakkaraMaps) in(namespace string) *readMaps {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[namespace] == nil {
		if len(s.of) >= mostShared || s.of == nil {
			s.of = map[string]*readMaps{}
		}
		s.of[namespace] = &readMaps{}
	}
	return s.of[namespace]
}

// List are the ConfigMaps of groups in a namespace, as they are or were five seconds ago. None may be changed.
func (g SakkaraGroups) List(ctx context.Context, namespace string) ([]corev1.ConfigMap, error) {
	if g.Shared == nil {
		return g.read(ctx, namespace)
	}
	known, now := g.Shared.in(namespace), g.Shared.Clock.Now()
	known.mu.Lock()
	defer known.mu.Unlock()
	if !known.at.IsZero() && now.Sub(known.at) < sharedFor {
		return known.all, nil
	}
	all, err := g.read(ctx, namespace)
	if err == nil {
		known.at, known.all = now, all
	}
	return all, err
}

func (g SakkaraGroups) read(ctx context.Context, namespace string) (out []corev1.ConfigMap, err error) {
	next := ""
	for {
		var page corev1.ConfigMapList
		if err := g.Live.List(
			ctx,
			&page,
			client.InNamespace(namespace),
			client.HasLabels{sakkara.GroupLabel},
			client.Limit(mapsPage),
			client.Continue(next),
		); err != nil {
			return nil, fmt.Errorf("list ConfigMaps of groups in namespace %s: %w", namespace, err)
		}
		for i := range page.Items {
			out = append(out, shortened(&page.Items[i]))
		}
		if next = page.Continue; next == "" || len(out) >= mostMaps {
			return out[:min(len(out), mostMaps)], nil
		}
	}
}

// shortened is a ConfigMap without what says nothing of a group.
func shortened(m *corev1.ConfigMap) corev1.ConfigMap {
	out := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: m.Labels, ResourceVersion: m.ResourceVersion,
		},
		Data: make(map[string]string, len(m.Data)),
	}
	for key, value := range m.Data {
		out.Data[key] = strings.ToValidUTF8(value[:min(len(value), longestValue)], "")
	}
	return out
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
		if len(all) >= mostMaps {
			return nil, fmt.Sprintf(
				"none of the first %d ConfigMaps with label %s has %q for its key name: delete those that nobody needs",
				mostMaps, sakkara.GroupLabel, group)
		}
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
		if !convert.NoticeBegan(w).IsZero() {
			return is, false // its pods run on for a while, where they are
		}
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
	slices.SortFunc(is.Pods, func(a, b sakkara.Placed) int { return strings.Compare(a.Pod, b.Pod) })
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
	of, _ := OneOf(all, group)
	if of == nil { // it may have been made since, as a component of the job
		if all, err = g.read(ctx, w.Namespace); err != nil {
			return false, err
		}
		if of, _ = OneOf(all, group); of == nil {
			return true, nil
		}
	}
	found := &corev1.ConfigMap{}
	if err := g.Live.Get(ctx, client.ObjectKeyFromObject(of), found); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return false, fmt.Errorf("read ConfigMap %s/%s: %w", of.Namespace, of.Name, err)
		}
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
