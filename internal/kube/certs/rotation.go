package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"time"
)

// Keys of the Secret. Those of the serving certificate and of the trusted
// authorities are where other programs look for them.
const (
	// ServingCert and ServingKey are the certificate that is served.
	ServingCert = "tls.crt"
	ServingKey  = "tls.key"
	// Bundle holds all authorities that are to be trusted: the one that signs, the
	// next one, and the last one while something it signed may still be served.
	Bundle = "ca.crt"

	signerCert  = "signer.crt"
	signerKey   = "signer.key"
	nextCert    = "next.crt"
	nextKey     = "next.key"
	retiredCert = "retired.crt"
)

func keys() []string {
	return []string{ServingCert, ServingKey, Bundle, signerCert, signerKey, nextCert, nextKey, retiredCert}
}

// Data is what the Secret holds.
type Data map[string][]byte

// Lifetimes say how long certificates are good. Each is replaced when two thirds
// of its time are over.
type Lifetimes struct {
	// Authority is that of an authority, Serving that of a certificate it signs.
	Authority, Serving time.Duration
	// Overlap is how long an authority is trusted before it signs, and after
	// another one signs in its place. It is longer than it takes all replicas and
	// API servers to learn of a change.
	Overlap time.Duration
}

// DefaultLifetimes leave a month to mend whatever keeps a certificate from being
// renewed.
func DefaultLifetimes() Lifetimes {
	const day = 24 * time.Hour
	return Lifetimes{Authority: 10 * 365 * day, Serving: 90 * day, Overlap: time.Hour}
}

// Validate reports lifetimes under which there could be a moment without a
// certificate that is trusted.
func (l Lifetimes) Validate() error {
	switch {
	case l.Overlap <= 0:
		return fmt.Errorf("overlap of authorities is %v: must be positive", l.Overlap)
	case l.Serving < 6*l.Overlap:
		return fmt.Errorf(
			"certificates last %v: must be at least six times the overlap of %v",
			l.Serving,
			l.Overlap,
		)
	case l.Authority < 3*l.Serving:
		return fmt.Errorf(
			"authorities last %v: must be at least three times the %v of what they sign",
			l.Authority,
			l.Serving,
		)
	}
	return nil
}

// skew is how far clocks may differ: a certificate is good from that long before
// it is made.
const skew = time.Hour

// Next returns what the Secret is to hold at a time, and what changed and why.
// Given what it returned it changes nothing before something is due.
//
// hosts are the names, or addresses, by which the certificate is asked for. told
// is the bundle that those who are to trust have: until it is the one that the
// Secret holds the next authority does not sign, however long that takes. What
// cannot be read is made anew; authorities that can be stay trusted.
func Next(
	have Data,
	hosts []string,
	now time.Time,
	told []byte,
	l Lifetimes,
) (next Data, changes []string, err error) {
	s := read(have, now)
	s.told = len(told) > 0 && bytes.Equal(told, have[Bundle])
	note := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if s.signer == nil {
		// Nobody trusts it yet; there is no other.
		if s.signer, err = authority(now, l); err != nil {
			return nil, nil, err
		}
		note("made an authority")
	}
	if s.next == nil && !now.Before(renewal(s.signer.cert)) {
		if s.next, err = authority(now, l); err != nil {
			return nil, nil, err
		}
		note("made the next authority, which signs from %s on", stamp(known(s.next.cert, l)))
	}
	if s.next != nil && s.told && !now.Before(known(s.next.cert, l)) {
		s.retired = append(s.retired, s.signer.cert)
		s.signer, s.next = s.next, nil
		note("the next authority signs")
	}
	if why := s.stale(hosts, now, l); why != "" {
		if s.serving, err = s.signer.sign(hosts, now, l); err != nil {
			return nil, nil, err
		}
		note("made a certificate: %s", why)
	}
	if n := len(
		s.retired,
	); n > 0 && signedBy(s.serving.cert, s.signer.cert) &&
		!now.Before(known(s.serving.cert, l)) {
		s.retired = nil
		note("no longer trust %d that signed before", n)
	}
	if next, err = s.data(); err != nil {
		return nil, nil, err
	}
	if len(changes) == 0 && !maps.EqualFunc(next, have, bytes.Equal) {
		note("wrote it as it should be")
	}
	return next, changes, nil
}

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// state is Data, read.
type state struct {
	// signer signs. next will, once everybody trusts it. Both are authorities.
	signer, next *pair
	serving      *pair
	// retired signed before.
	retired []*x509.Certificate
	// told is whether those who are to trust know all of them.
	told bool
}

// read leaves out what cannot be read or used, and what is over.
func read(d Data, now time.Time) state {
	s := state{
		signer: readPair(d[signerCert], d[signerKey], now), next: readPair(d[nextCert], d[nextKey], now),
		serving: readPair(d[ServingCert], d[ServingKey], now),
	}
	if s.signer == nil && s.next != nil {
		s.signer, s.next = s.next, nil // it is trusted, which a new one is not
	}
	trusted := slices.Concat(readCerts(d[retiredCert]), readCerts(d[Bundle]))
	for _, c := range trusted {
		known := s.signer != nil && c.Equal(s.signer.cert) || s.next != nil && c.Equal(s.next.cert) ||
			slices.ContainsFunc(s.retired, c.Equal)
		if !known && c.IsCA && now.Before(c.NotAfter) {
			s.retired = append(s.retired, c)
		}
	}
	return s
}

// stale says why another certificate is to be served, or "".
func (s state) stale(hosts []string, now time.Time, l Lifetimes) string {
	if s.serving == nil {
		return "there was none that could be used"
	}
	c := s.serving.cert
	if !signedBy(c, s.signer.cert) {
		// Where the last authority was lost, nobody trusts the one that is there instead yet.
		trusted := s.told && !now.Before(known(s.signer.cert, l))
		if trusted || !slices.ContainsFunc(s.retired, func(r *x509.Certificate) bool { return signedBy(c, r) }) {
			return "its authority signs no more"
		}
	}
	for _, h := range hosts {
		if c.VerifyHostname(h) != nil {
			return "it did not name " + h
		}
	}
	if !now.Before(renewal(c)) {
		return "the last one ends at " + stamp(c.NotAfter)
	}
	return ""
}

func signedBy(c, authority *x509.Certificate) bool { return c.CheckSignatureFrom(authority) == nil }

// data writes the state down.
func (s state) data() (Data, error) {
	d := Data{}
	trusted := []*x509.Certificate{s.signer.cert}
	for _, p := range []struct {
		pair      *pair
		cert, key string
	}{{s.signer, signerCert, signerKey}, {s.next, nextCert, nextKey}, {s.serving, ServingCert, ServingKey}} {
		if p.pair == nil {
			continue
		}
		key, err := x509.MarshalPKCS8PrivateKey(p.pair.key)
		if err != nil {
			return nil, fmt.Errorf("write the key of a certificate: %w", err)
		}
		d[p.cert], d[p.key] = encode("CERTIFICATE", p.pair.cert.Raw), encode("PRIVATE KEY", key)
	}
	if s.next != nil {
		trusted = append(trusted, s.next.cert)
	}
	if len(s.retired) > 0 {
		d[retiredCert] = encodeAll(s.retired)
	}
	d[Bundle] = encodeAll(append(trusted, s.retired...))
	return d, nil
}

// issued is when a certificate was made.
func issued(c *x509.Certificate) time.Time { return c.NotBefore.Add(skew) }

// known is when everybody has had the time to learn of a certificate.
func known(c *x509.Certificate, l Lifetimes) time.Time { return issued(c).Add(l.Overlap) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// renewal is when a certificate is to be replaced.
func renewal(c *x509.Certificate) time.Time {
	from := issued(c)
	return from.Add(c.NotAfter.Sub(from) / 3 * 2)
}

// authority makes one that signs what serves here, and nothing below it.
func authority(now time.Time, l Lifetimes) (*pair, error) {
	key, c, err := blank(authorityName, now, l.Authority)
	if err != nil {
		return nil, err
	}
	c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero = true, true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return finish(c, key, &pair{cert: c, key: key})
}

// sign makes a certificate to serve with. It ends no later than its authority.
func (p *pair) sign(hosts []string, now time.Time, l Lifetimes) (*pair, error) {
	key, c, err := blank(servingName, now, l.Serving)
	if err != nil {
		return nil, err
	}
	if c.NotAfter.After(p.cert.NotAfter) {
		c.NotAfter = p.cert.NotAfter
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	return finish(c, key, p)
}

// By these names certificates are known to be made here.
const (
	authorityName = "mlbatch-ca"
	servingName   = "mlbatch-controller"
)

// blank is a certificate to be filled in, with its key.
func blank(name string, now time.Time, life time.Duration) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	now = now.Truncate(time.Second) // as certificates count
	return key, &x509.Certificate{
		SerialNumber: serial,
		// The number tells authorities of the same name apart.
		Subject:   pkix.Name{CommonName: name, SerialNumber: serial.Text(36)},
		NotBefore: now.Add(-skew),
		NotAfter:  now.Add(life),
	}, nil
}

// finish signs.
func finish(c *x509.Certificate, key *ecdsa.PrivateKey, by *pair) (*pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", c.Subject.CommonName, err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", c.Subject.CommonName, err)
	}
	return &pair{cert: signed, key: key}, nil
}

// readPair returns nil if certificate and key are not of one pair that is good.
func readPair(cert, key []byte, now time.Time) *pair {
	both, err := tls.X509KeyPair(cert, key)
	if err != nil || both.Leaf == nil || !now.Before(both.Leaf.NotAfter) || now.Before(both.Leaf.NotBefore) {
		return nil
	}
	signer, ok := both.PrivateKey.(crypto.Signer)
	if !ok {
		return nil
	}
	return &pair{cert: both.Leaf, key: signer}
}

// readCerts reads as many as there are.
func readCerts(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeAll(certs []*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, encode("CERTIFICATE", c.Raw)...)
	}
	return out
}

// errNoCertificate is what a client is told that comes before there is one.
var errNoCertificate = errors.New("no certificate yet")
