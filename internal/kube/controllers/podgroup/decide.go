package podgroup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// facts is everything that the next step of one unit depends on.
type facts struct {
	unit pod.Unit
	// covered: the pods wait for admission where they are. Others are only let go.
	covered bool
	// workload is nil if there is none yet. theirs: it is another job's.
	workload *kueue.Workload
	theirs   bool
	priority admission.Priority
	// infos are what the Workload's admission adds to the pods; set if admitted.
	// conflict says why they contradict each other.
	infos    []jobs.PodSetInfo
	conflict error
	// seen is what the pods that were started say.
	seen admission.Pods
	// maker is the controller of the pods, nil if they are made one by one, and
	// detached how many of its pods are queued by themselves.
	maker    *maker
	detached int32
	// move are pods that start with others than those of the unit, as they are to be written.
	move []*corev1.Pod
	// domains are where pods of the group are, once it is admitted.
	domains setDomains
	// unwatched: nothing tells when the PodGroup, by which the pods are one unit, changes.
	unwatched bool
	// podGroup is what was read of it.
	podGroup livePodGroup
	// keepsDone: pods that are done keep their quota until the end.
	keepsDone bool
	lifecycle workloadlifecycle.Config
	now       time.Time
	// readySince is since when the pods are all ready; now if they are not, or it is not known.
	readySince time.Time
}

// step is what comes next. At most one of release, stop, detach, start and those of
// the Workload is set.
type step struct {
	release []*corev1.Pod // from our finalizer
	stop    []*corev1.Pod // delete them
	reason  string        // why they are stopped
	message string
	detach  []*corev1.Pod // take them out of their group, or into another: write them like this
	start   []*corev1.Pod // write them like this

	create bool            // create the Workload
	remove *kueue.Workload // delete it, or let it go if it is being deleted
	spec   *kueue.WorkloadSpec
	notes  map[string]string // annotations of the Workload to change with the spec
	status *kueue.WorkloadStatus
	// evicted is told of the Workload once its status is written.
	evicted *workloadlifecycle.Event

	again time.Duration // look again then, at the latest; 0 for never
	tell  *podEvent
}

// podEvent is an event on the oldest pod, told once.
type podEvent struct {
	reason, message string
	warning         bool
}

// Reasons of events about pods.
const (
	eventIncomplete = "GroupIncomplete"
	eventExcess     = "ExcessPodDeleted"
	eventStopped    = "Stopped"
	eventMismatch   = "GroupMismatch"
)

// stands is what the Workload says of the unit.
func (s *facts) stands() pod.UnitState {
	w := s.workload
	switch {
	case !s.covered:
		return pod.Over
	case w == nil || s.theirs:
		return pod.Unqueued
	case convert.Finished(w):
		return pod.Over
	case w.DeletionTimestamp != nil, convert.Evicted(w) && w.Status.Admission != nil:
		return pod.Losing
	}
	return pod.Queued
}

// started are the pods that may run, or do.
func (s *facts) started() []*corev1.Pod {
	return s.unit.Where(func(p *corev1.Pod) bool { return pod.Active(p) && !podmeta.Gated(p) })
}

// held are the pods that wait for admission.
func (s *facts) held() []*corev1.Pod {
	return s.unit.Where(func(p *corev1.Pod) bool { return pod.Active(p) && podmeta.Gated(p) })
}

// live reports whether a pod that was started has quota still.
func (s *facts) live() bool {
	return len(
		s.unit.Where(func(p *corev1.Pod) bool { return !podmeta.Gated(p) && convert.PodState(p).HoldsQuota() }),
	) > 0
}

// decide returns the next step of one unit. The first case that matches wins.
func decide(s facts) step {
	w := s.workload
	if done := s.unit.Accounted(s.stands()); len(done) > 0 && !s.endsFirst() {
		return step{release: done}
	}
	switch {
	case !s.covered:
		return step{}
	case len(s.move) > 0:
		return step{detach: s.move}
	case s.theirs:
		return step{
			tell: &podEvent{
				reason:  eventMismatch,
				warning: true,
				message: fmt.Sprintf("There is a Workload %s of another job: give the group another name", w.Name),
			},
		}
	case len(s.unit.Pods) == 0:
		return emptied(s)
	case w == nil:
		return unqueued(s)
	case w.DeletionTimestamp != nil:
		return leave(s)
	case convert.Finished(w):
		return over(s)
	case s.unit.Outcome() != nil:
		return finish(s)
	case convert.Evicted(w) && w.Status.Admission != nil:
		return evict(s)
	}
	if extra := s.extra(); len(extra) > 0 {
		return step{
			stop:    extra,
			reason:  eventExcess,
			message: fmt.Sprintf("The group %s has %d pods, and this is one more", s.unit.Name, s.unit.Total),
		}
	}
	switch {
	case w.Status.Admission != nil && reshaped(s):
		return step{remove: w}
	case w.Status.Admission != nil && s.priority.Renames(w):
		return step{spec: s.priority.Given(w)}
	case !convert.Admitted(w) && len(s.started()) > 0:
		return step{stop: s.started(), reason: eventStopped, message: "Its Workload " + w.Name + " is not admitted"}
	case w.Status.Admission == nil:
		return keepInStep(s)
	case !convert.Admitted(w):
		return step{}
	case s.conflict != nil && s.live():
		return run(s) // what it was started with holds
	case s.conflict != nil:
		return cannotStart(s, s.conflict)
	}
	next, acts := start(s)
	if acts {
		return next
	}
	out := run(s)
	if out.tell == nil {
		out.tell = next.tell
	}
	if next.again > 0 && (out.again == 0 || next.again < out.again) {
		out.again = next.again
	}
	return out
}

// endsFirst reports whether the end of the unit has to be written before its pods
// may go: they are its only witnesses.
func (s *facts) endsFirst() bool { return s.stands() == pod.Queued && s.unit.Outcome() != nil }

// emptied removes a Workload whose pods are all gone and will not come again.
func emptied(s facts) step {
	w := s.workload
	switch {
	case w == nil:
		return step{}
	case w.DeletionTimestamp == nil && s.awaited():
		if convert.Evicted(w) && w.Status.Admission != nil {
			return s.stopped()
		}
		return step{again: makerPause}
	}
	return step{remove: w}
}

// awaited reports whether pods that are gone are made anew by their controller. Their
// Workload then keeps its place in the queue, and what was decided about it.
func (s *facts) awaited() bool { return s.maker != nil && s.maker.replicas > 0 }

// whole reports whether all pods of the unit run, or none.
func (s *facts) whole() bool { return s.maker != nil && s.maker.whole }

// makerPause is after how long a controller that makes no pods is looked at again: it
// is not watched.
const makerPause = 10 * time.Second

// unqueued makes the Workload once all pods are there.
func unqueued(s facts) step {
	if started := s.started(); len(started) > 0 {
		return step{stop: started, reason: eventStopped, message: "It has no admitted Workload"}
	}
	if s.live() || len(s.held()) == 0 {
		return step{}
	}
	if s.unit.Single {
		var out step
		for _, p := range s.held() {
			out.detach = append(out.detach, pod.Detach(p))
		}
		return out
	}
	if s.unit.Wrong != "" {
		out := step{
			tell: &podEvent{
				reason:  eventMismatch,
				message: "The group " + s.unit.Name + " waits: " + s.unit.Wrong,
				warning: true,
			},
		}
		if s.unit.OfPodGroup() != "" {
			out.again = makerPause
		}
		return out
	}
	if extra := s.unit.Extra(); len(extra) > 0 {
		return step{
			stop:    extra,
			reason:  eventExcess,
			message: fmt.Sprintf("The group %s has %d pods, and this is one more", s.unit.Name, s.unit.Total),
		}
	}
	if s.unit.Missing() > 0 {
		// The API server keeps the first words of an event that comes again, so that
		// they do not say how many there are.
		return step{
			tell: &podEvent{
				reason: eventIncomplete,
				message: fmt.Sprintf(
					"The group %s waits until all of its %d pods are created",
					s.unit.Name,
					s.unit.Total,
				),
			},
		}
	}
	return step{create: true}
}

// leave stops what runs, and lets a Workload that is being deleted go when it has. The
// pods that are held are queued anew.
func leave(s facts) step {
	switch started := s.started(); {
	case len(started) > 0 && !convert.Finished(s.workload):
		return step{
			stop:    started,
			reason:  eventStopped,
			message: "Its Workload " + s.workload.Name + " is being deleted",
		}
	case s.live():
		return step{}
	}
	return step{remove: s.workload}
}

// over deletes what is still held of a group that has ended. What could not start
// stays, for its author to see why.
func over(s facts) step {
	c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadFinished)
	held := s.held()
	if s.unit.Alone() || len(held) == 0 || c.Reason == kueue.ReasonFailedToStart {
		return step{}
	}
	return step{
		stop:    held,
		reason:  eventExcess,
		message: "The group " + s.unit.Name + " has ended: " + c.Message,
	}
}

// finish writes how the unit ended.
func finish(s facts) step {
	if s.live() {
		return step{}
	}
	out := s.unit.Outcome()
	return step{
		status: workloadlifecycle.JobEnded(s.workload, out.Success, out.Message, s.pods(), s.lifecycle, s.now),
	}
}

// evict stops the pods, and gives the quota back when they are gone.
func evict(s facts) step {
	if started := s.started(); len(started) > 0 {
		if next := workloadlifecycle.NoteRefused(s.workload, s.refused(), s.now); next != nil {
			return step{status: next}
		}
		if end := workloadlifecycle.RunsOnUntil(s.workload, s.lifecycle.MaxStopNotice, s.now); !end.IsZero() {
			return step{again: end.Sub(s.now)}
		}
		c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadEvicted)
		return step{stop: started, reason: eventStopped, message: c.Message}
	}
	if s.live() {
		return step{}
	}
	return s.stopped()
}

// stopped gives back the quota of a unit whose pods are gone, or has it keep that for a while.
func (s *facts) stopped() step {
	next, again := workloadlifecycle.Stopped(s.workload, s.lifecycle, s.now)
	if next == nil {
		return step{again: again.Sub(s.now)}
	}
	workloadlifecycle.NoteCheckpoint(s.workload, next, s.now, s.workload)
	return step{status: next}
}

// extra are the pods that there is no room for: too many of the group, or too many of
// one role.
func (s *facts) extra() []*corev1.Pod {
	if out := s.unit.Extra(); len(out) > 0 {
		return out
	}
	if s.workload.Status.Admission == nil || s.unit.Alone() || s.unit.Owned || s.unit.Open {
		return nil
	}
	room := s.room()
	return slices.DeleteFunc(s.held(), func(p *corev1.Pod) bool { return take(room, p) })
}

// room is how many more pods of each pod set may be started.
func (s *facts) room() map[kueue.PodSetReference]int32 {
	out := convert.Left(s.workload)
	for _, p := range s.unit.Where(func(p *corev1.Pod) bool { return !podmeta.Gated(p) && convert.PodState(p).HoldsQuota() }) {
		out[pod.Role(p)]--
	}
	return out
}

// take uses up room for a pod, if there is any.
func take(room map[kueue.PodSetReference]int32, p *corev1.Pod) bool {
	if room[pod.Role(p)] <= 0 {
		return false
	}
	room[pod.Role(p)]--
	return true
}

// keepInStep keeps the spec of a waiting Workload equal to what the pods ask for. A
// group that lost pods while it was evicted waits until it has all of them again.
func keepInStep(s facts) step {
	w := s.workload
	switch incomplete := s.unit.Missing() > 0 || len(s.held()) == 0 || s.unit.Wrong != "" || s.unit.Single; {
	case incomplete && s.awaited():
		return step{again: makerPause}
	case incomplete:
		return step{remove: w}
	}
	next := asked(s)
	if s.unit.OfPodGroup() == podmeta.SakkaraGroup && next.again == 0 {
		next.again = askPause
	}
	return next
}

// askPause is after how long the ConfigMap of a group that waits is read again: it is not watched.
const askPause = time.Minute

// asked writes into the spec of a waiting Workload what its pods ask for.
func asked(s facts) step {
	w := s.workload
	first := s.unit.First()
	want := w.Spec.DeepCopy()
	want.QueueName = kueue.LocalQueueName(podmeta.Queue(first))
	want.MaximumExecutionTimeSeconds = admission.ExecutionTime(first)
	awaited := s.priority.Waiting(w, want)
	if sets := s.unit.PodSets(); !admission.SamePods(w.Spec.PodSets, sets) || !asNear(w.Spec.PodSets, sets) {
		want.PodSets = sets
	}
	notes := map[string]string{
		kueue.AdmissionGatedByAnnotation:     first.Annotations[kueue.AdmissionGatedByAnnotation],
		kueue.AwaitedPriorityClassAnnotation: awaited,
		kueue.LaterPodSetsAnnotation:         s.later(),
		kueue.StopNoticeAnnotation:           s.notice(),
	}
	for key, value := range notes {
		if w.Annotations[key] == value {
			delete(notes, key)
		}
	}
	if len(notes) == 0 && equality.Semantic.DeepEqual(w.Spec, *want) {
		return reclaim(s)
	}
	return step{spec: want, notes: notes}
}

// notice is how long before they are stopped the pods are told so, "" if they are not.
func (s *facts) notice() string {
	return workloadlifecycle.AskedNotice(
		s.unit.First().Annotations[kueue.StopNoticeAnnotation],
		s.lifecycle.MaxStopNotice,
	)
}

// surplus has a pod be queued by itself that comes on top of those which start together. If those are in one domain it
// must go there, too, which is known once they have their nodes.
func (s *facts) surplus(p *corev1.Pod, next *step) {
	if s.late(p) {
		next.tell = &podEvent{
			reason:  eventMismatch,
			message: "Pod " + p.Name + " waits: " + composite.Late(podmeta.NativeName(&p.Spec), s.unit.Name),
			warning: true,
		}
		return
	}
	out := pod.Detach(p)
	in := s.domains.of(s.workload, p)
	for _, label := range slices.Sorted(maps.Keys(in)) {
		value := in[label]
		was, chosen := out.Spec.NodeSelector[label]
		switch {
		case value == "":
			next.again = makerPause
			return
		case chosen && was != value:
			next.tell = &podEvent{
				reason: eventMismatch,
				message: fmt.Sprintf(
					"Pod %s waits: its nodeSelector asks for %s %s, and the group %s is in %s: create it anew without that",
					p.Name, label, was, s.unit.Name, value,
				),
				warning: true,
			}
			return
		}
		if out.Spec.NodeSelector == nil {
			out.Spec.NodeSelector = map[string]string{}
		}
		out.Spec.NodeSelector[label] = value
	}
	next.detach = append(next.detach, out)
}

// late reports whether a pod is of a PodGroup that was none of the CompositePodGroup when quota was asked for, but came
// later, or is only called as that is.
func (s *facts) late(p *corev1.Pod) bool {
	in := func(o metav1.Object) bool {
		return o.GetAnnotations()[podmeta.PodGroupKindAnnotation] == podmeta.CompositeGroup
	}
	together := slices.ContainsFunc(
		s.workload.Spec.PodSets,
		func(ps kueue.PodSet) bool { return in(&ps.Template) },
	)
	return (in(p) || together && p.Annotations[podmeta.PodGroupKindAnnotation] == podmeta.NativeGroup) &&
		!slices.ContainsFunc(s.workload.Spec.PodSets, func(ps kueue.PodSet) bool {
			return in(p) && in(&ps.Template) && podmeta.NativeName(&ps.Template.Spec) == podmeta.NativeName(&p.Spec)
		})
}

// asNear reports whether two lists of the same pod sets want to be as near to each other.
func asNear(a, b []kueue.PodSet) bool {
	return slices.EqualFunc(a, b, func(a, b kueue.PodSet) bool {
		return equality.Semantic.DeepEqual(a.TopologyRequest, b.TopologyRequest) &&
			!slices.ContainsFunc(kueue.NearAnnotations(), func(key string) bool {
				return a.Template.Annotations[key] != b.Template.Annotations[key]
			})
	})
}

// start lets the pods run that there is room for. Those of a controller that makes
// more than it did are queued by themselves, and so are pods that a PodGroup does not
// count: they run once it does. It says whether any pod is written; else what the others wait for.
func start(s facts) (step, bool) {
	held := s.held()
	if len(held) == 0 {
		return step{}, false
	}
	room := s.room()
	var next step
	for _, p := range held {
		if !take(room, p) {
			if s.unit.Owned && !s.whole() || s.unit.Open {
				s.surplus(p, &next)
			}
			continue
		}
		at := slices.IndexFunc(s.infos, func(i jobs.PodSetInfo) bool { return i.Name == string(pod.Role(p)) })
		if at < 0 {
			continue
		}
		out, err := pod.Start(p, s.infos[at])
		if err != nil {
			return cannotStart(s, err), true
		}
		next.start = append(next.start, out)
	}
	if len(next.start) > 0 {
		next.detach, next.again = nil, 0
		if s.unit.Ranked() {
			s.unit.Rank(next.start, s.workload.Spec.PodSets)
		}
		next.tell = &podEvent{
			reason:  "Started",
			message: "Admitted by clusterQueue " + string(s.workload.Status.Admission.ClusterQueue),
		}
	}
	return next, len(next.start)+len(next.detach) > 0
}

// cannotStart ends the Workload of pods that contradict their admission: trying again
// would find the same.
func cannotStart(s facts, why error) step {
	return step{
		status: workloadlifecycle.Ended(s.workload, kueue.ReasonFailedToStart, why.Error(), s.now),
		tell:   &podEvent{reason: kueue.ReasonFailedToStart, message: why.Error(), warning: true},
	}
}

// run looks after a unit whose pods may run.
func run(s facts) step {
	w := s.workload
	next, evicted, again := workloadlifecycle.WhileRunning(w, s.pods(), s.lifecycle, s.now)
	switch replaced := waitsForReplacement(s); {
	case evicted != nil:
		return step{status: next, evicted: evicted, tell: &podEvent{
			reason: "PlanWithdrawn", warning: true, message: "They are queued again. " + evicted.Message,
		}}
	case next != nil:
		return step{status: next}
	case replaced != nil:
		return step{status: replaced}
	}
	out := reclaim(s)
	if again > 0 {
		out.again = again
	}
	return out
}

// pods is what is seen of the unit's pods.
func (s *facts) pods() workloadlifecycle.Pods {
	return workloadlifecycle.Pods{
		Ready:      s.ready(),
		ReadySince: s.readySince,
		Refused:    s.refused(),
		Behind:     s.seen.Behind,
	}
}

// refused is whether planned nodes refuse the unit's pods.
func (s *facts) refused() workloadlifecycle.Refused {
	return workloadlifecycle.Refused{
		Nodes: s.seen.Nodes,
		Why:   s.seen.Why,
		Since: s.seen.Refused,
		Ran:   s.seen.Bound > 0,
	}
}

// ready reports whether all pods are ready that may be there: of pods that are made one
// after the other each has the time that a job has.
func (s *facts) ready() bool {
	if s.maker == nil || !s.maker.inTurn {
		return s.unit.Ready()
	}
	started := s.started()
	return len(started) > 0 && !slices.ContainsFunc(started, func(p *corev1.Pod) bool { return !pod.Ready(p) })
}

// waitsForReplacement says on the Workload whether pods of a group failed and others
// are awaited in their stead.
func waitsForReplacement(s facts) *kueue.WorkloadStatus {
	if s.unit.Alone() || s.unit.Owned {
		return nil
	}
	missing, broken := s.unit.Lacks(), s.unit.Failed()
	was := apimeta.IsStatusConditionTrue(s.workload.Status.Conditions, kueue.WorkloadWaitingForReplacementPods)
	next := s.workload.Status.DeepCopy()
	set := workloadlifecycle.NewConditions(s.workload, next, s.now)
	switch {
	case missing > 0 && broken && !was:
		set.Set(
			kueue.WorkloadWaitingForReplacementPods,
			"True",
			kueue.ReasonPodsFailed,
			fmt.Sprintf("%d pods failed and have not been created anew", missing),
		)
	case missing == 0 && was:
		set.Set(
			kueue.WorkloadWaitingForReplacementPods,
			"False",
			kueue.ReasonPodsFailed,
			"All pods are there again",
		)
	default:
		return nil
	}
	return next
}

// reclaim gives back the quota of pods that are done.
func reclaim(s facts) step {
	if s.keepsDone {
		return step{}
	}
	w := s.workload
	done := s.unit.Reclaimable(w.Spec.PodSets, s.detached)
	left := int32(0)
	for i := range w.Spec.PodSets {
		left += w.Spec.PodSets[i].Count
	}
	for i := range done { // the API wants them to grow only
		for _, old := range w.Status.ReclaimablePods {
			if old.Name == done[i].Name {
				done[i].Count = max(done[i].Count, old.Count)
			}
		}
		left -= done[i].Count
	}
	for _, old := range w.Status.ReclaimablePods {
		if !slices.ContainsFunc(done, func(r kueue.ReclaimablePod) bool { return r.Name == old.Name }) {
			done = append(done, old)
		}
	}
	if len(done) == 0 || left <= 0 && !s.unit.Owned ||
		equality.Semantic.DeepEqual(w.Status.ReclaimablePods, done) {
		return step{} // what has ended altogether says so at once, and gives back the same
	}
	next := w.Status.DeepCopy()
	next.ReclaimablePods = done
	return step{status: next}
}
