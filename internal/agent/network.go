package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Sockets reach other agents by their addresses, and prove who asks by a token that only agents accept.
type Sockets struct {
	Port int
	// Secure has them speak TLS, and trust the certificate whose sum the other's Node holds: that only the agent of
	// that node and administrators can write.
	Secure  bool
	Cluster Cluster
	// TokenFile holds the token. It is renewed by the kubelet.
	TokenFile string
}

func (s *Sockets) address(p Peer) string { return net.JoinHostPort(p.Address, strconv.Itoa(s.Port)) }

// Reach connects to an agent some times, which takes no right, and shows that the network of pods is well.
func (s *Sockets) Reach(ctx context.Context, p Peer) (sent, back int) {
	const times, patience = 3, 3 * time.Second
	d := net.Dialer{Timeout: patience}
	for range times {
		if ctx.Err() != nil {
			break
		}
		sent++
		if c, err := d.DialContext(ctx, "tcp", s.address(p)); err == nil {
			back++
			_ = c.Close() // nothing was written
		}
	}
	return sent, back
}

// client is one for an agent, and the address to ask.
func (s *Sockets) client(
	ctx context.Context,
	p Peer,
	path string,
	query url.Values,
) (*http.Client, string, error) {
	to := url.URL{Scheme: "http", Host: s.address(p), Path: path, RawQuery: query.Encode()}
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	if s.Secure {
		n, err := s.Cluster.Node(ctx, p.Node)
		if err != nil {
			return nil, "", err
		}
		sum := n.Annotations[CertificateNote]
		if sum == "" {
			return nil, "", errors.New("its Node does not tell which certificate its agent has")
		}
		to.Scheme = "https"
		t.TLSClientConfig = &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // the sum is compared instead
			VerifyConnection: func(c tls.ConnectionState) error {
				if len(c.PeerCertificates) == 0 || Sum(c.PeerCertificates[0].Raw) != sum {
					return errors.New("it shows another certificate than its Node tells")
				}
				return nil
			},
		}
	}
	return &http.Client{Transport: t}, to.String(), nil
}

// Sum is that of a certificate, as Nodes hold it.
func Sum(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ask sends a request to an agent.
func (s *Sockets) ask(
	ctx context.Context, verb string, p Peer, path string, query url.Values, body io.Reader,
) (string, error) {
	client, to, err := s.client(ctx, p, path, query)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, verb, to, body)
	if err != nil {
		return "", fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	if token, err := os.ReadFile(s.TokenFile); s.Secure && s.TokenFile != "" && err == nil {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the agent answers %s", answer.Status)
	}
	return string(text), nil
}

// sinkPath takes what is sent to it, and tells how much in which time.
const sinkPath = "/iperfsink"

// sendFor is how long one neighbour is sent to.
const sendFor = 3 * time.Second

// received is what a sink tells.
type received struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Speed sends to an agent for some seconds. What it tells is not believed beyond what was sent.
func (s *Sockets) Speed(ctx context.Context, p Peer) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, 3*sendFor)
	defer stop()
	began := time.Now()
	z := &zeros{until: began.Add(sendFor)}
	text, err := s.ask(ctx, http.MethodPost, p, sinkPath, nil, z)
	if err != nil {
		return 0, err
	}
	var got received
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	const giga = 1e9 / 8
	seconds := max(got.Seconds, sendFor.Seconds()/2)
	return float64(max(min(got.Bytes, z.sent.Load()), 0)) / seconds / giga, nil
}

// zeros are bytes to send until some time.
type zeros struct {
	until time.Time
	sent  atomic.Int64 // the client may still read when the answer is there
}

func (z *zeros) Read(p []byte) (int, error) {
	if time.Now().After(z.until) {
		return 0, io.EOF
	}
	clear(p)
	z.sent.Add(int64(len(p)))
	return len(p), nil
}
