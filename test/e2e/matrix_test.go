package e2e_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/examples"
)

// longLived are the examples of all kinds whose jobs can be held and come back, such that they run
// for a long time and all fit beside each other. Pods that are jobs of their own end when they
// are stopped, and a CronJob waits for the clock.
func longLived(t *testing.T) map[string]string {
	t.Helper()
	files, err := fs.Glob(examples.Kinds, "kinds/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	out := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".yaml")
		if slices.Contains([]string{"pod", "pod-group", "cronjob"}, name) {
			continue
		}
		text, err := examples.Kinds.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name == "rayjob" { // it says nothing of the pod that submits it
			text = append(text, `
  submitterPodTemplate:
    metadata: {annotations: {mlbatch.dev/run-for: 20000s}}
    spec: {restartPolicy: Never, containers: [{name: ray-job-submitter, image: rayproject/ray}]}
`...)
		}
		long := regexp.MustCompile(`sleep \d+`).ReplaceAllString(string(text), "sleep 20000")
		out[name] = regexp.MustCompile(`nvidia.com/gpu: \d+`).ReplaceAllString(long, "cpu: 50m")
	}
	return out
}

// allRun checks that all pods of all Workloads in a namespace run, and that there are at least
// so many Workloads.
func allRun(t *testing.T, namespace string, atLeast int) string {
	t.Helper()
	admin := user(t, "")
	var ws kueue.WorkloadList
	var all corev1.PodList
	if err := admin.List(t.Context(), &ws, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	if err := admin.List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	running := map[string]int32{}
	var wrong []string
	for _, p := range all.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running[p.Annotations[kueue.WorkloadAnnotation]]++
		}
	}
	if len(ws.Items) < atLeast {
		return fmt.Sprintf("there are %d Workloads of %d", len(ws.Items), atLeast)
	}
	for i := range ws.Items {
		w := &ws.Items[i]
		var want int32
		for _, set := range w.Spec.PodSets {
			want += set.Count
		}
		if isFinished(w) || running[w.Name] != want {
			wrong = append(
				wrong,
				fmt.Sprintf("%s: %d of %d pods run, %v", w.Name, running[w.Name], want, reasonsOf(w)),
			)
		}
	}
	return strings.Join(wrong, "\n")
}

func reasonsOf(w *kueue.Workload) (out []string) {
	for _, c := range w.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

// TestEveryKindIsHeldAndLosesANode: jobs of all kinds run beside each other; their queue is
// drained, with the controller killed meanwhile, and opened again; a node is lost, with which
// Kubernetes deletes its pods; they are deleted. They all run again each time, and nothing of them is left.
func TestEveryKindIsHeldAndLosesANode(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	installRuntimes(t)
	admin := user(t, "")
	before := leftIn(t, "blue")
	manifests := longLived(t)
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if out, err := kubectl(t, "alice", manifests[name], "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		t.Cleanup(func() { _, _ = kubectl(t, "", manifests[name], "delete", "--ignore-not-found", "-n", "blue") })
	}
	eventually(t, "jobs of all kinds run", func() string { return allRun(t, "blue", len(manifests)) })

	policy := func(p kueue.StopPolicy) {
		edit(
			t,
			admin,
			&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "blue-cluster-queue"}},
			func(q *kueue.ClusterQueue) { q.Spec.StopPolicy = &p },
		)
	}
	t.Cleanup(func() {
		_, _ = kubectl(
			t,
			"",
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: blue-cluster-queue}",
			"patch",
			"--type=merge",
			"-p",
			`{"spec":{"stopPolicy":"None"}}`,
		)
	})
	policy(kueue.StopPolicyHoldAndDrain)
	eventually(t, "some of their pods are gone", func() string {
		if allRun(t, "blue", len(manifests)) == "" {
			return "all run"
		}
		return ""
	})
	killController(t)
	eventually(t, "none holds quota or has a pod on a node", func() string {
		var ws kueue.WorkloadList
		if err := admin.List(t.Context(), &ws, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for i := range ws.Items {
			if w := &ws.Items[i]; w.Status.Admission != nil {
				return fmt.Sprintf("%s is admitted: %v", w.Name, reasonsOf(w))
			}
		}
		for _, p := range pods(t, "blue", "") {
			if p.Spec.NodeName != "" {
				return "pod " + p.Name + " is on " + p.Spec.NodeName
			}
		}
		return ""
	})
	policy(kueue.StopPolicyNone)
	eventually(t, "they all come back", func() string { return allRun(t, "blue", len(manifests)) })

	lost := pods(t, "blue", "")[0].Spec.NodeName
	for _, p := range pods(t, "blue", "") {
		if p.Spec.NodeName == lost {
			if err := admin.Delete(t.Context(), &p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(
		t,
		"they all run again when the pods of a node are gone",
		func() string { return allRun(t, "blue", len(manifests)) },
	)

	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if out, err := kubectl(t, "alice", manifests[name], "delete", "--wait=false", "-n", "blue"); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	eventually(t, "nothing of them is left", func() string {
		var more []string
		for _, o := range leftIn(t, "blue") {
			if !slices.Contains(before, o) {
				more = append(more, o)
			}
		}
		return strings.Join(more, ", ")
	})
}

// leftIn names all objects in a namespace that jobs can leave there.
func leftIn(t *testing.T, namespace string) (out []string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&kueue.WorkloadList{}, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &corev1.PersistentVolumeClaimList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &batchv1.JobList{},
	} {
		if err := user(t, "").List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		_ = apimeta.EachListItem(list, func(o runtime.Object) error { // returns no error
			named, err := apimeta.Accessor(o)
			if err == nil {
				out = append(out, fmt.Sprintf("%T %s", o, named.GetName()))
			}
			return nil
		})
	}
	return out
}
