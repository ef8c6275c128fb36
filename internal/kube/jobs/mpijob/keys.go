package mpijob

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// publicKey is where the Secret has the public key; Kubernetes has a name for the private one
// only.
const publicKey = "ssh-publickey"

// makeKeys makes a key pair for one job, with which its pods let each other in.
func makeKeys(random io.Reader, o jobs.Object) error {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("make keys: %T is no Secret", o)
	}
	key, err := ecdsa.GenerateKey(elliptic.P521(), random)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the private key: %w", err)
	}
	public, err := authorized(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("write the public key: %w", err)
	}
	secret.Data = map[string][]byte{
		corev1.SSHAuthPrivateKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		publicKey:                public,
	}
	return nil
}

// authorized is a key as authorized_keys has it (RFC 5656, section 3.1).
func authorized(key *ecdsa.PublicKey) ([]byte, error) {
	const curve, algorithm = "nistp521", "ecdsa-sha2-nistp521"
	point, err := key.ECDH()
	if err != nil {
		return nil, err
	}
	var wire []byte
	for _, part := range [][]byte{[]byte(algorithm), []byte(curve), point.Bytes()} {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(part)))
		wire = append(wire, part...)
	}
	return []byte(algorithm + " " + base64.StdEncoding.EncodeToString(wire) + "\n"), nil
}
