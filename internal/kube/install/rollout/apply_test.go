package rollout

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestIntroduce: webhooks that have just been registered are trusted at once, by the authority that
// the controller made; where there is none yet, or cert-manager tells of it, nothing is written.
func TestIntroduce(t *testing.T) {
	for name, tc := range map[string]struct {
		secret      map[string][]byte
		none        bool // there is no Secret
		certManager bool
		want        string
	}{
		"made by the controller": {secret: map[string][]byte{certs.Bundle: []byte("authority")}, want: "authority"},
		"not made yet":           {},
		"kept in another Secret": {none: true},
		"cert-manager's":         {secret: map[string][]byte{certs.Bundle: []byte("authority")}, certManager: true},
	} {
		hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name: webhook.ValidatingName,
			},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.mlbatch.dev"}},
		}
		b := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(hook)
		if !tc.none {
			b = b.WithObjects(
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: install.CertSecret}, Data: tc.secret},
			)
		}
		c := b.Build()
		p := &Installation{Release: install.Release{Namespace: home}}
		p.Values.CertManager.Enabled = tc.certManager
		record, err := install.ReadRecord(t.Context(), c, home, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Cluster{Client: c}).introduce(t.Context(), p, record); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(hook), hook); err != nil {
			t.Fatal(err)
		}
		if got := string(hook.Webhooks[0].ClientConfig.CABundle); got != tc.want {
			t.Errorf("%s: %q is trusted, want %q", name, got, tc.want)
		}
	}
}

// What is as it was left is not applied again and not read one by one; what somebody changed is,
// and what keeps the record goes with the installation and not before.
func TestAppliesNothingTwice(t *testing.T) {
	role := func(name, verb string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1",
			"kind":       "ClusterRole",
			"metadata": map[string]any{
				"name":   name,
				"labels": map[string]any{install.PartLabel: install.App, install.ManagedLabel: "mlbatch"},
			},
			"rules": []any{
				map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{verb}},
			},
		}}
	}
	var asked []string
	note := func(verb string, o interface{ GetName() string }) { asked = append(asked, verb+" "+o.GetName()) }
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.New()).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			asked = append(asked, "get "+key.Name)
			return c.Get(ctx, key, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if named, is := o.(interface{ GetName() string }); is {
				note("apply", named)
			}
			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
	})
	p := &Installation{
		Release: install.Release{Namespace: home, Manager: "mlbatch"},
		Stages: []install.Stage{
			{Name: install.AccessStage, Objects: []*unstructured.Unstructured{role("a", "get"), role("b", "get")}},
		},
	}
	said := ""
	x := &Cluster{
		Client:   c,
		Patience: time.Hour,
		Say:      func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" },
	}
	apply := func() []string {
		t.Helper()
		asked, said = nil, ""
		if err := x.Apply(t.Context(), p, false); err != nil {
			t.Fatal(err)
		}
		return asked
	}
	apply()
	if got := apply(); !slices.Equal(got, []string{"get " + install.RecordName}) ||
		said != "access         2 unchanged\n" {
		t.Errorf("the second time it asks for %v and says %s", got, said)
	}
	changed := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, changed); err != nil {
		t.Fatal(err)
	}
	changed.Rules = nil
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got := apply(); !slices.Contains(got, "apply a") || slices.Contains(got, "apply b") ||
		said != "access         1 changed, 1 unchanged\n" {
		t.Errorf("somebody changed one: it asks for %v and says %s", got, said)
	}
	if err := x.Uninstall(t.Context(), p, true); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(asked, "delete "+install.RecordName) {
		t.Errorf("what was applied is remembered: %v", asked)
	}
}
