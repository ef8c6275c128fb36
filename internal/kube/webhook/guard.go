package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// maxBody bounds what is read of a request. The API server takes objects of
	// 3 MiB at most, and asks about two of them, or converts one at a time.
	maxBody = 8 << 20
	// maxBodyTime bounds how long a body may take to arrive.
	maxBodyTime = 15 * time.Second
	// maxConversions is how many bodies to convert are in memory at the same time.
	// Unlike questions about writes, any client may send them where the API server
	// cannot prove who it is.
	maxConversions = 16
)

// Callers say who may call the webhooks. The zero value lets all in, as
// there is no way for an API server that is not configured for it to prove who it
// is: then the network has to keep others out.
type Callers struct {
	// Names are the common names of client certificates that are let in; without
	// names all are.
	Names []string
	// Conversion asks callers of the conversion for their certificate, too. The API
	// server of a real cluster has none to show there, whatever its configuration.
	Conversion bool
}

// guard stands in front of an endpoint: a client that may not call gets no answer, and no
// byte of what it sends is read.
func (c Callers) guard(path string, h http.Handler) http.Handler {
	asked := len(c.Names) > 0 && (path != pathConvert || c.Conversion)
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked && !c.knows(r.TLS) {
			w.Header().Set("Connection", "close")
			http.Error(w, "only the API server may ask: present its client certificate", http.StatusUnauthorized)
			return
		}
		// An error means that there is no connection that could be slow.
		_ = http.NewResponseController(
			w,
		).SetReadDeadline(
			time.Now().Add(maxBodyTime), //nolint:forbidigo // a deadline of the network
		)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	})
	if path != pathConvert {
		return untilAnswered(limited)
	}
	return untilAnswered(fewAtOnce(maxConversions, limited))
}

// knows reports whether the caller showed a certificate of one of the names, which
// the connection has verified.
func (c Callers) knows(state *tls.ConnectionState) bool {
	return state != nil && len(state.VerifiedChains) > 0 &&
		slices.Contains(c.Names, state.PeerCertificates[0].Subject.CommonName)
}

// fewAtOnce lets further requests wait for their turn.
func fewAtOnce(n int, h http.Handler) http.Handler {
	turns := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// errEnds is why requests are told to end when the process is.
var errEnds = errors.New("the process ends")

// Server is a server of webhooks that answers what it was asked before it was told to end: the
// server it is made of would take the context from requests that are being answered.
func Server(s webhook.Server) webhook.Server { return patient{s} }

type patient struct{ webhook.Server }

// Start serves until the context ends and what was asked until then is answered.
func (s patient) Start(ctx context.Context) error {
	until, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() { end(errEnds) })()
	return s.Server.Start(until) //nolint:wrapcheck // it is that server
}

// untilAnswered lets a request go on when the process ends, and only then: who is gone needs no answer.
func untilAnswered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() { //nolint:contextcheck // it asks why that context ended
			if !errors.Is(context.Cause(r.Context()), errEnds) {
				cancel()
			}
		})()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// ClientCertificates makes a server ask its clients for a certificate that the
// authorities in a PEM file vouch for. A client that shows none is connected all the same:
// see Callers.
func ClientCertificates(file string) (func(*tls.Config), error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the webhooks' clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf(
			"read the authority of the webhooks' clients: %w",
			errors.New(file+" holds no PEM certificate"),
		)
	}
	return func(c *tls.Config) { c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven }, nil
}
