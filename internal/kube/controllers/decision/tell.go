package decision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// tell reports a decision that was written: as an event on the Workload, in the
// metrics, and to the engine, which may evict a workload for others once its
// admission was written.
func (l *Loop) tell(ctx context.Context, d core.Decision, w *kueue.Workload) {
	kind, reason, action, message := corev1.EventTypeNormal, "", "", ""
	switch d := d.(type) {
	case core.Admit:
		l.inbox.Applied(d.Key, convert.Seq(w))
		wait := l.opts.Clock.Since(metrics.QueuedSince(w))
		l.opts.Metrics.QuotaReserved(metrics.Of(w, d.Admission.Queue), wait)
		reason, action = kueue.ReasonQuotaReserved, "Reserve"
		message = "Quota reserved in ClusterQueue "
		if convert.Admitted(w) {
			l.opts.Metrics.Admitted(metrics.Of(w, d.Admission.Queue), wait)
			reason, action = kueue.ReasonAdmitted, "Admit"
			message = "Admitted by ClusterQueue "
		}
		message += d.Admission.Queue + " after " + wait.Round(time.Second).String() + where(d.Admission, nil)
	case core.Replace:
		reason, action = "Moved", "Move"
		message = "Planned nodes went away, planned again" + where(d.Admission, l.takesWork(ctx))
	case core.Evict:
		reason, action, message = l.evicted(d, w)
	case core.Refuse:
		kind, reason, action = corev1.EventTypeWarning, string(d.Why.Code), "Wait"
		message = explain.Sentence(d.Why)
	}
	l.opts.Recorder.Eventf(w, nil, kind, reason, action, "%s", message)
	if e, is := d.(core.Evict); is {
		l.tellPreemptor(ctx, e, w)
	}
}

func (l *Loop) evicted(d core.Evict, w *kueue.Workload) (reason, action, message string) {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	if d.Reason.Preempted() {
		l.opts.Metrics.Preempted(d.Why.Queue, string(d.Reason))
		return kueue.ReasonPreempted, "Preempt", c.Message
	}
	return "EvictedDueTo" + c.Reason, "Evict", c.Message
}

// tellPreemptor tells the workload that another one was evicted for it, unless it
// is gone.
func (l *Loop) tellPreemptor(ctx context.Context, d core.Evict, victim *kueue.Workload) {
	if !d.Reason.Preempted() {
		return
	}
	var w kueue.Workload
	if err := l.opts.Client.Get(
		ctx,
		client.ObjectKey{Namespace: d.For.Namespace, Name: d.For.Name},
		&w,
	); err != nil {
		return
	}
	who, related := "workload "+d.Key.String(), runtime.Object(victim)
	if d.Key.Namespace != d.For.Namespace { // whose names are not for all users
		who, related = fmt.Sprintf("a workload (UID: %s)", victim.UID), nil
	}
	l.opts.Recorder.Eventf(&w, related, corev1.EventTypeNormal, kueue.EventPreemptedWorkload, "Preempt",
		"Preempted %s of ClusterQueue %s, by %s", who, queueOf(victim), d.Reason)
}

// queueOf is the ClusterQueue that a workload has quota of.
func queueOf(w *kueue.Workload) kueue.ClusterQueueReference {
	if w.Status.Admission == nil {
		return ""
	}
	return w.Status.Admission.ClusterQueue
}

// takesWork reports of nodes whether new pods may go there: of nodes that went away a plan keeps the
// places of pods that have ended, or still do.
func (l *Loop) takesWork(ctx context.Context) func(node string) bool {
	return func(node string) bool {
		var n corev1.Node
		return l.opts.Client.Get(ctx, client.ObjectKey{Name: node}, &n) == nil && convert.Node(&n).State.TakesWork()
	}
}

// where lists the planned nodes of an admission, for an event: those of which named is true, or all
// if it is nil.
func where(a core.Admission, named func(node string) bool) string {
	const most = 8
	var nodes []string
	for _, ps := range a.PodSets {
		for _, p := range ps.Places {
			if !slices.Contains(nodes, p.Node) && (named == nil || named(p.Node)) {
				nodes = append(nodes, p.Node)
			}
		}
	}
	switch n := len(nodes); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(", on %s and %d more nodes", strings.Join(nodes[:most], ", "), n-most)
	}
	return ", on " + strings.Join(nodes, ", ")
}
