package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// Finalization is how what jobs of a kind leave behind outside of Kubernetes, such as in a database, is
// removed when they are deleted.
type Finalization struct {
	// Finalizer keeps a job until that was tried. It is put on the job before it has its first
	// pod.
	Finalizer string
	// Job is what removes it, once all pods of the job are gone: its name and spec. It waits in
	// the queue of the job. nil if the job leaves nothing behind.
	Job func(Object) *batchv1.Job
}

// FinalizationTimeout is how long a job that was deleted stays because of its sweep: queues and pods that do
// not start must not keep it for ever.
const FinalizationTimeout = 5 * time.Minute
