package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// WorkloadOf names the Workload that a pod belongs to; the zero key if none.
func WorkloadOf(p *corev1.Pod) core.Key {
	name := p.Annotations[kueue.WorkloadAnnotation]
	if name == "" {
		return core.Key{}
	}
	return core.Key{Namespace: p.Namespace, Name: name}
}

// PodSetOf names the pod set that a pod belongs to.
func PodSetOf(p *corev1.Pod) string { return p.Labels[kueue.PodSetLabel] }

// PlaceKept is part of what the scheduler says of a pod whose place a deleted pod
// of the same job still has.
const PlaceKept = "keeps its place on node"

// PodState is what decides which quota and place a pod holds.
func PodState(p *corev1.Pod) core.PodState {
	return core.PodState{
		Bound:    p.Spec.NodeName != "",
		Ended:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil,
	}
}

// Finished reports whether a Workload has ended for good.
func Finished(w *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished)
}

// Succeeded reports whether a Workload has ended well.
func Succeeded(w *kueue.Workload) bool {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == kueue.ReasonSucceeded
}

// EndsOnce reports whether no pod of a Workload follows one that succeeded.
func EndsOnce(w *kueue.Workload) bool { return w.Annotations[kueue.EndsOnceAnnotation] == "true" }

// Later are the names of pod sets whose pods come after those of others.
func Later(w *kueue.Workload) []string {
	if names := w.Annotations[kueue.LaterPodSetsAnnotation]; names != "" {
		return strings.Split(names, ",")
	}
	return nil
}

// Fewer is how many pods the job of a Workload asks for of pod sets of which it asks for fewer
// than it was admitted with.
func Fewer(w *kueue.Workload) map[string]int32 {
	out := map[string]int32{}
	for entry := range strings.SplitSeq(w.Annotations[kueue.FewerPodsAnnotation], ",") {
		name, number, _ := strings.Cut(entry, "=")
		if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 {
			out[name] = int32(n)
		}
	}
	return out
}

// OfGroup reports whether a Workload is that of a group of pods, which no object
// owns.
func OfGroup(w *kueue.Workload) bool { return w.Annotations[kueue.IsGroupWorkloadAnnotation] == "true" }

// Evicted reports whether a Workload is losing its quota.
func Evicted(w *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted)
}

// NoticeBegan is when the time began for which a Workload that was evicted may run on to save what it has done; zero if it
// asked for none, or that is over.
func NoticeBegan(w *kueue.Workload) time.Time {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadStopNotice)
	if c == nil || c.Status != metav1.ConditionTrue || !Evicted(w) || w.Status.Admission == nil ||
		w.DeletionTimestamp != nil {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// What the condition StopNotice says, around the time at which the pods are stopped.
const (
	noticeBefore = "Its pods have until "
	noticeAfter  = " to save what they have done"
)

// NoticeText is what the condition StopNotice says of pods that are stopped then.
func NoticeText(end time.Time) string { return noticeBefore + end.UTC().Format(time.RFC3339) + noticeAfter }

// ToldUntil is until when a Workload that was evicted may run on, as its condition tells people; zero if it may not, or that
// is past.
func ToldUntil(w *kueue.Workload, now time.Time) time.Time {
	if NoticeBegan(w).IsZero() {
		return time.Time{}
	}
	said := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadStopNotice).Message
	end, err := time.Parse(time.RFC3339, strings.TrimSuffix(strings.TrimPrefix(said, noticeBefore), noticeAfter))
	if err != nil || !end.After(now) {
		return time.Time{}
	}
	return end
}

// StopNotice is how long a Workload asks to run on after it is evicted.
func StopNotice(w *kueue.Workload) time.Duration {
	d, err := time.ParseDuration(w.Annotations[kueue.StopNoticeAnnotation])
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// Interruption is how far a Workload is that was evicted and keeps its quota and its healthy nodes.
func Interruption(w *kueue.Workload) core.Interruption {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadNodesKept)
	switch {
	case c == nil || c.Status != metav1.ConditionTrue || w.Status.Admission == nil || !Evicted(w) ||
		w.DeletionTimestamp != nil:
		return core.NotInterrupted
	case c.Reason == kueue.ReasonAwaitingNodes:
		return core.InterruptedStopped
	}
	return core.InterruptedStopping
}

// Admitted reports whether a Workload may run.
func Admitted(w *kueue.Workload) bool {
	return w.Status.Admission != nil &&
		apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadAdmitted)
}

// Rules are the choices of an installation that bear on Workloads.
type Rules struct {
	// Counting is how requests count against quota.
	Counting Counting
	// PriorityBoost adds the annotation of that name to a Workload's priority.
	PriorityBoost bool
	// NoAdmissionGates ignores the annotation that names the gates of an
	// admission.
	NoAdmissionGates bool
	// WholeOnly ignores how few pods of a pod set a workload could start with
	// (PartialAdmission off), also of Workloads that no job of ours is behind.
	WholeOnly bool
	// Balanced has domains of the level that pods prefer get equal shares of them, where one does not hold all and they
	// ask for nothing else (TASBalancedPlacement on).
	Balanced bool
	// KeepDone keeps the quota of pods that are done until their job ends
	// (ReclaimablePods off), whatever status.reclaimablePods says.
	KeepDone bool
	// RequeueByCreation keeps the place in the queue of workloads whose pods were
	// not ready in time (requeuingStrategy.timestamp Creation); otherwise they go
	// to its back.
	RequeueByCreation bool
	// Spares are how many nodes of flavors are kept for recovery.
	Spares map[string]nodehealth.Spares
	// SlackQueue is the ClusterQueue that has what nobody else was promised; "" if there is none.
	SlackQueue string
}

// fewest is how few pods of a pod set, of which so many are left, may start; 0 means
// all.
func (r Rules) fewest(ps *kueue.PodSet, left int32) int32 {
	if r.WholeOnly {
		return 0
	}
	return min(ptr.Deref(ps.MinCount, 0), left)
}

// Workload translates a Workload that has not finished, in the surroundings of
// its namespace. Settled is left to the caller, which knows the pods.
func Workload(w *kueue.Workload, rules Rules, s Surroundings) core.Workload {
	out := core.Workload{
		Key:       core.Key{Namespace: w.Namespace, Name: w.Name},
		UID:       string(w.UID),
		Job:       jobOf(w),
		Endless:   Endless(w),
		Queue:     string(w.Spec.QueueName),
		Priority:  rules.PriorityOf(w).In(s.Priorities),
		Created:   w.CreationTimestamp.Time,
		QueueTime: rules.queueTime(w),
		Held:      held(w),
		GatedBy:   rules.gates(w),
		Admitted:  Admitted(w),
		Ready:     apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadPodsReady),
		Admission: Admission(w.Status.Admission),
		Next:      next(w),
		Seq:       Seq(w),
		Evicting:  w.Status.Admission != nil && (Evicted(w) || w.DeletionTimestamp != nil),
	}
	out.PreemptionGate, out.Interruption = closedGate(w), Interruption(w)
	if d, has := s.MinimumRuntimes[rules.PriorityOf(w).Class]; has {
		out.MinimumRuntime = &d
	}
	left, roles, refusals, avoided := rules.left(w), rolesOf(w), Refusals(w), avoidedBy(w)
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		r := RequestsOf(&ps.Template.Spec, s, rules.Counting)
		topology, unmet := topologyOf(ps, left[ps.Name])
		if rules.Balanced && (core.TopologyRequest{Preferred: topology.Preferred}).Equal(topology) {
			topology.Balanced = topology.Preferred
		}
		joined := group(ps)
		if level, with := together(
			roles,
			i,
		); level != "" &&
			(core.TopologyRequest{Parents: topology.Parents}).Equal(topology) {
			topology.Required, topology.AnyLabel, joined = level, true, cmp.Or(joined, with)
		}
		out.PodSets = append(out.PodSets, core.PodSet{
			Name:     string(ps.Name),
			Count:    left[ps.Name],
			MinCount: rules.fewest(ps, left[ps.Name]),
			Group:    joined,
			Parents:  parents(ps),
			Requests: r.Node,
			Quota:    r.Quota,
			Filter:   s.Filter(&ps.Template.Spec),
			Limits:   limitsOf(roles, i),
			Topology: topology,
		})
		out.PodSets[i].Filter.Refused, out.PodSets[i].Filter.Avoided = refusedBy(refusals, string(ps.Name)), avoided
		if len(topology.Slices) > 0 {
			out.PodSets[i].MinCount = 0 // fewer pods need not be whole slices
		}
		if why := cmp.Or(r.Invalid, unmet); why != "" && out.Invalid == "" {
			out.Invalid = "in pod set " + string(ps.Name) + ", " + why
		}
	}
	if c := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadQuotaReserved,
	); c != nil &&
		c.Status == metav1.ConditionTrue {
		out.Reserved = c.LastTransitionTime.Time
	}
	if c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadRelocated); c != nil {
		out.Relocated = c.LastTransitionTime.Time
	}
	if r := w.Status.RequeueState; r != nil && r.RequeueAt != nil {
		out.NotBefore = r.RequeueAt.Time
	}
	return out
}

// jobOf is what people know a Workload by; one that nothing owns is all that there is.
func jobOf(w *kueue.Workload) string {
	if kind, name := Owner(w); name != "" {
		return kind.Kind + "/" + name
	}
	return "Workload/" + w.Name
}

// Owner is the object that a user submitted and a Workload stands for: its controller or, of a
// group of pods, which nothing owns, what made them (a StatefulSet, a LeaderWorkerSet) or else
// the group itself, which has the name of the Workload. The name is "" for a Workload that is all
// there is.
func Owner(w *kueue.Workload) (kind schema.GroupVersionKind, name string) {
	if owner := metav1.GetControllerOf(w); owner != nil {
		return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), owner.Name
	}
	group, of, made := strings.Cut(
		w.Annotations[kueue.JobOwnerGVKAnnotation],
		", Kind=",
	) // as GroupVersionKind.String has it
	if name := w.Annotations[kueue.JobOwnerNameAnnotation]; made && name != "" {
		return schema.FromAPIVersionAndKind(group, of), name
	}
	if OfGroup(w) {
		return corev1.SchemeGroupVersion.WithKind("Pod"), w.Name
	}
	return schema.GroupVersionKind{}, ""
}

// Endless reports whether the job that a Workload stands for does not end by itself: all its
// containers are started again whenever they end, and its kind has no end of its own.
func Endless(w *kueue.Workload) bool {
	unsaid := false // whether a template that does not say how it restarts does so always
	switch kind, _ := Owner(w); kind.Kind {
	case "StatefulSet", "LeaderWorkerSet", "RayCluster", "RayService":
		unsaid = true
	case "Pod", "Deployment", "ReplicaSet", "AppWrapper", "":
	default:
		return false
	}
	return len(w.Spec.PodSets) > 0 && !slices.ContainsFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool {
		restarts := ps.Template.Spec.RestartPolicy
		return restarts != corev1.RestartPolicyAlways && (restarts != "" || !unsaid)
	})
}

// group is the name of the pod sets that want to be together with this one.
func group(ps *kueue.PodSet) string {
	t := cmp.Or(ps.TopologyRequest, kueue.TopologyRequestOf(ps.Template.Annotations))
	if t == nil {
		return ""
	}
	return ptr.Deref(t.PodSetGroupName, "")
}

// parents are the names of the groups of pod sets that one is in, the widest first.
func parents(ps *kueue.PodSet) (names []string) {
	for _, g := range kueue.TopologyGroupsOf(ps.Template.Annotations) {
		names = append(names, g.Name)
	}
	return names
}

// Priority is what orders a Workload among others: the sum of two numbers of 32 bits.
type Priority struct {
	// Class is the WorkloadPriorityClass that it refers to, "" if none.
	Class string
	// Copied is spec.priority: the class's value as it was written there last.
	Copied int32
	// Boost is what is added to it.
	Boost int32
}

// PriorityOf is the priority of a Workload. A boost that is none counts as nothing.
func (r Rules) PriorityOf(w *kueue.Workload) Priority {
	p := Priority{Copied: ptr.Deref(w.Spec.Priority, 0)}
	if ref := w.Spec.PriorityClassRef; ref != nil && ref.Kind == kueue.WorkloadPriorityClassKind {
		p.Class = ref.Name
	}
	if r.PriorityBoost {
		if boost, err := strconv.ParseInt(w.Annotations[kueue.PriorityBoostAnnotation], 10, 32); err == nil {
			p.Boost = int32(boost)
		}
	}
	return p
}

// In is its value where classes have these values. A class that is there decides: copies of its
// value are written one Workload after the other, and it changes for all of them at once.
func (p Priority) In(classes map[string]int32) int64 {
	if value, ok := classes[p.Class]; ok && p.Class != "" {
		return int64(value) + int64(p.Boost)
	}
	return int64(p.Copied) + int64(p.Boost)
}

// gates names the gates that keep a Workload from admission.
func (r Rules) gates(w *kueue.Workload) string {
	var closed []string
	if by := w.Annotations[kueue.AdmissionGatedByAnnotation]; by != "" && !r.NoAdmissionGates {
		closed = append(closed, by)
	}
	if after := Awaited(w); after != "" {
		closed = append(closed, kueue.AfterAnnotation+" ("+after+")")
	}
	return strings.Join(closed, ",")
}

// Awaited says which jobs a Workload comes after that have not ended as they must; "" for none.
func Awaited(w *kueue.Workload) string {
	after := w.Annotations[kueue.AfterAnnotation]
	switch state := w.Annotations[kueue.AfterStateAnnotation]; {
	case after == "" || state == kueue.AfterStateMet:
		return ""
	case state != "":
		return state
	}
	return after
}

// Seq numbers the states of an object: resource versions are numbers that grow.
// It is 0 for an object that the API server has not stored.
func Seq(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// queueTime is the moment that orders workloads of equal priority: when the job
// was submitted, or the eviction for reasons that send a workload to the back of
// its queue.
func (r Rules) queueTime(w *kueue.Workload) time.Time {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Submitted(w)
	}
	switch {
	case c.Reason == kueue.ReasonAdmissionCheck,
		c.Reason == kueue.ReasonPodsReadyTimeout && !r.RequeueByCreation:
		return c.LastTransitionTime.Time
	}
	return Submitted(w)
}

// Submitted is when the job of a Workload, or a Workload without one, was
// created. The annotation tells creations within one second apart; the controller
// that makes the Workload has checked it against the job's own time.
func Submitted(w *kueue.Workload) time.Time {
	at, err := time.Parse(time.RFC3339Nano, w.Annotations[kueue.SubmittedAtAnnotation])
	if err != nil || at.After(w.CreationTimestamp.Add(time.Second)) {
		return w.CreationTimestamp.Time
	}
	return at
}

// closedGate is the first preemption gate of a Workload that is not open, "" if
// there is none.
func closedGate(w *kueue.Workload) string {
	for _, g := range w.Spec.PreemptionGates {
		if !slices.ContainsFunc(w.Status.PreemptionGates, func(s kueue.PreemptionGateState) bool {
			return s.Name == g.Name && s.Position == kueue.GateOpen
		}) {
			return g.Name
		}
	}
	return ""
}

// held says why a Workload must not be considered, "" if it may be.
func held(w *kueue.Workload) string {
	switch {
	case w.DeletionTimestamp != nil:
		return "it is being deleted"
	case !ptr.Deref(w.Spec.Active, true):
		return "it is deactivated (spec.active is false)"
	case w.Status.Admission == nil && w.Annotations[kueue.AwaitedPriorityClassAnnotation] != "":
		return fmt.Sprintf(
			"there is no WorkloadPriorityClass %s: create it, or name another one in the label %s of the job",
			w.Annotations[kueue.AwaitedPriorityClassAnnotation],
			kueue.PriorityClassLabel,
		)
	}
	if why := w.Annotations[kueue.GroupAwaitedAnnotation]; why != "" && w.Status.Admission == nil {
		return "its pods are placed as their group says, and there is something to mend: " + why
	}
	if why := w.Annotations[kueue.PodsRefusedAnnotation]; why != "" && w.Status.Admission == nil {
		return "its pods may not be made, which is tried again by itself: " + why
	}
	for i := range w.Status.AdmissionChecks {
		c := &w.Status.AdmissionChecks[i]
		if w.Status.Admission == nil && (c.State == kueue.CheckStateRetry || c.State == kueue.CheckStateRejected) {
			return fmt.Sprintf("admission check %s says %s: %s", c.Name, c.State, c.Message)
		}
	}
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadRequeued)
	if c != nil && c.Status == metav1.ConditionFalse && w.Status.Admission == nil {
		return "it was evicted and may not be queued again yet: " + c.Message
	}
	return ""
}

// Admission translates status.admission; nil stays nil.
func Admission(a *kueue.Admission) *core.Admission {
	if a == nil {
		return nil
	}
	out := &core.Admission{Queue: string(a.ClusterQueue)}
	for i := range a.PodSetAssignments {
		ps := &a.PodSetAssignments[i]
		o := core.PodSetAdmission{
			Name:   string(ps.Name),
			Count:  ptr.Deref(ps.Count, 0),
			Usage:  Resources(ps.ResourceUsage),
			Places: Places(ps.TopologyAssignment),
		}
		for _, r := range slices.Sorted(maps.Keys(ps.Flavors)) {
			o.Flavors = append(o.Flavors, core.FlavorChoice{Resource: string(r), Flavor: string(ps.Flavors[r])})
		}
		out.PodSets = append(out.PodSets, o)
	}
	return out
}

// next is what is held for a Workload as it is now, nil if nothing is.
func next(w *kueue.Workload) *core.Admission {
	n := w.Status.NextAdmission
	if n == nil || n.ObservedGeneration != w.Generation {
		return nil
	}
	return Admission(&n.Admission)
}

// StatusNext is the inverse of next.
func StatusNext(a *core.Admission, w *kueue.Workload) *kueue.NextAdmission {
	if a == nil {
		return nil
	}
	return &kueue.NextAdmission{ObservedGeneration: w.Generation, Admission: *StatusAdmission(*a)}
}

// StatusAdmission is the inverse of Admission.
func StatusAdmission(a core.Admission) *kueue.Admission {
	out := &kueue.Admission{ClusterQueue: kueue.ClusterQueueReference(a.Queue)}
	for _, ps := range a.PodSets {
		o := kueue.PodSetAssignment{
			Name:               kueue.PodSetReference(ps.Name),
			Count:              new(ps.Count),
			ResourceUsage:      ResourceList(ps.Usage),
			TopologyAssignment: topology(ps.Places),
		}
		for _, f := range ps.Flavors {
			if o.Flavors == nil {
				o.Flavors = map[corev1.ResourceName]kueue.ResourceFlavorReference{}
			}
			o.Flavors[corev1.ResourceName(f.Resource)] = kueue.ResourceFlavorReference(f.Flavor)
		}
		out.PodSetAssignments = append(out.PodSetAssignments, o)
	}
	return out
}

// Places reads the planned nodes of a topology assignment whose lowest level is
// the host name, in its order, which is that of the ranks of pods.
func Places(t *kueue.TopologyAssignment) []core.Place {
	if t == nil || len(t.Levels) == 0 || t.Levels[len(t.Levels)-1] != core.HostnameLabel {
		return nil
	}
	last := len(t.Levels) - 1
	var out []core.Place
	for _, s := range t.Slices {
		for i := range int(s.DomainCount) {
			if last >= len(s.ValuesPerLevel) {
				break
			}
			if node, n := value(s.ValuesPerLevel[last], i), podCount(s.PodCounts, i); node != "" && n > 0 {
				out = append(out, core.Place{Node: node, Count: n})
			}
		}
	}
	return out
}

func value(v kueue.TopologyAssignmentSliceLevelValues, i int) string {
	switch {
	case v.Universal != nil:
		return *v.Universal
	case v.Individual != nil && i < len(v.Individual.Roots):
		return ptr.Deref(v.Individual.Prefix, "") + v.Individual.Roots[i] + ptr.Deref(v.Individual.Suffix, "")
	}
	return ""
}

func podCount(c kueue.TopologyAssignmentSlicePodCounts, i int) int32 {
	switch {
	case c.Universal != nil:
		return *c.Universal
	case i < len(c.Individual):
		return c.Individual[i]
	}
	return 0
}

// longestEnd is how long what names begin or end with may be, by the schema of Workloads.
const longestEnd = 63

// compressed are names without what all of them begin and end with. Something is left of each.
func compressed(names []string) *kueue.TopologyAssignmentSliceLevelIndividualValues {
	out := &kueue.TopologyAssignmentSliceLevelIndividualValues{Roots: names}
	if len(names) < 2 {
		return out
	}
	first, shortest := names[0], len(names[0])
	before, after := len(first), len(first)
	for _, name := range names[1:] {
		shortest = min(shortest, len(name))
		before, after = min(before, len(name)), min(after, len(name))
		for name[:before] != first[:before] {
			before--
		}
		for name[len(name)-after:] != first[len(first)-after:] {
			after--
		}
	}
	before = min(before, max(0, shortest-1), longestEnd)
	after = min(after, max(0, shortest-1-before), longestEnd)
	if before > 0 {
		out.Prefix = new(first[:before])
	}
	if after > 0 {
		out.Suffix = new(first[len(first)-after:])
	}
	out.Roots = make([]string, len(names))
	for i, name := range names {
		out.Roots[i] = name[before : len(name)-after]
	}
	return out
}

// topology writes places as one slice over host names, of which what all begin and end with is written once: of a gang on
// thousands of nodes they are most of its Workload. none for no places.
func topology(places []core.Place) *kueue.TopologyAssignment {
	if len(places) == 0 {
		return nil
	}
	roots := make([]string, len(places))
	counts := make([]int32, len(places))
	same := true
	for i, p := range places {
		roots[i], counts[i] = p.Node, p.Count
		same = same && p.Count == places[0].Count
	}
	s := kueue.TopologyAssignmentSlice{
		DomainCount:    int32(len(places)), //nolint:gosec // bounded by the number of nodes
		ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{{Individual: compressed(roots)}},
		PodCounts:      kueue.TopologyAssignmentSlicePodCounts{Individual: counts},
	}
	if same {
		s.PodCounts = kueue.TopologyAssignmentSlicePodCounts{Universal: &counts[0]}
	}
	return &kueue.TopologyAssignment{
		Levels: []string{core.HostnameLabel},
		Slices: []kueue.TopologyAssignmentSlice{s},
	}
}
