package install

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files of a certificate directory, as the webhook server reads them.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
	CAFile   = "ca.crt"
)

const (
	// certLifetime is long, since nothing but EnsureCerts renews a certificate.
	certLifetime = 10 * 365 * 24 * time.Hour
	// renewBefore leaves time for a restart before a certificate ends.
	renewBefore = 30 * 24 * time.Hour
)

// EnsureCerts returns the PEM certificate of an authority that vouches for the
// serving certificate in dir. Certificate and key are made if there are none,
// if they do not name all hosts, or if they end soon. The authority's own key is
// thrown away: it signs one certificate.
func EnsureCerts(dir string, hosts []string, now time.Time) (ca []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificate directory: %w", err)
	}
	if ca, err := readCerts(dir, hosts, now.Add(renewBefore)); err == nil {
		return ca, nil
	}
	files, err := makeCerts(hosts, now)
	if err != nil {
		return nil, fmt.Errorf("make certificates for %v: %w", hosts, err)
	}
	// The authority comes last: until it is there, readCerts finds the files not
	// to belong together and the next call makes them anew.
	for _, name := range []string{KeyFile, CertFile, CAFile} {
		if err := writeFile(filepath.Join(dir, name), files[name]); err != nil {
			return nil, fmt.Errorf("write certificates: %w", err)
		}
	}
	return files[CAFile], nil
}

// readCerts returns the authority's certificate if the files belong together,
// name the hosts, and are good at the time given.
func readCerts(dir string, hosts []string, at time.Time) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate in " + CAFile)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at}); err != nil {
			return nil, err
		}
	}
	return ca, nil
}

// makeCerts makes an authority and a serving certificate.
func makeCerts(hosts []string, now time.Time) (map[string][]byte, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caCert, err := template("mlbatch-webhook-ca", now)
	if err != nil {
		return nil, err
	}
	caCert.IsCA, caCert.BasicConstraintsValid = true, true
	caCert.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, caCert, caCert, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := template("mlbatch-webhook", now)
	if err != nil {
		return nil, err
	}
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, caCert, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		CAFile:   encode("CERTIFICATE", caDER),
		CertFile: encode("CERTIFICATE", der),
		KeyFile:  encode("PRIVATE KEY", keyDER),
	}, nil
}

func template(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(certLifetime),
	}, nil
}

func encode(kind string, der []byte) []byte {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // writing to memory does not fail
	return out.Bytes()
}

// writeFile replaces a file at once, readable by its owner only.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // has mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already if all went well
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // or a crash may leave the name without the content
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
