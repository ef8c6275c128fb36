package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// fieldOwner is whose the fields of artifacts are.
const fieldOwner = "mlbatch"

// artifacts sees to it that what a job has beside its members is there and as it should be. It
// reports whether members may begin, and when to try again, if something is in the way that
// goes by itself. What somebody deleted is made again: a Service at once, since those are watched,
// and all else, to which the controller has rights only where jobs run, when a member begins or
// within ensuredFor.
func (r *reconciler) artifacts(
	ctx context.Context,
	l *look,
	s *podplan.Actions,
) (again time.Duration, ready bool, err error) {
	all, err := r.wanted(l, &s.RetryState)
	begins := len(s.Create)+len(s.Release) > 0
	if err != nil {
		r.event(l.job, corev1.EventTypeWarning, "InvalidJob", err.Error())
		return 0, false, err
	}
	for i := range all {
		text, err := json.Marshal(all[i].Object)
		if err != nil {
			return 0, false, fmt.Errorf("write %s: %w", all[i].Object.GetName(), err)
		}
		key, as := client.ObjectKeyFromObject(l.job), sha256.Sum256(text)
		name := fmt.Sprintf("%T %s", all[i].Object, all[i].Object.GetName())
		_, service := all[i].Object.(*corev1.Service)
		if !service && (again == 0 || again > ensuredFor) {
			again = ensuredFor
		}
		there := service && (all[i].Outlives || l.services[all[i].Object.GetName()]) ||
			!service && !r.ensured.old(key, name, l.now)
		if !begins && there && r.ensured.has(key, l.job.GetUID(), name, as) {
			continue
		}
		switch err := r.ensure(ctx, l.job, &all[i]); {
		case errors.Is(err, errTaken) && all[i].Yields: // until that goes: it may be of an earlier job
			again = takenPause
			continue
		case errors.Is(err, errTaken):
			return takenPause, false, nil
		case err != nil:
			if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				r.notMade(l, notCreated+strings.TrimPrefix(fmt.Sprintf("%T", all[i].Object), "*v1."), jobs.Refusal(err))
			}
			return 0, false, err
		}
		r.ensured.note(key, l.job.GetUID(), name, as, l.now)
	}
	return again, true, nil
}

// wanted are the artifacts of a job.
func (r *reconciler) wanted(l *look, m *podplan.RetryState) ([]jobs.Artifact, error) {
	if r.kind.Running.Operator.Artifacts == nil {
		return nil, nil
	}
	s := l.standing(m)
	all, err := r.kind.Running.Operator.Artifacts(l.job, l.plan, &s)
	for i := range all {
		o := all[i].Object
		o.SetNamespace(l.job.GetNamespace())
		if !all[i].Outlives {
			o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(l.job, r.kind.GVK())})
		}
		labels := map[string]string{recovery.JobLabel: string(l.job.GetUID())}
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
	}
	return all, err
}

// ensure makes an artifact, or brings it up to date. One of the name that is not the job's
// stays as it is.
func (r *reconciler) ensure(ctx context.Context, job jobs.Object, a *jobs.Artifact) error {
	gvk, err := apiutil.GVKForObject(a.Object, r.Client.Scheme())
	if err != nil {
		return fmt.Errorf("make %s: %w", a.Object.GetName(), err)
	}
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(gvk)
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(a.Object), is)
	switch {
	case apierrors.IsNotFound(err):
		return r.makeArtifact(ctx, a)
	case err != nil:
		return fmt.Errorf("look for %s %s: %w", gvk.Kind, a.Object.GetName(), err)
	case a.Outlives:
		return nil // it may be of an earlier job of the name
	case !metav1.IsControlledBy(is, job):
		r.event(job, corev1.EventTypeWarning, nameTaken, fmt.Sprintf(
			"There is another %s %s, which is not this job's%s", strings.ToLower(gvk.Kind), is.Name, without(a)))
		return errTaken
	case a.Fill != nil:
		return nil // it stays as it was made
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a.Object)
	if err != nil {
		return fmt.Errorf("write %s: %w", a.Object.GetName(), err)
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(gvk)
	o.SetUID(is.UID) // a successor of the same name is somebody else's
	unstructured.RemoveNestedField(o.Object, "status")
	return r.Client.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(o),
		client.FieldOwner(fieldOwner),
		client.ForceOwnership,
	)
}

// without says what follows if an artifact cannot be there.
func without(a *jobs.Artifact) string {
	if a.Yields {
		return " and is of no use to it"
	}
	return ": delete it, or give the job another name"
}

func (r *reconciler) makeArtifact(ctx context.Context, a *jobs.Artifact) error {
	o, _ := a.Object.DeepCopyObject().(jobs.Object)
	if a.Fill != nil {
		if err := a.Fill(rand.Reader, o); err != nil {
			return fmt.Errorf("make %s: %w", o.GetName(), err)
		}
	}
	err := r.Client.Create(ctx, o, client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return errTaken // it was made just now, and is looked at again
	}
	return err
}

// removeArtifacts deletes the artifacts of a job that is suspended.
func (r *reconciler) removeArtifacts(ctx context.Context, l *look) error {
	all, err := r.wanted(l, &l.kept)
	if err != nil {
		return nil //nolint:nilerr // a job that has none that can be named; they go with it
	}
	for i := range all {
		if all[i].Stays {
			continue
		}
		is := &metav1.PartialObjectMetadata{}
		gvk, err := apiutil.GVKForObject(all[i].Object, r.Client.Scheme())
		if err != nil {
			return fmt.Errorf("remove %s: %w", all[i].Object.GetName(), err)
		}
		is.SetGroupVersionKind(gvk)
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(all[i].Object), is); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("look for %s %s: %w", gvk.Kind, all[i].Object.GetName(), err)
		}
		if !metav1.IsControlledBy(is, l.job) {
			continue
		}
		if err := r.Client.Delete(ctx, is, client.Preconditions{UID: &is.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s %s: %w", gvk.Kind, is.Name, err)
		}
	}
	r.ensured.forget(client.ObjectKeyFromObject(l.job))
	return nil
}

// ensured remembers what artifacts of jobs were made to be, which saves looking at them.
type ensured struct {
	mu    sync.Mutex
	byJob map[types.NamespacedName]*ensuredJob
}

type ensuredJob struct {
	uid types.UID
	as  map[string][sha256.Size]byte
	at  map[string]time.Time
}

// ensuredFor is how long an artifact that is not watched is believed to be there.
const ensuredFor = 5 * time.Minute

// old reports whether an artifact was last looked at long ago.
func (e *ensured) old(job types.NamespacedName, name string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.byJob[job]
	return known != nil && now.Sub(known.at[name]) >= ensuredFor
}

func (e *ensured) has(job types.NamespacedName, uid types.UID, name string, as [sha256.Size]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.byJob[job]
	return known != nil && known.uid == uid && known.as[name] == as
}

func (e *ensured) note(
	job types.NamespacedName,
	uid types.UID,
	name string,
	as [sha256.Size]byte,
	now time.Time,
) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byJob == nil {
		e.byJob = map[types.NamespacedName]*ensuredJob{}
	}
	if e.byJob[job] == nil || e.byJob[job].uid != uid {
		e.byJob[job] = &ensuredJob{uid: uid, as: map[string][sha256.Size]byte{}, at: map[string]time.Time{}}
	}
	e.byJob[job].as[name], e.byJob[job].at[name] = as, now
}

func (e *ensured) forget(job types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byJob, job)
}
