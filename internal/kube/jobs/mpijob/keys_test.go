package mpijob_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// keys are those of a job.
func keys(t *testing.T) *corev1.Secret {
	t.Helper()
	a := artifacts(t, decode(t, "PAIR"))["Secret a-ssh"]
	secret, _ := a.Object.(*corev1.Secret)
	if secret == nil || a.Fill == nil || !a.First {
		t.Fatalf("the Secret is %+v", a)
	}
	if err := a.Fill(rand.Reader, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestKeys(t *testing.T) {
	secret := keys(t)
	if secret.Type != corev1.SecretTypeSSHAuth {
		t.Errorf("type %s", secret.Type)
	}
	block, _ := pem.Decode(secret.Data["ssh-privatekey"])
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil || key.Params().Name != "P-521" {
		t.Errorf("private key: %v, %v", key, err)
	}
	if other := keys(t); bytes.Equal(secret.Data["ssh-privatekey"], other.Data["ssh-privatekey"]) {
		t.Error("two jobs have the same key")
	}
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("needs ssh-keygen: install the Debian package openssh-client")
	}
	private := filepath.Join(t.TempDir(), "id_rsa")
	if err := os.WriteFile(private, secret.Data["ssh-privatekey"], 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), keygen, "-y", "-f", private).Output() //nolint:gosec // of the machine
	if err != nil || !bytes.Equal(bytes.TrimSpace(out), bytes.TrimSpace(secret.Data["ssh-publickey"])) {
		t.Errorf("ssh reads the pair otherwise (%v):\n%s%s", err, out, secret.Data["ssh-publickey"])
	}
}
