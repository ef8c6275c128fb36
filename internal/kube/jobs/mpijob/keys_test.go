package mpijob_test

import (
	"crypto/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// keys are those of a job.
func keys(t *testing.T) *corev1.Secret {
	t.Helper()
	a := artifacts(t, decode(t, "PAIR"))["Secret a-ssh"]
	secret, _ := a.Object.(*corev1.Secret)
	if secret == nil || a.Fill == nil {
		t.Fatalf("the Secret is %+v", a)
	}
	if err := a.Fill(rand.Reader, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestKeys are under the names that pods mount them by.
func TestKeys(t *testing.T) {
	secret := keys(t)
	if secret.Type != corev1.SecretTypeSSHAuth {
		t.Errorf("type %s", secret.Type)
	}
	for _, item := range member(t, decode(t, "PAIR"), "worker", 0).Spec.Volumes[0].Secret.Items {
		if len(secret.Data[item.Key]) == 0 {
			t.Errorf("pods mount %s as %s, and there is none", item.Key, item.Path)
		}
	}
}
