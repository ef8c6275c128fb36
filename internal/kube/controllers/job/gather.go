package job

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// gather reads what decide needs to know. The second result is false if the
// job is none of ours.
func (r *reconciler) gather(ctx context.Context, name types.NamespacedName) (facts, bool, error) {
	s := facts{adapter: r.adapter, lifecycle: r.opts.Lifecycle, now: r.opts.Clock.Now()}
	s.readySince = s.now
	s.job = r.adapter.New()
	if err := r.opts.Client.Get(ctx, name, s.job); err != nil {
		return s, false, client.IgnoreNotFound(err)
	}
	if !r.adapter.Ours(s.job) {
		return s, false, nil
	}
	s.queue = s.job.GetLabels()[kueue.QueueNameLabel]
	stands, whole, err := r.standingOf(ctx, s.job, s.queue)
	if err != nil {
		return s, false, err
	}
	if stands == alone {
		return r.letGo(ctx, s)
	}
	if s.facts, err = r.adapter.Read(s.job); err != nil {
		if errors.Is(err, jobs.ErrIncomplete) {
			return s, false, nil // it is looked at again when that is written
		}
		r.event(s.job, jobEvent{reason: "ErrWorkloadCompose", message: err.Error(), warning: true})
		return r.unread(ctx, s, stands, whole)
	}
	jobs.Near(s.facts.PodSets, "")
	if s.keepsDone = r.opts.NoReclaimablePods; s.keepsDone {
		s.facts.Reclaimable = nil
	}
	if stands == nested || stands == deeper {
		s.nested, s.whole = true, whole
		s.foreign = stands == deeper && whole != nil && !counted(s.facts, whole)
		return s, true, nil
	}
	if err := r.workloads(ctx, &s); err != nil {
		return s, false, err
	}
	if err := r.joinGroup(ctx, &s); err != nil {
		return s, false, err
	}
	jobs.NearAsJobSays(s.job.GetAnnotations(), s.facts.PodSets)
	if err := r.ownDomainsOf(ctx, &s); err != nil {
		return s, false, err
	}
	if s.priority, err = admission.PriorityOf(ctx, r.opts.Client, s.job, s.facts.PodSets); err != nil {
		return s, false, err
	}
	w := s.workload
	if w == nil {
		err := r.domainOf(ctx, &s)
		return s, err == nil, err
	}
	if s.pods, err = admission.PodsOf(ctx, r.opts.Client, w.Namespace, w.Name); err != nil {
		return s, false, err
	}
	s.yields = r.yields(w)
	r.try(ctx, &s)
	if err := r.domainOf(ctx, &s); err != nil {
		return s, false, err
	}
	if convert.Admitted(w) {
		if s.facts.Ready {
			s.readySince = r.ready.Of(name, s.now)
		} else {
			r.ready.Forget(name)
		}
		if s.infos, err = admission.Infos(ctx, r.opts.Client, w, r.opts.Labels); err == nil {
			s.infos, s.conflict = admission.Updated(s.infos, w.Status.AdmissionChecks)
		}
		if err == nil && s.facts.Suspended {
			s.add, err = r.add(ctx)
		}
		if err == nil && s.facts.Suspended {
			s.group, err = admission.PodGroupOf(ctx, r.opts.Client, w, r.opts.Labels)
		}
	}
	return s, err == nil, err
}

// unread reads what there is to know of a job that cannot be understood: whether it runs, and
// whether it may. Trying again does not mend a manifest, but such a job can be stopped.
func (r *reconciler) unread(
	ctx context.Context,
	s facts,
	stands standing,
	whole *kueue.Workload,
) (facts, bool, error) {
	stopped, err := r.adapter.Stop(s.job, nil)
	if err != nil {
		return s, false, nil //nolint:nilerr // it is of another type, and was told of
	}
	s.unreadable = true
	s.facts = jobs.Facts{
		Suspended: equality.Semantic.DeepEqual(s.job, stopped),
		Active:    !r.adapter.Maker(s.job).Stopped,
	}
	if stands == nested || stands == deeper {
		s.nested, s.whole = true, whole
		return s, true, nil
	}
	if err := r.workloads(ctx, &s); err != nil || s.workload == nil {
		return s, err == nil, err
	}
	s.pods, err = admission.PodsOf(ctx, r.opts.Client, s.workload.Namespace, s.workload.Name)
	return s, err == nil, err
}

// counted reports whether all pods of a part say that they are pods of the whole's
// Workload, so that they get no more places than it has.
func counted(part jobs.Facts, whole *kueue.Workload) bool {
	return !slices.ContainsFunc(part.PodSets, func(ps kueue.PodSet) bool {
		return ps.Template.Annotations[kueue.WorkloadAnnotation] != whole.Name
	})
}

// letGo reads what there is to know of a job that needs no admission. It may have been held where
// only queued jobs ran, which is so no more: its Workload names no queue.
func (r *reconciler) letGo(ctx context.Context, s facts) (facts, bool, error) {
	if s.queue != "" || s.job.GetDeletionTimestamp() != nil {
		return s, false, nil
	}
	all, err := admission.WorkloadsOf(ctx, r.opts.Client, s.job.GetNamespace(), s.job.GetUID())
	if err != nil || len(all) == 0 {
		return s, false, err
	}
	w := choose(all, "")
	if w.Spec.QueueName != "" || w.Status.Admission != nil || convert.Finished(w) ||
		w.DeletionTimestamp != nil ||
		!ptr.Deref(w.Spec.Active, true) {
		return s, false, nil
	}
	if s.facts, err = r.adapter.Read(s.job); err != nil {
		return s, false, nil //nolint:nilerr // what it is was told when it was made
	}
	s.workload, s.free = w, true
	return s, true, nil
}
