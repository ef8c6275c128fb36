package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Reasons of events.
const (
	created    = "SuccessfulCreate"
	notCreated = "FailedCreate"
	deleted    = "SuccessfulDelete"
	nameTaken  = "NameTaken"
)

// longestBatch is how many pods are made before it is looked whether they were refused.
const longestBatch = 64

// errTaken says that another object has the name of a pod.
var errTaken = errors.New("the name is taken")

// errOvertaken says that something else is stored than was read.
var errOvertaken = errors.New("it was changed meanwhile")

// note writes what is to be remembered, and then the status that follows.
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
		if err := r.removeArtifacts(ctx, l); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.remember(ctx, l, m); err != nil {
		return reconcile.Result{}, err
	}
	if changed, err := r.tell(ctx, l, m); changed || err != nil {
		return reconcile.Result{}, err // that wakes
	}
	return reconcile.Result{RequeueAfter: conflictPause}, nil
}

// tell has the status of a job say what is remembered of it, and reports whether that changed the job.
func (r *reconciler) tell(ctx context.Context, l *look, m *podplan.Memory) (changed bool, err error) {
	if equality.Semantic.DeepEqual(l.job, r.projected(l, m)) {
		r.said(l, l.job)
		return false, nil
	}
	err = r.write(ctx, l, m)
	return r.kept.Get(client.ObjectKeyFromObject(l.job)).overtaken == l.job.GetResourceVersion(), err
}

// left reports whether the API server has pods of a job that can run. Labels alone make
// none: a tenant who writes them would keep the quota of a job that was evicted.
func (r *reconciler) left(ctx context.Context, job jobs.Object) (bool, error) {
	var pods corev1.PodList
	mine := client.MatchingLabels{recovery.JobLabel: string(job.GetUID())}
	if err := r.Live.List(ctx, &pods, client.InNamespace(job.GetNamespace()), mine); err != nil {
		return false, fmt.Errorf("look for pods that are left: %w", err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; metav1.IsControlledBy(p, job) && convert.PodState(p).HoldsQuota() {
			return true, nil
		}
	}
	l := &look{job: job, plan: &jobs.Plan{}}
	err := r.children(ctx, l, r.Live, []client.ListOption{client.InNamespace(job.GetNamespace()), mine})
	return slices.ContainsFunc(l.seen, func(s podplan.Seen) bool { return !s.Over }), err
}

// write writes the status of a job, on condition that it is as it was read. Fields of ours that a
// definition of others does not have are not missed.
func (r *reconciler) write(ctx context.Context, l *look, m *podplan.Memory) error {
	r.counted.Set(client.ObjectKeyFromObject(l.job), l.now)
	next := r.projected(l, m)
	if err := r.Client.Status().Update(ctx, next); err != nil {
		return err
	}
	r.said(l, next)
	if r.kind.Running.Operated.Tells != nil {
		r.tellChange(r.kind.Running.Operated.Tells(l.job, next), next)
	}
	return nil
}

// tellChange tells of a change of a job's status in the events of its kind.
func (r *reconciler) tellChange(all []jobs.Event, job jobs.Object) {
	for _, e := range all {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.event(job, kind, e.Reason, e.Message)
	}
}

func (r *reconciler) projected(l *look, m *podplan.Memory) jobs.Object {
	s := l.standing(m)
	return r.kind.Running.Operated.Project(l.job, l.plan, &s)
}

// standing is how far the job is.
func (l *look) standing(m *podplan.Memory) jobs.Progress {
	s := jobs.Progress{
		NotMade: l.notMade,
		Memory:  *m,
		Counts:  l.plan.Count(l.seen, m),
		Now:     l.now,
		Answers: l.answers,
	}
	s.Suspended = l.plan.Suspended && m.Started.IsZero() && m.Outcome == podplan.Open
	s.Ready = m.Outcome == podplan.Open && !m.Started.IsZero() && l.plan.AllReady(s.Counts)
	s.Addresses = l.addresses()
	s.Restarting = slices.ContainsFunc(l.seen, func(x podplan.Seen) bool {
		return x.Life == podplan.Failed && (x.Disrupted || slices.Contains(m.Counted, x.ID))
	})
	s.Disrupted = s.Restarting &&
		slices.ContainsFunc(l.seen, func(x podplan.Seen) bool { return x.Life == podplan.Failed && x.Disrupted })
	for i, x := range l.members {
		if o, is := x.Object.(jobs.Object); is && x.kind != nil && l.seen[i].Role != "" {
			s.Children = append(s.Children, o)
		}
	}
	return s
}

// addresses are those of the first pods of roles.
func (l *look) addresses() map[string]string {
	out := map[string]string{}
	for i := range l.members {
		x := &l.seen[i]
		pod, is := l.members[i].Object.(*corev1.Pod)
		if is && x.Role != "" && x.Index == 0 && !x.Leaving && x.Life < podplan.Succeeded &&
			pod.Status.PodIP != "" {
			out[x.Role] = pod.Status.PodIP
		}
	}
	return out
}

// do removes and makes what a step says, and writes the counters when it is time.
func (r *reconciler) do(ctx context.Context, l *look, s *podplan.Actions) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: s.Again}
	soon := func(d time.Duration) {
		if result.RequeueAfter == 0 || d < result.RequeueAfter {
			result.RequeueAfter = d
		}
	}
	if err := errors.Join(r.delete(ctx, l, s), r.hold(ctx, l, s)); err != nil {
		return result, err
	}
	again, err := r.begin(ctx, l, s)
	if err != nil {
		if next := r.projected(l, &s.Memory); l.notMade != "" && !equality.Semantic.DeepEqual(l.job, next) {
			return result, errors.Join(err, r.write(ctx, l, &s.Memory)) // kinds that have a condition for it say so
		}
		return result, err
	}
	if again > 0 {
		soon(again)
	}
	if err := r.services(ctx, l, s); err != nil {
		return result, err
	}
	if next := r.projected(l, &s.Memory); !equality.Semantic.DeepEqual(l.job, next) {
		age := ago(r.counted.Get(client.ObjectKeyFromObject(l.job)), l.now)
		if age < countsPause {
			soon(countsPause - age)
			return result, nil
		}
		return result, r.write(ctx, l, &s.Memory)
	}
	return result, nil
}

// delete removes members that have to go. One that has another UID by now is left alone.
func (r *reconciler) delete(ctx context.Context, l *look, s *podplan.Actions) error {
	if len(s.Delete) == 0 {
		return nil
	}
	err := admission.InParallel(len(s.Delete), func(i int) error {
		m := l.members[s.Delete[i]]
		uid := m.GetUID()
		options := []client.DeleteOption{client.Preconditions{UID: &uid}}
		if m.kind != nil { // its successor has the same name, and begins when its pods are gone
			options = append(options, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}
		return client.IgnoreNotFound(r.Client.Delete(ctx, m.Object, options...))
	})
	if err == nil {
		var gone []member
		for _, i := range s.Delete {
			gone = append(gone, l.members[i])
		}
		byKind(gone, func(kind string, some []member) {
			r.event(l.job, corev1.EventTypeNormal, deleted+kind, "Deleted "+several(some))
		})
	}
	return err
}

// called is what the API server calls objects of the kind.
func (m member) called() string {
	if m.kind == nil {
		return "Pod"
	}
	return m.kind.GVK.Kind
}

// byKind tells of members, of each kind by itself.
func byKind(all []member, tell func(kind string, some []member)) {
	var kinds []string
	of := map[string][]member{}
	for _, m := range all {
		kind := m.called()
		if _, seen := of[kind]; !seen {
			kinds = append(kinds, kind)
		}
		of[kind] = append(of[kind], m)
	}
	for _, kind := range kinds {
		tell(kind, of[kind])
	}
}

// several names members of one kind.
func several(all []member) string {
	n, of := len(all), func(i int) member { return all[i] }
	first := of(0)
	kind := first.called()
	if kind == "Pod" {
		kind = "pod"
	}
	if n == 1 {
		return kind + ": " + first.GetName()
	}
	return fmt.Sprintf("%d %ss: %s to %s", n, kind, first.GetName(), of(n-1).GetName())
}

// begin makes and releases members, if the job may have any, after what they need.
func (r *reconciler) begin(
	ctx context.Context,
	l *look,
	s *podplan.Actions,
) (again time.Duration, err error) {
	if l.held != "" || l.plan.Suspended || s.Memory.Outcome != podplan.Open && !l.plan.Trims {
		return 0, nil
	}
	if s.Memory.Outcome != podplan.Open {
		return 0, r.release(ctx, l, s)
	}
	if len(s.Create) > 0 {
		if retained, err := r.retain(ctx, l.job); err != nil || !retained {
			return 0, err // it is looked at again when that is seen
		}
	}
	again, ready, err := r.artifacts(ctx, l, s)
	if !ready || err != nil {
		return again, err
	}
	err = r.release(ctx, l, s)
	var sooner time.Duration
	if err == nil && len(s.Create) > 0 {
		sooner, err = r.create(ctx, l, s)
	}
	if errors.Is(err, jobs.ErrOutgrown) {
		return conflictPause, nil // who queues it is about to stop it
	}
	if again == 0 || sooner > 0 && sooner < again {
		again = sooner
	}
	return again, err
}

// create makes members, a few at first: if they are refused, so would be the rest. It
// reports when to try again, if something is in the way that goes by itself.
func (r *reconciler) create(
	ctx context.Context,
	l *look,
	s *podplan.Actions,
) (again time.Duration, err error) {
	if len(l.awaited) > 0 { // what was deleted before it was shown tells nobody that it is gone
		again = longestWait
	}
	var members []member
	for _, x := range l.admits(s.Create) {
		if l.awaited[l.name(x)] {
			continue
		}
		m, err := r.made(l, x, &s.Memory)
		if errors.Is(err, jobs.ErrOutgrown) {
			return 0, err
		}
		if err != nil {
			r.notMade(l, r.unmadeReason(&m), err.Error())
			return 0, err
		}
		members = append(members, m)
	}
	if len(members) == 0 {
		return again, nil
	}
	if same, err := r.same(ctx, l.job); err != nil || !same {
		return conflictPause, err
	}
	// A name that was asked for in vain is not found for a while: services come before the pods that ask.
	// Without one, pods are made all the same, since not all are asked for.
	unreached := r.makeServices(ctx, l, s)
	made := 0
	for size := 1; made < len(members); size = min(2*size, longestBatch) {
		batch := members[made:min(made+size, len(members))]
		err := admission.InParallel(len(batch), func(i int) error { return r.createMember(ctx, l, batch[i]) })
		if errors.Is(err, errTaken) {
			return takenPause, nil
		}
		if err != nil {
			r.notMade(l, r.unmadeReason(&batch[0]), jobs.Refusal(err))
			return 0, err
		}
		made += len(batch)
	}
	byKind(members, func(kind string, some []member) {
		r.event(l.job, corev1.EventTypeNormal, created+kind, "Created "+several(some))
	})
	r.unmade.Forget(client.ObjectKeyFromObject(l.job))
	return again, unreached
}

// unmadeReason is the reason of events that tell that a member could not be made.
func (r *reconciler) unmadeReason(m *member) string {
	return cmp.Or(r.kind.Running.Operated.Unmade, notCreated+m.called())
}

// notMade tells a job why something of it could not be made, as an event and, by its kind, in its
// status.
func (r *reconciler) notMade(l *look, reason, why string) {
	l.notMade = why
	r.unmade.Set(client.ObjectKeyFromObject(l.job), why)
	r.event(l.job, corev1.EventTypeWarning, reason, why)
}

// made returns a member as it is to run.
func (r *reconciler) made(l *look, x podplan.Member, m *podplan.Memory) (member, error) {
	if l.plan.MakeOf(x.Role) != nil {
		o, err := l.plan.Child(l.job, r.kind.GVK(), x, m, l.infos)
		if err != nil {
			return member{}, err
		}
		gvk, err := apiutil.GVKForObject(o, r.Client.Scheme())
		kind := r.kind.Running.Operated.Child(gvk)
		if err == nil && kind == nil {
			err = fmt.Errorf("role %s is of kind %s, which is none of its children", x.Role, gvk.Kind)
		}
		return member{o, kind}, err
	}
	info, err := l.info(x.Role)
	if err != nil {
		return member{}, err
	}
	pod, err := l.plan.Pod(l.job, r.kind.GVK(), x, m, info)
	return member{Object: pod}, err
}

func (r *reconciler) createMember(ctx context.Context, l *look, m member) error {
	err := r.Client.Create(ctx, m.Object)
	if apierrors.IsAlreadyExists(err) {
		return r.taken(ctx, l, m)
	}
	if err == nil {
		r.awaited.made(client.ObjectKeyFromObject(l.job), m.GetName(), l.now)
	}
	return err
}

// taken finds out who has the name of a member. If it is the member itself all is well: the
// cache is old.
func (r *reconciler) taken(ctx context.Context, l *look, m member) error {
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(m.gvk())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), is); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(is, l.job) {
		return nil
	}
	r.event(l.job, corev1.EventTypeWarning, nameTaken, fmt.Sprintf(
		"There is another %s %s, which is not this job's: delete it, or give the job another name",
		strings.ToLower(m.called()),
		m.GetName(),
	))
	return errTaken
}

func (m member) gvk() schema.GroupVersionKind {
	if m.kind == nil {
		return corev1.SchemeGroupVersion.WithKind("Pod")
	}
	return m.kind.GVK
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

// services makes those of pods that there are, and removes those whose pods have gone for good. A
// pod that comes again keeps its service.
func (r *reconciler) services(ctx context.Context, l *look, s *podplan.Actions) error {
	_, gone := l.servicesOf(s)
	remove := slices.DeleteFunc(gone, func(name string) bool { return !l.services[name] })
	return errors.Join(
		r.makeServices(ctx, l, s),
		admission.InParallel(len(remove), func(i int) error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.job.GetNamespace(), Name: remove[i]}}
			return client.IgnoreNotFound(r.Client.Delete(ctx, service))
		}),
	)
}

// makeServices makes those of pods that there are or are about to be made. What could not be made
// is tried again.
func (r *reconciler) makeServices(ctx context.Context, l *look, s *podplan.Actions) error {
	wanted, _ := l.servicesOf(s)
	var missing []*corev1.Service
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if l.services[name] {
			continue
		}
		if service := l.plan.Service(l.job, r.kind.GVK(), wanted[name]); service != nil {
			missing = append(missing, service)
		}
	}
	made := make([]bool, len(missing))
	err := admission.InParallel(len(missing), func(i int) error {
		err := r.Client.Create(ctx, missing[i])
		switch {
		case apierrors.IsAlreadyExists(err):
			err = nil // the cache will show it, or it is somebody else's and stays
		case apierrors.IsForbidden(err):
			r.event(l.job, corev1.EventTypeWarning, notCreated+"Service", jobs.Refusal(err))
		}
		made[i] = err == nil
		return err
	})
	for i := range missing {
		if made[i] {
			l.services[missing[i].Name] = true
		}
	}
	return err
}

// servicesOf says which members have to have a service, by name, and which names have to
// go.
func (l *look) servicesOf(s *podplan.Actions) (wanted map[string]podplan.Member, gone []string) {
	switch {
	case s.Memory.Outcome != podplan.Open:
		for _, i := range s.Delete {
			gone = append(gone, l.members[i].GetName())
		}
		return nil, gone
	case l.plan.Suspended:
		return nil, slices.Sorted(maps.Keys(l.services))
	}
	wanted = map[string]podplan.Member{}
	for i := range l.members {
		if m := l.seen[i].Member; m.Role != "" {
			wanted[l.members[i].GetName()] = m
		} else {
			gone = append(gone, l.members[i].GetName())
		}
	}
	if l.held == "" {
		for _, m := range l.admits(s.Create) {
			wanted[l.name(m)] = m
		}
	}
	return wanted, gone
}

// name is that of a member's pod.
func (l *look) name(m podplan.Member) string {
	role := l.plan.Role(m.Role)
	return role.Expand(role.Member, m.Index)
}
