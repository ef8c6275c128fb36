package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods of what serves leave a node whose GPUs are bad and come back elsewhere. A pod that a
// user made stays, since it would be gone for good.
func TestPodsLeaveBadNodes(t *testing.T) {
	admin := lab(t, "moves", map[corev1.ResourceName]string{"nvidia.com/gpu": "8"}, "default-queue")
	withoutPods(t, admin, "moves")
	create(t, admin, queuedPod("alone", 1, 1000000, "", "", ""), "moves")
	eventually(t, "a pod runs", inState(t, "moves", "alone", 1, 0))
	node := named(t, "moves", "alone")[0].Spec.NodeName
	create(t, admin, deployed("Deployment", "web", 1, 1, inDefaultQueue), "moves")
	create(t, admin, deployed("StatefulSet", "db", 1, 1, inDefaultQueue), "moves")
	eventually(t, "the Deployment runs", inState(t, "moves", "web", 1, 0))
	eventually(t, "the StatefulSet runs", inState(t, "moves", "db", 1, 0))
	t.Cleanup(func() {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		_ = admin.Patch(
			withoutCancel(t),
			n,
			client.RawPatch(
				"application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"autopilot.ibm.com/gpuhealth":null}}}`),
			),
		)
	})
	label(t, admin, node, `"EVICT"`)
	eventually(t, "what serves runs elsewhere", func() string {
		for _, prefix := range []string{"web", "db"} {
			all := named(t, "moves", prefix)
			if len(all) != 1 {
				return fmt.Sprintf("%s has %d pods", prefix, len(all))
			}
			if p := &all[0]; p.Status.Phase != corev1.PodRunning || p.Spec.NodeName == node {
				return fmt.Sprintf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		return ""
	})
	eventually(t, "the pod that nobody makes anew says that it stays", func() string {
		var all corev1.EventList
		if err := admin.List(t.Context(), &all, client.InNamespace("moves")); err != nil {
			return err.Error()
		}
		for _, e := range all.Items {
			if e.Reason == "NotEvacuated" && e.InvolvedObject.Name == "alone" {
				return ""
			}
		}
		return "it says nothing"
	})
	if p := named(t, "moves", "alone")[0]; p.DeletionTimestamp != nil || p.Spec.NodeName != node {
		t.Errorf("it is on %s, deleted %v", p.Spec.NodeName, p.DeletionTimestamp)
	}
}
