package migrate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is written down is read again as it was, and is not written over when it has changed.
func TestJournal(t *testing.T) {
	p := kueueCluster()
	p.Mutating = []admissionregistrationv1.MutatingWebhookConfiguration{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", ResourceVersion: "5"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "w"}},
		},
	}
	service := unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1",
			"kind":       "APIService",
			"metadata":   map[string]any{"name": "s"},
			"spec":       map[string]any{"group": "g"},
			"status":     map[string]any{"x": "y"},
		},
	}
	p.APIServices = []unstructured.Unstructured{service}
	var j journal
	if !j.note(p) {
		t.Fatal("nothing was noted")
	}
	j.exists = true
	var read journal
	for key, value := range j.parts() {
		text, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(text, read.parts()[key])
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	read.exists = true
	if diff := cmp.Diff(j, read, cmp.AllowUnexported(journal{})); diff != "" {
		t.Errorf("read (-written +read):\n%s", diff)
	}
	if read.services["s"]["status"] != nil || read.services["s"]["spec"] == nil ||
		read.mutating["m"].ResourceVersion != "" {
		t.Errorf("noted: %v, %v", read.services, read.mutating)
	}
	*p.Programs[0].Deployment.Spec.Replicas = 3
	if read.note(p) || read.replicas["kueue-system/kueue-controller-manager"] != 1 {
		t.Errorf("it was written over: %v", read.replicas)
	}
}
