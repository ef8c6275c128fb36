package groups

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const (
	// missedAfter is how long a StatefulSet may lack pods until it is found out whether it may have
	// them.
	missedAfter = 5 * time.Second
	// trialPause is after how long it is tried again.
	trialPause = 30 * time.Second
)

// trial is what came of trying whether the pods that a set lacks may be made. A restart tries anew.
type trial struct {
	at         time.Time
	generation int64
	why        string
	// told is when it was last said.
	told time.Time
}

// missed finds out why pods of a set are not made, if some are missing: Kubernetes tells that on
// the StatefulSets, at which nobody looks who made none. It returns when to look again.
func (r *reconciler) missed(ctx context.Context, g *jobs.Groups) time.Duration {
	name := client.ObjectKeyFromObject(g.Object)
	sets, left := lacking(g)
	if len(sets) == 0 {
		if left == 0 {
			r.trials.Forget(name)
		}
		return left
	}
	last := r.trials.Get(name)
	if left := last.at.Add(trialPause).Sub(g.Now); left > 0 && last.generation == g.Object.GetGeneration() {
		g.NotMade = last.why
		return left
	}
	next := trial{at: g.Now, generation: g.Object.GetGeneration(), told: last.told}
	for _, s := range sets {
		why, err := r.refusal(ctx, g, s)
		if err != nil {
			return trialPause // it says nothing about the set
		}
		if next.why = why; why != "" {
			break
		}
	}
	if next.why != "" && (next.why != last.why || g.Now.Sub(last.told) >= tellAgain) {
		r.event(g.Object, corev1.EventTypeWarning, eventFailed, next.why)
		next.told = g.Now
	}
	r.trials.Set(name, next)
	g.NotMade = next.why
	return trialPause
}

// lacking are the StatefulSets that have lacked pods for a while, and how long it is until those
// will have that lack some now. Of the workers of all groups, who are alike, the first that lack some
// stand for all: where a cluster is slow, to try each would make it slower.
func lacking(g *jobs.Groups) (out []*appsv1.StatefulSet, left time.Duration) {
	all := make([]*appsv1.StatefulSet, 0, 1+len(g.Sets))
	if g.Leaders != nil {
		all = append(all, g.Leaders)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Sets)) {
		all = append(all, g.Sets[name])
	}
	workers := false
	for _, s := range all {
		if s.DeletionTimestamp != nil || absent(g, s) == "" || workers {
			continue
		}
		if wait := s.CreationTimestamp.Add(missedAfter).Sub(g.Now); wait > 0 {
			left = max(left, wait)
			continue
		}
		out = append(out, s)
		workers = s != g.Leaders // who come first
	}
	return out, left
}

// absent is the name of the first pod that a StatefulSet lacks, "" if it has all.
func absent(g *jobs.Groups, s *appsv1.StatefulSet) string {
	has := map[string]bool{}
	for _, p := range g.Pods {
		if metav1.IsControlledBy(p, s) {
			has[p.Name] = true
		}
	}
	first := int32(0)
	if o := s.Spec.Ordinals; o != nil {
		first = o.Start
	}
	for i := range ptr.Deref(s.Spec.Replicas, 1) {
		if name := fmt.Sprintf("%s-%d", s.Name, first+i); !has[name] {
			return name
		}
	}
	return ""
}

// refusal says why the API server would not let a pod be made that a StatefulSet lacks; "" if it
// would. Nothing is stored.
func (r *reconciler) refusal(ctx context.Context, g *jobs.Groups, s *appsv1.StatefulSet) (string, error) {
	t := s.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name = s.Namespace, absent(g, s)
	p.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	why, err := admission.TryPod(ctx, r.Client, p)
	switch {
	case err == nil:
		return why, nil
	case !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("try a pod of StatefulSet %s/%s: %w", s.Namespace, s.Name, err)
	}
	name, is := p.Name, &corev1.Pod{}
	if err := r.Client.Get(
		ctx,
		client.ObjectKey{Namespace: s.Namespace, Name: name},
		is,
	); err != nil ||
		metav1.IsControlledBy(is, s) {
		return "", client.IgnoreNotFound(err)
	}
	return fmt.Sprintf(
		"there is another Pod %s, which is not this set's: delete it, or give the set another name",
		name,
	), nil
}
