// Package sshkeys makes the keys by which the pods of an MPI training reach each other.
package sshkeys

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

// Public is the key of a Secret with the public half. The private one has the usual key,
// ssh-privatekey.
const Public = "ssh-publickey"

// The algorithm, and the curve, as ssh calls them.
const (
	algorithm = "ecdsa-sha2-nistp521"
	curve     = "nistp521"
)

// Fill gives a Secret a pair of keys; it is a jobs.Artifact's Fill.
func Fill(random io.Reader, o jobs.Object) error {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("make ssh keys: %T is no Secret", o)
	}
	key, err := ecdsa.GenerateKey(elliptic.P521(), random)
	if err != nil {
		return fmt.Errorf("make ssh keys: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write private ssh key: %w", err)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return fmt.Errorf("write public ssh key: %w", err)
	}
	s.Type = corev1.SecretTypeSSHAuth
	s.Data = map[string][]byte{
		corev1.SSHAuthPrivateKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		Public:                   line(public),
	}
	return nil
}

// line is a public key as files of authorized keys have it: the algorithm, and in base64
// algorithm, curve and point, each after its length.
func line(point []byte) []byte {
	var blob []byte
	for _, part := range [][]byte{[]byte(algorithm), []byte(curve), point} {
		blob = append(
			binary.BigEndian.AppendUint32(blob, uint32(len(part))), //nolint:gosec // a key has some hundred bytes
			part...)
	}
	return []byte(algorithm + " " + base64.StdEncoding.EncodeToString(blob) + "\n")
}
