package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/api/recovery"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Reasons of events.
const (
	created    = "SuccessfulCreatePod"
	notCreated = "FailedCreatePod"
	deleted    = "SuccessfulDeletePod"
	nameTaken  = "NameTaken"
)

// longestBatch is how many pods are made before it is looked whether they were refused.
const longestBatch = 64

// errTaken says that another object has the name of a pod.
var errTaken = errors.New("the name is taken")

// note writes what is to be remembered, with the status that follows.
func (r *reconciler) note(ctx context.Context, l *look, m *podplan.Memory) (reconcile.Result, error) {
	if m.Started.IsZero() && !l.kept.Started.IsZero() {
		// From here on everybody believes that no pod is left, and the cache may be old.
		left, err := r.left(ctx, l.job)
		if err != nil {
			return reconcile.Result{}, err
		}
		if left {
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		}
	}
	return reconcile.Result{}, r.write(ctx, l, m)
}

// left reports whether the API server has pods of a job that can run. Labels alone make
// none: a tenant who writes them would keep the quota of a job that was evicted.
func (r *reconciler) left(ctx context.Context, job jobs.Object) (bool, error) {
	var pods corev1.PodList
	mine := client.MatchingLabels{recovery.JobLabel: string(job.GetUID())}
	if err := r.Live.List(ctx, &pods, client.InNamespace(job.GetNamespace()), mine); err != nil {
		return false, fmt.Errorf("look for pods that are left: %w", err)
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return metav1.IsControlledBy(&p, job) && convert.PodState(&p).HoldsQuota()
	}), nil
}

// write writes the status of a job, on condition that it is as it was read.
func (r *reconciler) write(ctx context.Context, l *look, m *podplan.Memory) error {
	r.counted.note(client.ObjectKeyFromObject(l.job), l.now)
	return r.Client.Status().Update(ctx, r.projected(l, m))
}

func (r *reconciler) projected(l *look, m *podplan.Memory) jobs.Object {
	s := jobs.Standing{Memory: *m, Counts: l.plan.Count(l.seen, m), Now: l.now}
	s.Suspended = l.plan.Suspended && m.Started.IsZero() && m.Outcome == podplan.Open
	s.Ready = m.Outcome == podplan.Open && !m.Started.IsZero() && l.plan.AllReady(s.Counts)
	s.Restarting = slices.ContainsFunc(l.seen, func(x podplan.Seen) bool {
		return x.Life == podplan.Failed && (x.Disrupted || slices.Contains(m.Counted, x.ID))
	})
	return r.kind.Operated.Project(l.job, l.plan, &s)
}

// do removes and makes what a step says, and writes the counters when it is time.
func (r *reconciler) do(ctx context.Context, l *look, s *podplan.Step) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: s.Again}
	soon := func(d time.Duration) {
		if result.RequeueAfter == 0 || d < result.RequeueAfter {
			result.RequeueAfter = d
		}
	}
	if err := r.delete(ctx, l, s); err != nil {
		return result, err
	}
	if len(s.Create) > 0 && l.held == "" {
		again, err := r.create(ctx, l, s)
		if err != nil {
			return result, err
		}
		if again > 0 {
			soon(again)
		}
	}
	if err := r.services(ctx, l, s); err != nil {
		return result, err
	}
	if next := r.projected(l, &s.Memory); !equality.Semantic.DeepEqual(l.job, next) {
		age := r.counted.since(client.ObjectKeyFromObject(l.job), l.now)
		if age < countsPause {
			soon(countsPause - age)
			return result, nil
		}
		return result, r.write(ctx, l, &s.Memory)
	}
	return result, nil
}

// delete removes pods that have to go. One that has another UID by now is left alone.
func (r *reconciler) delete(ctx context.Context, l *look, s *podplan.Step) error {
	err := inParallel(len(s.Delete), func(i int) error {
		pod := l.pods[s.Delete[i]]
		return client.IgnoreNotFound(r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}))
	})
	if err == nil && len(s.Delete) > 0 {
		r.event(l.job, corev1.EventTypeNormal, deleted, "Deleted "+several(len(s.Delete), func(i int) string { return l.pods[s.Delete[i]].Name }))
	}
	return err
}

// several names pods.
func several(n int, name func(int) string) string {
	if n == 1 {
		return "pod: " + name(0)
	}
	return fmt.Sprintf("%d pods: %s to %s", n, name(0), name(n-1))
}

// create makes pods, a few at first: if they are refused, so would be the rest. It
// reports when to try again, if something is in the way that goes by itself.
func (r *reconciler) create(ctx context.Context, l *look, s *podplan.Step) (time.Duration, error) {
	var pods []*corev1.Pod
	for _, m := range s.Create {
		if l.awaited[l.name(m)] {
			continue
		}
		info, err := l.info(m.Role)
		if err != nil {
			return 0, err
		}
		if !l.admits(m) {
			continue
		}
		pod, err := l.plan.Pod(l.job, r.kind.GVK(), m, &s.Memory, info)
		if err != nil {
			r.event(l.job, corev1.EventTypeWarning, notCreated, err.Error())
			return 0, err
		}
		pods = append(pods, pod)
	}
	if len(pods) == 0 {
		return 0, nil
	}
	if same, err := r.same(ctx, l.job); err != nil || !same {
		return conflictPause, err
	}
	made := 0
	for size := 1; made < len(pods); size = min(2*size, longestBatch) {
		batch := pods[made:min(made+size, len(pods))]
		err := inParallel(len(batch), func(i int) error { return r.createPod(ctx, l, batch[i]) })
		if errors.Is(err, errTaken) {
			return takenPause, nil
		}
		if err != nil {
			r.event(l.job, corev1.EventTypeWarning, notCreated, err.Error())
			return 0, err
		}
		made += len(batch)
	}
	r.event(l.job, corev1.EventTypeNormal, created, "Created "+several(made, func(i int) string { return pods[i].Name }))
	return 0, nil
}

func (r *reconciler) createPod(ctx context.Context, l *look, pod *corev1.Pod) error {
	err := r.Client.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		return r.taken(ctx, l, pod)
	}
	if err == nil {
		r.awaited.made(client.ObjectKeyFromObject(l.job), pod.Name, l.now)
	}
	return err
}

// taken finds out who has the name of a pod. If it is the pod itself all is well: the
// cache is old.
func (r *reconciler) taken(ctx context.Context, l *look, pod *corev1.Pod) error {
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), is); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(is, l.job) {
		return nil
	}
	r.event(l.job, corev1.EventTypeWarning, nameTaken,
		fmt.Sprintf("There is another pod %s, which is not this job's: delete it, or give the job another name", pod.Name))
	return errTaken
}

// same reports whether a job is still as it was read.
func (r *reconciler) same(ctx context.Context, job jobs.Object) (bool, error) {
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(r.kind.GVK())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), is); err != nil {
		return false, fmt.Errorf("look at the job before its pods are made: %w", err)
	}
	return is.UID == job.GetUID() && is.ResourceVersion == job.GetResourceVersion(), nil
}

// services makes those of pods that there are or are being made, and removes those whose
// pods have gone for good. A pod that comes again keeps its service.
func (r *reconciler) services(ctx context.Context, l *look, s *podplan.Step) error {
	wanted, gone := l.servicesOf(s)
	var missing []*corev1.Service
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if l.services[name] {
			continue
		}
		if service := l.plan.Service(l.job, r.kind.GVK(), wanted[name]); service != nil {
			missing = append(missing, service)
		}
	}
	remove := slices.DeleteFunc(gone, func(name string) bool { return !l.services[name] })
	return errors.Join(
		inParallel(len(missing), func(i int) error {
			err := r.Client.Create(ctx, missing[i])
			if apierrors.IsAlreadyExists(err) {
				return nil // the cache will show it, or it is somebody else's and stays
			}
			return err
		}),
		inParallel(len(remove), func(i int) error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.job.GetNamespace(), Name: remove[i]}}
			return client.IgnoreNotFound(r.Client.Delete(ctx, service))
		}),
	)
}

// servicesOf says which members have to have a service, by name, and which names have to
// go.
func (l *look) servicesOf(s *podplan.Step) (wanted map[string]podplan.Member, gone []string) {
	switch {
	case s.Memory.Outcome != podplan.Open:
		for _, i := range s.Delete {
			gone = append(gone, l.pods[i].Name)
		}
		return nil, gone
	case l.plan.Suspended:
		return nil, slices.Sorted(maps.Keys(l.services))
	}
	wanted = map[string]podplan.Member{}
	for i := range l.seen {
		if m := l.seen[i].Member; m.Role != "" {
			wanted[l.pods[i].Name] = m
		} else {
			gone = append(gone, l.pods[i].Name)
		}
	}
	if l.held == "" {
		for _, m := range s.Create {
			if l.admits(m) {
				wanted[l.name(m)] = m
			}
		}
	}
	return wanted, gone
}

// name is that of a member's pod.
func (l *look) name(m podplan.Member) string {
	role := l.plan.Role(m.Role)
	return role.Expand(role.Member, m.Index)
}

// atOnce is how many requests are made at the same time for one job.
const atOnce = 16

// inParallel does something for the numbers below n, a few at the same time, and
// returns all errors.
func inParallel(n int, do func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
