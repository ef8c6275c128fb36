package why

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Kinds lists all kinds: those of jobs, and what jobs consist of.
func Kinds() []view.Kind {
	var out []view.Kind
	for _, k := range kinds.All() {
		out = append(out, view.Kind(k.GVK().Kind))
	}
	return append(out, view.KindWorkload, view.KindPodGroup, view.KindDeployment, view.KindPod)
}

// JobObjects are everything that an explanation is made from. Objects that do not
// exist, or that the user may not read, are nil.
type JobObjects struct {
	// Asked is the job of the question: the topmost of its objects.
	Asked view.Ref
	// Through is the object that was named, if that was another one.
	Through    view.Ref
	AppWrapper *appwrapper.AppWrapper
	Job        *batchv1.Job // nil if it is part of an AppWrapper
	// Other is a job of another kind, nil if it is part of an AppWrapper.
	Other jobs.Object
	// Recovery is what is remembered of that one if mlbatch makes its pods; nil if nothing is.
	Recovery *recovery.Recovery
	Workload *kueue.Workload
	// PodGroup, Deployment and Pod are set if they are no part of another job.
	PodGroup   *podgroup.PodGroup
	Deployment *appsv1.Deployment
	Pod        *corev1.Pod
	// Set is what is no job but makes pods or Jobs: a StatefulSet, ReplicaSet, DaemonSet,
	// LeaderWorkerSet or CronJob. Made are the Jobs of the last, the newest first.
	Set  client.Object
	Made []batchv1.Job
	// Parts are the Workloads of a Set that is queued in groups, Part the first of them, or the
	// first pod of a Deployment or a Set, that waits.
	Parts []kueue.Workload
	Part  *JobObjects
	// LocalQueue of the workload.
	LocalQueue *kueue.LocalQueue
	// Team is true in namespaces where only queued jobs may run.
	Team bool
	// Pods of the job, sorted by name.
	Pods []corev1.Pod
	// Failed is the last event that says why a pod of the job could not be made, Moved
	// the last that says that its pods got other nodes; nil if there is none.
	Failed, Moved *corev1.Event
	// Hindered is the last warning about a pod of the job, which may be gone by now.
	Hindered *corev1.Event
	// Stays is the last event that says that a pod should leave its node, and stays there.
	Stays *corev1.Event
	// Refused is the last event that says why the job has no Workload; nil if there is
	// none.
	Refused *corev1.Event
	// Answer is what a controller says of a waiting workload, Unanswered why none does.
	Answer     *visibility.Explanation
	Unanswered error
	// Jobs leads from workloads that the user may read to their jobs, both as
	// NAMESPACE/NAME. People know the names of jobs.
	Jobs map[string]string
	Now  time.Time
}
