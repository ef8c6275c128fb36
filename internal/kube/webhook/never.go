package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Never says why what asks for such pods in a LocalQueue of a namespace could not start as it is,
// even if nothing else ran; "" if it could, or if that is not known.
type Never func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string

const (
	// foreseenFor is for how long an answer is remembered: nodes and quotas change.
	foreseenFor = 10 * time.Second
	// foreseenMany bounds how many different ones are.
	foreseenMany = 1024
)

// foresight tells whoever submits a job that it can never start as it is. It refuses nothing:
// queues and nodes may be changed after it came.
type foresight struct {
	never Never
	// answers by what was asked, so that the second of many equal jobs costs nothing.
	answers *cache.LRUExpireCache
}

func newForesight(never Never, c cache.Clock) foresight {
	return foresight{never, cache.NewLRUExpireCacheWithClock(foreseenMany, c)}
}

// of is what is told of an object of a kind whose pods ask for quota together.
func (f foresight) of(ctx context.Context, kind, namespace, queue string, sets []kueue.PodSet) []string {
	if f.never == nil || queue == "" || len(sets) == 0 {
		return nil
	}
	text, err := json.Marshal(sets)
	if err != nil {
		return nil // it is told in vain of nothing
	}
	key := fmt.Sprintf("%s/%s/%x", namespace, queue, sha256.Sum256(text))
	var why string
	if known, has := f.answers.Get(key); has {
		why = known.(string) //nolint:forcetypeassert // nothing else is in there
	} else {
		why = f.never(ctx, namespace, queue, sets)
		f.answers.Add(key, why, foreseenFor)
	}
	if why == "" {
		return nil
	}
	return []string{fmt.Sprintf("the %s cannot start as it is, however long it waits: %s", kind, why)}
}

// ofPod is what is told of objects each of whose pods asks for quota by itself.
func (f foresight) ofPod(ctx context.Context, kind, namespace, queue string, t *corev1.PodTemplateSpec) []string {
	return f.of(ctx, kind, namespace, queue, []kueue.PodSet{{Name: kueue.DefaultPodSetName, Count: 1, Template: *t}})
}

// foresee is what is told of a job that is new, or that asks for something else than before. Parts
// of other jobs are not their users'.
func (h *jobHandler) foresee(ctx context.Context, namespace string, was, job jobs.Object) []string {
	if metav1.GetControllerOf(job) != nil {
		return nil
	}
	queue := job.GetLabels()[kueue.QueueNameLabel]
	is := h.asks(ctx, namespace, job)
	if was != nil && was.GetLabels()[kueue.QueueNameLabel] == queue && sameAsks(h.asks(ctx, namespace, was), is) {
		return nil
	}
	return h.foresight.of(ctx, h.kind.GVK().Kind, namespace, queue, is)
}

// asks are the pods of a job; nil where they are not known, which is told otherwise.
func (h *jobHandler) asks(ctx context.Context, namespace string, job jobs.Object) []kueue.PodSet {
	job, _ = job.DeepCopyObject().(jobs.Object)
	job.SetNamespace(namespace)
	job, missing, err := h.based(ctx, job)
	if err != nil || len(missing) > 0 {
		return nil
	}
	facts, err := h.kind.Read(job)
	if err != nil {
		return nil
	}
	return facts.PodSets
}

func sameAsks(a, b []kueue.PodSet) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
