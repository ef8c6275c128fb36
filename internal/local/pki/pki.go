// Package pki makes the certificates, keys and tokens of the embedded cluster.
//
// An Authority signs leaf certificates into files. Everything is kept: a file
// that exists and is still good is left alone, so that a cluster that is
// stopped and started again keeps its identity. All files are 0600, and each
// is written whole or not at all, and is on the disk before anything relies on it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// lifetime is that of every certificate: the cluster is a local one, and
	// it is not renewed by hand.
	lifetime = 10 * 365 * 24 * time.Hour
	// renewBefore is how close to its end a leaf is made anew.
	renewBefore = 30 * 24 * time.Hour
	// backdate covers clocks that run a little behind.
	backdate = time.Hour
)

// Usage says what a leaf certificate proves.
type Usage int

// The usages of leaf certificates.
const (
	Client Usage = iota + 1
	Server
)

// Leaf describes one certificate to issue.
type Leaf struct {
	// Name is the file name without extension.
	Name string
	// User is the common name: for clients, the Kubernetes user.
	User string
	// Groups are the organisations: for clients, the Kubernetes groups.
	Groups []string
	// Hosts are the DNS names and IP addresses of a server.
	Hosts []string
	// Usage says whether it is a client's or a server's.
	Usage Usage
}

// Pair names the two files of a certificate and its key.
type Pair struct {
	Cert, Key string
}

// Authority signs certificates into one directory.
type Authority struct {
	dir  string
	pair Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Open loads the authority called name from dir, or makes it.
func Open(dir, name string, now time.Time) (*Authority, error) {
	a := &Authority{dir: dir, pair: pairIn(dir, name)}
	cert, key, err := load(a.pair)
	if errors.Is(err, os.ErrNotExist) {
		return a, a.create(name, now)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"load certificate authority %s: %w; put the two files back from a copy, or remove %s and %s: "+
				"then a new authority is made, the data stays, and copies of the kubeconfig have to be made anew",
			name,
			err,
			a.pair.Cert,
			a.pair.Key,
		)
	}
	if now.After(cert.NotAfter) {
		return nil, fmt.Errorf(
			"certificate authority %s expired on %s",
			a.pair.Cert,
			cert.NotAfter.Format(time.DateOnly),
		)
	}
	a.cert, a.key = cert, key
	return a, nil
}

// CertFile is the file with the authority's certificate.
func (a *Authority) CertFile() string { return a.pair.Cert }

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Issue makes sure that a good certificate for l exists and returns its files.
func (a *Authority) Issue(l Leaf, now time.Time) (Pair, error) {
	pair := pairIn(a.dir, l.Name)
	if cert, _, err := load(pair); err == nil && a.stillGood(cert, l, now) {
		return pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key for %s: %w", l.Name, err)
	}
	tmpl, err := template(l.User, now)
	if err != nil {
		return Pair{}, err
	}
	tmpl.Subject.Organization = l.Groups
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = extUsage(l.Usage)
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
			continue
		}
		tmpl.DNSNames = append(tmpl.DNSNames, h)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate %s: %w", l.Name, err)
	}
	return pair, store(pair, der, key)
}

// SigningKey makes sure that dir holds a private key called name and returns
// its file. The API server signs service account tokens with it.
func SigningKey(dir, name string) (string, error) {
	file := filepath.Join(dir, name+".key")
	der, err := decodeFile(file)
	if err == nil {
		_, err = x509.ParseECPrivateKey(der)
	}
	switch {
	case err == nil:
		return file, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("load the key of service accounts: %w; put %s back from a copy, or remove it: "+
			"then a new key is made, the data stays, and tokens of service accounts have to be asked for anew", err, file)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make key %s: %w", name, err)
	}
	der, err = x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode key %s: %w", name, err)
	}
	return file, WriteFile(file, encode("EC PRIVATE KEY", der))
}

// tokenBytes is how much of a token is left to chance.
const tokenBytes = 32

// Token returns the bearer token of a name in a directory, and makes it if there
// is none.
func Token(dir, name string) (string, error) {
	file := filepath.Join(dir, name+".token")
	text, err := os.ReadFile(file)
	switch token := strings.TrimSpace(string(text)); {
	case err == nil && len(token) == hex.EncodedLen(tokenBytes):
		return token, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("load token %s: %w", name, err)
	}
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // it never fails
	token := hex.EncodeToString(secret)
	return token, WriteFile(file, []byte(token+"\n"))
}

// WriteFile writes a private file whole or not at all. When it returns, the file
// outlives a crash of the machine: without waiting for the disk, a file system may
// have the new name and none of the content.
func WriteFile(file string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when all went well
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err == nil {
		err = syncDir(filepath.Dir(file))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// syncDir waits until the names in a directory are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (a *Authority) create(name string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key for certificate authority %s: %w", name, err)
	}
	tmpl, err := template("mlbatch "+name, now)
	if err != nil {
		return err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("sign certificate authority %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("parse certificate authority %s: %w", name, err)
	}
	a.key = key
	return store(a.pair, der, key)
}

// stillGood says whether an issued certificate can be used on: the same
// subject and hosts, signed by this authority, and with time left.
func (a *Authority) stillGood(cert *x509.Certificate, l Leaf, now time.Time) bool {
	if now.Add(renewBefore).After(cert.NotAfter) || cert.Subject.CommonName != l.User {
		return false
	}
	for _, h := range l.Hosts {
		if cert.VerifyHostname(h) != nil {
			return false
		}
	}
	return cert.CheckSignatureFrom(a.cert) == nil
}

func template(cn string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: cn},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func extUsage(u Usage) []x509.ExtKeyUsage {
	if u == Server {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

func pairIn(dir, name string) Pair {
	return Pair{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
}

func load(p Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := decodeFile(p.Cert)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := decodeFile(p.Key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", p.Cert, err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", p.Key, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", p.Key, p.Cert)
	}
	return cert, key, nil
}

// store writes the key first: a certificate without a key would never be
// replaced, a key without a certificate is.
func store(p Pair, certDER []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", p.Key, err)
	}
	if err := WriteFile(p.Key, encode("EC PRIVATE KEY", keyDER)); err != nil {
		return err
	}
	return WriteFile(p.Cert, encode("CERTIFICATE", certDER))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func decodeFile(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	return block.Bytes, nil
}
