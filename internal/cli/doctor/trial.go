package doctor

import (
	"context"
	"regexp"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Trial is what became of a job that was tried: created in a queue, passed through admission, and
// not kept. Whatever is between the API server and a webhook is tried with it.
type Trial struct {
	// Namespace is where.
	Namespace string
	// Webhook did not answer, and Unanswered is what the API server says of it; "" if all did.
	Webhook, Unanswered string
	// Unheld says that the job would have run at once.
	Unheld bool
}

// uncalled is what an API server says of a webhook that it could not ask.
var uncalled = regexp.MustCompile(`failed calling webhook "([^"]*)": (.*)`)

// try creates a job in the first queue that there is. What refuses it for other reasons (rights,
// quotas, policies of others) tells nothing of webhooks.
func (f *Facts) try(ctx context.Context, asks Asks) {
	if asks.Try == nil || len(f.LocalQueues) == 0 {
		return
	}
	q := &f.LocalQueues[0]
	job := trialJob(q.Namespace, q.Name)
	err := asks.Try(ctx, job)
	t := &Trial{Namespace: q.Namespace}
	switch {
	case err == nil:
		t.Unheld = job.Spec.Suspend == nil || !*job.Spec.Suspend
	case apierrors.IsInternalError(err):
		said := uncalled.FindStringSubmatch(err.Error())
		if said == nil {
			return
		}
		t.Webhook, t.Unanswered = said[1], said[2]
	default:
		return
	}
	f.Trial = t
}

// trialJob is a small job in a queue.
func trialJob(namespace, queue string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    namespace,
			GenerateName: "mlbatch-doctor-",
			Labels:       map[string]string{kueue.QueueNameLabel: queue},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "trial", Image: "none"}},
		}}},
	}
}
