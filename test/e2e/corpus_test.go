package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// TestCorpus applies every manifest of the corpus twice, sees each come to the end that
// it should, and nothing left of it when it is deleted.
func TestCorpus(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	ends := map[string]string{} // by kind and name
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
	}
	kinds := map[string]bool{}
	for name := range ends {
		kind, _, _ := strings.Cut(name, " ")
		kinds[kind] = true
	}
	eventually(t, "all come to their ends", func() string {
		open := ""
		for kind := range kinds {
			for _, o := range listKind(t, admin, kind) {
				name := kind + " " + o.GetName()
				switch got := lastCondition(&o); got {
				case ends[name]:
				case "Succeeded", "Failed":
					t.Fatalf("%s: %s, want %s: %v", name, got, ends[name], o.Object["status"])
				default:
					open = fmt.Sprintf("%s is %s", name, got)
				}
			}
		}
		return open
	})
	awaitEmpty(t, "blue")
	eventually(t, "no service is left", func() string {
		var services corev1.ServiceList
		if err := admin.List(t.Context(), &services, client.InNamespace("blue"), client.HasLabels{"training.kubeflow.org/job-name"}); err != nil {
			return err.Error()
		}
		if len(services.Items) > 0 {
			return fmt.Sprintf("%d are", len(services.Items))
		}
		return ""
	})
}

// listKind lists the jobs of a kind of kubeflow.org.
func listKind(t testing.TB, c client.Client, kind string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: kind + "List"})
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
