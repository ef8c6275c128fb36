package nativegroup

import (
	"context"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// over is the reconciler over objects in memory.
func over(objects ...client.Object) *reconciler {
	return &reconciler{Options{
		Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
			WithStatusSubresource(
				&schedulingv1beta1.PodGroup{},
				&schedulingv1alpha3.CompositePodGroup{},
				&kueue.Workload{},
			).
			WithIndex(&schedulingv1beta1.PodGroup{}, composite.ParentIndex, composite.IndexParent).
			WithIndex(&schedulingv1alpha3.CompositePodGroup{}, composite.ParentIndex, composite.IndexParent).
			WithIndex(&corev1.Pod{}, Index, IndexPod).
			WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
			WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
			WithIndex(&schedulingv1beta1.PodGroup{}, admission.JobIndex, admission.IndexWorkload).
			Build(),
		Clock:    clocktesting.NewFakePassiveClock(now),
		Unqueued: func(context.Context, types.NamespacedName) (string, error) { return "one is missing", nil },
	}}
}

// said is what the PodGroup says after it was looked at.
func (r *reconciler) said(t *testing.T) (string, string) {
	t.Helper()
	key := types.NamespacedName{Namespace: "blue", Name: "g"}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	var g schedulingv1beta1.PodGroup
	if err := r.Client.Get(t.Context(), key, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Status.Conditions) == 0 {
		return "", ""
	}
	return string(g.Status.Conditions[0].Status), g.Status.Conditions[0].Message
}

// named gives a Workload, or a PodGroup, a name and an owner.
func named(o client.Object, name string, owner client.Object, kind, version string) client.Object {
	o.SetNamespace("blue")
	o.SetName(name)
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true),
		}})
	}
	return o
}

// A PodGroup says why the Workload of its pods waits, wherever that is found, and has no more to say once its pods had
// their nodes.
func TestReconcile(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "j", UID: "uid-j"}}
	alone := queued("a", func(p *corev1.Pod) { delete(p.Labels, kueue.PodGroupNameLabel) })
	alone.UID = "uid-a"
	ofGroup := named(waiting(), "g", nil, "", "")
	ofGroup.SetAnnotations(map[string]string{kueue.IsGroupWorkloadAnnotation: "true"})
	for name, objects := range map[string][]client.Object{
		"its pods are one group": {group(1), queued("a"), ofGroup},
		"its pods are a Job's": {
			named(group(1), "g", job, "Job", "batch/v1"), named(waiting(), "job-j", job, "Job", "batch/v1"),
		},
		"its pods count with a job": {group(1), queued("a", counted), named(waiting(), "job", nil, "", "")},
		"each waits for itself": {
			group(0), alone, named(waiting(), admission.WorkloadName(podmeta.GVK(), alone), alone, "Pod", "v1"),
		},
	} {
		r := over(objects...)
		if status, message := r.said(t); status != "False" || message != "no rack has room" {
			t.Errorf("%s: %s, %s", name, status, message)
			continue
		}
		// What changes in the Workload leads back to the PodGroup.
		w := objects[len(objects)-1]
		if got := r.ofWorkload(t.Context(), w); (name != "its pods count with a job") !=
			slices.Contains(got, request("blue", "g")) {
			t.Errorf("%s: its Workload leads to %v", name, got)
		}
	}
}

// Pods that have no Workload yet say themselves what they wait for.
func TestUnqueued(t *testing.T) {
	if status, message := over(group(2), queued("a")).said(t); status != "False" || message != "one is missing" {
		t.Errorf("%s, %s", status, message)
	}
}

func TestOnceScheduledForGood(t *testing.T) {
	r := over(group(1), queued("a", onNode))
	if status, _ := r.said(t); status != "True" {
		t.Fatalf("it says %q", status)
	}
	if err := r.Client.Delete(t.Context(), queued("a")); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Create(t.Context(), queued("b")); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.said(t); status != "True" {
		t.Errorf("then it says %q", status)
	}
}

// Pods lead to the group that they name, and no others do.
func TestOfPod(t *testing.T) {
	if got := ofPod(t.Context(), queued("a")); !slices.Equal(got, []reconcile.Request{request("blue", "g")}) {
		t.Errorf("it leads to %v", got)
	}
	if got := ofPod(t.Context(), &corev1.Pod{}); len(got) > 0 {
		t.Errorf("a pod of no group leads to %v", got)
	}
}
