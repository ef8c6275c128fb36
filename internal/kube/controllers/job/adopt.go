package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// PrebuiltIndex is the name of the cache index from the name of a prebuilt Workload to
// the jobs that name it.
const PrebuiltIndex = "mlbatch.dev/prebuilt"

// IndexPrebuilt returns the Workload that a job names, for PrebuiltIndex.
func IndexPrebuilt(o client.Object) []string {
	if name := jobs.Prebuilt(o); name != "" {
		return []string{name}
	}
	return nil
}

// choose picks the Workload of a job from those it controls: the one with the
// name it would get now, then one that holds quota, then the oldest.
func choose(all []kueue.Workload, name string) *kueue.Workload {
	rank := func(w *kueue.Workload) int {
		switch {
		case w.Name == name:
			return 0
		case w.Status.Admission != nil:
			return 1
		}
		return 2
	}
	best := slices.MinFunc(all, func(a, b kueue.Workload) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return &best
}

// workloads finds the Workload of a job and its Workloads that are too many. A prebuilt
// Workload need not be the job's yet.
func (r *reconciler) workloads(ctx context.Context, s *facts) error {
	all, err := admission.WorkloadsOf(ctx, r.opts.Client, s.job.GetNamespace(), s.job.GetUID())
	if err != nil {
		return err
	}
	s.prebuilt = jobs.Prebuilt(s.job)
	if s.prebuilt != "" {
		var w kueue.Workload
		err := r.opts.Client.Get(ctx, types.NamespacedName{Namespace: s.job.GetNamespace(), Name: s.prebuilt}, &w)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the prebuilt workload %s: %w", s.prebuilt, err)
		}
		if err == nil {
			s.workload = &w
		}
	} else if len(all) > 0 {
		s.workload = choose(all, admission.WorkloadName(r.adapter.GVK(), s.job))
	}
	for i := range all {
		if s.workload == nil || all[i].Name != s.workload.Name {
			s.extra = &all[i]
			pods, err := admission.PodsOf(ctx, r.opts.Client, all[i].Namespace, all[i].Name)
			if err != nil {
				return err
			}
			s.extraLive = pods.Live
			break // one step at a time
		}
	}
	return nil
}

// unclaimed reports whether a job's prebuilt Workload is not, or not yet, its own.
func unclaimed(s facts) bool {
	return s.prebuilt != "" && s.workload != nil && !metav1.IsControlledBy(s.workload, s.job)
}

// claim makes a prebuilt Workload the job's own, which it must not be of another
// job.
func claim(s facts) (step, error) {
	if !s.facts.Suspended {
		return stop(s, "Suspended", "Suspended: it has no admitted workload")
	}
	w := s.workload
	switch taken := convert.Taken(w, s.job.GetUID(), s.pods.Live); {
	case taken != "":
		return step{tell: &jobEvent{
			reason: "PrebuiltWorkloadTaken", warning: true,
			message: fmt.Sprintf("The prebuilt Workload %s %s: name another one", w.Name, taken),
		}}, nil
	case w.DeletionTimestamp != nil || convert.Finished(w):
		return step{}, nil
	}
	return step{adopt: true}, nil
}

// adopt writes that a prebuilt Workload is controlled by the job.
func (r *reconciler) adopt(ctx context.Context, s facts) error {
	w := s.workload.DeepCopy()
	if err := controllerutil.SetControllerReference(s.job, w, r.opts.Client.Scheme()); err != nil {
		return fmt.Errorf("own workload %s: %w", w.Name, err)
	}
	metav1.SetMetaDataLabel(&w.ObjectMeta, kueue.JobUIDLabel, string(s.job.GetUID()))
	note(w, kueue.EndsOnceAnnotation, endsOnce(s.facts))
	note(w, kueue.LaterPodSetsAnnotation, later(s.facts))
	note(w, kueue.ComputeDomainPodSetsAnnotation, domainNote(&s))
	for _, f := range admission.Finalizers() {
		controllerutil.AddFinalizer(w, f)
	}
	note(w, history.UserAnnotation, jobs.User(r.kind, s.job))
	return r.patch(ctx, s.workload, w)
}

// patch writes what differs between two states of a Workload. What its author
// wrote in another form (cpu: 1 for cpu: "1") stays as it is, so that the API
// server does not take it for a change of pods that have quota.
func (r *reconciler) patch(ctx context.Context, was, is *kueue.Workload) error {
	return r.opts.Client.Patch(ctx, is, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
}

// remove deletes a Workload, and lets one that is being deleted go once its
// pods are gone.
func (r *reconciler) remove(ctx context.Context, w *kueue.Workload) error {
	if w.DeletionTimestamp == nil {
		return r.opts.Client.Delete(ctx, w, client.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion})
	}
	return apply.Unpin(ctx, r.opts.Client, w)
}

// outgrown is the next step of a suspended job that asks for something other
// than what its Workload was given quota for; false if it does not.
func outgrown(s facts) (step, bool, error) {
	w := s.workload
	if !s.facts.Suspended {
		return step{}, false, nil
	}
	asks := s.facts.PodSets
	if startedBefore(w) { // without what the job may carry of that
		restored, mended, err := s.restored(sized(sakkara.Authored(w), asks))
		if err != nil || !mended {
			return step{}, false, err
		}
		facts, err := s.adapter.Read(restored)
		if err != nil {
			return step{}, false, err
		}
		asks = facts.PodSets
	}
	if admission.SamePods(w.Spec.PodSets, asks) && regrown(s) == "" &&
		domainNote(&s) == w.Annotations[kueue.ComputeDomainPodSetsAnnotation] {
		return step{}, false, nil
	}
	if s.prebuilt != "" {
		return outOfSync(s), true, nil
	}
	return step{remove: w, tell: &jobEvent{
		reason:  "DeletedWorkload",
		message: "Deleted Workload " + w.Name + ", because the job changed after quota was reserved for it",
	}}, true, nil
}

// sized returns the pod sets with as many pods as a job asks for, for a job
// whose size is its author's.
func sized(original, asks []kueue.PodSet) []kueue.PodSet {
	out := slices.Clone(original)
	for i := range out {
		at := slices.IndexFunc(asks, func(ps kueue.PodSet) bool { return ps.Name == out[i].Name })
		if at >= 0 {
			out[i].Count = asks[at].Count
		}
	}
	return out
}

// shrinks reports whether a Workload may have been admitted with fewer pods than
// its job asks for.
func shrinks(w *kueue.Workload) bool {
	return slices.ContainsFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.MinCount != nil })
}

// ended is the next step of a job whose Workload has ended. One that never
// started stays so, and waits for its author: once the job asks for other pods or
// another queue, it is queued anew.
func ended(s facts) (step, error) {
	c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadFinished)
	if s.facts.Finished != nil || (c.Reason != kueue.ReasonFailedToStart && c.Reason != kueue.ReasonOutOfSync) {
		return step{}, nil
	}
	if !s.facts.Suspended {
		return stop(s, "Suspended", "Suspended: "+c.Message)
	}
	if c.Reason != kueue.ReasonFailedToStart || s.prebuilt != "" || s.workload.DeletionTimestamp != nil {
		return step{}, nil
	}
	restored, mended, err := s.restored(sized(sakkara.Authored(s.workload), s.facts.PodSets))
	if err != nil || !mended {
		return step{}, err
	}
	facts, err := s.adapter.Read(restored)
	if err != nil {
		return step{}, err
	}
	if s.workload.Spec.QueueName == kueue.LocalQueueName(s.queue) &&
		sameAsks(s, facts.PodSets) {
		return step{}, nil
	}
	return step{remove: s.workload, tell: &jobEvent{
		reason:  "DeletedWorkload",
		message: "Deleted Workload " + s.workload.Name + ", because the job, which could not start, changed",
	}}, nil
}

// sameAsks reports whether a job that could not start asks for what its Workload has: how near its pods are is known of
// those alone that wait.
func sameAsks(s facts, asks []kueue.PodSet) bool {
	has := sakkara.Authored(s.workload)
	if s.workload.Annotations[kueue.SakkaraGroupAnnotation] != "" {
		has, asks = slices.Clone(has), slices.Clone(asks)
		for _, sets := range [][]kueue.PodSet{has, asks} {
			for i := range sets {
				sets[i].TopologyRequest = nil
			}
		}
	}
	return equality.Semantic.DeepEqual(has, asks)
}

// outOfSync ends a prebuilt Workload that is not for the pods of its job.
func outOfSync(s facts) step {
	message := "The prebuilt Workload " + s.workload.Name + " has other pod sets than the job: make both the same, with a new Workload"
	return step{
		status: workloadlifecycle.Ended(s.workload, kueue.ReasonOutOfSync, message, s.now),
		tell:   &jobEvent{reason: kueue.ReasonOutOfSync, message: message, warning: true},
	}
}

// keepOwn leaves in a prebuilt Workload what its author wrote and the job does
// not say, and returns its admission gates.
func keepOwn(s facts, want *kueue.WorkloadSpec) string {
	is := &s.workload.Spec
	if s.queue == "" {
		want.QueueName = is.QueueName
	}
	if s.job.GetLabels()[kueue.PriorityClassLabel] == "" {
		want.Priority, want.PriorityClassRef = is.Priority, is.PriorityClassRef
	}
	return s.workload.Annotations[kueue.AdmissionGatedByAnnotation]
}

// removeExtra removes a Workload that the job has besides its own.
func removeExtra(s facts) step {
	next := step{remove: s.extra}
	if s.extra.DeletionTimestamp == nil {
		next.tell = &jobEvent{
			reason:  "DeletedWorkload",
			message: "Deleted Workload " + s.extra.Name + ", because the job has another one",
		}
	}
	return next
}

// jobOfPrebuilt leads from a Workload to the jobs that name it and may adopt it.
func (r *reconciler) jobOfPrebuilt() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		if metav1.GetControllerOf(o) != nil {
			return nil // known to its job
		}
		return r.jobsWith(
			ctx,
			client.InNamespace(o.GetNamespace()),
			client.MatchingFields{PrebuiltIndex: o.GetName()},
		)
	})
}

// jobsWith lists the jobs of the adapter's kind that the options select.
func (r *reconciler) jobsWith(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	gvk := r.adapter.GVK()
	made, err := r.opts.Client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	list, known := made.(client.ObjectList)
	if err != nil || !known {
		return nil
	}
	if err := r.opts.Client.List(ctx, list, opts...); err != nil {
		return nil
	}
	var out []reconcile.Request
	_ = apimeta.EachListItem(list, func(item runtime.Object) error {
		if job, ok := item.(client.Object); ok {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
		}
		return nil
	})
	return out
}
