package sshkeys_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/sshkeys"
)

// TestKeysBelongTogether: ssh-keygen reads the private key and finds the public one in it.
func TestKeysBelongTogether(t *testing.T) {
	s := &corev1.Secret{}
	if err := sshkeys.Fill(rand.Reader, s); err != nil {
		t.Fatal(err)
	}
	if s.Type != corev1.SecretTypeSSHAuth {
		t.Errorf("type %s", s.Type)
	}
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not there: install openssh-client")
	}
	file := filepath.Join(t.TempDir(), "id_rsa")
	if err := os.WriteFile(file, s.Data[corev1.SSHAuthPrivateKey], 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(keygen, "-y", "-f", file).CombinedOutput()
	if err != nil || !bytes.Equal(bytes.TrimSpace(out), bytes.TrimSpace(s.Data[sshkeys.Public])) {
		t.Errorf("ssh-keygen: %v\n%s\nnot\n%s", err, out, s.Data[sshkeys.Public])
	}
}

// TestKeysDiffer: each job has its own.
func TestKeysDiffer(t *testing.T) {
	a, b := &corev1.Secret{}, &corev1.Secret{}
	if err := sshkeys.Fill(rand.Reader, a); err != nil {
		t.Fatal(err)
	}
	if err := sshkeys.Fill(rand.Reader, b); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a.Data[sshkeys.Public], b.Data[sshkeys.Public]) {
		t.Error("two jobs have the same keys")
	}
	if err := sshkeys.Fill(rand.Reader, &corev1.ConfigMap{}); err == nil {
		t.Error("keys are for Secrets")
	}
}
