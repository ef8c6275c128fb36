package gather_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TestWhatIsQueuedInPartsIsOneJobOfNoPodsIdentity: the pods of a Deployment come and go, and it stays the
// same job.
func TestWhatIsQueuedInPartsIsOneJobOfNoPodsIdentity(t *testing.T) {
	held := func(name string, owner ...metav1.OwnerReference) []client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: name, UID: types.UID(name), OwnerReferences: owner,
			Labels: map[string]string{kueue.ManagedLabel: "true", appsv1.DefaultDeploymentUniqueLabelKey: "1"},
		}}
		return []client.Object{p, &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue",
				Name:      "pod-" + name,
				UID:       types.UID("w-" + name),
				Labels:    map[string]string{kueue.JobUIDLabel: name},
			},
			Spec: kueue.WorkloadSpec{QueueName: "q"},
		}}
	}
	set := metav1.OwnerReference{
		APIVersion: "apps/v1",
		Kind:       "ReplicaSet",
		Name:       "web-1",
		UID:        "set",
		Controller: new(true),
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).
		WithObjects(
			held("web-1-a", set)...).WithObjects(held("web-1-b", set)...).WithObjects(held("alone")...).Build()
	got, err := gather.Jobs(t.Context(), c, "blue", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[view.Ref]types.UID{
		{Kind: view.KindDeployment, Namespace: "blue", Name: "web"}: "",
		{Kind: view.KindPod, Namespace: "blue", Name: "alone"}:      "alone",
	}
	for i := range got.Items {
		j := &got.Items[i]
		ref := view.Ref{Kind: j.Kind, Namespace: j.Namespace, Name: j.Name}
		if uid, is := want[ref]; !is || uid != j.UID {
			t.Errorf("%s has UID %q, want %q (%v)", ref, j.UID, uid, is)
		}
		delete(want, ref)
	}
	if len(want) > 0 {
		t.Errorf("there is nothing of %v", want)
	}
}
