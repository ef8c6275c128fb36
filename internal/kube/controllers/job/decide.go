package job

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// facts is everything that the next step of one job depends on.
type facts struct {
	job     jobs.Object
	facts   jobs.Facts
	adapter jobs.Adapter
	// queue is the job's queue name, "" if it has none.
	queue string
	// priority is what its labels and pods ask for.
	priority admission.Priority
	workload *kueue.Workload // nil if there is none yet
	// prebuilt is the name of the Workload that the job wants, "" if one is to be
	// made for it.
	prebuilt string
	// extra is a Workload that the job has besides, with so many unfinished pods.
	extra     *kueue.Workload
	extraLive int
	// nested is true for a part of another managed job, and whole is that job's
	// Workload, nil if it has none.
	nested bool
	whole  *kueue.Workload
	// unreadable is true for a job that cannot be understood: it can be stopped, and no more.
	unreadable bool
	// free is true for a job that was held and needs no admission any more.
	free bool
	// foreign is true for a part whose pods are not counted with the whole.
	foreign bool
	// infos are what the workload's admission adds to the pods; set if admitted.
	infos []jobs.PodSetInfo
	// add writes infos into the job, if another controller is to run it.
	add func(jobs.Object, []jobs.PodSetInfo) (jobs.Object, error)
	// keepsDone: the installation keeps the quota of pods that are done until the job ends.
	keepsDone bool
	// conflict says why infos contradict each other.
	conflict error
	pods     admission.Pods
	// group is how it stands with its PodGroup of Kubernetes; looked at before it starts.
	group admission.PodGroup
	// domain is its ComputeDomain, where it has to be looked at; nil where not, and of jobs without.
	domain *domain
	// ownDomains are the claim templates of ComputeDomains that the job's author made, by the pod sets that
	// are in them.
	ownDomains map[kueue.PodSetReference]string
	// sakkara is the group of Sakkara's that pods of it are of, as long as it waits.
	sakkara ofGroup
	// tried: it was found out whether its pods may be made, and refusal says why not, "" if they
	// may. triesAgain is when to look again because of that, 0 for never.
	tried      bool
	refusal    string
	triesAgain time.Duration
	lifecycle  workloadlifecycle.Config
	now        time.Time
	// yields is for how long it can wait yet that the job is as its author wrote it, 0 if it cannot.
	yields time.Duration
	// readySince is since when the job's pods are all ready; now if they are not, or it is not known.
	readySince time.Time
}

// step is the one write that comes next. At most one of the pointers is set.
type step struct {
	job    jobs.Object     // write the job like this
	create bool            // create the workload
	adopt  bool            // make the prebuilt workload the job's own
	remove *kueue.Workload // delete this workload, or its finalizer if it is being deleted
	unpin  bool            // remove the workload's finalizer
	// domain is a ComputeDomain to make for it, removeDomain one to delete.
	domain       *unstructured.Unstructured
	removeDomain metav1.Object
	// releases is true if the step gives back the quota of a job that was stopped, shrinks if it does
	// so with that of pods that a running job does not ask for.
	releases, shrinks bool
	spec              *kueue.WorkloadSpec   // change the workload's spec to this
	notes             map[string]string     // and its annotations to these, "" for none
	status            *kueue.WorkloadStatus // change the workload's status to this
	again             time.Duration         // look again then, at the latest; 0 for never
	tell              *jobEvent             // tell it once the write is done
	// evicted is told of the workload once the write is done.
	evicted *workloadlifecycle.Event
}

// jobEvent is an event on the job, told once.
type jobEvent struct {
	reason, message string
	warning         bool
}

// decide returns the next step of a managed job that is not being deleted. No Workload ends while
// pods count with it: whoever waits would be given what they use.
func decide(s facts) (step, error) {
	next, err := choice(s)
	if err == nil && next.status != nil && s.pods.Live > 0 && !convert.Finished(s.workload) &&
		apimeta.IsStatusConditionTrue(next.status.Conditions, kueue.WorkloadFinished) {
		return step{again: endsPause}, nil
	}
	return next, err
}

// endsPause is how long to wait for pods that still count with a Workload that is about to end.
const endsPause = time.Second

// choice is the next step by the job and its Workload. The first case that matches wins.
func choice(s facts) (step, error) {
	w := s.workload
	switch {
	case s.free:
		return setFree(s)
	case s.foreign && !s.facts.Suspended && s.facts.Finished == nil:
		return stop(
			s,
			"Suspended",
			"Suspended: its pods are not among those that Workload "+s.whole.Name+" was admitted with",
		)
	case s.nested:
		return holdPart(s, s.whole)
	case s.unreadable:
		return stopUnread(s)
	case s.extra != nil && (s.extra.DeletionTimestamp == nil || s.extraLive == 0):
		return removeExtra(s), nil
	case unclaimed(s):
		return claim(s)
	case w != nil && convert.Finished(w):
		return ended(s)
	case s.facts.Finished != nil:
		return finish(s)
	case w == nil && !s.facts.Suspended:
		return stop(s, "Suspended", "Suspended: it has no admitted workload")
	case w == nil && s.prebuilt != "":
		return step{tell: &jobEvent{
			reason: "PrebuiltWorkloadNotFound", warning: true,
			message: "Waiting for the prebuilt Workload " + s.prebuilt + ", which doesn't exist",
		}}, nil
	case w == nil && s.facts.Active:
		return step{}, nil // its pods, of an earlier workload, end first
	case w == nil:
		return create(s), nil
	case w.DeletionTimestamp != nil:
		return stopForDeletion(s)
	case convert.Evicted(w) && w.Status.Admission != nil:
		return stopEvicted(s)
	case !convert.Admitted(w) && !s.facts.Suspended:
		return stop(s, "Suspended", "Suspended: it is not admitted")
	case w.Status.Admission == nil:
		return keepInStep(s)
	}
	if next, outgrown, err := outgrown(s); outgrown || err != nil {
		return next, err
	}
	switch {
	case s.priority.Renames(w):
		return promote(s), nil
	case !convert.Admitted(w):
		return step{}, nil
	case s.facts.Suspended && s.refusal != "":
		return refuse(s), nil
	case s.facts.Suspended:
		return start(s)
	}
	if why := grown(s); why != "" {
		return stop(s, "Stopped", "Stopped, to be queued again: "+why)
	}
	return run(s), nil
}

// setFree lets a job run that was held where only queued jobs ran, which is so no more, and then
// forgets that it was.
func setFree(s facts) (step, error) {
	if !s.facts.Suspended {
		return step{remove: s.workload}, nil
	}
	var as []jobs.PodSetInfo // as it was written
	for i := range s.facts.PodSets {
		ps := &s.facts.PodSets[i]
		as = append(as, jobs.PodSetInfo{Name: string(ps.Name), Count: ps.Count, Asked: ps.Count})
	}
	next, err := s.adapter.Start(s.job, as)
	if err != nil {
		return step{}, err
	}
	return step{
		job: next,
		tell: &jobEvent{
			reason:  "Started",
			message: "It runs without a queue: its namespace does not ask for one any more",
		},
	}, nil
}

// grown says of which pods a running job asks for more than it was admitted with, or has still;
// "" if of none. More would find no place: once it is suspended, it is outgrown.
func grown(s facts) string {
	if namedOtherwise(s) {
		return ""
	}
	for _, asks := range s.facts.PodSets {
		most, given := givenTo(s.workload, asks.Name)
		switch {
		case !given && asks.Count > 0:
			return fmt.Sprintf("it asks for %d pods %s, which it was not admitted with", asks.Count, asks.Name)
		case given && asks.Count > most:
			return fmt.Sprintf("it asks for %d pods and was admitted with %d", asks.Count, most)
		case given && s.facts.Rigid && asks.Count < most:
			return fmt.Sprintf(
				"it asks for %d pods, was admitted with %d and cannot shrink as it runs",
				asks.Count,
				most,
			)
		}
	}
	return regrown(s)
}

// namedOtherwise reports whether a job asks for just the pods that it was admitted with under other names,
// all of them: an import keeps Workloads of controllers that name pod sets in a way of their own.
func namedOtherwise(s facts) bool {
	asks, has := slices.Clone(s.facts.PodSets), s.workload.Spec.PodSets
	if len(asks) != len(has) {
		return false
	}
	for i := range asks {
		if slices.ContainsFunc(has, func(ps kueue.PodSet) bool { return ps.Name == asks[i].Name }) {
			return false
		}
		asks[i].Name = has[i].Name
	}
	return admission.SamePods(asks, has)
}

// regrown says of which pods a job has more to run than it kept quota for when it was made smaller;
// "" if of none.
func regrown(s facts) string {
	for _, asks := range s.facts.PodSets {
		at := slices.IndexFunc(s.workload.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == asks.Name })
		if at < 0 {
			continue
		}
		kept := s.workload.Spec.PodSets[at].Count - pods(s.workload.Status.ReclaimablePods, asks.Name)
		if left := asks.Count - pods(s.facts.Reclaimable, asks.Name); left > kept {
			return fmt.Sprintf(
				"it has %d pods to run and gave back the quota of all but %d when it was made smaller",
				left,
				kept,
			)
		}
	}
	return ""
}

// pods is how many pods of a pod set are done, by a list of done ones.
func pods(done []kueue.ReclaimablePod, name kueue.PodSetReference) int32 {
	for _, r := range done {
		if r.Name == name {
			return r.Count
		}
	}
	return 0
}

// givenTo is how many pods of a pod set were admitted, with the pods that were done by then.
func givenTo(w *kueue.Workload, name kueue.PodSetReference) (int32, bool) {
	at := slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == name })
	for _, has := range w.Status.Admission.PodSetAssignments {
		switch {
		case has.Name != name || has.Count == nil:
		case at >= 0 && w.Spec.PodSets[at].MinCount == nil: // all of it, or what was left to run
			return max(*has.Count, w.Spec.PodSets[at].Count), true
		default:
			return *has.Count, true
		}
	}
	return 0, false
}

// create makes the workload, also of a job that has no queue: it is where the user
// looks to see why the job does not run.
func create(s facts) step {
	if s.sakkara.awaits != "" && s.queue != "" {
		return step{create: true, tell: groupMismatch(s)}
	}
	if c := s.priority.Awaited; c != "" && s.queue != "" {
		return step{create: true, tell: &jobEvent{
			reason:  "Held",
			warning: true,
			message: "Held until there is a WorkloadPriorityClass " + c + ": create it, or name another one in the label " + kueue.PriorityClassLabel,
		}}
	}
	if s.queue != "" {
		return step{create: true} // it is there to be seen, and a job has few events
	}
	return step{create: true, tell: &jobEvent{
		reason:  "Held",
		warning: true,
		message: "Held, because this namespace runs queued jobs only: set the label " + kueue.QueueNameLabel + " to the name of a LocalQueue",
	}}
}

// groupMismatch tells what is missing or wrong of the group that pods of a job are of.
func groupMismatch(s facts) *jobEvent {
	return &jobEvent{reason: "GroupMismatch", warning: true, message: s.sakkara.awaits}
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// stop takes a job one step towards being suspended and restored.
func stop(s facts, reason, message string) (step, error) {
	var original []kueue.PodSet
	if s.workload != nil {
		original = sakkara.Authored(s.workload)
	}
	next, err := s.adapter.Stop(s.job, original)
	if err != nil || equality.Semantic.DeepEqual(s.job, next) {
		return step{}, err
	}
	st := step{job: next}
	if !s.facts.Suspended {
		st.tell = &jobEvent{reason: reason, message: message}
	}
	return st, nil
}

// stopUnread stops a job that cannot be understood and may not run.
func stopUnread(s facts) (step, error) {
	w := s.workload
	switch {
	case w != nil && convert.Finished(w):
		return step{}, nil
	case w == nil && !s.facts.Suspended:
		return stop(s, "Suspended", "Suspended: it has no admitted workload")
	case w == nil:
		return step{}, nil
	case w.DeletionTimestamp != nil:
		return stopForDeletion(s)
	case convert.Evicted(w) && w.Status.Admission != nil:
		return stopEvicted(s)
	case !convert.Admitted(w) && !s.facts.Suspended:
		return stop(s, "Suspended", "Suspended: it is not admitted")
	}
	return step{}, nil
}

// stopForDeletion stops a job whose workload is being deleted, and lets the workload go
// when the pods are gone. The job is then queued anew.
func stopForDeletion(s facts) (step, error) {
	if !s.facts.Suspended {
		return stop(s, "Stopped", "Stopped: its Workload is being deleted")
	}
	if s.facts.Active || s.pods.Live > 0 {
		return step{}, nil
	}
	// The Workload is the only one to know what the job was like before.
	if next, err := stop(s, "", ""); err != nil || next.job != nil {
		return next, err
	}
	return step{unpin: true, releases: true}, nil
}

// stopEvicted stops an evicted job, and gives its quota back when its pods are gone.
func stopEvicted(s facts) (step, error) {
	if !s.facts.Suspended {
		if next := workloadlifecycle.NoteRefused(s.workload, s.refused(), s.now); next != nil {
			return step{status: next}, nil
		}
		if end := workloadlifecycle.RunsOnUntil(s.workload, s.lifecycle.MaxStopNotice, s.now); !end.IsZero() {
			return step{again: end.Sub(s.now)}, nil
		}
		c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadEvicted)
		return stop(s, "Stopped", "Stopped: "+c.Message)
	}
	if s.facts.Active || s.pods.Live > 0 {
		return step{}, nil
	}
	if next, first := dropDomain(s); first {
		return next, nil
	}
	if shrinks(s.workload) { // later, its size is what its author wrote
		if next, err := stop(s, "", ""); err != nil || next.job != nil {
			return next, err
		}
	}
	next, again := workloadlifecycle.Stopped(s.workload, s.lifecycle, s.now)
	if next == nil {
		return step{again: again.Sub(s.now)}, nil
	}
	workloadlifecycle.NoteCheckpoint(s.workload, next, s.now, s.job, s.workload)
	if next.Admission != nil { // it keeps it for a while
		return step{status: next}, nil
	}
	next.ReclaimablePods = givenBack(s) // what is done need not run when it comes back
	return step{status: next, releases: true}, nil
}

// keepInStep keeps the spec of a waiting workload equal to what the job asks for,
// and the job as its user wrote it.
func keepInStep(s facts) (step, error) {
	w := s.workload
	want := w.Spec.DeepCopy()
	want.QueueName = kueue.LocalQueueName(s.queue)
	awaited := s.priority.Waiting(w, want)
	want.MaximumExecutionTimeSeconds = admission.ExecutionTime(s.job)
	restored, mended, err := s.restored(sized(sakkara.Authored(w), s.facts.PodSets))
	if err != nil || !mended {
		return step{}, err
	}
	if !equality.Semantic.DeepEqual(s.job, restored) && startedBefore(w) {
		if s.yields > 0 {
			return step{again: s.yields}, nil // starting it anew does that, too
		}
		return step{job: restored}, nil
	}
	if s.prebuilt != "" && !admission.SamePods(w.Spec.PodSets, s.facts.PodSets) {
		return outOfSync(s), nil
	}
	gates := s.job.GetAnnotations()[kueue.AdmissionGatedByAnnotation]
	if s.prebuilt == "" {
		want.PodSets = s.facts.PodSets
	} else {
		gates = keepOwn(s, want)
	}
	once := w.Annotations[kueue.EndsOnceAnnotation]
	if !s.facts.EndsOnce {
		once = "" // its author gave it more to do
	}
	after := s.job.GetAnnotations()[kueue.AfterAnnotation]
	same := gates == w.Annotations[kueue.AdmissionGatedByAnnotation] &&
		after == w.Annotations[kueue.AfterAnnotation] &&
		awaited == w.Annotations[kueue.AwaitedPriorityClassAnnotation] &&
		once == w.Annotations[kueue.EndsOnceAnnotation] &&
		later(s.facts) == w.Annotations[kueue.LaterPodSetsAnnotation] &&
		domainNote(&s) == w.Annotations[kueue.ComputeDomainPodSetsAnnotation] &&
		s.sakkara.name == w.Annotations[kueue.SakkaraGroupAnnotation] &&
		s.sakkara.placedNote() == w.Annotations[kueue.SakkaraPlacedAnnotation] &&
		s.sakkara.awaits == w.Annotations[kueue.GroupAwaitedAnnotation] &&
		w.Annotations[kueue.FewerPodsAnnotation] == ""
	notice := s.notice()
	same = same && notice == w.Annotations[kueue.StopNoticeAnnotation]
	refused := w.Annotations[kueue.PodsRefusedAnnotation]
	if s.tried {
		refused = s.refusal
	}
	same = same && refused == w.Annotations[kueue.PodsRefusedAnnotation]
	if !same || !equality.Semantic.DeepEqual(w.Spec, *want) {
		notes := map[string]string{
			kueue.AdmissionGatedByAnnotation:     gates,
			kueue.AwaitedPriorityClassAnnotation: awaited,
			kueue.EndsOnceAnnotation:             once,
			kueue.LaterPodSetsAnnotation:         later(s.facts),
			kueue.ComputeDomainPodSetsAnnotation: domainNote(&s),
			kueue.FewerPodsAnnotation:            "",
			kueue.AfterAnnotation:                after,
			kueue.PodsRefusedAnnotation:          refused,
			kueue.StopNoticeAnnotation:           notice,
			kueue.SakkaraGroupAnnotation:         s.sakkara.name,
			kueue.SakkaraPlacedAnnotation:        s.sakkara.placedNote(),
			kueue.GroupAwaitedAnnotation:         s.sakkara.awaits,
		}
		if after != w.Annotations[kueue.AfterAnnotation] {
			notes[kueue.AfterStateAnnotation] = "" // what was found out was about other jobs
		}
		tell := &jobEvent{
			reason:  "UpdatedWorkload",
			message: "Updated Workload " + w.Name + ", because the job changed while it waited",
		}
		switch {
		case s.sakkara.awaits != w.Annotations[kueue.GroupAwaitedAnnotation] && s.sakkara.awaits != "":
			tell = groupMismatch(s)
		case s.sakkara.name != "":
			tell.message = "Updated Workload " + w.Name + ", because the job or its group changed while it waited"
		}
		return step{spec: want, notes: notes, tell: tell}, nil
	}
	st := tellDone(s, givenBack(s))
	st.again = sooner(s.triesAgain, s.sakkara.again)
	return st, nil
}

// promote gives a workload the priority class of its job.
func promote(s facts) step {
	want := s.priority.Given(s.workload)
	return step{
		spec: want,
		tell: &jobEvent{
			reason:  "UpdatedWorkload",
			message: "Updated the priority class of Workload " + s.workload.Name + " to " + want.PriorityClassRef.Name,
		},
	}
}

// notice is how long before it is stopped the job is told so, "" if it is not.
func (s facts) notice() string {
	return workloadlifecycle.AskedNotice(
		s.job.GetAnnotations()[kueue.StopNoticeAnnotation],
		s.lifecycle.MaxStopNotice,
	)
}

// startedBefore reports whether the job may still carry what an earlier
// admission added.
func startedBefore(w *kueue.Workload) bool {
	return apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted) != nil
}

// restored is the suspended job without what an earlier admission added, with
// the sizes of these pod sets. False means that the API does not let it be
// restored yet; its kind's controller is about to change that.
func (s facts) restored(original []kueue.PodSet) (jobs.Object, bool, error) {
	o, err := s.adapter.Stop(s.job, original)
	if err != nil || !startedBefore(s.workload) {
		return o, err == nil, err
	}
	facts, err := s.adapter.Read(o)
	if err != nil {
		return nil, false, err
	}
	carries := func(list []kueue.PodSet) bool {
		return slices.ContainsFunc(
			list,
			func(ps kueue.PodSet) bool { return ps.Template.Labels[kueue.PodSetLabel] != "" },
		)
	}
	return o, !carries(facts.PodSets) || carries(original), nil
}

const (
	// groupPause is how long to wait for the PodGroup of Kubernetes that is written for a job: its pods name it
	// when they are made, or never.
	groupPause = 100 * time.Millisecond
	// groupPatience is after how long a job starts without: others know it as a gang then by nothing.
	groupPatience = 10 * time.Second
)

// start lets an admitted job run with what it was given.
func start(s facts) (step, error) {
	if why := s.conflict; why != nil {
		return cannotStart(s, why), nil
	}
	if next, first := prepareDomain(s); first {
		return next, nil
	}
	if s.group == admission.Awaited && waited(s.workload, s.now) < groupPatience {
		return step{again: groupPause}, nil
	}
	clean := s.job
	if startedBefore(s.workload) {
		restored, mended, err := s.restored(sakkara.Authored(s.workload))
		if err != nil || !mended {
			return step{}, err
		}
		clean = restored
	}
	next, err := s.adapter.Start(clean, s.infos)
	if err == nil && s.add != nil {
		next, err = s.add(next, s.infos)
	}
	if err != nil {
		return cannotStart(s, err), nil
	}
	return step{
		job: next,
		tell: &jobEvent{
			reason:  "Started",
			message: "Admitted by clusterQueue " + string(s.workload.Status.Admission.ClusterQueue) + ungrouped(s),
		},
	}, nil
}

// ungrouped says why the pods of a job that starts are in no PodGroup of Kubernetes although they should be; "" if they
// are, or need not.
func ungrouped(s facts) string {
	switch s.group {
	case admission.Taken:
		return "; its pods are in no PodGroup, since there is another one called " + s.workload.Name
	case admission.Awaited:
		return fmt.Sprintf(
			"; its pods are in no PodGroup, since %s was not written within %s",
			s.workload.Name,
			groupPatience,
		)
	case admission.NoPodGroup, admission.Written:
	}
	return ""
}

// cannotStart ends the workload of a job whose manifest and admission, or whose
// admission checks, contradict each other: trying again would find the same.
func cannotStart(s facts, why error) step {
	return step{
		status: workloadlifecycle.Ended(s.workload, kueue.ReasonFailedToStart, why.Error(), s.now),
		tell:   &jobEvent{reason: kueue.ReasonFailedToStart, message: why.Error(), warning: true},
	}
}

// run looks after an admitted job that may run.
func run(s facts) step {
	if s.refusal != "" {
		return refuse(s)
	}
	next, evicted, again := workloadlifecycle.WhileRunning(s.workload, s.seen(), s.lifecycle, s.now)
	switch {
	case evicted != nil:
		return step{status: next, evicted: evicted, tell: &jobEvent{
			reason: "PlanWithdrawn", warning: true, message: "It is queued again. " + evicted.Message,
		}}
	case next != nil:
		return step{status: next}
	}
	st := shrink(s)
	if st.again = again; again == 0 {
		st.again = s.triesAgain
	}
	return st
}

// seen is what is seen of the job's pods.
func (s facts) seen() workloadlifecycle.Pods {
	return workloadlifecycle.Pods{
		Ready:      s.facts.Ready,
		ReadySince: s.readySince,
		Refused:    s.refused(),
		Behind:     s.pods.Behind,
	}
}

// refused is whether planned nodes refuse the job's pods.
func (s facts) refused() workloadlifecycle.Refused {
	return workloadlifecycle.Refused{
		Nodes: s.pods.Nodes,
		Why:   s.pods.Why,
		Since: s.pods.Refused,
		Ran:   s.pods.Bound > 0,
	}
}

// refuse has a job give back its quota that may have no pods, and notes why: it is held until it
// may.
func refuse(s facts) step {
	if s.workload.Annotations[kueue.PodsRefusedAnnotation] != s.refusal {
		return step{spec: &s.workload.Spec, notes: map[string]string{kueue.PodsRefusedAnnotation: s.refusal}}
	}
	next, evicted := workloadlifecycle.RefusePods(s.workload, s.refusal, s.now)
	return step{status: next, evicted: &evicted, tell: &jobEvent{
		reason:  "PodsRefused",
		warning: true,
		message: "It gives back its quota, because its pods may not be made; it is queued again by itself once they may: " + s.refusal,
	}}
}

// shrink gives back the quota of pods that are done or not asked for any more, and notes which
// are not asked for.
func shrink(s facts) step {
	st := reclaim(s)
	if asks := fewer(s); st.status == nil && asks != s.workload.Annotations[kueue.FewerPodsAnnotation] {
		st.spec, st.notes = &s.workload.Spec, map[string]string{kueue.FewerPodsAnnotation: asks}
	}
	return st
}

// fewer says of which pods a running job asks for fewer than it was admitted with, in the words
// of FewerPodsAnnotation: what it has does not wait for them.
func fewer(s facts) string {
	var out []string
	for i := range s.workload.Status.Admission.PodSetAssignments {
		has, asks := &s.workload.Status.Admission.PodSetAssignments[i], int32(0)
		for j := range s.facts.PodSets {
			if s.facts.PodSets[j].Name == has.Name {
				asks = s.facts.PodSets[j].Count
			}
		}
		if has.Count != nil && asks < *has.Count {
			out = append(out, fmt.Sprintf("%s=%d", has.Name, asks))
		}
	}
	return strings.Join(out, ",")
}

// reclaim gives back the quota of a running job that it does not need any more: that of pods that
// are done, and, once they are gone, of pods that it does not ask for since it was made smaller.
func reclaim(s facts) step {
	w := s.workload
	if s.keepsDone || allDone(s.facts) {
		return step{}
	}
	var done []kueue.ReclaimablePod
	shrinks := false
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		left := int32(0)
		if at := slices.IndexFunc(
			s.facts.PodSets,
			func(asks kueue.PodSet) bool { return asks.Name == ps.Name },
		); at >= 0 {
			left = s.facts.PodSets[at].Count
		}
		if kept := keptFor(s, ps.Name); left < kept {
			left = kept
		}
		left -= pods(s.facts.Reclaimable, ps.Name)
		r := convert.GivenBack(ps, left)
		was := pods(w.Status.ReclaimablePods, ps.Name)
		shrinks = shrinks || r.Count > was && left+pods(s.facts.Reclaimable, ps.Name) < ps.Count
		if r.Count = max(r.Count, was); r.Count > 0 { // the API wants them to grow only
			done = append(done, r)
		}
	}
	if len(done) == 0 {
		return step{}
	}
	st := tellDone(s, done)
	st.shrinks = shrinks
	return st
}

// keptFor is of how many pods of a pod set, done ones among them, the quota stays
// whatever the job asks for, because pods are there. Pods that do not say of which pod set they
// are may be of each.
func keptFor(s facts, name kueue.PodSetReference) int32 {
	given, _ := givenTo(s.workload, name)
	live := s.pods.Of[name] + s.pods.Of[""]
	if live == 0 {
		return 0
	}
	return min(
		int32(min(live, math.MaxInt32))+pods(s.facts.Reclaimable, name), //nolint:gosec // it is no larger
		given,
	)
}

// tellDone writes which pods of a job are done.
func tellDone(s facts, done []kueue.ReclaimablePod) step {
	if equality.Semantic.DeepEqual(s.workload.Status.ReclaimablePods, done) {
		return step{}
	}
	next := s.workload.Status.DeepCopy()
	next.ReclaimablePods = done
	return step{status: next}
}

// givenBack says which pods of a job are done, in the words of its Workload: see
// convert.Left.
func givenBack(s facts) []kueue.ReclaimablePod {
	var out []kueue.ReclaimablePod
	for _, r := range s.facts.Reclaimable {
		for i := range s.facts.PodSets {
			at := slices.IndexFunc(s.workload.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == r.Name })
			if asks := &s.facts.PodSets[i]; asks.Name == r.Name && at >= 0 {
				all := &s.workload.Spec.PodSets[at]
				size := asks.Count
				if all.MinCount == nil { // scaled down, it may be scaled up again and has quota for that
					size = max(size, all.Count)
				}
				out = append(out, convert.GivenBack(all, size-r.Count))
			}
		}
	}
	return out
}

// allDone reports whether every pod is done. The job is about to say that it finished, which gives
// back the same and is written anyway.
func allDone(f jobs.Facts) bool {
	if len(f.Reclaimable) == 0 {
		return false
	}
	var left int32
	for _, ps := range f.PodSets {
		left += ps.Count
	}
	for _, r := range f.Reclaimable {
		left -= r.Count
	}
	return left <= 0
}

// linger gives back what a job that ended does not have any more, while it keeps other pods: no
// pod follows the ones that have ended or are gone, however they ended. Pods that leave are waited
// for: most often they are the last, and the end of the job gives back the same.
func linger(s facts) step {
	if s.keepsDone || s.pods.Leaving > 0 || s.pods.Of[""] > 0 || !convert.Admitted(s.workload) ||
		convert.Evicted(s.workload) {
		return step{}
	}
	var done []kueue.ReclaimablePod
	for i := range s.workload.Spec.PodSets {
		ps := &s.workload.Spec.PodSets[i]
		r := convert.GivenBack(ps, int32(min(s.pods.Of[ps.Name], math.MaxInt32))) //nolint:gosec // it is no larger
		if r.Count = max(r.Count, pods(s.workload.Status.ReclaimablePods, ps.Name)); r.Count > 0 {
			done = append(done, r)
		}
	}
	if len(done) == 0 {
		return step{}
	}
	return tellDone(s, done)
}

// finish ends the workload of a job that ended, of which its own kind tells. Pods that it keeps
// go when others are to have their quota.
func finish(s facts) (step, error) {
	switch {
	case s.workload == nil:
		return step{}, nil
	case s.pods.Live > 0 && convert.Evicted(s.workload) && !s.facts.Suspended:
		c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadEvicted)
		return stop(s, "Stopped", "The pods that it kept are stopped: "+c.Message)
	case s.pods.Live > 0:
		return linger(s), nil
	}
	if next, first := dropDomain(s); first {
		return next, nil
	}
	end := s.facts.Finished
	return step{
		status: workloadlifecycle.JobEnded(s.workload, end.Success, end.Message, s.seen(), s.lifecycle, s.now),
	}, nil
}
