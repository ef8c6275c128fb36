package install_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

func TestApplyTwice(t *testing.T) {
	// An admin's label, and a rule that an older version might have left.
	edit := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: install.EditRole, Labels: map[string]string{"ours": "no"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(edit).Build()
	apply(t, c, "https://127.0.0.1:1")
	apply(t, c, "https://127.0.0.1:2")

	crd := &apiextensionsv1.CustomResourceDefinition{}
	get(t, c, "", "workloads.kueue.x-k8s.io", crd)
	want := &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL:      new("https://127.0.0.1:2/convert"),
				CABundle: []byte("ca"),
			},
		},
	}
	if diff := cmp.Diff(want, crd.Spec.Conversion); diff != "" {
		t.Errorf("versions must be converted where the webhook is served now (-want +got):\n%s", diff)
	}
	for name, why := range map[string]string{
		"appwrappers.workload.codeflare.dev": "there is one version",
		"mpijobs.kubeflow.org":               "its versions have the same fields",
	} {
		is := &apiextensionsv1.CustomResourceDefinition{}
		get(t, c, "", name, is)
		if is.Spec.Conversion != nil {
			t.Errorf("%s must not depend on the webhook: %s", name, why)
		}
	}
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	get(t, c, "", "mlbatch-validating-webhook", hooks)
	at := slices.IndexFunc(
		hooks.Webhooks,
		func(h admissionregistrationv1.ValidatingWebhook) bool { return h.Name == "vjob.team.mlbatch.dev" },
	)
	if got := *hooks.Webhooks[at].ClientConfig.URL; got != "https://127.0.0.1:2/validate-batch-v1-job" {
		t.Errorf("webhook is called at %s", got)
	}
	get(t, c, "", install.EditRole, edit)
	if edit.Labels["ours"] != "no" || slices.Contains(edit.Rules[0].Verbs, "*") {
		t.Errorf("foreign labels must stay and foreign rules go, got %v %v", edit.Labels, edit.Rules)
	}
	get(t, c, "mlbatch-system", install.Controller, &corev1.ServiceAccount{})
	binding := &rbacv1.ClusterRoleBinding{}
	get(t, c, "", install.Controller, binding)
	subjects := []rbacv1.Subject{
		{Kind: "ServiceAccount", Namespace: "mlbatch-system", Name: install.Controller},
		{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "controller"},
	}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" {
		t.Errorf("the controller has its rights in the cluster and outside (-want +got):\n%s", diff)
	}
}

func TestApplyNeedsOneLocation(t *testing.T) {
	cases := map[string]struct {
		why  string
		opts install.Options
	}{
		"None": {"webhooks that are served nowhere would refuse everything", install.Options{}},
		"Both": {
			"two places contradict each other",
			install.Options{WebhookURL: "https://x", WebhookService: &install.Service{}},
		},
		"Vouched": {
			"two say whom to trust",
			install.Options{WebhookURL: "https://x", CABundle: []byte("ca"), CertManager: "a/b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if install.Apply(t.Context(), fake.NewClientBuilder().WithScheme(scheme.New()).Build(), tc.opts) == nil {
				t.Errorf("no error, but %s", tc.why)
			}
		})
	}
}

// Without certificates nothing is trusted until the controller says whom to trust, and what it said
// stays when the same is installed again. With cert-manager, that says it, where the API server calls
// the controller and nowhere else.
func TestWhoSaysWhomToTrust(t *testing.T) {
	service := &install.Service{Namespace: install.DefaultNamespace, Name: "mlbatch-webhook-service", Port: 9443}
	visibility := &install.Visibility{Port: 8082, Selector: map[string]string{"app": "mlbatch"}}
	own := install.Options{WebhookService: service, Visibility: visibility}
	bundle := []byte("made by the controller")
	for name, tc := range map[string]struct {
		opts   install.Options
		inject string
	}{
		"Own":         {own, ""},
		"CertManager": {install.Options{WebhookService: service, Visibility: visibility, CertManager: "mlbatch-system/serving"}, "mlbatch-system/serving"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
			if err := install.Apply(t.Context(), c, tc.opts); err != nil {
				t.Fatal(err)
			}
			hooks := &admissionregistrationv1.MutatingWebhookConfiguration{}
			crd, plain := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
			api := &unstructured.Unstructured{}
			api.SetGroupVersionKind(
				schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
			)
			get(t, c, "", webhook.MutatingName, hooks)
			get(t, c, "", "workloads.kueue.x-k8s.io", crd)
			get(t, c, "", "appwrappers.workload.codeflare.dev", plain)
			get(t, c, "", "v1beta2.visibility.kueue.x-k8s.io", api)
			for _, o := range []client.Object{hooks, crd, api} {
				if got := o.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != tc.inject {
					t.Errorf("%s gets its authorities from %q, want %q", o.GetName(), got, tc.inject)
				}
			}
			if len(plain.Annotations) > 0 && plain.Annotations["cert-manager.io/inject-ca-from"] != "" {
				t.Error("what is not converted calls nobody")
			}
			text, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
			if len(
				hooks.Webhooks[0].ClientConfig.CABundle,
			)+len(
				crd.Spec.Conversion.Webhook.ClientConfig.CABundle,
			)+len(
				text,
			) > 0 {
				t.Error("somebody is trusted")
			}
			if tc.inject != "" {
				return
			}

			before := client.MergeFrom(hooks.DeepCopy())
			hooks.Webhooks[0].ClientConfig.CABundle = bundle
			if err := c.Patch(t.Context(), hooks, before, client.FieldOwner(webhook.FieldOwner)); err != nil {
				t.Fatal(err)
			}
			if err := install.Apply(t.Context(), c, tc.opts); err != nil {
				t.Fatal(err)
			}
			get(t, c, "", webhook.MutatingName, hooks)
			if !bytes.Equal(hooks.Webhooks[0].ClientConfig.CABundle, bundle) {
				t.Error("installing it again forgets whom to trust")
			}
		})
	}
}

// TestEditRole holds the promises made to admins about what users can do.
func TestEditRole(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
	role := &rbacv1.ClusterRole{}
	get(t, c, "", install.EditRole, role)
	cases := map[string]struct {
		why, group, resource, verb string
		want                       bool
	}{
		"CreatePod":        {"it is held until it is admitted", "", "pods", "create", true},
		"DeletePod":        {"users clean up", "", "pods", "delete", true},
		"PodStatus":        {"what runs is its node's to say", "", "pods/status", "patch", false},
		"BindPod":          {"the scheduler does", "", "pods/binding", "create", false},
		"ResizePod":        {"it was admitted with its size", "", "pods/resize", "patch", false},
		"CreateJob":        {"it is held until it is admitted", "batch", "jobs", "create", true},
		"CreateCronJob":    {"its Jobs are held", "batch", "cronjobs", "create", true},
		"JobStatus":        {"what ended is its controller's to say", "batch", "jobs/status", "update", false},
		"PatchDeployment":  {"its pods are held", "apps", "deployments", "patch", true},
		"ScaleStatefulSet": {"so are further ones", "apps", "statefulsets/scale", "patch", true},
		"CreateDaemonSet":  {"its pods are not held", "apps", "daemonsets", "create", false},
		"CreateController": {"nothing checks its template", "", "replicationcontrollers", "create", false},
		"CreateJobSet":     {"it is held until it is admitted", "jobset.x-k8s.io", "jobsets", "create", true},
		"CreateSpark":      {"nothing holds it", "sparkoperator.k8s.io", "sparkapplications", "create", false},
		"CreateWrapper":    {"the way to run anything", "workload.codeflare.dev", "appwrappers", "create", true},
		"WrapperStatus": {
			"the phase is not the user's to write",
			"workload.codeflare.dev",
			"appwrappers/status",
			"update",
			false,
		},
		"SeeWorkloads": {"users see why they wait", "kueue.x-k8s.io", "workloads", "list", true},
		"CreateWorkload": {
			"a hand-made Workload would take quota",
			"kueue.x-k8s.io",
			"workloads",
			"create",
			false,
		},
		"HoldWorkload": {
			"users hold jobs back, by spec.active alone (TestHoldGuard)",
			"kueue.x-k8s.io",
			"workloads",
			"patch",
			true,
		},
		"UpdateWorkload": {
			"users do not set their own priority",
			"kueue.x-k8s.io",
			"workloads",
			"update",
			false,
		},
		"AdmitWorkload": {
			"the status of a Workload is its admission",
			"kueue.x-k8s.io",
			"workloads/status",
			"update",
			false,
		},
		"Exec":              {"debugging", "", "pods/exec", "create", true},
		"ExecBySocket":      {"which clients ask for by GET", "", "pods/exec", "get", true},
		"CreateSecret":      {"what needs no quota is free", "", "secrets", "create", true},
		"CreateRoleBinding": {"users give no rights", "rbac.authorization.k8s.io", "rolebindings", "create", false},
		"ServiceAccounts":   {"no identities beyond the user's own", "", "serviceaccounts", "create", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := allows(role.Rules, tc.group, tc.resource, tc.verb); got != tc.want {
				t.Errorf("%s: %s %s.%s is %v, want %v", tc.why, tc.verb, tc.resource, tc.group, got, tc.want)
			}
		})
	}
}

// TestWhatMakesPodsAnewMayBeDeleted: an AppWrapper that has to go deletes what makes its pods anew, a
// Deployment's ReplicaSet among it, and not only the pods, again and again.
func TestWhatMakesPodsAnewMayBeDeleted(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
	role := &rbacv1.ClusterRole{}
	get(t, c, "", install.TeamRole, role)
	for _, of := range [][2]string{{"apps", "statefulsets"}, {"apps", "replicasets"}, {"batch", "jobs"}} {
		if !allows(role.Rules, of[0], of[1], "delete") {
			t.Errorf("the controller may not delete %s.%s", of[1], of[0])
		}
	}
}

func allows(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Verbs, verb) &&
			(slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, "*"))
	})
}

func apply(t *testing.T, c client.Client, url string) {
	t.Helper()
	if err := install.Apply(
		t.Context(),
		c,
		install.Options{WebhookURL: url, CABundle: []byte("ca"), ControllerUser: "controller"},
	); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c client.Client, namespace, name string, o client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatal(err)
	}
}
