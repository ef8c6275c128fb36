package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestVisibilityObjects(t *testing.T) {
	if got := visibilityObjects(Options{}); got != nil {
		t.Errorf("nothing was asked for: %v", got)
	}
	tests := map[string]struct {
		why  string
		at   Visibility
		want corev1.ServiceSpec
	}{
		"pods": {
			"the Service finds the controller's pods",
			Visibility{Port: 8082, Selector: map[string]string{"app": "mlbatch"}},
			corev1.ServiceSpec{PublishNotReadyAddresses: true, Selector: map[string]string{"app": "mlbatch"}},
		},
		"outside": {
			"the API server follows the name",
			Visibility{Port: 20001, ExternalName: "localhost"},
			corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := visibilityObjects(Options{Namespace: "home", CABundle: []byte("ca"), Visibility: &tc.at})
			s, ok := got[0].(*corev1.Service)
			if !ok || len(got) != 4 {
				t.Fatalf("objects: %v", got)
			}
			s.Spec.Ports = nil
			if diff := cmp.Diff(tc.want, s.Spec); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			preferred, ok := got[1].(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("%T", got[1])
			}
			want := map[string]any{
				"group":                "visibility.kueue.x-k8s.io",
				"version":              "v1beta2",
				"groupPriorityMinimum": int64(100),
				"versionPriority":      int64(20),
				"caBundle":             "Y2E=",
				"service": map[string]any{
					"namespace": "home",
					"name":      "mlbatch-visibility",
					"port":      int64(tc.at.Port),
				},
			}
			if diff := cmp.Diff(want, preferred.Object["spec"]); diff != "" {
				t.Errorf("registration (-want +got):\n%s", diff)
			}
		})
	}
}
