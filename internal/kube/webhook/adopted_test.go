package webhook_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// A job that Kueue started goes on with the template that it has: pods that its controller makes
// anew are counted with its Workload, and not held as jobs of their own.
func TestPodsOfJobsThatOthersStarted(t *testing.T) {
	holds := func(name string, owner metav1.OwnerReference, conditions ...string) *v1beta2.Workload {
		w := &v1beta2.Workload{ObjectMeta: metav1.ObjectMeta{
			Namespace:       "blue",
			Name:            name,
			Labels:          map[string]string{v1beta2.JobUIDLabel: string(owner.UID)},
			OwnerReferences: []metav1.OwnerReference{owner},
		}}
		w.Spec.PodSets = []v1beta2.PodSet{{Name: "main", Count: 2}}
		w.Status.Admission = &v1beta2.Admission{ClusterQueue: "cq"}
		for _, c := range append(conditions, v1beta2.WorkloadAdmitted) {
			w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
		}
		return w
	}
	owned := func(apiVersion, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: apiVersion,
			Kind:       kind,
			Name:       name,
			UID:        types.UID(uid),
			Controller: new(true),
		}
	}
	wrapper := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "wrap", UID: "wrap-uid"}}
	wrapper.Status.Phase = aw.AppWrapperRunning
	wrapper.Status.ComponentStatus = []aw.AppWrapperComponentStatus{
		{Name: "inner", Kind: "Job", APIVersion: "batch/v1"},
	}
	part := func(name, uid string) client.Object {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      name,
				UID:       types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{
					owned("workload.codeflare.dev/v1beta2", "AppWrapper", "wrap", "wrap-uid"),
				},
			},
		}
	}
	of := func(kind, name, uid string) string {
		return "ownerReferences: [{apiVersion: batch/v1, kind: " + kind + ", name: " + name + ", uid: " + uid + ", controller: true}]"
	}
	there := []client.Object{
		holds(
			"w-train",
			owned("batch/v1", "Job", "train", "train-uid"),
		),
		holds("w-wrap", owned("workload.codeflare.dev/v1beta2", "AppWrapper", "wrap", "wrap-uid")),
		holds("w-leaves", owned("batch/v1", "Job", "leaves", "leaves-uid"), v1beta2.WorkloadEvicted),
		wrapper,
		part("inner", "inner-uid"),
		part("forged", "forged-uid"),
	}
	const wrapped = "workload.codeflare.dev/appwrapper: wrap"
	for name, tc := range map[string]struct {
		why, user, new, want string
	}{
		"of a Job":         {"its controller makes it anew", jobController, podText("blue", "", "", of("Job", "train", "train-uid"), ""), "w-train"},
		"of a component":   {"the AppWrapper has recorded it", jobController, podText("blue", wrapped, "", of("Job", "inner", "inner-uid"), ""), "w-wrap"},
		"of an operator":   {"it is believed about what it makes", operatorAccount, podText("blue", "", "", of("Job", "train", "train-uid"), ""), "w-train"},
		"forged component": {"any user may write owner references of a Job", jobController, podText("blue", wrapped, "", of("Job", "forged", "forged-uid"), ""), ""},
		"by a user":        {"any user may write owner references of a pod", "alice", podText("blue", wrapped, "", of("Job", "train", "train-uid"), ""), ""},
		"by a tenant":      {"it is a user as others", tenantAccount, podText("blue", "", "", of("Job", "train", "train-uid"), ""), ""},
		"being evicted":    {"its quota is about to be given to others", jobController, podText("blue", "", "", of("Job", "leaves", "leaves-uid"), ""), ""},
		"of another Job":   {"it was not admitted", jobController, podText("blue", "", "", of("Job", "other", "other-uid"), ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, webhook.Options{}, world(there...), nil, world(there...)...),
				ask{path: mutatePod, user: tc.user, new: tc.new},
			)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			p := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
				t.Fatal(err)
			}
			if got := p.Annotations[v1beta2.WorkloadAnnotation]; got != tc.want ||
				podmeta.Managed(p) != (tc.want == "") {
				t.Errorf("%s: counted with %q and held %v, want %q", tc.why, got, podmeta.Managed(p), tc.want)
			}
			set := map[string]string{"w-train": "main", "w-wrap": "wrap-0"}[tc.want] // that by which the AppWrapper counts
			if p.Labels[v1beta2.PodSetLabel] != set {
				t.Errorf("%s: labels %v", tc.why, p.Labels)
			}
		})
	}
}
