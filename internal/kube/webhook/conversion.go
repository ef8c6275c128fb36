package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// newConverter converts objects between the versions that are served.
func newConverter(scheme *runtime.Scheme) (http.Handler, error) {
	registry := conversion.NewRegistry()
	for kind, build := range map[string]func(*runtime.Scheme) (conversion.Converter, error){
		"AdmissionCheck":            between(&v1beta1.AdmissionCheck{}, &v1beta2.AdmissionCheck{}),
		"ClusterQueue":              between(&v1beta1.ClusterQueue{}, &v1beta2.ClusterQueue{}),
		"Cohort":                    between(&v1beta1.Cohort{}, &v1beta2.Cohort{}),
		"LocalQueue":                between(&v1beta1.LocalQueue{}, &v1beta2.LocalQueue{}),
		"MultiKueueCluster":         between(&v1beta1.MultiKueueCluster{}, &v1beta2.MultiKueueCluster{}),
		"MultiKueueConfig":          between(&v1beta1.MultiKueueConfig{}, &v1beta2.MultiKueueConfig{}),
		"ProvisioningRequestConfig": between(&v1beta1.ProvisioningRequestConfig{}, &v1beta2.ProvisioningRequestConfig{}),
		"ResourceFlavor":            between(&v1beta1.ResourceFlavor{}, &v1beta2.ResourceFlavor{}),
		"Topology":                  between(&v1beta1.Topology{}, &v1beta2.Topology{}),
		"Workload":                  between(&v1beta1.Workload{}, &v1beta2.Workload{}),
		"WorkloadPriorityClass":     between(&v1beta1.WorkloadPriorityClass{}, &v1beta2.WorkloadPriorityClass{}),
	} {
		c, err := build(scheme)
		if err != nil {
			return nil, err
		}
		if err := registry.RegisterConverter(v1beta2.GroupVersion.WithKind(kind).GroupKind(), c); err != nil {
			return nil, err
		}
	}
	return spelled(conversion.NewWebhookHandler(scheme, registry)), nil
}

// asWritten are fields that both versions of a kind have alike: they are handed on letter by letter.
// Decoded and encoded, "1000" would become "1k", and who wrote it would never find it as it was.
func asWritten() map[string][]string {
	return map[string][]string{
		"ClusterQueue": {"resourceGroups", "fairSharing"},
		"Cohort":       {"resourceGroups", "fairSharing"},
	}
}

// spelled converts as next does, and keeps what is asWritten.
func spelled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the request cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var asked apiextensionsv1.ConversionReview
		if json.Unmarshal(body, &asked) != nil || asked.Request == nil ||
			!slices.ContainsFunc(asked.Request.Objects, keepsSpelling) {
			next.ServeHTTP(w, r)
			return
		}
		answer := &heldBack{header: http.Header{}, code: http.StatusOK}
		next.ServeHTTP(answer, r)
		text := answer.body.Bytes()
		var out apiextensionsv1.ConversionReview
		if json.Unmarshal(text, &out) == nil && out.Response != nil &&
			len(out.Response.ConvertedObjects) == len(asked.Request.Objects) {
			for i := range out.Response.ConvertedObjects {
				out.Response.ConvertedObjects[i].Raw = respelled(
					asked.Request.Objects[i].Raw,
					out.Response.ConvertedObjects[i].Raw,
				)
			}
			if again, err := json.Marshal(&out); err == nil {
				text = again
			}
		}
		maps.Copy(w.Header(), answer.header)
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.code)
		_, _ = w.Write(text) // nobody is left to tell
	})
}

// heldBack is an answer that is held back.
type heldBack struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *heldBack) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *heldBack) WriteHeader(code int) { k.code = code }

// Write implements http.ResponseWriter.
func (k *heldBack) Write(b []byte) (int, error) { return k.body.Write(b) }

// keepsSpelling reports whether an object is of a kind that is asWritten.
func keepsSpelling(o runtime.RawExtension) bool {
	var of metav1.TypeMeta
	return json.Unmarshal(o.Raw, &of) == nil && asWritten()[of.Kind] != nil
}

// respelled is a converted object with the fields of its spec that both versions have alike as they
// were written; the object as it is if it cannot be read.
func respelled(from, to []byte) []byte {
	var kind metav1.TypeMeta
	var was, is map[string]json.RawMessage
	if json.Unmarshal(from, &kind) != nil || json.Unmarshal(from, &was) != nil ||
		json.Unmarshal(to, &is) != nil {
		return to
	}
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was["spec"], &before) != nil || json.Unmarshal(is["spec"], &after) != nil || after == nil {
		return to
	}
	for _, name := range asWritten()[kind.Kind] {
		if text, there := before[name]; there {
			after[name] = text
		}
	}
	spec, err := json.Marshal(after)
	if err != nil {
		return to
	}
	is["spec"] = spec
	if out, err := json.Marshal(is); err == nil {
		return out
	}
	return to
}

// convertible is a kind of v1beta1 whose hub is H.
type convertible[H any] interface {
	client.Object
	ConvertTo(H) error
	ConvertFrom(H) error
}

func between[S convertible[H], H client.Object](
	spoke S,
	hub H,
) func(*runtime.Scheme) (conversion.Converter, error) {
	return conversion.NewHubSpokeConverter(hub, conversion.NewSpokeConverter(spoke,
		func(_ context.Context, src H, dst S) error { return dst.ConvertFrom(src) },
		func(_ context.Context, src S, dst H) error { return src.ConvertTo(dst) },
	))
}

const pathConvert = "/convert"
