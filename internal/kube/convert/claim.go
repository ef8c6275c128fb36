package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Taken says why a job may not take a Workload that was made beforehand, "" if it may: it is, or was,
// somebody else's, or pods count with it. Whoever made a Workload for no job has left what it was
// given to the job that names it. job is the job's UID, "" before it has one; pods is how many hold
// quota by the Workload.
func Taken(w *kueue.Workload, job types.UID, pods int) string {
	owner := metav1.GetControllerOf(w)
	switch made := w.Labels[kueue.JobUIDLabel]; {
	case owner != nil && owner.UID == job:
		return ""
	case OfGroup(w):
		return "is that of a group of pods"
	case owner != nil:
		return "belongs to " + owner.Kind + " " + owner.Name
	case made != "" && made != string(job):
		return "was made for another job"
	case pods > 0:
		return "has pods"
	}
	return ""
}
