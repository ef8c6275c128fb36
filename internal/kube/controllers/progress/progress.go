// Package progress finds jobs that hang: that state how often they take a step, and take none. It reads their
// steps, judges (package engine/progress), and writes down how it goes in the condition Progressing of the Workload. Of a job
// that hangs it keeps what there is to know (history.JobEvidence), and then, if the job asks for that, says that it is
// to be restarted, which the rules of package workloadlifecycle do.
//
// What it remembers is lost at a restart, which lets a job that hangs go on for a while longer, and makes none
// seem to hang that does not: the condition has the last step and its time.
package progress

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/progress"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Reasons of events.
const (
	// EventNoProgress: a job hangs.
	EventNoProgress = "NoProgress"
	// EventLogUnread: a log that tells of steps cannot be read.
	EventLogUnread = "LogUnread"
)

// EvidenceDeadline is how long a job that hangs waits at most to be restarted, until what there is to know is kept.
const EvidenceDeadline = 30 * time.Second

// observed begins what is said of a job that hangs and goes on to.
const observed = "it is only observed"

// Options are what the controller works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Kinds are the kinds of jobs that are queued.
	Kinds jobs.Kinds
	// Log opens the log of a container of a pod.
	Log func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
	// Hung is called when it is settled what is done about a job that hangs; restart is that it is restarted.
	Hung func(w *kueue.Workload, restart bool)
}

type reconciler struct {
	Options
	logs slots
	// tails bounds how many logs are read at the same time for what is kept of jobs that hang.
	tails chan struct{}
	// woken are Workloads of which a log was read, or what there is to know was kept.
	woken chan event.GenericEvent

	// mu guards which notes there are, and how much was kept of namespaces lately; never while something is asked of others.
	mu     sync.Mutex
	notes  map[types.NamespacedName]*note
	lately map[string][]time.Time
}

func newReconciler(opts Options) *reconciler {
	return &reconciler{
		Options: opts,
		logs:    slots{nodes: map[string]int{}},
		tails:   make(chan struct{}, mostTails),
		woken:   make(chan event.GenericEvent, 1024),
		notes:   map[types.NamespacedName]*note{},
		lately:  map[string][]time.Time{},
	}
}

// note is what is remembered of an attempt of a job.
type note struct {
	uid types.UID
	// mu guards all that follows.
	mu sync.Mutex
	// mark is its last progress, known that it was looked for in the condition.
	mark  progress.Mark
	known bool
	// looked is when it was judged last, watched since when it is without a gap.
	looked, watched time.Time
	// steps are those that pods told of, and since when.
	steps map[types.UID]told
	log   logNote
	// kept is what became of the evidence.
	kept evidenceNote
}

// told is a step of a pod, and since when it is known.
type told struct {
	step int64
	at   time.Time
}

// SetupWithManager starts the controller. The cache must have admission.PodIndex and admission.JobIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := newReconciler(opts)
	b := ctrl.NewControllerManagedBy(mgr)
	for i := range opts.Kinds {
		b = b.Watches(
			opts.Kinds[i].New(),
			handler.EnqueueRequestsFromMapFunc(r.ofJob),
			builder.WithPredicates(statesOtherwise()),
		)
	}
	return b.
		Named("progress").
		For(&kueue.Workload{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod), builder.WithPredicates(steps())).
		WatchesRawSource(source.Channel(r.woken, &handler.EnqueueRequestForObject{})).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

func (r *reconciler) ofJob(ctx context.Context, o client.Object) []reconcile.Request {
	all, err := admission.WorkloadsOf(ctx, r.Client, o.GetNamespace(), o.GetUID())
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])})
	}
	return out
}

func ofPod(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetAnnotations()[kueue.WorkloadAnnotation]; name != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	}
	return nil
}

// statesOtherwise lets through jobs that state something else of their steps than before.
func statesOtherwise() predicate.Funcs {
	all := []string{
		kueue.ProgressEveryAnnotation, kueue.ProgressFirstAnnotation, kueue.ProgressLogAnnotation,
		kueue.OnHangAnnotation, kueue.HangRestartsAnnotation,
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return slices.ContainsFunc(all, func(key string) bool { return was[key] != is[key] })
		},
	}
}

// steps lets through pods that took one.
func steps() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return e.Object.GetAnnotations()[kueue.StepAnnotation] != "" },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[kueue.StepAnnotation] != e.ObjectNew.GetAnnotations()[kueue.StepAnnotation]
		},
	}
}

// look is everything that is known of a job now.
type look struct {
	w     *kueue.Workload
	job   client.Object // nil of a group of pods
	rule  *jobs.Steps
	ranks []rank
	began time.Time
	note  *note
	now   time.Time
}

// Reconcile judges one job.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	l, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if l == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if l.rule == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, r.write(ctx, l, withoutProgress(l.w))
	}
	again, err := r.judge(ctx, l)
	if err != nil || again.IsZero() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(again.Sub(l.now), time.Millisecond)}, nil
}

// gather reads what there is to know of a job that runs; nil of others.
func (r *reconciler) gather(ctx context.Context, name types.NamespacedName) (*look, error) {
	w := &kueue.Workload{}
	if err := r.Client.Get(ctx, name, w); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp != nil || convert.Finished(w) || w.Status.Admission == nil ||
		!apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadAdmitted) ||
		apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadEvicted) {
		return nil, nil //nolint:nilnil // see above
	}
	l := &look{w: w, now: r.Clock.Now()}
	var err error
	if l.job, err = r.job(ctx, w); err != nil {
		return nil, err
	}
	if l.job != nil {
		if l.rule, _ = jobs.StepsOf(l.job); l.rule == nil {
			return l, nil
		}
	} else if !convert.OfGroup(w) {
		return l, nil
	}
	pods, err := admission.ListPods(ctx, r.Client, w.Namespace, w.Name)
	if err != nil {
		return nil, err
	}
	l.ranks = ranked(w, pods)
	if l.job == nil && len(l.ranks) > 0 { // the pods are the job: the first one speaks for it
		l.rule, _ = jobs.StepsOf(l.ranks[0].pod)
	}
	if l.rule != nil && !quiet(l.rule, l.ranks) {
		l.began = began(w, l.ranks)
	}
	return l, nil
}

// job is what owns a Workload; nil of a group of pods, and of what is not seen.
func (r *reconciler) job(ctx context.Context, w *kueue.Workload) (client.Object, error) {
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return nil, nil //nolint:nilnil // see above
	}
	k := r.Kinds.Find(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if k == nil {
		return nil, nil //nolint:nilnil // see above
	}
	o := k.New()
	err := r.Client.Get(
		ctx,
		types.NamespacedName{Namespace: w.Namespace, Name: owner.Name},
		o,
		client.UnsafeDisableDeepCopy,
	)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, fmt.Errorf("read %s %s/%s: %w", owner.Kind, w.Namespace, owner.Name, err)
	case o.GetUID() != owner.UID:
		return nil, nil //nolint:nilnil // see above
	}
	return o, nil
}

// quiet reports whether those ranks have ended that told of steps: the others do not, and are not judged.
func quiet(rule *jobs.Steps, ranks []rank) bool {
	ended := func(k rank) bool { return k.pod.Status.Phase == corev1.PodSucceeded }
	if rule.Log != nil {
		return len(ranks) > 0 && ended(ranks[0])
	}
	tells := func(k rank) bool { return k.pod.Annotations[kueue.StepAnnotation] != "" }
	return slices.ContainsFunc(ranks, func(k rank) bool { return tells(k) && ended(k) }) &&
		!slices.ContainsFunc(ranks, func(k rank) bool { return tells(k) && !ended(k) })
}

// began is since when all pods of a job run; zero if they do not.
func began(w *kueue.Workload, ranks []rank) time.Time {
	admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	ready := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadPodsReady)
	if len(ranks) == 0 || ready != nil && ready.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	if ready == nil && len(ranks) < planned(w) {
		return time.Time{}
	}
	since := admitted.LastTransitionTime.Time
	for i := range ranks {
		p := ranks[i].pod
		if p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		up := readySince(p)
		if up.IsZero() || p.DeletionTimestamp != nil {
			return time.Time{}
		}
		if up.After(since) {
			since = up
		}
	}
	return since
}

func planned(w *kueue.Workload) (n int) {
	for i := range w.Status.Admission.PodSetAssignments {
		if c := w.Status.Admission.PodSetAssignments[i].Count; c != nil {
			n += int(*c)
		}
	}
	return n
}

func readySince(p *corev1.Pod) time.Time {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// judge says how the job stands, does the next thing about it, and says when to look again.
func (r *reconciler) judge(ctx context.Context, l *look) (time.Time, error) {
	n := r.noted(l)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recall(l)
	l.note = n
	rule := progress.Rule{First: l.rule.First, Every: l.rule.Every}
	n.see(l)
	reports := l.reports()
	if l.rule.Log != nil {
		reports = l.logged()
	}
	n.mark = progress.Advance(n.mark, l.began, l.now, reports)
	asOf := l.now
	if l.rule.Log != nil { // what could not be read is no silence
		asOf = n.log.heard
	}
	v := progress.Verdict{Kind: progress.Starting}
	if !asOf.IsZero() {
		v = progress.Judge(rule, l.began, n.watched, n.mark, asOf)
	}
	again := l.now.Add(max(min(l.rule.Every/2, l.rule.First/2), time.Second)) // so that a gap is one
	if !v.Again.IsZero() && v.Again.Before(again) && v.Again.After(l.now) {
		again = v.Again
	}
	if l.rule.Log != nil && !l.began.IsZero() {
		if at := r.readLog(ctx, l, v.Again); at.Before(again) {
			again = at
		}
	}
	return again, r.act(ctx, l, v.Kind, reports)
}

// noted is what is remembered of the job.
func (r *reconciler) noted(l *look) *note {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(l.w)
	n := r.notes[name]
	if n == nil || n.uid != l.w.UID {
		n = &note{uid: l.w.UID, steps: map[types.UID]told{}}
		r.notes[name] = n
	}
	return n
}

// recall remembers what a condition says, which a process before this one wrote.
func (n *note) recall(l *look) {
	if c := apimeta.FindStatusCondition(l.w.Status.Conditions, kueue.WorkloadProgressing); c != nil && !n.known {
		if p, ok := view.ReadProgress(c.Message); ok && !p.At.IsZero() {
			n.mark = progress.Mark{Step: p.Step, At: p.At}
		}
	}
	n.known = true
}

// of is what is remembered of a Workload, if that is still the one of a UID.
func (r *reconciler) of(name types.NamespacedName, uid types.UID) *note {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.notes[name]; n != nil && n.uid == uid {
		return n
	}
	return nil
}

func (r *reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.notes, name)
}

// see notes what pods say, and whether they were watched without a gap.
func (n *note) see(l *look) {
	if n.looked.IsZero() || l.now.Sub(n.looked) > l.rule.Every || l.now.Before(n.looked) {
		n.watched = l.now
	}
	n.looked = l.now
	seen := map[types.UID]told{}
	for i := range l.ranks {
		p := l.ranks[i].pod
		step, err := strconv.ParseInt(p.Annotations[kueue.StepAnnotation], 10, 64)
		if err != nil || step < 1 {
			continue
		}
		is, known := n.steps[p.UID]
		switch {
		case known && is.step == step:
		case !known && step == n.mark.Step && !n.mark.None(): // before this process began
			is = told{step, n.mark.At}
		default:
			is = told{step, l.now}
		}
		seen[p.UID] = is
	}
	n.steps = seen
}

// reports are what pods said by annotations. Ranks that have ended take no more steps, and hold up nobody.
func (l *look) reports() []progress.Report {
	var out []progress.Report
	for i := range l.ranks {
		k := &l.ranks[i]
		if t, known := l.note.steps[k.pod.UID]; known && k.pod.Status.Phase == corev1.PodRunning {
			at := t.at
			if at.Before(l.began) {
				continue // a container that was started again has not taken it
			}
			out = append(
				out,
				progress.Report{Rank: k.rank, Pod: k.pod.Name, Node: k.pod.Spec.NodeName, Step: t.step, At: at},
			)
		}
	}
	return out
}

// act writes what is to be said of the job, and has done what is to be done.
func (r *reconciler) act(ctx context.Context, l *look, kind progress.Kind, reports []progress.Report) error {
	c := apimeta.FindStatusCondition(l.w.Status.Conditions, kueue.WorkloadProgressing)
	var said view.Progress
	if c != nil {
		said, _ = view.ReadProgress(c.Message)
	}
	m := l.note.mark
	stuck := c != nil && c.Status == metav1.ConditionFalse &&
		(m.None() && said.At.IsZero() && !said.Began.Before(l.began.Truncate(time.Second)) ||
			!m.None() && !m.At.Truncate(time.Second).After(said.At))
	switch {
	case l.began.IsZero():
		return nil
	case stuck:
		return r.settle(ctx, l, c, &said)
	case kind == progress.Hung:
		return r.find(ctx, l, reports)
	case m.None() && c != nil:
		return r.write(ctx, l, withoutProgress(l.w)) // it is about an earlier attempt
	case m.None():
		return nil
	case c == nil, c.Status != metav1.ConditionTrue, m.At.Sub(said.At) >= l.rule.Every, m.At.Before(said.At):
		return r.write(ctx, l, workloadlifecycle.Progressing(
			l.w,
			metav1.ConditionTrue,
			kueue.ReasonProgress,
			view.ProgressText(&view.Progress{Step: m.Step, At: m.At}),
			l.now,
		))
	}
	return nil
}

// find writes that a job hangs, and tells it.
func (r *reconciler) find(ctx context.Context, l *look, reports []progress.Report) error {
	p := view.Progress{Step: l.note.mark.Step, At: l.note.mark.At, Began: l.began, Expected: l.rule.Every}
	if l.note.mark.None() {
		p.Expected = l.rule.First
	}
	if s, is := progress.Straggler(reports); is {
		p.Slowest = &view.Slowest{Rank: s.Rank, Pod: s.Pod, Node: s.Node}
	}
	text := view.ProgressText(&p)
	next := workloadlifecycle.Progressing(l.w, metav1.ConditionFalse, kueue.ReasonNoProgress, text, l.now)
	if next == nil {
		return nil
	}
	l.note.kept = evidenceNote{at: l.note.kept.at}
	if err := r.write(ctx, l, next); err != nil {
		return err
	}
	r.tell(l, corev1.EventTypeWarning, EventNoProgress, "It hangs: "+text)
	return nil
}

// settle has kept what there is to know of a job that hangs, and then says what is done about it.
func (r *reconciler) settle(ctx context.Context, l *look, c *metav1.Condition, said *view.Progress) error {
	if c.Reason == kueue.ReasonRestartDue {
		return nil
	}
	restarts := workloadlifecycle.HangRestarts(l.w)
	due := l.rule.Restart && restarts < l.rule.Restarts
	settled := said.Evidence != "" || said.Note != ""
	if settled && !due {
		return nil
	}
	kept := &l.note.kept
	switch {
	case settled:
		said.Note, _, _ = strings.Cut(said.Note, observed)
	case kept.name != "":
		said.Evidence = kept.name
	case kept.failure != "":
		said.Note = "no evidence was kept: " + kept.failure + "; "
	case kept.underway:
		return nil // it wakes the job
	case !kept.at.Before(l.began) && l.now.Sub(kept.at) < evidencePause:
		said.Note = "no evidence was kept: there is some of a few minutes ago; "
	case !r.mayKeep(l.w.Namespace, l.now):
		said.Note = "no evidence was kept: there is much of other jobs of this namespace lately; "
	default:
		r.keep(ctx, l, c)
		return nil
	}
	reason := kueue.ReasonNoProgress
	switch {
	case due:
		reason = kueue.ReasonRestartDue
	case l.rule.Restart:
		said.Note += fmt.Sprintf("%s: it was restarted %s for that, and %s allows no more",
			observed, words.Times(restarts), kueue.HangRestartsAnnotation)
	default:
		said.Note += observed + ": " + kueue.OnHangAnnotation + " does not say " + kueue.OnHangRestart
	}
	said.Note = strings.TrimSuffix(said.Note, "; ")
	next := workloadlifecycle.Progressing(l.w, metav1.ConditionFalse, reason, view.ProgressText(said), l.now)
	if next == nil {
		return nil
	}
	if err := r.write(ctx, l, next); err != nil {
		return err
	}
	r.Hung(l.w, due)
	return nil
}

func (r *reconciler) write(ctx context.Context, l *look, next *kueue.WorkloadStatus) error {
	if next == nil {
		return nil
	}
	err := workloadstatus.Write(ctx, r.Client, l.w, *next)
	if workloadstatus.Overtaken(err) {
		return nil // the newer object is on its way here
	}
	if err != nil {
		return fmt.Errorf("write the progress of workload %s/%s: %w", l.w.Namespace, l.w.Name, err)
	}
	return nil
}

// tell tells of a job where people look for it: there, and at its Workload.
func (r *reconciler) tell(l *look, kind, reason, message string) {
	r.Recorder.Eventf(l.w, nil, kind, reason, reason, "%s", message)
	if l.job != nil {
		r.Recorder.Eventf(l.job, nil, kind, reason, reason, "%s", message)
	}
}

// wake has a Workload looked at again.
func (r *reconciler) wake(ctx context.Context, name types.NamespacedName) {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case r.woken <- event.GenericEvent{Object: w}:
	case <-ctx.Done():
	}
}

// withoutProgress is the status of a workload of which nothing is said; nil if it says nothing already.
func withoutProgress(w *kueue.Workload) *kueue.WorkloadStatus {
	if apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadProgressing) == nil {
		return nil
	}
	next := w.Status.DeepCopy()
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadProgressing)
	return next
}
