package workload

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// tellAnswers tells the job of a Workload what its admission checks say. It is
// others who answer them, so that no write of ours is the moment to tell it.
func (r *reconciler) tellAnswers(
	_ context.Context,
	e event.UpdateEvent,
	_ workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	was, isWas := e.ObjectOld.(*kueue.Workload)
	is, isIs := e.ObjectNew.(*kueue.Workload)
	owner := metav1.GetControllerOf(e.ObjectNew)
	if !isWas || !isIs || owner == nil {
		return
	}
	job := &corev1.ObjectReference{
		APIVersion: owner.APIVersion,
		Kind:       owner.Kind,
		Namespace:  is.Namespace,
		Name:       owner.Name,
		UID:        owner.UID,
	}
	for _, text := range answers(was.Status.AdmissionChecks, is.Status.AdmissionChecks) {
		r.Recorder.Eventf(
			job,
			nil,
			corev1.EventTypeNormal,
			"UpdatedAdmissionCheck",
			"UpdatedAdmissionCheck",
			"%s",
			text,
		)
	}
}

// answers are the checks whose state or message is new, and what they say. A
// check that is asked, or asked anew, has not said anything.
func answers(was, is []kueue.AdmissionCheckState) []string {
	var out []string
	for _, c := range is {
		at := slices.IndexFunc(was, func(o kueue.AdmissionCheckState) bool { return o.Name == c.Name })
		switch {
		case at >= 0 && was[at].State == c.State && was[at].Message == c.Message:
		case c.State == kueue.CheckStatePending && (at < 0 || was[at].State != kueue.CheckStatePending):
		case c.Message == "":
			out = append(out, string(c.Name)+" is "+string(c.State))
		default:
			out = append(out, string(c.Name)+" is "+string(c.State)+": "+c.Message)
		}
	}
	return out
}
