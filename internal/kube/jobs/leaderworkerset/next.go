package leaderworkerset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Observed is what there is of one set.
type Observed struct {
	Object *api.LeaderWorkerSet
	// Leaders is the StatefulSet of the leaders, nil if there is none.
	Leaders *appsv1.StatefulSet
	// Sets are the StatefulSets of workers, Services the names of Services, by name.
	Sets     map[string]*appsv1.StatefulSet
	Services map[string]bool
	// Pods are those of the set.
	Pods []*corev1.Pod
	// Revisions are the templates that are kept.
	Revisions []*appsv1.ControllerRevision
	// NotMade is why pods that are missing may not be made, "" if nobody knows of a reason.
	NotMade string
	Now     time.Time
}

// Actions is what has to be done. All of it may be done at once, in this order.
type Actions struct {
	Create []jobs.Object
	// Leaders is the StatefulSet of the leaders as it has to be, nil to leave it.
	Leaders *appsv1.StatefulSet
	// Workers are sets of workers that somebody scaled, as they have to be.
	Workers []*appsv1.StatefulSet
	// Complete are sets of workers whose groups are complete, with what to remember of that
	// in MembersAnnotation.
	Complete map[string]string
	// Recreate are leaders that have to go, with their groups, and why.
	Recreate []Recreation
	// Replace are workers that have to go because they do not know their place.
	Replace []*corev1.Pod
	// Again is when to look again if nothing happens; 0 is never.
	Again time.Duration
	// Forget are templates of which nothing is left.
	Forget []*appsv1.ControllerRevision
	Status api.LeaderWorkerSetStatus
}

// Recreation is a group that is made anew.
type Recreation struct {
	Leader  *corev1.Pod
	Message string
}

// MembersAnnotation remembers, on the set of the workers, which pods a group had when
// it was complete: one that is replaced later is noticed whoever looked away meanwhile.
const MembersAnnotation = "mlbatch.dev/members"

// group is one group as it is.
type group struct {
	index    int32
	leader   *corev1.Pod // nil if there is none
	template *Template   // of the leader, nil if it is not known
	hash     string      // of the template
	set      *appsv1.StatefulSet
	workers  []*corev1.Pod // of the set
}

// Next says what has to be done for a set.
func Next(w *Observed) (*Actions, error) {
	l := w.Object
	s := &Actions{Complete: map[string]string{}}
	templates, newest, err := w.templates()
	if err != nil {
		return nil, err
	}
	t := Of(l).recorded(templates)
	hash := t.Hash()
	if templates[hash] == nil { // before anything is made of it
		r, err := revision(l, t, newest+1)
		if err != nil {
			return nil, err
		}
		s.Create = append(s.Create, r)
		templates[hash] = t
	}
	if !w.Services[l.Name] && !t.OwnSubdomain {
		s.Create = append(s.Create, sharedService(l))
	}
	groups := w.groups(templates)
	plan := rollout(l, w.Leaders, groups, hash)
	if w.Leaders == nil {
		s.Create = append(s.Create, leaders(l, t, plan.replicas, plan.partition))
	} else if want := adjusted(w.Leaders, leaders(l, t, plan.replicas, plan.partition), hash); want != nil {
		s.Leaders = want
	}
	for _, g := range groups {
		w.workersOf(s, g)
		if set := w.restored(g); set != nil {
			s.Workers = append(s.Workers, set)
			continue // what is missing of it, or too much, is not its pods' doing
		}
		if w.unplaced(s, g) {
			continue // whatever else it is, it is made anew
		}
		if why := w.broken(s, g); why != "" {
			s.Recreate = append(s.Recreate, Recreation{g.leader, why})
		} else if w.outdated(g, hash) {
			s.Recreate = append(
				s.Recreate,
				Recreation{g.leader, fmt.Sprintf("The template of group %d has changed", g.index)},
			)
		}
	}
	if !plan.updating && plan.partition == 0 && settled(w.Leaders) {
		s.Forget = slices.DeleteFunc(slices.Clone(w.Revisions), func(r *appsv1.ControllerRevision) bool {
			return revisionOf(r) == hash ||
				slices.ContainsFunc(groups, func(g *group) bool { return g.hash == revisionOf(r) })
		})
	}
	s.Status = status(w, groups, plan, hash)
	return s, nil
}

// settled reports whether a StatefulSet makes no pods of an older template any more.
func settled(set *appsv1.StatefulSet) bool {
	return set != nil && set.Status.ObservedGeneration >= set.Generation &&
		set.Status.CurrentRevision == set.Status.UpdateRevision
}

// templates reads what is kept, by name, and the number of the newest.
func (w *Observed) templates() (all map[string]*Template, newest int64, err error) {
	all = map[string]*Template{}
	for _, r := range w.Revisions {
		t, err := Recorded(r)
		if err != nil {
			return nil, 0, err
		}
		all[revisionOf(r)] = t
		newest = max(newest, r.Revision)
	}
	return all, newest, nil
}

// groups sorts the pods by group.
func (w *Observed) groups(templates map[string]*Template) []*group {
	all := map[int32]*group{}
	for _, p := range w.Pods {
		at, ok := placeOf(p)
		if !ok || at.set != w.Object.Name || at.worker != 0 || p.Annotations[api.LeaderNameAnnotation] != "" {
			continue
		}
		index := int32(at.group) //nolint:gosec // read as 32 bits
		all[index] = &group{index: index, leader: p, hash: revisionOf(p), template: templates[revisionOf(p)]}
	}
	for _, g := range all {
		if s := w.Sets[g.leader.Name]; s != nil && metav1.IsControlledBy(s, g.leader) {
			g.set = s
		}
	}
	for _, p := range w.Pods {
		o := metav1.GetControllerOf(p)
		at, ok := placeOf(p)
		if !ok || o == nil || p.Annotations[api.LeaderNameAnnotation] == "" {
			continue
		}
		if g := all[int32(at.group)]; g != nil && g.set != nil && //nolint:gosec // read as 32 bits
			g.set.UID == o.UID {
			g.workers = append(g.workers, p)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *group) int { return int(a.index - b.index) })
}

// restored is the set of a group's workers with as many as the group has, queued with it, if somebody
// changed that: the group's quota is for all of them. nil leaves it.
func (w *Observed) restored(g *group) *appsv1.StatefulSet {
	if g.set == nil || g.template == nil || g.leader.DeletionTimestamp != nil || g.set.DeletionTimestamp != nil {
		return nil
	}
	want := workers(w.Object, g.template, g.leader, g.index)
	other := queuedOtherwise(&g.set.Spec.Template, &want.Spec.Template)
	if !other && ptr.Deref(g.set.Spec.Replicas, 1) == *want.Spec.Replicas {
		return nil
	}
	out := g.set.DeepCopy()
	out.Spec.Replicas = want.Spec.Replicas
	if other {
		out.Spec.Template = want.Spec.Template
	}
	return out
}

// queuedOtherwise reports whether pods of a template would not be queued with their groups: who
// writes to a StatefulSet finds in it by what StatefulSets of users are queued.
func queuedOtherwise(is, want *corev1.PodTemplateSpec) bool {
	return is.Annotations[kueue.PodSuspendingParentAnnotation] != want.Annotations[kueue.PodSuspendingParentAnnotation] ||
		is.Labels[kueue.PodGroupNameLabel] != want.Labels[kueue.PodGroupNameLabel]
}

// ready reports whether all pods of a group are.
func (g *group) ready() bool {
	if g.leader.DeletionTimestamp != nil || !isReady(g.leader) || g.template == nil {
		return false
	}
	n := int32(0)
	for _, p := range g.workers {
		if p.DeletionTimestamp == nil && isReady(p) {
			n++
		}
	}
	return n >= g.template.Size-1
}

func isReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// ended reports whether no container of a pod runs or will.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// workersOf makes what a leader needs beside itself.
func (w *Observed) workersOf(s *Actions, g *group) {
	if g.leader.DeletionTimestamp != nil || g.template == nil {
		return
	}
	if g.template.OwnSubdomain && !w.Services[g.leader.Name] {
		s.Create = append(s.Create, groupService(w.Object, g.leader, g.index))
	}
	if g.template.Size < 2 || w.Sets[g.leader.Name] != nil {
		return // one of an earlier leader goes first
	}
	if w.Object.Spec.StartupPolicy == api.LeaderReady && !isReady(g.leader) {
		return
	}
	s.Create = append(s.Create, workers(w.Object, g.template, g.leader, g.index))
}

// placePause is for how long a pod that does not know its place stays, so that pods do not come and go
// as fast as they can be made while nobody tells them.
const placePause = time.Second

// unplaced takes away pods of a group that were not told their place when they were made, and reports
// whether there are any: while a program of one version writes templates, webhooks of another may
// answer, which do not know such pods by them. Nobody can tell a pod its place later.
func (w *Observed) unplaced(s *Actions, g *group) bool {
	found := false
	for _, p := range append([]*corev1.Pod{g.leader}, g.workers...) {
		label := api.WorkerIndexLabel // the one that templates do not have
		if p == g.leader {
			label = api.GroupIndexLabel
		}
		if p.Labels[label] != "" || metav1.GetControllerOf(p) == nil || p.DeletionTimestamp != nil {
			continue
		}
		found = true
		switch left := p.CreationTimestamp.Add(placePause).Sub(w.Now); {
		case left > 0:
			s.Again = max(left, s.Again)
		case p == g.leader:
			s.Recreate = append(
				s.Recreate,
				Recreation{p, fmt.Sprintf("The leader of group %d was not told its place", g.index)},
			)
			return true // its workers go with it
		default:
			s.Replace = append(s.Replace, p)
		}
	}
	return found
}

// outdated reports whether a group has to go because its template is old, and it is its
// turn.
func (w *Observed) outdated(g *group, hash string) bool {
	set := w.Leaders
	return set != nil && revisionOf(&set.Spec.Template) == hash &&
		set.Status.ObservedGeneration >= set.Generation &&
		g.index >= partitionOf(set) &&
		g.hash != hash &&
		g.leader.DeletionTimestamp == nil
}

// broken says why a group has to be made anew, "" if it has not. It notes when a group
// is complete.
func (w *Observed) broken(s *Actions, g *group) string {
	policy := restartPolicy(w.Object)
	if policy == api.NoRestart || g.leader.DeletionTimestamp != nil || g.template == nil {
		return ""
	}
	all := append([]*corev1.Pod{g.leader}, g.workers...)
	whole := int32(len(all)) >= g.template.Size //nolint:gosec // a group is far smaller
	started, restarts := whole, int32(0)
	for _, p := range all {
		started = started && p.Status.Phase == corev1.PodRunning
		restarts += restartsOf(p)
	}
	was := ""
	if g.set != nil {
		was = g.set.Annotations[MembersAnnotation]
	}
	now := members(all, restarts)
	complete := was != "" || g.set == nil && started
	if g.set != nil && was == "" && whole && (policy == api.RecreateGroupOnPodRestart || started) &&
		!leaving(all) {
		s.Complete[g.set.Name] = now
		complete = true
		was = now
	}
	switch {
	case policy == api.RecreateGroupAfterStart && !complete:
		return ""
	case restarts > 0 && (policy == api.RecreateGroupOnPodRestart || restarts > remembered(was)):
		return fmt.Sprintf("A container of group %d has started again", g.index)
	case leaving(all):
		return fmt.Sprintf("A pod of group %d has ended", g.index)
	case was != "" && !sameMembers(was, now):
		return fmt.Sprintf("A pod of group %d was replaced", g.index)
	}
	return ""
}

// leaving reports whether one of some pods is going, or has failed.
func leaving(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || ended(p) })
}

// restartsOf is how often containers of a pod have started again.
func restartsOf(p *corev1.Pod) int32 {
	n := int32(0)
	for _, c := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		n += c.RestartCount
	}
	return n
}

// members is what is remembered of a complete group: who they are, and how often they
// had started again.
func members(pods []*corev1.Pod, restarts int32) string {
	var uids []string
	for _, p := range pods {
		uids = append(uids, string(p.UID))
	}
	slices.Sort(uids)
	return fmt.Sprintf("%s %d", fingerprint(strings.Join(uids, " "), hashLength), restarts)
}

func sameMembers(a, b string) bool {
	first, _, _ := strings.Cut(a, " ")
	second, _, _ := strings.Cut(b, " ")
	return first == second
}

func remembered(members string) int32 {
	_, n, _ := strings.Cut(members, " ")
	var out int32
	if _, err := fmt.Sscan(n, &out); err != nil {
		return 0
	}
	return out
}

// adjusted is the StatefulSet of the leaders as it has to be; nil if it is.
func adjusted(is, want *appsv1.StatefulSet, hash string) *appsv1.StatefulSet {
	out := is.DeepCopy()
	other := revisionOf(&is.Spec.Template) != hash || queuedOtherwise(&is.Spec.Template, &want.Spec.Template)
	if other {
		out.Spec.Template = want.Spec.Template
		out.Labels = merged(out.Labels, want.Labels)
	}
	out.Annotations = merged(out.Annotations, want.Annotations)
	out.Spec.Replicas, out.Spec.UpdateStrategy = want.Spec.Replicas, want.Spec.UpdateStrategy
	if p := want.Spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		out.Spec.PersistentVolumeClaimRetentionPolicy = p
	}
	same := ptr.Deref(is.Spec.Replicas, 1) == ptr.Deref(out.Spec.Replicas, 1) &&
		partitionOf(is) == partitionOf(out) &&
		!other &&
		maps.Equal(is.Annotations, out.Annotations) &&
		(want.Spec.PersistentVolumeClaimRetentionPolicy == nil || ptr.Deref(is.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}) == *want.Spec.PersistentVolumeClaimRetentionPolicy)
	if same {
		return nil
	}
	return out
}

// rolling is how far the replacement of groups may go.
type rolling struct {
	// replicas are those of the StatefulSet, and partition is the first group that is
	// replaced.
	replicas, partition int32
	// updating: some groups are still to be replaced, or their successors to be ready.
	updating bool
}

// rollout says how far the replacement of groups may go now. As many groups are kept
// ready as replicas less maxUnavailable, if that many were.
func rollout(l *api.LeaderWorkerSet, set *appsv1.StatefulSet, groups []*group, hash string) rolling {
	want := Replicas(l)
	first, unavailable, surge := limits(l)
	if set == nil {
		return rolling{want, first, false}
	}
	changed := revisionOf(&set.Spec.Template) != hash
	at := want // the first that may be replaced already
	if !changed {
		at = min(partitionOf(set), want)
	}
	byIndex := map[int32]*group{}
	stale := changed || at > first
	for _, g := range groups {
		byIndex[g.index] = g
		stale = stale || g.hash != hash && g.index >= first && g.index < want
	}
	todo := int32(0) // groups whose successors are not ready
	for i := first; i < want; i++ {
		if g := byIndex[i]; g == nil || g.hash != hash || !g.ready() {
			todo++
		}
	}
	replicas := want + min(
		surge,
		max(todo-unavailable, 0),
	) // as many may be missing without others in their stead
	ready := int32(0) // of the groups that stay
	for _, g := range groups {
		if g.index < replicas && g.ready() && (g.hash == hash || g.index < at) {
			ready++
		}
	}
	// What was begun lasts until the last successor is ready.
	if !stale && (todo == 0 || !meta.IsStatusConditionTrue(l.Status.Conditions, api.UpdateInProgress)) {
		return rolling{want, first, false}
	}
	spare := ready - (want - unavailable)
	for at > first {
		g := byIndex[at-1]
		if g != nil && g.hash != hash && g.ready() {
			if spare <= 0 {
				break
			}
			spare--
		}
		at--
	}
	return rolling{replicas, at, true}
}

// limits are what the rolling update of a set keeps to.
func limits(l *api.LeaderWorkerSet) (first, unavailable, surge int32) {
	c := l.Spec.RolloutStrategy.RollingUpdateConfiguration
	if c == nil {
		return 0, 1, 0
	}
	want := int(Replicas(l))
	share := func(of *intstr.IntOrString, otherwise int, up bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(of, intstr.FromInt(otherwise))), want, up)
		if err != nil {
			n = otherwise // it is refused where it is written
		}
		return int32(max(n, 0)) //nolint:gosec // shares of 32 bits
	}
	unavailable, surge = share(c.MaxUnavailable, 1, false), share(c.MaxSurge, 0, true)
	if unavailable == 0 && surge == 0 {
		unavailable = 1 // nothing could ever be replaced
	}
	return min(ptr.Deref(c.Partition, 0), Replicas(l)), unavailable, surge
}

// status is how a set stands.
func status(w *Observed, groups []*group, plan rolling, hash string) api.LeaderWorkerSetStatus {
	l := w.Object
	out := *l.Status.DeepCopy()
	out.Replicas, out.ReadyReplicas, out.UpdatedReplicas = 0, 0, 0
	out.ObservedGeneration = l.Generation
	out.HPAPodSelector = fmt.Sprintf("%s=%s,%s=0", api.NameLabel, l.Name, api.WorkerIndexLabel)
	steady := int32(0)
	for _, g := range groups {
		out.Replicas++
		if g.hash == hash && g.leader.DeletionTimestamp == nil {
			out.UpdatedReplicas++
		}
		if g.ready() {
			out.ReadyReplicas++
			if g.index < Replicas(l) {
				steady++
			}
		}
	}
	available := steady >= Replicas(l) && !plan.updating
	set := func(kind string, holds bool, reason, message string) {
		c := metav1.Condition{
			Type:               kind,
			Status:             metav1.ConditionFalse,
			Reason:             reason,
			Message:            message,
			LastTransitionTime: metav1.NewTime(w.Now),
			ObservedGeneration: l.Generation,
		}
		if holds {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&out.Conditions, c)
	}
	if available {
		set(api.Available, true, api.AllGroupsReady, "All replicas are ready")
		set(api.Progressing, false, api.AllGroupsReady, "All replicas are ready")
	} else {
		message := "Replicas are progressing"
		if w.NotMade != "" {
			message = api.PodsNotMade + w.NotMade
		}
		set(api.Available, false, api.GroupsProgressing, message)
		set(api.Progressing, true, api.GroupsProgressing, message)
	}
	if plan.updating {
		set(api.UpdateInProgress, true, api.GroupsUpdating, "Groups are replaced by those of the newest template")
	} else if meta.FindStatusCondition(out.Conditions, api.UpdateInProgress) != nil {
		set(api.UpdateInProgress, false, api.AllGroupsReady, "All groups are of the newest template")
	}
	return out
}
