package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
)

// components are the kinds of objects that jobs of some kind make and that make pods, or others that do,
// with the field that says how many.
func components() map[string]string {
	return map[string]string{
		"batch/v1 Job": "parallelism", "jobset.x-k8s.io/v1alpha2 JobSet": "", "ray.io/v1 RayCluster": "",
		"apps/v1 StatefulSet": "replicas", "apps/v1 ReplicaSet": "replicas",
	}
}

// made are the pods of a namespace, and all that makes pods for something else.
func made(t *testing.T, namespace string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, kind := range append(slices.Sorted(maps.Keys(components())), "v1 Pod") {
		version, kind, _ := strings.Cut(kind, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		if err := user(t, "").List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; metav1.GetControllerOf(o) != nil {
				o.SetAPIVersion(version)
				o.SetKind(kind)
				out = append(out, o)
			}
		}
	}
	return out
}

// withinQuota checks that no Workload of a namespace has more pods on nodes than it was admitted with,
// and that no pod is on a node without one. A pod counts that was there before the Workloads were read
// and after.
func withinQuota(t *testing.T, namespace string) string {
	t.Helper()
	before := map[types.UID]bool{}
	for _, p := range pods(t, namespace, "") {
		before[p.UID] = p.Spec.NodeName != ""
	}
	var all kueue.WorkloadList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	admitted := map[string]int32{}
	for i := range all.Items {
		if a := all.Items[i].Status.Admission; a != nil {
			for _, set := range a.PodSetAssignments {
				admitted[all.Items[i].Name] += *set.Count
			}
		}
	}
	bound := map[string]int32{}
	for _, p := range pods(t, namespace, "") {
		if before[p.UID] {
			bound[p.Annotations[kueue.WorkloadAnnotation]]++
		}
	}
	for name, n := range bound {
		if n > admitted[name] {
			return fmt.Sprintf(
				"%d pods of Workload %q are on nodes, and it was admitted with %d",
				n,
				name,
				admitted[name],
			)
		}
	}
	return ""
}

// leaveNothing removes what is left in a namespace of jobs that were deleted without it.
func leaveNothing(t *testing.T, namespace string) {
	t.Helper()
	kinds := slices.Collect(maps.Keys(components()))
	for _, kind := range append(kinds, "v1 Pod", "v1 Service", "v1 ConfigMap", "v1 Secret", "v1 ServiceAccount") {
		version, kind, _ := strings.Cut(kind, " ")
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		which := []client.DeleteAllOfOption{
			client.InNamespace(namespace),
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		}
		if version == "v1" && kind != "Pod" {
			which = append(which, client.HasLabels{recovery.JobLabel})
		}
		if version == "v1" && kind == "Service" { // has no request for all of them
			continue
		}
		if err := user(t, "").DeleteAllOf(withoutCancel(t), o, which...); err != nil {
			t.Errorf("remove what is left of kind %s: %v", kind, err)
		}
	}
}

// TestTenantTakesNothingFromJobsOfAnyKind: of jobs of all kinds that run, their tenant strips owners and
// labels off pods and components, scales components and names their Workloads for other jobs, each of
// which is refused with the field or comes to nothing. Pods on nodes are never more than were admitted, and
// all jobs run as they did. In the end she deletes the jobs without what they are made of: what goes on
// counts, and makes way when it has to.
func TestTenantTakesNothingFromJobsOfAnyKind(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	installRuntimes(t)
	alice, manifests := user(t, "alice"), longLived(t)
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if out, err := kubectl(t, "alice", manifests[name], "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		t.Cleanup(func() { _, _ = kubectl(t, "", manifests[name], "delete", "--ignore-not-found", "-n", "blue") })
	}
	eventually(t, "jobs of all kinds run", func() string { return allRun(t, "blue", len(manifests)) })
	patch := func(o *unstructured.Unstructured, text string) error {
		return alice.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	for _, o := range made(t, "blue") {
		called := o.GetKind() + " " + o.GetName() + " of " + metav1.GetControllerOf(o).Kind
		err := patch(o, `{"metadata":{"ownerReferences":null,"labels":null}}`)
		if apierrors.IsNotFound(err) {
			continue // it was one too many, of what was scaled
		}
		if err == nil ||
			!strings.Contains(err.Error(), "metadata.") && !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: its owner and labels may be taken: %v", called, err)
		}
		field := components()[o.GetAPIVersion()+" "+o.GetKind()]
		if field == "" {
			continue
		}
		if err := patch(
			o,
			`{"spec":{"`+field+`":9}}`,
		); err != nil && !strings.Contains(err.Error(), "spec") &&
			!strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: it is not scaled, and it is not said why: %v", called, err)
		}
	}
	var all kueue.WorkloadList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		of := all.Items[i].Name
		thief := strings.Replace(
			strings.Replace(
				stays,
				"name: stays, labels: {",
				fmt.Sprintf("name: thief-%d, labels: {kueue.x-k8s.io/prebuilt-workload-name: %s, ", i, of),
				1,
			),
			"parallelism: 3\n  completions: 3",
			"parallelism: 1",
			1,
		)
		if _, err := tryCreate(
			t,
			alice,
			thief,
			"blue",
		); err == nil ||
			!strings.Contains(err.Error(), "prebuilt-workload-name") {
			t.Errorf("a Job may take the Workload %s: %v", of, err)
		}
	}
	always(
		t,
		"pods on nodes are within what was admitted",
		func() string { return withinQuota(t, "blue") },
		func() string {
			return allRun(t, "blue", len(manifests))
		},
	)
	t.Cleanup(func() { leaveNothing(t, "blue") })
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		job := submittedIn(t, manifests[name])
		kubectlAs(t, "alice", "delete", job.kind+"/"+job.name, "-n", "blue", "--cascade=orphan", "--wait=false")
	}
	within := func() string { return withinQuota(t, "blue") }
	always(t, "pods of jobs that were deleted without them are within what was admitted", within, func() string {
		for _, o := range made(t, "blue") {
			if owner := metav1.GetControllerOf(
				o,
			); slices.ContainsFunc(
				slices.Collect(maps.Values(manifests)),
				func(m string) bool {
					job := submittedIn(t, m)
					return owner.Kind == job.kind && owner.Name == job.name
				},
			) {
				return fmt.Sprintf("%s %s is of %s %s still", o.GetKind(), o.GetName(), owner.Kind, owner.Name)
			}
		}
		return ""
	})
	if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	there := map[types.UID]bool{}
	for _, p := range pods(t, "blue", "") {
		there[p.UID] = p.Spec.NodeName != ""
	}
	for i := range all.Items {
		w := &all.Items[i]
		if err := user(
			t,
			"",
		).Patch(
			t.Context(),
			w.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"active":false}}`)),
		); client.IgnoreNotFound(
			err,
		) != nil {
			t.Errorf("hold Workload %s: %v", w.Name, err)
		}
	}
	if len(there) < len(manifests) {
		t.Errorf("of %d jobs only %d pods go on without them", len(manifests), len(there))
	}
	always(t, "pods of jobs that are gone make way", within, func() string {
		for _, p := range pods(t, "blue", "") {
			if there[p.UID] {
				return fmt.Sprintf(
					"pod %s of Workload %s is on a node still",
					p.Name,
					p.Annotations[kueue.WorkloadAnnotation],
				)
			}
		}
		return ""
	})
}
