//go:build !noembed

package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	testclock "k8s.io/utils/clock/testing"
)

func TestRemembering(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bob := &authenticator.Response{User: &user.DefaultInfo{Name: "bob"}}
	request := func(certificate string, headers ...string) *http.Request {
		r := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{}}
		if certificate != "" {
			r.TLS.PeerCertificates = []*x509.Certificate{{Raw: []byte(certificate), NotAfter: begin.Add(time.Minute)}}
		}
		for _, h := range headers {
			r.Header.Set(h, "x")
		}
		return r
	}
	tests := map[string]struct {
		why      string
		first    *http.Request
		later    *http.Request
		after    time.Duration
		verified int
	}{
		"again":       {"the answer is known", request("bob"), request("bob"), 9 * time.Second, 1},
		"other":       {"it is somebody else", request("bob"), request("eve"), 0, 2},
		"too long":    {"a certificate may be withdrawn", request("bob"), request("bob"), 11 * time.Second, 2},
		"expired":     {"it holds no longer than the certificate", request("bob"), request("bob"), time.Minute, 2},
		"refused":     {"who was refused may have come too early", request("stranger"), request("stranger"), 0, 2},
		"token":       {"a token says who it is", request("bob"), request("bob", "Authorization"), 0, 2},
		"proxy":       {"it speaks for somebody else", request("bob"), request("bob", "X-Remote-User"), 0, 2},
		"proxy first": {"it spoke for somebody else", request("bob", "X-Remote-User"), request("bob"), 0, 2},
		"nobody":      {"there is no certificate", request(""), request(""), 0, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			verified := 0
			r := newRemembering(authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
				verified++
				if c := req.TLS.PeerCertificates; len(c) > 0 && string(c[0].Raw) == "stranger" {
					return nil, false, errors.New("unknown authority")
				}
				return bob, true, nil
			}))
			clock := testclock.NewFakePassiveClock(begin)
			r.clock = clock
			_, before, _ := r.AuthenticateRequest(tc.first)
			clock.SetTime(begin.Add(tc.after))
			_, after, _ := r.AuthenticateRequest(tc.later)
			if verified != tc.verified || before != after {
				t.Errorf("verified %d times, answers %v and %v; want %d times and the same answer: %s", verified, before, after, tc.verified, tc.why)
			}
		})
	}
}
