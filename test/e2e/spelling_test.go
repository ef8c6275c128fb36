package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A job that asks for decimal memory gives its quota back when it ends, and when
// it is stopped.
func TestDecimalMemory(t *testing.T) {
	admin := lab(t, "decimal", map[corev1.ResourceName]string{"memory": "3G", "cpu": "10"}, "q")
	const label = "labels: {kueue.x-k8s.io/queue-name: q}"
	asks := func(memory string) string { return "resources: {requests: {memory: " + memory + ", cpu: 500m}}" }
	create(t, admin, strings.Replace(labJob("ends", label, "", asks("1G")), `"600"`, `"5"`, 1), "decimal")
	create(t, admin, labJob("stopped", label, "", asks("220M")), "decimal")
	eventually(t, "the job ends", func() string { return jobSucceeded(t, admin, "decimal", "ends") })
	eventually(t, "its Workload is finished", func() string {
		if w := workloadOf(t, "decimal", "ends"); w != nil && !isFinished(w) {
			return "not finished"
		}
		return ""
	})
	eventually(t, "the other runs", jobPods(t, "decimal", "stopped", 1))
	w := itsWorkload(t, "decimal", "stopped")
	edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(false) })
	eventually(t, "it is stopped", jobPods(t, "decimal", "stopped", 0))
	eventually(t, "no quota is held", func() string {
		cq := labQueue("decimal")
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cq), cq); err != nil {
			return err.Error()
		}
		for _, f := range cq.Status.FlavorsReservation {
			for _, r := range f.Resources {
				if !r.Total.IsZero() {
					return string(r.Name) + ": " + r.Total.String()
				}
			}
		}
		return ""
	})
}

// handmade is a Workload as a user writes it by hand.
const handmade = `
apiVersion: kueue.x-k8s.io/VERSION
kind: Workload
metadata: {name: made}
spec:
  queueName: q
  podSets:
  - name: main
    count: 2
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: busybox, resources: {requests: {cpu: CPU, memory: 1.5Gi}}}]
`

// A Workload that has quota is written in any words that mean the same, in either
// version and in any manner; and in no others.
func TestOtherWords(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			admin := lab(t, "words-"+version, map[corev1.ResourceName]string{"memory": "10Gi", "cpu": "10"}, "q")
			as := func(cpu string) string { return strings.NewReplacer("VERSION", version, "CPU", cpu).Replace(handmade) }
			create(t, admin, as("1000m"), "words-"+version)
			key := types.NamespacedName{Namespace: "words-" + version, Name: "made"}
			w := &kueue.Workload{}
			eventually(t, "it gets quota", func() string {
				if err := admin.Get(t.Context(), key, w); err != nil {
					return err.Error()
				}
				if !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadQuotaReserved) {
					return "not reserved"
				}
				return ""
			})
			read := func() *unstructured.Unstructured {
				o := parsed(t, as("1"))
				if err := admin.Get(t.Context(), key, o); err != nil {
					t.Fatal(err)
				}
				return o
			}
			written := func(cpu string) *unstructured.Unstructured {
				o := parsed(t, as(cpu))
				o.SetNamespace(key.Namespace)
				return o
			}
			write := map[string]func(cpu string) error{
				"replace": func(cpu string) error {
					return retry.RetryOnConflict(retry.DefaultRetry, func() error { // controllers write too
						o := written(cpu)
						o.SetResourceVersion(read().GetResourceVersion())
						return admin.Update(t.Context(), o)
					})
				},
				"patch": func(cpu string) error {
					data, err := json.Marshal(
						map[string]any{
							"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
							"spec":     written(cpu).Object["spec"],
						},
					)
					if err != nil {
						return err
					}
					return admin.Patch(t.Context(), read(), client.RawPatch(types.MergePatchType, data))
				},
				"apply": func(cpu string) error {
					return admin.Apply(
						t.Context(),
						client.ApplyConfigurationFromUnstructured(written(cpu)),
						client.FieldOwner("someone"),
						client.ForceOwnership,
					)
				},
			}
			for how, with := range write {
				for _, cpu := range []string{`"1"`, "1.0", "1000m"} {
					if err := with(cpu); err != nil {
						t.Errorf("%s with cpu %s: %v", how, cpu, err)
					}
				}
				if err := with(
					"1100m",
				); err == nil ||
					!strings.Contains(err.Error(), "cannot be changed while quota is reserved") {
					t.Errorf("%s with more: %v", how, err)
				}
			}
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				o := read()
				o.SetLabels(map[string]string{"c": "d"})
				return admin.Update(t.Context(), o)
			})
			if err != nil {
				t.Errorf("a new label: %v", err)
			}
			// Its quota was written in other words, too.
			usage := func(cpu string) error {
				return retry.RetryOnConflict(retry.DefaultRetry, func() error {
					o := read()
					sets, _, _ := unstructured.NestedSlice(o.Object, "status", "admission", "podSetAssignments")
					sets[0].(map[string]any)["resourceUsage"].(map[string]any)["cpu"] = cpu
					if err := unstructured.SetNestedSlice(
						o.Object,
						sets,
						"status",
						"admission",
						"podSetAssignments",
					); err != nil {
						return err
					}
					return admin.Status().Update(t.Context(), o)
				})
			}
			if err := usage("2000m"); err != nil {
				t.Errorf("the same usage: %v", err)
			}
			if err := usage("1"); err == nil {
				t.Error("usage was changed under an admission")
			}
			edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(false) })
			eventually(t, "its quota is given back", func() string {
				if err := admin.Get(t.Context(), key, w); err != nil {
					return err.Error()
				}
				if w.Status.Admission != nil {
					return "it is reserved"
				}
				return ""
			})
		})
	}
}

// parsed reads a manifest.
func parsed(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	return &o
}
