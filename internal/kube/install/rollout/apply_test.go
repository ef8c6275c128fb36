package rollout

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
			ObjectMeta: metav1.ObjectMeta{Name: webhook.ValidatingName}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.mlbatch.dev"}},
		}
		b := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(hook)
		if !tc.none {
			b = b.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: install.CertSecret}, Data: tc.secret})
		}
		c := b.Build()
		p := &Plan{Release: install.Release{Namespace: home}}
		p.Values.CertManager.Enabled = tc.certManager
		if err := (&Cluster{Client: c}).introduce(t.Context(), p); err != nil {
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
