package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
)

// An attacker who takes the controller over finds Secrets and makes pods where jobs run,
// and nowhere else. Rights come with a LocalQueue and go with the last one.
func TestControllerIsBoundWhereJobsRun(t *testing.T) {
	admin, controller := user(t, ""), user(t, controllerUser())
	mayRead := func(namespace string) string {
		err := controller.Get(
			t.Context(),
			client.ObjectKey{Namespace: namespace, Name: "password"},
			&corev1.Secret{},
		)
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case apierrors.IsForbidden(err):
			return "forbidden"
		}
		return fmt.Sprint(err)
	}
	eventually(t, "it has its rights in a team's namespace", func() string { return mayRead("blue") })

	const namespace = "guests"
	create(t, admin, "{apiVersion: v1, kind: Namespace, metadata: {name: guests}}", "")
	t.Cleanup(func() {
		_ = admin.Delete(withoutCancel(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	})
	if got := mayRead(namespace); got != "forbidden" {
		t.Errorf("the controller reads Secrets in namespace %s, where nothing runs: %q", namespace, got)
	}
	for _, ns := range []string{"kube-system", "mlbatch-system"} {
		if got := mayRead(ns); got != "forbidden" {
			t.Errorf("the controller reads Secrets in namespace %s: %q", ns, got)
		}
		if err := controller.Create(
			t.Context(),
			rights.Of(ns, rights.Subject(controllerUser())),
		); !apierrors.IsForbidden(err) &&
			!apierrors.IsInvalid(err) {
			t.Errorf("the controller gives itself rights in namespace %s: %v", ns, err)
		}
	}
	// It is accepted before: its components are made once there is a queue.
	name := create(t, admin, wrap(jobManifest), namespace)
	queue := create(
		t,
		admin,
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default-queue}, spec: {clusterQueue: blue-cluster-queue}}",
		namespace,
	)
	eventually(t, "rights come with a queue", func() string { return mayRead(namespace) })
	eventually(t, "a job of a namespace with a queue runs", inPhase(t, "Succeeded", namespace, name))

	// The whole namespace goes: its AppWrapper is cleaned up first, and nothing hangs.
	if err := admin.Delete(
		t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace with "+queue+" is deleted", func() string {
		err := admin.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("it is still there: %v", err)
	})
}
