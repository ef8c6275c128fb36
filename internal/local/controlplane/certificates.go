//go:build !noembed

package controlplane

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/clock"
)

const (
	// rememberedFor is how long the answer about a certificate holds, as long as
	// the API server's own memory of tokens.
	rememberedFor = 10 * time.Second
	// mostRemembered bounds the memory.
	mostRemembered = 1000
)

// remembering authenticates requests with a client certificate from memory. The
// API server verifies the signatures of a certificate with every request on a
// connection anew, which was 3 % of its time; all clients of this cluster have
// certificates. Only success is remembered.
type remembering struct {
	verify authenticator.Request
	clock  clock.PassiveClock

	mu    sync.Mutex
	known map[string]remembered // by the certificate as it came
}

type remembered struct {
	response *authenticator.Response
	until    time.Time
}

func newRemembering(a authenticator.Request) *remembering {
	return &remembering{verify: a, clock: clock.RealClock{}, known: map[string]remembered{}}
}

// AuthenticateRequest implements authenticator.Request.
func (r *remembering) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || saysWho(req.Header) {
		return r.verify.AuthenticateRequest(req)
	}
	certificate := string(req.TLS.PeerCertificates[0].Raw)
	now := r.clock.Now()
	r.mu.Lock()
	known, ok := r.known[certificate]
	r.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.response, true, nil
	}
	response, ok, err := r.verify.AuthenticateRequest(req)
	if err != nil || !ok {
		return response, ok, err
	}
	until := now.Add(rememberedFor)
	if end := req.TLS.PeerCertificates[0].NotAfter; end.Before(until) {
		until = end
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostRemembered {
		clear(r.known)
	}
	r.known[certificate] = remembered{response, until}
	return response, true, nil
}

// saysWho reports whether a request says who it is from other than by
// certificate: with a token, or as a proxy for others.
func saysWho(h http.Header) bool {
	for name := range h {
		if name == "Authorization" || name == "Sec-Websocket-Protocol" || strings.HasPrefix(name, "X-Remote-") {
			return true
		}
	}
	return false
}
