package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// TestCorpus applies every manifest of the corpus twice, sees each come to the end that
// it should, and nothing left of it when it is deleted.
func TestCorpus(t *testing.T) {
	awaitEmpty(t, "blue")
	aVolume(t, "corpus")
	alice, admin := user(t, "alice"), user(t, "")
	ends := map[string]string{} // by kind and name
	kinds := map[schema.GroupVersionKind]bool{}
	for _, m := range corpus.All() {
		if m.Privileged {
			continue // the namespace is a team's
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m.Text), &o.Object); err != nil {
			t.Fatal(err)
		}
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[kueue.QueueNameLabel] = "default-queue"
		o.SetLabels(labels)
		o.SetNamespace("blue")
		if o.GetName() == "" {
			if err := alice.Create(t.Context(), o); err != nil {
				t.Errorf("%s %s: %v", m.Kind, m.Name, err)
			}
		} else {
			for _, time := range []string{"first", "second"} {
				same := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
				if err := alice.Apply(t.Context(), same, client.FieldOwner("alice")); err != nil {
					t.Errorf("%s %s, the %s time: %v", m.Kind, m.Name, time, err)
				}
			}
		}
		ends[m.Kind+" "+o.GetName()] = m.Ends
		kinds[o.GroupVersionKind()] = true
	}
	eventually(t, "all come to their ends", func() string {
		open := ""
		for kind := range kinds {
			for _, o := range listKind(t, admin, kind) {
				name := kind.Kind + " " + o.GetName()
				switch got := endOf(&o); got {
				case ends[name]:
				case "":
					open = fmt.Sprintf("%s is %s", name, lastCondition(&o))
				default:
					t.Fatalf("%s: %s, want %s: %v", name, got, ends[name], o.Object["status"])
				}
			}
		}
		return open
	})
	awaitEmpty(t, "blue")
	eventually(t, "nothing of theirs is left", func() string {
		for _, list := range []client.ObjectList{&corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &batchv1.JobList{}, &corev1.PodList{}} {
			if err := admin.List(
				t.Context(),
				list,
				client.InNamespace("blue"),
				client.HasLabels{recovery.JobLabel},
			); err != nil {
				return err.Error()
			}
			if n := apimeta.LenList(list); n > 0 {
				return fmt.Sprintf("%d of %T are", n, list)
			}
		}
		return ""
	})
}

// endOf is the condition that a job ended with, "" if it has not.
func endOf(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		m, _ := c.(map[string]any)
		end, _ := m["type"].(string)
		if m["status"] == "True" && slices.Contains([]string{"Succeeded", "Completed", "Complete", "Failed"}, end) {
			return end
		}
	}
	return ""
}

// listKind lists the jobs of a kind.
func listKind(t testing.TB, c client.Client, kind schema.GroupVersionKind) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	if err := c.List(t.Context(), list, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// lastCondition is what `kubectl get` shows of a job.
func lastCondition(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if len(all) == 0 {
		return ""
	}
	last, _ := all[len(all)-1].(map[string]any)
	s, _ := last["type"].(string)
	return s
}
