package install

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// holdGuard names the policy that bounds what members of a team may change of Workloads.
const holdGuard = "mlbatch-workload-hold"

// holdGuards are a policy for users who may patch Workloads and not update them, which are
// those with EditRole: they may hold a job back and release it, by spec.active, and change
// nothing else. Of a Workload's priority, queue, pods, class and annotations the engine reads
// who may run before whom, and with how much.
//
// What an administrator holds (kueue.HeldByAnnotation) they do not release. All else that
// spec.active decides they have by other means: who may delete jobs may stop them, and a job
// that is released waits no better than one that is submitted again.
//
// All fields of the spec but one are compared, so that fields that are new some day are bounded,
// too.
func holdGuards() []client.Object {
	about := written("kueue.x-k8s.io", "workloads")
	about.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	const (
		sameMetadata = "object.metadata.?labels == oldObject.metadata.?labels && object.metadata.?annotations == oldObject.metadata.?annotations && " +
			"object.metadata.?finalizers == oldObject.metadata.?finalizers && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences"
		sameSpec = "object.spec.all(k, k == 'active' || k in oldObject.spec && object.spec[k] == oldObject.spec[k]) && oldObject.spec.all(k, k == 'active' || k in object.spec)"
		released = "object.spec.?active.orValue(true) && !oldObject.spec.?active.orValue(true)"
	)
	return guard(holdGuard, about, []admissionregistrationv1.MatchCondition{
		{
			Name:       "may-patch-only",
			Expression: "!authorizer.group('kueue.x-k8s.io').resource('workloads').namespace(request.namespace).name(request.name).check('update').allowed()",
		},
	}, []admissionregistrationv1.Validation{
		{
			Expression: sameMetadata + " && " + sameSpec,
			Message:    "you may change spec.active of a Workload and nothing else: change the job, of which the Workload is made",
		},
		{
			Expression: "!(" + released + ") || !(oldObject.metadata.?annotations['" + kueue.HeldByAnnotation + "'].hasValue())",
			Message:    "an administrator holds this job: ask for its release",
		},
	})
}
