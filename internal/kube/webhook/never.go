package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Never says why what asks for such pods in a LocalQueue of a namespace could not start as it is,
// even if nothing else ran; "" if it could, or if that is not known.
type Never func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string

// tell tells whoever submits an object of a kind, whose pods ask for quota together, that it can never
// start as it is. It refuses nothing: queues and nodes may be changed after it came.
func (n Never) tell(ctx context.Context, kind, namespace, queue string, sets []kueue.PodSet) []string {
	if n == nil || queue == "" || len(sets) == 0 {
		return nil
	}
	why := n(ctx, namespace, queue, sets)
	if why == "" {
		return nil
	}
	return []string{fmt.Sprintf("the %s cannot start as it is, however long it waits: %s", kind, why)}
}

// tellOfPod is tell for objects each of whose pods asks for quota by itself.
func (n Never) tellOfPod(
	ctx context.Context,
	kind, namespace, queue string,
	t *corev1.PodTemplateSpec,
) []string {
	return n.tell(
		ctx,
		kind,
		namespace,
		queue,
		[]kueue.PodSet{{Name: kueue.DefaultPodSetName, Count: 1, Template: *t}},
	)
}

// foresee is what is told of a job that is new, or that asks for something else than before. Parts
// of other jobs are not their users'.
func (h *jobHandler) foresee(ctx context.Context, namespace string, was, job jobs.Object) []string {
	if metav1.GetControllerOf(job) != nil {
		return nil
	}
	queue := job.GetLabels()[kueue.QueueNameLabel]
	is := h.asks(ctx, namespace, job)
	if was != nil && was.GetLabels()[kueue.QueueNameLabel] == queue &&
		sameAsks(h.asks(ctx, namespace, was), is) {
		return nil
	}
	return h.never.tell(ctx, h.kind.GVK().Kind, namespace, queue, is)
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
	jobs.NearAsJobSays(job.GetAnnotations(), facts.PodSets)
	return facts.PodSets
}

func sameAsks(a, b []kueue.PodSet) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
