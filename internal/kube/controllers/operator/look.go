package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// look is everything that the next step of one job depends on.
type look struct {
	job  jobs.Object
	plan *jobs.Plan
	// kept is what is remembered of it, and said whether its status says so; rebuilt: it is not stored.
	kept          podplan.RetryState
	attempts      history.Attempts // that are remembered with it
	said, rebuilt bool
	// behind: the cache shows an older status than was written.
	behind bool
	// members are its objects, and seen is what they are, in the same order; behind them are
	// members that are no objects.
	members []member
	seen    []podplan.Seen
	// left is the pod that left the round first that all were in; nil if none did.
	left *leaver
	// answers are what its pods said, and again is when to look again because of that.
	answers jobs.Answers
	again   time.Duration
	// awaited are names of members that were made and are not among them yet.
	awaited map[string]bool
	// services are the names of the job's services.
	services map[string]bool
	// infos are what the admission gives the pods of each role; held says why none may be
	// made, "" if they may.
	infos jobs.Admitted
	held  string
	// notMade is why something of it could not be made last; "" if it could.
	notMade string
	now     time.Time
}

// member is an object that a job is made of.
type member struct {
	client.Object
	// kind of a child; nil is a pod.
	kind *jobs.ChildKind
}

// look reads what there is of a job. The second result is false if it is none of ours.
func (r *reconciler) look(ctx context.Context, name types.NamespacedName) (*look, bool, error) {
	l := &look{job: r.kind.New(), now: r.Clock.Now().Truncate(time.Second)}
	err := r.Client.Get(ctx, name, l.job)
	if deleted := apierrors.IsNotFound(err) ||
		err == nil && l.job.GetDeletionTimestamp() != nil; deleted &&
		r.calls != nil {
		r.calls.leave(name)
	}
	if err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	l.notMade = r.unmade.Get(name)
	if l.job.GetDeletionTimestamp() != nil || !r.kind.Ours(l.job) {
		return nil, false, nil
	}
	plan, err := r.kind.Running.Operator.Compile(l.job)
	if errors.Is(err, jobs.ErrIncomplete) && !r.kind.Queueing.Suspended(l.job) {
		return nil, false, nil // it is looked at again when that is written
	}
	if err != nil {
		if !errors.Is(err, jobs.ErrIncomplete) {
			r.event(l.job, corev1.EventTypeWarning, "InvalidJob", err.Error())
		}
		if r.kind.Queueing.Suspended(l.job) { // whatever it is, its pods have to go
			plan, err = &jobs.Plan{Plan: podplan.Plan{Suspended: true}}, nil
		}
	}
	if err != nil {
		return nil, false, nil //nolint:nilerr // trying again does not mend a manifest; the event tells its author
	}
	l.plan = plan
	if err := r.owned(ctx, l); err != nil {
		return nil, false, err
	}
	if err := r.recall(ctx, l); err != nil {
		return nil, false, err
	}
	return l, true, r.admission(ctx, l)
}

// owned reads the members and services of a job.
func (r *reconciler) owned(ctx context.Context, l *look) error {
	mine := []client.ListOption{
		client.InNamespace(
			l.job.GetNamespace(),
		),
		client.MatchingFields{Index: string(l.job.GetUID())},
		client.UnsafeDisableDeepCopy,
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, mine...); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	all := make([]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		all[i] = &pods.Items[i]
		l.members = append(l.members, member{Object: all[i]})
	}
	l.seen = l.plan.See(all)
	for i, pod := range all {
		l.seen[i].Over = l.seen[i].Leaving && !convert.PodState(pod).HoldsQuota()
	}
	if err := r.children(ctx, l, r.Client, mine); err != nil {
		return err
	}
	shown := make(map[string]bool, len(l.members))
	for i := range l.members {
		shown[l.members[i].GetName()] = true
	}
	l.awaited = r.awaited.missing(client.ObjectKeyFromObject(l.job), shown, l.now)
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if err := r.Client.List(ctx, services, mine...); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	l.services = make(map[string]bool, len(services.Items))
	for i := range services.Items {
		l.services[services.Items[i].Name] = true
	}
	return nil
}

// admission finds out what the admission of a job gives its pods. A job that has to be
// admitted and is not makes none: it is about to be suspended.
func (r *reconciler) admission(ctx context.Context, l *look) error {
	all, err := admission.WorkloadsOf(ctx, r.Client, l.job.GetNamespace(), l.job.GetUID())
	if err != nil {
		return err
	}
	for i := range all {
		w := &all[i]
		if !convert.Admitted(w) || convert.Evicted(w) {
			continue
		}
		infos, err := admission.Infos(ctx, r.Client, w, r.Labels)
		if err == nil {
			infos, err = admission.Updated(infos, w.Status.AdmissionChecks)
		}
		if err != nil {
			return err
		}
		l.infos = jobs.Admitted{}
		for _, info := range infos {
			l.infos[info.Name] = info
		}
		return nil
	}
	if len(all) > 0 {
		l.held = "its Workload is not admitted"
		return nil
	}
	if owner := metav1.GetControllerOf(l.job); owner != nil && r.Managed(owner.APIVersion, owner.Kind) {
		return nil // it is admitted with its owner, which wrote into it what its pods get
	}
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: l.job.GetNamespace()}, &ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	if r.Scope.Covers(&ns, l.job.GetLabels()[kueue.QueueNameLabel]) {
		l.held = "it has no Workload yet"
	}
	return nil
}

// info is what the admission gives the pods of a role; nil if the job needs none.
func (l *look) info(role string) (*jobs.PodSetInfo, error) {
	if l.infos == nil {
		return nil, nil //nolint:nilnil // a job that is not queued
	}
	info, found := l.infos[jobs.PodSetName(role)]
	if !found {
		return nil, fmt.Errorf("its admission has no pods of role %s", role)
	}
	return &info, nil
}

// admits returns those of some members that the job was admitted with, in whose pods is as much
// as was given. One that asks for more is about to be stopped, and queued again.
func (l *look) admits(some []podplan.Member) []podplan.Member {
	if l.infos == nil {
		return some
	}
	left := map[string]int32{}
	for i := range l.plan.Roles {
		r := &l.plan.Roles[i]
		left[r.Name] = l.infos[jobs.PodSetName(r.Name)].Count
		if !r.Floating {
			continue
		}
		for j := range l.seen {
			if l.seen[j].Role == r.Name && !l.seen[j].Leaving {
				left[r.Name]--
			}
		}
	}
	var out []podplan.Member
	for _, m := range some {
		r := l.plan.Role(m.Role)
		switch {
		case l.plan.MakeOf(m.Role) != nil: // what it makes is what its object says, which was admitted
		case r.Floating && len(l.awaited) > 0: // it may be among the pods that are not shown yet
			continue
		case r.Floating:
			if left[m.Role]--; left[m.Role] < 0 {
				continue
			}
		case m.Index >= left[m.Role]:
			continue
		}
		out = append(out, m)
	}
	return out
}
