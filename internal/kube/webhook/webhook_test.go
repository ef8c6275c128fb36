package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// world is a cluster with a team, blue, that has one queue, and a namespace of
// no team, lab, that has another.
func world(extra ...client.Object) []client.Object {
	return append([]client.Object{
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"mlbatch-team-namespace": "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
		localQueue("blue", "default-queue"),
		localQueue("lab", "default-queue"),
		localQueue("lab", "big"),
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "default-priority"}, Value: 5},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000000000},
	}, extra...)
}

func localQueue(namespace, name string) client.Object {
	return &v1beta2.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1beta2.LocalQueueSpec{ClusterQueue: "cq"},
	}
}

// serve answers like a controller in the cluster. rights lists what alice may
// do, as "verb resource".
func serve(t *testing.T, rights []string, objects ...client.Object) map[string]http.Handler {
	t.Helper()
	return serveWith(t, webhook.Options{}, nil, rights, objects...)
}

// sameType reports whether two objects are of one kind.
func sameType(a, b client.Object) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// serveBroken answers in a cluster whose reads fail in some way.
func serveBroken(t *testing.T, faults interceptor.Funcs, objects ...client.Object) map[string]http.Handler {
	t.Helper()
	c := cluster(t, nil, nil, objects...)
	cached, ok := c.Cached.(client.WithWatch)
	if !ok {
		t.Fatal("the cache is no fake client")
	}
	c.Cached = interceptor.NewClient(cached, faults)
	return handle(t, c, webhook.Options{})
}

// serveWith answers with other choices of the installation and with objects
// that the cache knows.
func serveWith(
	t *testing.T,
	opts webhook.Options,
	cached []client.Object,
	rights []string,
	objects ...client.Object,
) map[string]http.Handler {
	t.Helper()
	return handle(t, cluster(t, cached, rights, objects...), opts)
}

func handle(t *testing.T, c webhook.Cluster, opts webhook.Options) map[string]http.Handler {
	t.Helper()
	opts.DefaultQueue = "default-queue"
	if opts.Schedulers.Given == "" {
		opts.Schedulers = jobs.Schedulers{Given: jobs.SchedulerName, Ours: jobs.SchedulerNames()}
	}
	handlers, err := webhook.Handlers(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	return handlers
}

// cluster is what the webhooks see of a cluster with these objects, of which the
// cache knows some. rights lists what alice may do.
func cluster(
	t *testing.T,
	cached []client.Object,
	rights []string,
	objects ...client.Object,
) webhook.Cluster {
	t.Helper()
	s := scheme.New()
	live := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if own, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				own.Status.Allowed = own.Spec.ResourceAttributes.Resource != "serviceaccounts"
				return nil
			}
			review, ok := o.(*authorizationv1.SubjectAccessReview)
			if !ok {
				t.Errorf("webhooks create nothing, but created %T", o)
				return nil
			}
			a := review.Spec.ResourceAttributes
			resource := a.Resource
			if a.Subresource != "" {
				resource += "/" + a.Subresource
			}
			review.Status.Allowed = review.Spec.User == "admin" || slices.Contains(rights, a.Verb+" "+resource)
			return nil
		},
	}).Build()
	mapper := meta.NewDefaultRESTMapper(
		[]schema.GroupVersion{{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}},
	)
	mapper.Add(
		schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		meta.RESTScopeNamespace,
	)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(
		schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"},
		meta.RESTScopeNamespace,
	)
	for _, kind := range []string{"Pod", "ConfigMap", "ServiceAccount"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	mapper.Add(
		schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"},
		meta.RESTScopeNamespace,
	)
	mapper.Add(
		schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"},
		meta.RESTScopeNamespace,
	)
	return webhook.Cluster{
		Scheme: s,
		// A cache that knows nothing yet: what was created a moment ago must be
		// found nevertheless.
		Cached: fake.NewClientBuilder().WithScheme(s).WithObjects(cached...).Build(),
		Live:   live, Access: live, Mapper: mapper,
	}
}

// ask sends one admission request.
type ask struct {
	path     string
	user     string // alice if empty
	old, new string // YAML; old is empty for a creation
	manager  string // of the fields that are written
}

// reply is what came back.
type reply struct {
	Allowed  bool
	Message  string
	Warnings []string
	Object   map[string]any // after the patches
}

func send(t *testing.T, handlers map[string]http.Handler, a ask) reply {
	t.Helper()
	object, old := jsonOf(t, a.new), jsonOf(t, a.old)
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatal(err)
	}
	if a.user == "" {
		a.user = "alice"
	}
	gvk := m.GroupVersionKind()
	req := &admissionv1.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
		Namespace: m.Namespace, Name: m.Name, Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{Username: a.user, UID: a.user + "@1"},
		Object:   runtime.RawExtension{Raw: object},
	}
	if a.manager != "" {
		req.Options.Raw = fmt.Appendf(nil, `{"fieldManager": %q}`, a.manager)
	}
	if old != nil {
		req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: old}
	}
	review := admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	post(t, handlers[a.path], &review)
	r := reply{Allowed: review.Response.Allowed, Warnings: review.Response.Warnings}
	if review.Response.Result != nil {
		r.Message = review.Response.Result.Message
	}
	if review.Response.Patch != nil {
		patch, err := jsonpatch.DecodePatch(review.Response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if object, err = patch.Apply(object); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(object, &r.Object); err != nil {
		t.Fatal(err)
	}
	return r
}

// post sends v and reads the answer into it.
func post(t *testing.T, h http.Handler, v any) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
}

func jsonOf(t *testing.T, text string) []byte {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reviews are requests that are allowed or refused.
type reviews map[string]struct {
	why    string
	rights []string // of alice
	ask    ask
	refuse []string // parts of the message; none if allowed
}

func (cases reviews) run(t *testing.T, objects ...client.Object) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, tc.rights, objects...), tc.ask)
			if r.Allowed != (len(tc.refuse) == 0) {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
			for _, part := range tc.refuse {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%s: message lacks %q: %s", tc.why, part, r.Message)
				}
			}
		})
	}
}
