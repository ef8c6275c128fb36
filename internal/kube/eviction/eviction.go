// Package eviction has pods leave that the controller of their job makes anew. A pod is
// evicted as the API has it, so that it carries the condition DisruptionTarget, which a Job's
// podFailurePolicy may ignore. Pods whose eviction would end their job stay, and an event says so.
package eviction

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// recount is when a job is looked at again whose retries are not all counted: some may
// be left.
const recount = 10 * time.Second

// Reasons of events on jobs.
const (
	// Evacuated: a pod was taken off its node.
	Evacuated = "Evacuated"
	// NotEvacuated: a pod should have been.
	NotEvacuated = "NotEvacuated"
)

// Evictor evicts pods.
type Evictor struct {
	Client client.Client
	// Live reads from the API server how many pods a job can still do without.
	Live     client.Reader
	Recorder events.EventRecorder
	// Kinds are the kinds of jobs that are queued.
	Kinds jobs.Kinds
}

// Leaver is a pod that has to leave, and why.
type Leaver struct {
	Pod *corev1.Pod
	Why string
}

// Evict evicts pods of a Workload, of all the pods that it has, as far as its job survives that.
// It says of the others, by events, that they stay. again is when to look whether more may go, 0
// if never.
func (e Evictor) Evict(
	ctx context.Context,
	w *kueue.Workload,
	pods []corev1.Pod,
	going []Leaver,
) (again time.Duration, err error) {
	if ofPods(w) {
		return 0, e.each(ctx, going)
	}
	job, k, err := e.job(ctx, w)
	if err != nil || job == nil {
		return 0, err
	}
	replaced, open := k.Replaceable(job, pods)
	left := int(replaced)
	for i, p := range going {
		if i >= left {
			e.Recorder.Eventf(
				job,
				p.Pod,
				corev1.EventTypeWarning,
				NotEvacuated,
				NotEvacuated,
				"Pod %s stays although %s: %d pods have to leave, and the job would fail after %d more. %s, or submit it again",
				p.Pod.Name,
				p.Why,
				len(going),
				left,
				cure(k),
			)
			if open {
				return recount, nil
			}
			break
		}
		if err := e.evict(ctx, p.Pod); err != nil {
			return 0, fmt.Errorf(
				"evict pod %s of workload %s, because %s: %w",
				p.Pod.Name,
				client.ObjectKeyFromObject(w),
				p.Why,
				err,
			)
		}
		e.Recorder.Eventf(
			job,
			p.Pod,
			corev1.EventTypeNormal,
			Evacuated,
			Evacuated,
			"Evicted pod %s: %s",
			p.Pod.Name,
			p.Why,
		)
	}
	return 0, nil
}

// ofPods reports whether a Workload is that of pods that are queued by themselves.
func ofPods(w *kueue.Workload) bool {
	owner := metav1.GetControllerOf(w)
	return convert.OfGroup(w) ||
		owner != nil && owner.Kind == "Pod" && owner.APIVersion == corev1.SchemeGroupVersion.String()
}

// each evicts those pods that their controller makes anew. What a user made alone stays:
// it would be gone for good.
func (e Evictor) each(ctx context.Context, going []Leaver) error {
	for _, p := range going {
		if o := metav1.GetControllerOf(p.Pod); o == nil || !strings.HasPrefix(o.APIVersion, "apps/") {
			e.Recorder.Eventf(
				p.Pod,
				nil,
				corev1.EventTypeWarning,
				NotEvacuated,
				NotEvacuated,
				"It stays although %s: nobody makes it anew. Delete it and create it again, or let a Deployment or an AppWrapper make it",
				p.Why,
			)
			continue
		}
		if err := e.evict(ctx, p.Pod); err != nil {
			return fmt.Errorf("evict pod %s/%s, because %s: %w", p.Pod.Namespace, p.Pod.Name, p.Why, err)
		}
		e.Recorder.Eventf(p.Pod, nil, corev1.EventTypeNormal, Evacuated, Evacuated, "Evicted: %s", p.Why)
	}
	return nil
}

// cure is what lets a job survive that pods leave.
func cure(k *jobs.Kind) string {
	if k.Running.Operator != nil {
		return "Give all its pods the restartPolicy OnFailure"
	}
	return "Let a podFailurePolicy ignore DisruptionTarget"
}

// job finds the job of a Workload and its kind; nil if the job's controller replaces
// no pods one by one.
func (e Evictor) job(ctx context.Context, w *kueue.Workload) (jobs.Object, *jobs.Kind, error) {
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return nil, nil, nil
	}
	k := e.Kinds.Find(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if k == nil || k.Queueing.Replaces == nil && k.Running.Operator == nil {
		return nil, nil, nil
	}
	o := k.New()
	err := e.Live.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, o)
	if apierrors.IsNotFound(err) || err == nil && o.GetUID() != owner.UID {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf(
			"read %s %s of workload %s: %w",
			owner.Kind,
			owner.Name,
			client.ObjectKeyFromObject(w),
			err,
		)
	}
	return o, k, nil
}

// evict lets a pod go, unless it is another one by now.
func (e Evictor) evict(ctx context.Context, p *corev1.Pod) error {
	err := e.Client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
