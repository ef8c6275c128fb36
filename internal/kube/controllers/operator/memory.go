package operator

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// kept is what this process knows of a job's JobRecovery. Nobody else writes it, so that it is read once:
// whoever is overtaken nevertheless, as a process that does not lead any more, is told by a conflict.
type kept struct {
	uid types.UID // of the job
	// version of the object; "" if there is none.
	version string
	memory  podplan.RetryState
	// attempts that failed and were followed by others within one admission.
	attempts history.Attempts
	// said: the job's status says what follows from it. Until then nothing else is done: who gives back
	// the job's quota goes by the status.
	said bool
	// overtaken is the version of the job that its status was last written over: a cache that shows it
	// is behind.
	overtaken string
}

// recall finds out what is remembered of a job whose members are known. What is lost is rebuilt; l.rebuilt
// says that it has to be stored.
func (r *reconciler) recall(ctx context.Context, l *look) error {
	key := client.ObjectKeyFromObject(l.job)
	is := r.kept.Get(key)
	if is.uid == l.job.GetUID() {
		l.kept, l.attempts, l.said, l.behind = is.memory, is.attempts, is.said, is.overtaken == l.job.GetResourceVersion()
		return nil
	}
	var stored recovery.JobRecovery
	name := types.NamespacedName{Namespace: key.Namespace, Name: string(l.job.GetUID())}
	if err := r.Live.Get(ctx, name, &stored); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read what is remembered of the job: %w", err)
	}
	is = kept{uid: l.job.GetUID(), version: stored.ResourceVersion}
	own := stored.Of(l.job)
	if own != nil {
		is.attempts = own.Attempts
	}
	carried := stored.Annotations[recovery.CarriedAnnotation]
	switch {
	case own == nil:
		is.memory = r.kind.Running.Operator.Rebuilt(l.job, l.objects(), l.seen)
		is.memory.Rounds.CountFrom(l.now)
		l.rebuilt = !reflect.DeepEqual(is.memory, podplan.RetryState{})
		is.said = !l.rebuilt
	case carried != "" && carried != l.job.GetResourceVersion():
		is.memory = jobs.CaughtUp(jobs.Remembered(own), r.kind.Running.Operator.Rebuilt(l.job, l.objects(), l.seen))
		l.rebuilt = true
	default:
		is.memory = jobs.Remembered(own)
	}
	l.kept, l.attempts, l.said = is.memory, is.attempts, is.said
	r.kept.Set(key, is)
	return nil
}

// objects are the objects of the members.
func (l *look) objects() []metav1.Object {
	out := make([]metav1.Object, len(l.members))
	for i := range l.members {
		out[i] = l.members[i].Object
	}
	return out
}

// remember stores what is to be remembered of a job, on condition that it is as it was read.
func (r *reconciler) remember(ctx context.Context, l *look, m *podplan.RetryState) error {
	key := client.ObjectKeyFromObject(l.job)
	is := r.kept.Get(key)
	o := &recovery.JobRecovery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: string(l.job.GetUID()), ResourceVersion: is.version,
			Labels:          map[string]string{recovery.JobLabel: string(l.job.GetUID())},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(l.job, r.kind.GVK())},
		},
		Recovery: *jobs.ToRecovery(m),
	}
	attempts, err := r.ended(ctx, l, m)
	if err != nil {
		return err
	}
	o.Attempts = attempts
	if is.version == "" {
		err = r.Client.Create(ctx, o)
	} else {
		err = r.Client.Update(ctx, o)
	}
	if err != nil {
		r.kept.Forget(key) // it is not known what is stored now
		if apierrors.IsAlreadyExists(err) {
			return errOvertaken
		}
		return fmt.Errorf("remember how the job stands: %w", err)
	}
	is.uid, is.version, is.memory, is.attempts, is.said = l.job.GetUID(), o.ResourceVersion, *m, attempts, false
	r.kept.Set(key, is)
	return nil
}

// said notes that the status of a job says what is remembered of it, and which version of the job that
// status replaced, if it did.
func (r *reconciler) said(l *look, is jobs.Object) {
	key := client.ObjectKeyFromObject(l.job)
	note := r.kept.Get(key)
	if note.uid != l.job.GetUID() {
		return
	}
	note.said = true
	if before := l.job.GetResourceVersion(); is.GetResourceVersion() != before {
		note.overtaken = before
	}
	r.kept.Set(key, note)
}
