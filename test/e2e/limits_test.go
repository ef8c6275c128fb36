package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
)

const bounded = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
featureGates: {DisableWaitForPodsReady: true}
tenants: {maxJobs: 3, maxJobSize: 8Ki, maxComponents: 4}
`

// quick is an AppWrapper whose pod runs for a second.
func quick(name string, components ...string) string {
	pod := `{template: {apiVersion: v1, kind: Pod, metadata: {name: ` + name + `}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0,
		containers: [{name: c, image: busybox, command: [sleep, "1"], resources: {limits: {nvidia.com/gpu: 1}}}]}}}`
	return "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: " + name + "}, spec: {components: [" +
		strings.Join(
			append([]string{pod}, components...),
			", ",
		) + "]}}"
}

func withText(name, text string) string {
	return "{template: {apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {text: " + text + "}}}"
}

// A tenant who wants to fill the cluster with objects is stopped, is told by what,
// and harms no other tenant.
func TestTenantCannotFillTheCluster(t *testing.T) {
	ownCluster(t, bounded)
	alice, bob, admin := user(t, "alice"), user(t, "bob"), user(t, "")
	refused := func(manifest, namespace string, words ...string) {
		t.Helper()
		_, err := tryCreate(t, alice, manifest, namespace)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("what is too much is refused with %v, which lacks %q", err, w)
			}
		}
	}

	// One job with too much in it.
	refused(
		quick("large", withText("c", strings.Repeat("x", 9000))),
		"blue",
		"spec.components: Forbidden",
		"8192 are the most",
		"tenants.maxJobSize",
		"keep data and long scripts",
	)
	var many []string
	for i := range 4 {
		many = append(many, withText(fmt.Sprintf("c%d", i), "x"))
	}
	refused(
		quick("many", many...),
		"blue",
		"spec.components: Forbidden",
		"5 components",
		"4 are the most",
		"tenants.maxComponents",
	)

	// Too many jobs. Those that ended count until they are deleted.
	for _, name := range []string{"a", "b", "c"} {
		create(t, alice, quick(name), "blue")
	}
	eventually(t, "jobs within the limits run", inPhase(t, "Succeeded", "blue", "a", "b", "c"))
	refused(
		quick("d"),
		"blue",
		"metadata.namespace: Forbidden",
		"namespace blue has 3 jobs",
		"3 are the most",
		"tenants.maxJobs",
		"delete jobs that have ended",
	)
	create(t, bob, quick("d"), "red")
	eventually(t, "other tenants run", inPhase(t, "Succeeded", "red", "d"))
	if err := alice.Delete(
		t.Context(),
		&aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "a"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tenant who deletes may create", func() string {
		if _, err := tryCreate(t, alice, quick("d"), "blue"); err != nil {
			return err.Error()
		}
		return ""
	})

	// What tenants create beside jobs is counted by Kubernetes.
	for _, namespace := range []string{"blue", "red"} {
		var q corev1.ResourceQuota
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "objects"}, &q); err != nil {
			t.Fatal(err)
		}
		for _, what := range []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceServices, corev1.ResourcePersistentVolumeClaims} {
			if _, counted := q.Status.Used[what]; !counted {
				t.Errorf("%s of namespace %s are not counted: %v", what, namespace, q.Status)
			}
		}
	}
}

// An administrator may count Workloads as well. A job whose Workload is refused
// says so, goes on when there is room, and holds up no other.
func TestWorkloadsBeyondAResourceQuota(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin, alice, bob := user(t, ""), user(t, "alice"), user(t, "bob")
	const count = "count/workloads.kueue.x-k8s.io"
	quota := create(
		t,
		admin,
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: workloads}, spec: {hard: {`+count+`: "1"}}}`,
		"blue",
	)
	eventually(t, "the quota is known", func() string {
		var q corev1.ResourceQuota
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: quota}, &q); err != nil {
			return err.Error()
		}
		if used := q.Status.Used[count]; !used.IsZero() || q.Status.Hard == nil {
			return fmt.Sprintf("status is %v", q.Status)
		}
		return ""
	})
	create(t, alice, quick("first"), "blue")
	eventually(t, "the first job runs", inPhase(t, "Succeeded", "blue", "first"))
	create(t, alice, quick("second"), "blue")
	eventually(t, "the second one says why it is not queued", func() string {
		out, err := cluster.Run(t.Context(), "why", "blue/second")
		if err != nil ||
			!strings.Contains(strings.Join(strings.Fields(out), " "), "may not be created: workloads.kueue.x-k8s.io") {
			return fmt.Sprintf("%s %v", out, err)
		}
		return ""
	})
	create(t, bob, quick("other"), "red")
	eventually(t, "other namespaces are not held up", inPhase(t, "Succeeded", "red", "other"))
	if got := phases(t, "blue", "second"); !slices.Equal(got, []string{"Suspended"}) {
		t.Errorf("a job without a Workload is %v", got)
	}
	if err := alice.Delete(
		t.Context(),
		&aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "first"}},
	); client.IgnoreNotFound(err) != nil ||
		apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	eventually(
		t,
		"it goes on when there is room, without waiting for the next try",
		inPhase(t, "Succeeded", "blue", "second"),
	)
}
