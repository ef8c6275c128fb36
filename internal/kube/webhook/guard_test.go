package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

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
	return &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{cert},
		VerifiedChains:   [][]*x509.Certificate{{cert}},
	}
}

// A body without end must not fill the memory.
func TestBodiesAreLimited(t *testing.T) {
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
func TestOnlyTheAPIServerIsAnswered(t *testing.T) {
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
		"plain": {
			"it is not known who it is",
			Callers{Names: []string{name}, Conversion: true},
			nil,
			false,
			false,
		},
		"none shown": {
			"it is not known who it is",
			Callers{Names: []string{name}, Conversion: true},
			&tls.ConnectionState{},
			false,
			false,
		},
		"unverified": {
			"any client can make a certificate",
			Callers{Names: []string{name}, Conversion: true},
			unverified,
			false,
			false,
		},
		"other name": {
			"the authority vouches for others too",
			Callers{Names: []string{name}, Conversion: true},
			showing("alice"),
			false,
			false,
		},
		"API server": {"it asks", Callers{Names: []string{name}, Conversion: true}, showing(name), true, true},
		"upstream's": {
			"a stock API server shows nothing when it converts",
			Callers{Names: []string{name}},
			nil,
			false,
			true,
		},
		"not set up": {"it can prove nothing", Callers{}, nil, true, true},
		"second name": {
			"one API server is replaced by another",
			Callers{Names: []string{"old", name}, Conversion: true},
			showing(name),
			true,
			true,
		},
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

// What is being answered when the process is told to end is answered as if it were not: not with
// nothing, which the API server takes for a failure, and not with a context that reads fail by. A
// client that goes away is not waited for.
func TestWhatIsAskedIsAnsweredAtTheEnd(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	tlsOf := httptest.NewTLSServer(http.NotFoundHandler())
	defer tlsOf.Close()
	s := Server(
		webhook.NewServer(
			webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &tlsOf.TLS.Certificates[0], nil }
			}}},
		),
	)
	arrived, release := make(chan context.Context), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Context()
		select {
		case <-release:
			fmt.Fprint(w, "answer")
		case <-r.Context().Done():
		}
	})
	came := make(chan struct{}, 1)
	guarded := Callers{}.guard(pathConvert, slow)
	s.Register("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		guarded.ServeHTTP(w, r)
	}))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	for s.StartedChecker()(nil) != nil {
		runtime.Gosched() // until it listens
	}
	transport := tlsOf.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	asker := &http.Client{Transport: transport}
	ask := func(ctx context.Context) <-chan string {
		out := make(chan string, 1)
		go func() {
			req, err := http.NewRequestWithContext(
				ctx,
				http.MethodPost,
				fmt.Sprintf("https://127.0.0.1:%d/slow", port),
				http.NoBody,
			)
			if err != nil {
				out <- err.Error()
				return
			}
			resp, err := asker.Do(req)
			if err != nil {
				out <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			out <- fmt.Sprintf("%d %s %v", resp.StatusCode, body, err)
		}()
		return out
	}

	asks, leaves := context.WithCancel(t.Context())
	ask(asks)
	<-came
	gone := <-arrived
	leaves()
	<-gone.Done()

	// Those that wait for their turn are answered, too.
	var answers []<-chan string
	for range 2 * maxConversions {
		answers = append(answers, ask(t.Context()))
		<-came
	}
	go func() {
		for range answers {
			<-arrived
		}
	}()
	end()
	close(release)
	for _, a := range answers {
		if got := <-a; got != "200 answer <nil>" {
			t.Errorf("what was asked before the end is answered, got %q", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
