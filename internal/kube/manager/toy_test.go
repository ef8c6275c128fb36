package manager_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
	"github.com/mlbatch/mlbatch/test/toy"
)

// withToys is the list of kinds with a line more.
func withToys() jobs.Kinds { return append(kinds.All(), toy.Kind()) }

// A new kind is its folder and a line in the list: its types, its reconciler's
// concurrency and its names are there.
func TestNewKindIsKnown(t *testing.T) {
	gvk := toy.GroupVersion().WithKind("Toy")
	if s := scheme.For(withToys()); !s.Recognizes(gvk) || !s.Recognizes(toy.GroupVersion().WithKind("ToyList")) {
		t.Error("the scheme does not know it")
	}
	if n := manager.Concurrency(withToys())["Toy.toys.example.com"]; n != 8 {
		t.Errorf("%d are handled at the same time", n)
	}
	if all := withToys().Frameworks(); !slices.Contains(all, "toys.example.com/toy") {
		t.Errorf("configurations may name %v", all)
	}
	if k := withToys().Find(gvk); k == nil || !slices.Equal(k.Names(), []string{"toy", "toys", "ty"}) {
		t.Errorf("the kind is %v", k)
	}
}

// Users of a new kind have the rights that users of the other kinds have.
func TestNewKindHasRoles(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	if err := install.Apply(
		t.Context(),
		c,
		install.Options{WebhookURL: "https://127.0.0.1:1", CABundle: []byte("ca"), Kinds: withToys()},
	); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]string{
		install.EditRole:        "delete get list watch toys",
		install.Controller:      "get list patch watch toys, update toys/finalizers, update toys/status",
		install.TeamRole:        "create delete get toys",
		"kueue-toy-editor-role": "create delete get list patch update watch toys, get toys/status",
		"kueue-toy-viewer-role": "get list watch toys, get toys/status",
		install.Scheduler:       "",
	} {
		var r rbacv1.ClusterRole
		if err := c.Get(t.Context(), client.ObjectKey{Name: role}, &r); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		var rights []string
		for _, rule := range r.Rules {
			if slices.Contains(rule.APIGroups, toy.GroupVersion().Group) {
				rights = append(
					rights,
					strings.Join(append(slices.Sorted(slices.Values(rule.Verbs)), rule.Resources...), " "),
				)
			}
		}
		if got := strings.Join(rights, ", "); got != want {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
	}
}

// The one webhook of jobs serves a new kind: it is held, given a queue and our
// scheduler, refused what its folder and what all kinds refuse, and keeps what is not
// its writer's.
func TestNewKindIsAskedAbout(t *testing.T) {
	s := scheme.For(withToys())
	queue := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "default"}}
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(queue, team).Build()
	handlers, err := webhook.Handlers(
		webhook.Cluster{Scheme: s, Cached: c, Live: c, Access: c},
		webhook.Options{Kinds: withToys(), Schedulers: jobs.Schedulers{Given: "ours"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	mutating, validating := webhook.Configurations(
		withToys(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	paths := map[string]string{}
	for _, h := range mutating.Webhooks {
		paths[h.Name] = strings.TrimPrefix(*h.ClientConfig.URL, "https://127.0.0.1:1")
	}
	for _, h := range validating.Webhooks {
		paths[h.Name] = strings.TrimPrefix(*h.ClientConfig.URL, "https://127.0.0.1:1")
	}
	at := func(hook string) http.Handler {
		h := handlers[paths[hook+".mlbatch.dev"]]
		if h == nil {
			t.Fatalf("no handler answers %s", hook)
		}
		return h
	}
	a := func(change func(*toy.Toy)) *toy.Toy {
		x := &toy.Toy{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "x"}, Spec: toy.Spec{Pods: 2}}
		x.SetGroupVersionKind(toy.GroupVersion().WithKind("Toy"))
		change(x)
		return x
	}
	nothing := func(*toy.Toy) {}

	made, _ := ask(t, at("mtoy.team"), nil, a(nothing))
	if !made.Spec.Hold || made.Labels[kueue.QueueNameLabel] != "default" ||
		made.Spec.Template.Spec.SchedulerName != "ours" {
		t.Errorf("a new one becomes %+v", made)
	}
	for want, change := range map[string]func(*toy.Toy){
		"spec.pods":                   func(x *toy.Toy) { x.Spec.Pods = 0 },
		"spec.template.spec.nodeName": func(x *toy.Toy) { x.Spec.Template.Spec.NodeName = "n" },
		"metadata.labels[" + kueue.QueueNameLabel + "]": func(x *toy.Toy) { x.Labels = map[string]string{kueue.QueueNameLabel: "A B"} },
		"": nothing,
	} {
		if _, refused := ask(
			t,
			at("vtoy.team"),
			nil,
			a(change),
		); !strings.Contains(refused, want) ||
			(want == "") != (refused == "") {
			t.Errorf("refused with %q, want one about %q", refused, want)
		}
	}
	kept, _ := ask(t, at("ktoy.team"), a(func(x *toy.Toy) { x.Spec.Hold = true }), a(nothing))
	if !kept.Spec.Hold {
		t.Error("a user started one")
	}
}

// ask sends an admission request, and returns the object after the answer and why it
// was refused.
func ask(t *testing.T, h http.Handler, was, is *toy.Toy) (*toy.Toy, string) {
	t.Helper()
	req := &admissionv1.AdmissionRequest{
		UID: "u",
		Kind: metav1.GroupVersionKind{
			Group:   toy.GroupVersion().Group,
			Version: toy.GroupVersion().Version,
			Kind:    "Toy",
		},
		Namespace: is.Namespace,
		Name:      is.Name,
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: text(t, is)},
	}
	if was != nil {
		req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: text(t, was)}
	}
	review := admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(text(t, review)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatal(err)
	}
	if !review.Response.Allowed {
		return nil, review.Response.Result.Message
	}
	object := req.Object.Raw
	if review.Response.Patch != nil {
		patch, err := jsonpatch.DecodePatch(review.Response.Patch)
		if err == nil {
			object, err = patch.Apply(object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := &toy.Toy{}
	if err := json.Unmarshal(object, out); err != nil {
		t.Fatal(err)
	}
	return out, ""
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
