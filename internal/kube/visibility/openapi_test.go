package visibility

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

func ask(t *testing.T, path, tag string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	serve(t, shared()).ServeHTTP(w, r)
	return w
}

// jsonNames are the names of a type's own fields.
func jsonNames(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func properties(s map[string]spec.Schema) []string {
	var out []string
	for name := range s {
		if name != "kind" && name != "apiVersion" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestSwagger(t *testing.T) {
	w := ask(t, "/openapi/v2", "")
	var doc spec.Swagger
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	if len(doc.Paths.Paths) != 22 || len(doc.Definitions) != 90 {
		t.Errorf("%d paths and %d definitions in three versions", len(doc.Paths.Paths), len(doc.Definitions))
	}
	for path, p := range doc.Paths.Paths {
		does := p.Get
		if strings.HasSuffix(path, plans) {
			does = p.Post
			if body := does.Parameters[0].Schema.Ref.String(); body != "#/definitions/io.x-k8s.kueue.visibility.v1beta2.WorkloadPlan" {
				t.Errorf("what is posted to %s is %s", path, body)
			}
		}
		ref := does.Responses.StatusCodeResponses[http.StatusOK].Schema.Ref.String()
		if _, defined := doc.Definitions[strings.TrimPrefix(ref, "#/definitions/")]; !defined {
			t.Errorf("%s answers with %s, which is not defined", path, ref)
		}
	}
	got := properties(doc.Definitions["io.x-k8s.kueue.visibility.v1beta2.PendingWorkload"].Properties)
	if want := jsonNames(reflect.TypeFor[v1beta2.PendingWorkload]()); !slices.Equal(got, want) {
		t.Errorf("described are %v, there are %v", got, want)
	}
	got = properties(doc.Definitions["io.x-k8s.kueue.visibility.v1beta2.WorkloadPlanStatus"].Properties)
	if want := jsonNames(reflect.TypeFor[v1beta2.WorkloadPlanStatus]()); !slices.Equal(got, want) {
		t.Errorf("described are %v, there are %v", got, want)
	}
	got = properties(doc.Definitions["io.x-k8s.kueue.visibility.v1beta2.Explanation"].Properties)
	if want := jsonNames(reflect.TypeFor[v1beta2.Explanation]()); !slices.Equal(got, want) {
		t.Errorf("described are %v, there are %v", got, want)
	}
}

func TestOpenAPI3(t *testing.T) {
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(
		ask(t, "/openapi/v3", "").Body.Bytes(),
		&index,
	); err != nil ||
		len(index.Paths) != 3 {
		t.Fatalf("%v, %+v", err, index)
	}
	for _, at := range index.Paths {
		w := ask(t, at.ServerRelativeURL, "")
		var doc spec3.OpenAPI
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
		}
		for path, p := range doc.Paths.Paths {
			does := p.Get
			if strings.HasSuffix(path, plans) {
				does = p.Post
			}
			ref := does.Responses.StatusCodeResponses[http.StatusOK].Content["application/json"].Schema.Ref.String()
			if _, defined := doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]; !defined {
				t.Errorf("%s answers with %s, which is not defined", path, ref)
			}
		}
		tag := w.Header().Get("Etag")
		if !strings.Contains(at.ServerRelativeURL, strings.Trim(tag, `"`)) {
			t.Errorf("the index has %s, the document %s", at.ServerRelativeURL, tag)
		}
		if again := ask(
			t,
			at.ServerRelativeURL,
			tag,
		); again.Code != http.StatusNotModified ||
			again.Body.Len() != 0 {
			t.Errorf("a client that has it gets it again: %d, %d bytes", again.Code, again.Body.Len())
		}
	}
	if w := ask(t, "/openapi/v3/apis/visibility.kueue.x-k8s.io/v1", ""); w.Code != http.StatusNotFound {
		t.Errorf("there is no such version: %d", w.Code)
	}
}
