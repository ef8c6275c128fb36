package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestConversionKeepsTheSpelling: a queue that was written in v1beta1 is read there as it was
// written, so that who applies it again changes nothing.
func TestConversionKeepsTheSpelling(t *testing.T) {
	convert, err := newConverter(scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	through := func(text, version string) string {
		body := fmt.Sprintf(
			`{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": {"uid": "u", "desiredAPIVersion": "kueue.x-k8s.io/%s", "objects": [%s]}}`,
			version,
			text,
		)
		w := httptest.NewRecorder()
		convert.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewReader([]byte(body))))
		var out apiextensionsv1.ConversionReview
		if err := json.Unmarshal(
			w.Body.Bytes(),
			&out,
		); err != nil || out.Response == nil ||
			len(out.Response.ConvertedObjects) != 1 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		return string(out.Response.ConvertedObjects[0].Raw)
	}
	spec := func(text string) any {
		var o struct{ Spec any }
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		return o.Spec
	}
	for name, text := range map[string]string{
		"ClusterQueue": `{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {
			"namespaceSelector": {}, "cohort": "c", "admissionChecks": [], "fairSharing": {"weight": "0.5"}, "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": [
			{"name": "cpu", "nominalQuota": "1000", "borrowingLimit": "500m"}, {"name": "memory", "nominalQuota": "1024Gi"}]}]}]}}`,
		"Cohort": `{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": {"name": "c"}, "spec": {
			"fairSharing": {"weight": "0.5"}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1000"}]}]}]}}`,
	} {
		hub := through(text, "v1beta2")
		if diff := cmp.Diff(spec(text), spec(through(hub, "v1beta1"))); diff != "" {
			t.Errorf("%s there and back (-written +read):\n%s", name, diff)
		}
		if diff := cmp.Diff(spec(hub), spec(through(through(hub, "v1beta1"), "v1beta2"))); diff != "" {
			t.Errorf("%s of v1beta2 there and back (-written +read):\n%s", name, diff)
		}
	}
}
