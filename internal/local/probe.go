package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/mlbatch/mlbatch/internal/local/pki"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// probe says why a component is not healthy.
type probe func(ctx context.Context) error

// httpProbe asks a health endpoint.
func httpProbe(address string, conf *tls.Config) probe {
	shown := address // what is told goes to people and logs, without a password
	if u, err := url.Parse(address); err == nil {
		shown = u.Redacted()
	}
	cl := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, MaxIdleConns: 1}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask %s: %w", shown, err)
		}
		resp, err := cl.Do(req)
		if err != nil {
			return fmt.Errorf("%w: %w", supervise.ErrSilent, err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
		if err != nil {
			return fmt.Errorf("ask %s: %w", shown, err)
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s says %s%s", shown, resp.Status, failedChecks(string(body)))
		}
		return nil
	}
}

// failedChecks picks the failed lines of a Kubernetes health report.
func failedChecks(body string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return ": " + strings.Join(failed, ", ")
}

// clientTLS is for a server whose certificate a signed, as the owner of pair.
func clientTLS(a *pki.Authority, pair pki.Pair) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("load a client certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
