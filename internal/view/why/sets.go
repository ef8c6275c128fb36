package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// FindSet fetches what is no job but makes pods or Jobs, with its pods; false if nothing of the
// kind has the name, or may be read.
func FindSet(ctx context.Context, c client.Reader, ref view.Ref) (JobObjects, bool, error) {
	for _, s := range gather.Sets() {
		if ref.Kind != "" && ref.Kind != s.Kind {
			continue
		}
		at := view.Ref{Kind: s.Kind, Namespace: ref.Namespace, Name: ref.Name}
		err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, s.Object)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && ref.Kind == "", apimeta.IsNoMatchError(err):
			continue
		case apierrors.IsForbidden(err):
			return JobObjects{}, false, fmt.Errorf("you may not read %s: %w", at, err)
		case err != nil:
			return JobObjects{}, false, fmt.Errorf("read %s: %w", at, err)
		}
		p := JobObjects{Asked: at, Set: s.Object}
		return p, true, p.findPods(ctx, c)
	}
	return JobObjects{}, false, nil
}

// FindAny is Find, and finds sets as well, and groups of which pods are missing.
func FindAny(ctx context.Context, c client.Reader, ref view.Ref) (JobObjects, error) {
	p, err := Find(ctx, c, ref)
	if missing := (*MissingError)(
		nil,
	); !errors.As(err, &missing) ||
		ref.Kind != "" && ref.Kind != view.KindGroup && !gather.IsSet(ref.Kind) {
		return p, err
	}
	p, found, e := FindSet(ctx, c, ref)
	switch {
	case e != nil:
		return JobObjects{}, e
	case found:
		return p, p.findParts(ctx, c)
	}
	if p, found, e = findGroup(ctx, c, ref); found || e != nil {
		return p, e
	}
	return JobObjects{}, err
}

// queuedSet tells of a set that names a queue, or whose pods are queued in groups.
func queuedSet(p JobObjects, j view.Standing, e *Explanation) {
	const most = 3
	e.State, e.Reason = view.Running, gather.ReasonPodsQueued
	if len(j.Pods.Running) == 0 {
		e.State = view.Starting
	}
	if n := len(p.Parts); n > 0 {
		var names []string
		for i := range p.Parts[:min(most, n)] {
			names = append(names, p.Parts[i].Name)
		}
		if n > most {
			names = append(names, fmt.Sprintf("%d more", n-most))
		}
		e.say("%s is not queued itself: its pods are, as Workloads %s", e.Object, strings.Join(names, ", "))
	} else if queue := p.Root().GetLabels()[kueue.QueueNameLabel]; queue != "" {
		e.say("%s is meant for queue %s: its pods are queued as they are made", e.Object, queue)
	} else {
		e.say("%s is in a namespace of a team: its pods are queued as they are made", e.Object)
	}
	e.pods(p, j)
	e.lacks(p)
	e.part(p)
}

// gated reports whether a pod is held in a queue.
func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == kueue.AdmissionGate
	})
}

// scheduled tells of a CronJob.
func scheduled(p JobObjects, e *Explanation) {
	const most = 3
	e.State, e.Reason = view.Unmanaged, "MakesJobs"
	e.say("%s is no job itself: it makes Jobs, and they are queued", e.Object)
	cron, is := p.Set.(*batchv1.CronJob)
	if !is {
		return
	}
	switch last := cron.Status.LastScheduleTime; {
	case cron.Spec.Suspend != nil && *cron.Spec.Suspend:
		e.say("It is suspended (spec.suspend), so it makes none now")
		e.Helps = "let it go on: kubectl patch cronjob -n " + p.Asked.Namespace + " " + p.Asked.Name + ` -p '{"spec":{"suspend":false}}'`
	case last == nil:
		e.say("Its schedule is %q, and it has made none yet", cron.Spec.Schedule)
	default:
		e.say("Its schedule is %q, and it made one last %s ago", cron.Spec.Schedule, p.ago(last.Time))
	}
	var names []string
	for i := range p.Made[:min(most, len(p.Made))] {
		names = append(names, p.Made[i].Name)
	}
	if len(names) > 0 {
		e.say("Its newest Jobs are %s", strings.Join(names, ", "))
	}
	if len(names) > 0 && e.Helps == "" {
		e.Helps = "ask about one of them: mlbatch why " + p.Asked.Namespace + "/" + names[0]
	}
}

// part tells of the first that waits of what is queued in parts.
func (e *Explanation) part(p JobObjects) {
	if p.Part == nil {
		return
	}
	part := Explain(*p.Part)
	if p.Workload != nil { // the rest of it runs
		e.Reason = part.Reason
	}
	e.State, e.Answer, e.Advice = view.Waiting, part.Answer, part.Advice
	e.Sentences = append(e.Sentences, part.Sentences...)
	if part.Helps != "" {
		e.Helps = part.Helps
	}
}

// findParts finds the Workload that stands for all pods of a set; those of one that has several,
// and of pods that are queued one by one, stand for themselves. A CronJob has Jobs.
func (p *JobObjects) findParts(ctx context.Context, c client.Reader) error {
	if p.Asked.Kind == view.KindCronJob {
		var list batchv1.JobList
		if err := c.List(ctx, &list, client.InNamespace(p.Asked.Namespace)); err != nil {
			return gather.Readable(err)
		}
		p.Made = slices.DeleteFunc(
			list.Items,
			func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, p.Set) },
		)
		slices.SortFunc(
			p.Made,
			func(a, b batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		)
		return nil
	}
	var list kueue.WorkloadList
	err := c.List(
		ctx,
		&list,
		client.InNamespace(p.Asked.Namespace),
		client.MatchingLabels{kueue.JobUIDLabel: string(p.Set.GetUID())},
	)
	if err := gather.Readable(err); err != nil {
		return fmt.Errorf("list workloads of %s: %w", p.Asked, err)
	}
	if len(list.Items) == 1 && p.Asked.Kind == view.KindStatefulSet {
		p.Workload = &list.Items[0]
		return nil
	}
	slices.SortFunc(list.Items, func(a, b kueue.Workload) int { return cmp.Compare(a.Name, b.Name) })
	p.Parts = list.Items
	return nil
}

// gatherPart asks about the first pod of a set that waits in a queue, so that what is true of
// the set can be said with its reason.
func (p *JobObjects) gatherPart(ctx context.Context, c client.Reader, ask Asker) error {
	if p.Deployment == nil && p.Set == nil && p.PodGroup == nil || p.Workload != nil && IsWaiting(p.Workload) {
		return nil
	}
	first := view.Ref{Namespace: p.Asked.Namespace}
	if i := slices.IndexFunc(p.Parts, func(w kueue.Workload) bool { return IsWaiting(&w) }); i >= 0 {
		first.Kind, first.Name = view.KindWorkload, p.Parts[i].Name
	} else if i := slices.IndexFunc(p.Pods, func(o corev1.Pod) bool { return gated(&o) }); i >= 0 {
		first.Kind, first.Name = view.KindPod, p.Pods[i].Name
	} else {
		return nil
	}
	part, err := Gather(ctx, c, ask, first, p.Now)
	if missing := (*MissingError)(nil); err != nil && (errors.As(err, &missing) || apierrors.IsForbidden(err)) {
		return nil // it has gone meanwhile
	}
	if part.Workload != nil {
		p.Part = &part
	}
	return err
}
