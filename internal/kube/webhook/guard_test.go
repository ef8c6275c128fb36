package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// counted counts how much of an endless body is read.
type counted struct{ n int64 }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	c.n += int64(len(p))
	return len(p), nil
}

func guarded(t *testing.T, c Callers) map[string]http.Handler {
	t.Helper()
	handlers, err := Handlers(Cluster{Scheme: scheme.New()}, Options{Callers: c})
	if err != nil {
		t.Fatal(err)
	}
	return handlers
}

// showing is a connection whose client certificate was verified.
func showing(name string) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

// A body without end must not fill the memory.
func TestS8BodiesAreLimited(t *testing.T) {
	for path, h := range guarded(t, Callers{}) {
		body := &counted{}
		req := httptest.NewRequest(http.MethodPost, path, io.MultiReader(bytes.NewReader([]byte(`{"kind":`)), body))
		req.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), req)
		if body.n > maxBody+1<<20 {
			t.Errorf("%s reads %d bytes of a body without end", path, body.n)
		}
	}
}

// A client other than the API server gets no answer, and nothing of what it sends is read.
func TestS11OnlyTheAPIServerIsAnswered(t *testing.T) {
	const name = "front-proxy-client"
	unverified := showing(name)
	unverified.VerifiedChains = nil
	cases := map[string]struct {
		why     string
		callers Callers
		tls     *tls.ConnectionState
		// answered says whether questions about writes are, converts whether
		// conversions are.
		answered, converts bool
	}{
		"plain":       {"it is not known who it is", Callers{Names: []string{name}, Conversion: true}, nil, false, false},
		"none shown":  {"it is not known who it is", Callers{Names: []string{name}, Conversion: true}, &tls.ConnectionState{}, false, false},
		"unverified":  {"any client can make a certificate", Callers{Names: []string{name}, Conversion: true}, unverified, false, false},
		"other name":  {"the authority vouches for others too", Callers{Names: []string{name}, Conversion: true}, showing("alice"), false, false},
		"API server":  {"it asks", Callers{Names: []string{name}, Conversion: true}, showing(name), true, true},
		"upstream's":  {"a stock API server shows nothing when it converts", Callers{Names: []string{name}}, nil, false, true},
		"not set up":  {"it can prove nothing", Callers{}, nil, true, true},
		"second name": {"one API server is replaced by another", Callers{Names: []string{"old", name}, Conversion: true}, showing(name), true, true},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			for path, h := range guarded(t, c.callers) {
				body := &counted{}
				req := httptest.NewRequest(http.MethodPost, path, io.LimitReader(body, 100))
				req.TLS = c.tls
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, req)
				want := c.answered
				if path == pathConvert {
					want = c.converts
				}
				if got := rec.Code != http.StatusUnauthorized; got != want {
					t.Errorf("%s: %s answers is %v, want %v", c.why, path, got, want)
				}
				if !want && body.n > 0 {
					t.Errorf("%s: %s reads %d bytes", c.why, path, body.n)
				}
			}
		})
	}
}
