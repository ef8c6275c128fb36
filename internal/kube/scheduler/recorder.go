package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/mlbatch/mlbatch/internal/kube/events"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// recorder leaves out events that tell nothing new, since each is a write: that
// a pod of a gang got a node, which its plan and its spec say, and what was
// said to one pod of a refused gang already. All of them have it in their
// condition.
type recorder struct {
	clientevents.EventRecorderLogger
	reservations *Reservations
}

// Eventf sends an event unless it is left out.
//
//nolint:revive // argument-limit: the signature is the interface's
func (r recorder) Eventf(
	regarding, related runtime.Object,
	eventType, reason, action, note string,
	args ...any,
) {
	if pod, ok := regarding.(*corev1.Pod); ok {
		if k, ok := gang.KeyOf(
			pod,
		); ok &&
			(eventType == corev1.EventTypeNormal || !r.reservations.isLeaderPod(k, pod.UID)) {
			return
		}
	}
	r.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, "%s", events.Note(note, args...))
}

// WithLogger returns a recorder that logs elsewhere.
func (r recorder) WithLogger(l klog.Logger) clientevents.EventRecorderLogger {
	return recorder{r.EventRecorderLogger.WithLogger(l), r.reservations}
}
