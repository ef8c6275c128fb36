package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Events of jobs whose pods restart in place, and codes of why they do not.
const (
	restartedInPlace = "RestartedInPlace"
	notInPlace       = "NotRestartedInPlace"
	lateInPlace      = "LateInPlace"
	podsSucceeded    = "PodsSucceeded"
)

// leaver is a pod that left the round that all were in.
type leaver struct {
	// pod as it was when it failed, as far as that was seen, and member it is of.
	pod    *corev1.Pod
	member int
	// stay is how many pods restart where they are, and made how many were made anew in place of others.
	stay, made int32
}

// told says in words what follows for all pods.
func (x *leaver) told() string {
	switch {
	case x.made == 1:
		return fmt.Sprintf("%d pods restart in place, and 1 was made anew", x.stay)
	case x.made > 1:
		return fmt.Sprintf("%d pods restart in place, and %d were made anew", x.stay, x.made)
	}
	return fmt.Sprintf("%d pods restart in place", x.stay)
}

// listen takes in which rounds the pods of members say that they are in.
func (r *reconciler) listen(ctx context.Context, l *look) error {
	keys := r.kind.Running.Operator.Rounds
	if l.plan.InPlace == nil || keys == nil || l.plan.Suspended || l.kept.Outcome != podplan.Open {
		return nil
	}
	told := int32(0)
	var ended []leaver
	var came []*corev1.Pod
	for i := range l.members {
		if l.members[i].kind == nil || l.seen[i].Attempt < l.kept.Attempt {
			continue
		}
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(l.job.GetNamespace()),
			client.MatchingFields{Index: string(l.members[i].GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list pods of %s: %w", l.members[i].GetName(), err)
		}
		n, next := l.hear(i, pods.Items, keys.Round)
		told, came = told+n, append(came, next...)
		ended = append(ended, l.ended(i, pods.Items, keys.Round)...)
	}
	if l.left != nil {
		for k := range ended {
			l.leaves(&ended[k])
		}
		for _, x := range r.exits.of(client.ObjectKeyFromObject(l.job)) {
			if i := l.memberOf(x.pod); i >= 0 && l.recent(&x) {
				l.leaves(&leaver{pod: x.pod, member: i})
			}
		}
		for _, p := range came { // before, there was no reason for it; that its containers restart is told late
			if p.CreationTimestamp.After(leftAt(l.left.pod)) {
				l.left.made++
			}
		}
		l.left.stay = told - l.left.made
		l.seen[l.left.member].InRound.Why = "pod " + l.left.pod.Name + " " + whyLeft(l.left.pod)
	}
	return nil
}

// hear takes in what the pods of a member say. It returns how many say anything, and which of these left the round that all
// were in.
func (l *look) hear(i int, pods []corev1.Pod, key string) (told int32, came []*corev1.Pod) {
	rounds := &l.kept.Rounds
	for k := range pods {
		p := &pods[k]
		if p.Status.Phase == corev1.PodSucceeded {
			l.seen[i].InRound.Done++
		}
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed ||
			p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		n, says := roundOf(p, key)
		if !says {
			continue
		}
		told++
		l.seen[i].InRound.Rounds = append(l.seen[i].InRound.Rounds, n)
		if rounds.Begun && rounds.Next == rounds.Current && n == rounds.Current+1 {
			l.leaves(&leaver{pod: p, member: i})
			came = append(came, p)
		}
	}
	if job, is := l.members[i].Object.(*batchv1.Job); is { // who succeeded may be gone
		l.seen[i].InRound.Done = max(l.seen[i].InRound.Done, job.Status.Succeeded)
	}
	return told, came
}

// ended are the pods of a member that ended in the round that all were in, or have to, and that others may be made in place
// of: also where nobody saw it who runs.
func (l *look) ended(i int, pods []corev1.Pod, key string) (out []leaver) {
	for k := range pods {
		p := &pods[k]
		n, says := roundOf(p, key)
		if says && n == l.kept.Rounds.Current &&
			(p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed) &&
			l.recent(&exit{p, n}) {
			out = append(out, leaver{pod: p, member: i})
		}
	}
	return out
}

// roundOf is the round that a pod says it is in, if it says one.
func roundOf(p *corev1.Pod, key string) (round int32, says bool) {
	n, err := strconv.ParseInt(p.Annotations[key], 10, 32)
	return int32(n), err == nil
}

// recent reports whether a pod ended in the round that all were in, or on its way to the next, and not so long ago that it
// was another fault: a process that did not lead has not seen what followed.
func (l *look) recent(x *exit) bool {
	ago, n := l.now.Sub(leftAt(x.pod)), l.kept.Rounds.Current
	return (x.round == n || x.round == n+1) && ago.Abs() <= l.plan.InPlace.Patience
}

// leftAt is when a pod failed, or was told to leave its node; later than anything that happens if nothing says so.
func leftAt(p *corev1.Pod) time.Time {
	at := view.FailedAt(p)
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.LastTransitionTime.Time.Before(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// leaves notes who left first: of whom it is known that it failed, the first to fail.
func (l *look) leaves(x *leaver) {
	if l.left == nil || cmp.Or(
		leftAt(x.pod).Compare(leftAt(l.left.pod)),
		cmp.Compare(x.pod.Name, l.left.pod.Name),
	) < 0 {
		l.left = x
	}
}

// whyLeft says how a pod failed that left a round.
func whyLeft(p *corev1.Pod) string {
	container, t := view.Culprit(p)
	disruption := view.EvidenceOf(p, core.NodeFine).Disruption
	switch {
	case disruption != "":
		return "had to leave node " + p.Spec.NodeName + ": " + disruption
	case t != nil:
		return fmt.Sprintf("failed: container %s exited with code %d", container, t.ExitCode)
	case p.Status.Reason != "":
		return "failed: " + p.Status.Reason
	}
	return "began anew"
}

// endedInPlace are the attempts of a job whose pods are told to begin anew in place.
func (r *reconciler) endedInPlace(ctx context.Context, l *look) (history.Attempts, error) {
	// GPUs are the admission's.
	a := history.Attempt{Start: metav1.NewTime(l.began()), RestartedPods: l.left.stay}
	pods, err := r.ran(ctx, l)
	if err != nil {
		return l.attempts, err
	}
	var nodes []string
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	view.OnNodes(&a, nodes)
	trouble, err := r.trouble(ctx, l.left.pod)
	if err != nil {
		return l.attempts, err
	}
	message := l.left.told() + ": no Job failed; they keep nodes and quota"
	view.FailPods(&a, l.now, l.left.pod, nil, trouble, message)
	view.NoteCheckpoint(&a, l.job, l.now)
	for _, p := range pods {
		view.NoteCheckpoint(&a, p, l.now)
	}
	return view.AddAttempt(l.attempts, a), nil
}

// whyAll is why all pods of a job are made anew though none of its members failed, as a code and in words.
func (l *look) whyAll(m *podplan.RetryState) (reason, message string) {
	switch before := &l.kept.Rounds; {
	case l.plan.InPlace == nil || !before.Begun || m.Failures+m.Free > l.kept.Failures+l.kept.Free:
	case !before.Since.IsZero() && l.now.Sub(before.Since) >= l.plan.InPlace.Patience:
		return lateInPlace, fmt.Sprintf(
			"not all pods came back in place within %s: all are made anew", l.plan.InPlace.Patience)
	case !before.Since.IsZero() || m.Rounds.Failures+m.Rounds.Free > before.Failures+before.Free:
		return podsSucceeded, "some pods had succeeded, and do not begin anew in place: all are made anew"
	}
	return "Restarted", "all its pods are made anew"
}

// tellRounds tells by events what follows for pods that restart in place.
func (r *reconciler) tellRounds(l *look, m *podplan.RetryState) {
	if l.plan.InPlace == nil {
		return
	}
	switch before := &l.kept.Rounds; {
	case m.Attempt > l.kept.Attempt:
		if reason, message := l.whyAll(m); reason == lateInPlace || reason == podsSucceeded {
			r.event(l.job, corev1.EventTypeWarning, notInPlace, "Pods are made anew: "+message)
		}
	case m.Rounds.Over > before.Over && l.left != nil:
		r.event(l.job, corev1.EventTypeNormal, restartedInPlace, fmt.Sprintf(
			"%s, attempt %d: %s", l.left.told(), m.Rounds.Next, l.seen[l.left.member].InRound.Why))
	}
	if m.Rounds.Current != l.kept.Rounds.Current || m.Rounds.Begun != l.kept.Rounds.Begun {
		r.exits.forget(client.ObjectKeyFromObject(l.job))
	}
}

// exit is how a pod ended: as it was then, and the round that it said it was in.
type exit struct {
	pod   *corev1.Pod
	round int32
}

// exits are how pods ended that began anew in place since, or that others were made in place of: their objects do not
// say it any more. It is known as long as this process lives, and until all pods have begun anew. A process that does not
// lead takes it in, too, and forgets nothing: look.recent says what of it counts.
type exits struct {
	mu sync.Mutex
	// pods that failed, by job.
	pods map[types.NamespacedName]map[types.UID]exit
}

// mostExits is how many are kept of a job: those that fail first matter. mostJobs is of how many jobs; labels of pods say
// which, and their authors may write any.
const (
	mostExits = 16
	mostJobs  = 512
)

func (e *exits) note(job types.NamespacedName, x exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil || e.pods[job] == nil && len(e.pods) >= mostJobs {
		e.pods = map[types.NamespacedName]map[types.UID]exit{}
	}
	if e.pods[job] == nil {
		e.pods[job] = map[types.UID]exit{}
	}
	of, id := e.pods[job], x.pod.UID
	if _, again := of[id]; !again && len(of) >= mostExits {
		maps.DeleteFunc(of, func(_ types.UID, old exit) bool { return old.round < x.round })
	}
	if _, again := of[id]; again || len(of) < mostExits {
		of[id] = x
	}
}

// of are the exits of a job, in the order of UIDs.
func (e *exits) of(job types.NamespacedName) []exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []exit
	for _, id := range slices.Sorted(maps.Keys(e.pods[job])) {
		out = append(out, e.pods[job][id])
	}
	return out
}

func (e *exits) forget(job types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pods, job)
}

// inRounds has jobs looked at whose pods say in which round they are, or ended. Anybody who makes a pod can write the
// label: that has a job looked at in vain, and no more. Whose pod it is its owner says.
func (r *reconciler) inRounds(keys *jobs.RoundKeys) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	look := func(q queue, o client.Object) {
		if name := o.GetLabels()[keys.Job]; name != "" && o.GetAnnotations()[keys.Round] != "" {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
		}
	}
	note := func(was, o client.Object) bool {
		p, is := o.(*corev1.Pod)
		name := o.GetLabels()[keys.Job]
		if !is || name == "" {
			return false
		}
		round, says := roundOf(p, keys.Round)
		how := evidenceOf(p)
		if !says || how == (evidence{}) {
			return false
		}
		// What was seen before is of the round that the pod was in then: a status may lag behind an agent.
		if before, is := was.(*corev1.Pod); is && evidenceOf(before) == how {
			return false
		}
		r.exits.note(types.NamespacedName{Namespace: p.Namespace, Name: name}, exit{p, round})
		return true
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			note(nil, e.Object) // who begins is told so of all that there are
			look(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if note(was, is) || was.GetAnnotations()[keys.Round] != is.GetAnnotations()[keys.Round] ||
				(was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) {
				look(q, is)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			note(nil, e.Object) // what it said last may have been seen by nobody
			look(q, e.Object)
		},
	}
}

// evidence is how a pod ended, or has to, as its status says it; zero if it does not.
type evidence struct {
	container, disruption string
	code                  int32
	at                    int64
}

func evidenceOf(p *corev1.Pod) evidence {
	out := evidence{disruption: view.EvidenceOf(p, core.NodeFine).Disruption}
	if container, t := view.Culprit(p); t != nil {
		out.container, out.code, out.at = container, t.ExitCode, t.FinishedAt.Unix()
	}
	return out
}
