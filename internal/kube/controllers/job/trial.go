package job

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const (
	// trialAfter is how long an admitted job may have no pods until it is found out whether it may
	// have any.
	trialAfter = 5 * time.Second
	// trialPause is after how long it is tried again, and for how long pods are not tried that are
	// like others that might be made.
	trialPause = 30 * time.Second
	// passedMany bounds how many different pods are remembered.
	passedMany = 4096
)

// likeness tells apart what pods say, whatever jobs they are of.
type likeness [sha256.Size]byte

// newPassed remembers which pods might have been made. On a cluster that is slow many jobs have no
// pods for a while, mostly alike: to try each of them would make it slower.
func newPassed(c cache.Clock) *cache.LRUExpireCache {
	return cache.NewLRUExpireCacheWithClock(passedMany, c)
}

// likenessOf is that of a pod before it is given to a Workload.
func likenessOf(p *corev1.Pod) (likeness, error) {
	text, err := json.Marshal(p)
	return sha256.Sum256(text), err
}

// trial is what came of trying whether pods of a job may be made. A restart tries anew.
type trial struct {
	at         time.Time
	generation int64
	why        string
}

// suspicious reports whether it has to be found out whether a job may have pods: it has none
// though it was admitted, or had to give back its quota for that.
func suspicious(s *facts) bool {
	w := s.workload
	switch {
	case w.Status.Admission == nil:
		return w.Annotations[kueue.PodsRefusedAnnotation] != ""
	case !convert.Admitted(w) || convert.Evicted(w) || s.facts.Suspended || s.facts.Finished != nil:
		return false
	}
	return s.pods.Live == 0 && !s.facts.Ready && !allDone(s.facts)
}

// waitsForPods is how long it has to be waited until pods that an admitted job lacks are missed.
func waitsForPods(s *facts) time.Duration {
	c := apimeta.FindStatusCondition(s.workload.Status.Conditions, kueue.WorkloadAdmitted)
	if c == nil || s.workload.Status.Admission == nil {
		return 0
	}
	return c.LastTransitionTime.Add(trialAfter).Sub(s.now)
}

// try finds out whether pods of a job may be made, if that is in doubt, by asking the API server
// without storing anything: what the namespace forbids would hold quota for nothing.
func (r *reconciler) try(ctx context.Context, s *facts) {
	name := client.ObjectKeyFromObject(s.job)
	if !suspicious(s) {
		r.trials.Forget(name)
		return
	}
	if left := waitsForPods(s); left > 0 {
		s.triesAgain = left
		return
	}
	last := r.trials.Get(name)
	if left := last.at.Add(trialPause).Sub(s.now); left > 0 && last.generation == s.job.GetGeneration() {
		s.tried, s.refusal, s.triesAgain = true, last.why, left
		return
	}
	why, err := r.refusal(ctx, s)
	if err != nil {
		s.triesAgain = trialPause
		return // it says nothing about the job
	}
	r.trials.Set(name, trial{s.now, s.job.GetGeneration(), why})
	s.tried, s.refusal, s.triesAgain = true, why, trialPause
}

// refusal says why the API server would not let pods of a job be made; "" if it would.
func (r *reconciler) refusal(ctx context.Context, s *facts) (string, error) {
	for i := range s.facts.PodSets {
		ps := &s.facts.PodSets[i]
		if ps.Count == 0 {
			continue
		}
		t := ps.Template.DeepCopy()
		p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		p.Namespace, p.Name = s.job.GetNamespace(), ""
		like, err := likenessOf(p)
		if err != nil {
			return "", fmt.Errorf("read the pods of %s: %w", ps.Name, err)
		}
		// One that is held for a refusal is let into its queue by what is true for its own pods: a
		// namespace may have had room for those of another.
		if _, passed := r.passed.Get(like); passed && s.workload.Status.Admission != nil {
			continue
		}
		p.GenerateName = s.job.GetName() + "-"
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, kueue.WorkloadAnnotation, s.workload.Name)
		why, err := admission.TryPod(ctx, r.opts.Client, p)
		switch {
		case err != nil:
			return "", fmt.Errorf("try a pod of %s: %w", ps.Name, err)
		case why != "":
			r.passed.Remove(like) // no more
			return why, nil
		}
		r.passed.Add(like, nil, trialPause)
	}
	return r.nameTaken(ctx, s)
}

// nameTaken says of which object that a job run here needs another one has the name; "" of none.
func (r *reconciler) nameTaken(ctx context.Context, s *facts) (string, error) {
	for _, x := range r.needed(s) {
		taken, err := r.another(ctx, s, x.gvk, x.name)
		if taken || err != nil {
			return fmt.Sprintf(
				"there is another %s %s, which is not this job's: delete it, or give the job another name",
				x.gvk.Kind,
				x.name,
			), err
		}
	}
	return "", nil
}

// thing is an object by its kind and name.
type thing struct {
	gvk  schema.GroupVersionKind
	name string
}

// needed are objects without which a job that is run here does not begin: the first member of each
// role, and what it has beside them.
func (r *reconciler) needed(s *facts) (out []thing) {
	k := r.kind
	if k == nil || k.Running.Operator == nil || !k.RunHere() {
		return nil
	}
	plan, err := k.Running.Operator.Compile(s.job)
	if err != nil {
		return nil // its operator tells of it
	}
	for i := range plan.Roles {
		role := &plan.Roles[i]
		if role.Remote || role.Floating || role.Count == 0 {
			continue
		}
		if gvk, known := r.memberKind(plan, role); known {
			out = append(out, thing{gvk, role.Expand(role.Member, 0)})
		}
	}
	if k.Running.Operator.Artifacts == nil {
		return out
	}
	artifacts, err := k.Running.Operator.Artifacts(s.job, plan, &jobs.Progress{Now: s.now})
	if err != nil {
		return out // its operator tells of it
	}
	for i := range artifacts {
		a := &artifacts[i]
		gvk, err := apiutil.GVKForObject(a.Object, r.opts.Client.Scheme())
		if err == nil && !a.Yields && !a.Outlives {
			out = append(out, thing{gvk, a.Object.GetName()})
		}
	}
	return out
}

// memberKind is the kind of the members of a role; false if that cannot be told before they are made.
func (r *reconciler) memberKind(plan *jobs.Plan, role *podplan.Role) (schema.GroupVersionKind, bool) {
	makes := plan.MakeOf(role.Name)
	if makes == nil {
		return corev1.SchemeGroupVersion.WithKind("Pod"), true
	}
	if all := r.kind.Running.Operator.Children; len(all) == 1 {
		return all[0].GVK, true
	}
	o, err := makes(podplan.Member{Role: role.Name}, &podplan.RetryState{}, nil)
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	gvk, err := apiutil.GVKForObject(o, r.opts.Client.Scheme())
	return gvk, err == nil
}

// another reports whether there is an object of a name that is not the job's.
func (r *reconciler) another(
	ctx context.Context,
	s *facts,
	gvk schema.GroupVersionKind,
	name string,
) (bool, error) {
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(gvk)
	err := r.opts.Live.Get(ctx, types.NamespacedName{Namespace: s.job.GetNamespace(), Name: name}, is)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return !metav1.IsControlledBy(is, s.job), nil
}
