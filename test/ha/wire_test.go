package ha

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// encoded is what a kubeconfig has of a file or its content.
func encoded(data []byte, file string) string {
	if len(data) == 0 {
		data, _ = os.ReadFile(file) // without it nobody gets in, which is seen
	}
	return base64.StdEncoding.EncodeToString(data)
}

// line is the way of one controller to the API server. It can be cut, as a network is: what is on
// its way hangs. And it can hold one request that has been sent, as networks and stopped
// processes do, and let it arrive later, whatever has become of its sender.
type line struct {
	server *http.Server
	ln     net.Listener

	mu   sync.Mutex
	cut  chan struct{} // nil while whole
	hold func(*http.Request) bool
	held *held
}

// held is a request that is held.
type held struct {
	arrived, release chan struct{}
	// answer is what the API server said in the end.
	answer chan int
}

func newLine(t testing.TB, cfg *rest.Config) *line {
	t.Helper()
	rt, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{ln: ln}
	through := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     rt,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	l.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			h := l.holds(req)
			if h == nil {
				through.ServeHTTP(w, req)
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			late := req.Clone(context.WithoutCancel(req.Context()))
			close(h.arrived)
			<-h.release
			h.answer <- deliver(rt, to, late, body)
		}),
	}
	go func() { _ = l.server.Serve(gated{ln, l}) }() // it ends with the test
	t.Cleanup(func() {
		l.heal()
		_ = l.server.Close()
	})
	return l
}

// deliver sends a request that was held, and returns the status of the answer.
func deliver(rt http.RoundTripper, to *url.URL, req *http.Request, body []byte) int {
	out, err := http.NewRequestWithContext(
		req.Context(),
		req.Method,
		to.String()+req.URL.RequestURI(),
		bytes.NewReader(body),
	)
	if err != nil {
		return 0
	}
	out.Header = req.Header.Clone()
	resp, err := rt.RoundTrip(out)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (l *line) address() string { return l.ln.Addr().String() }

// capture holds the next request that matches.
func (l *line) capture(match func(*http.Request) bool) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &held{arrived: make(chan struct{}), release: make(chan struct{}), answer: make(chan int, 1)}
	l.hold, l.held = match, h
	return h
}

func (l *line) holds(req *http.Request) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold == nil || !l.hold(req) {
		return nil
	}
	h := l.held
	l.hold, l.held = nil, nil
	return h
}

// sever cuts the line, heal mends it.
func (l *line) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = make(chan struct{})
	}
}

func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		close(l.cut)
		l.cut = nil
	}
}

func (l *line) pass() {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if cut != nil {
		<-cut
	}
}

// gated are the connections of a line.
type gated struct {
	net.Listener
	line *line
}

func (g gated) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	return gatedConn{c, g.line}, err
}

type gatedConn struct {
	net.Conn
	line *line
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.line.pass()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.line.pass()
	return c.Conn.Write(b)
}

// balancer is what a Service of the controllers is in a cluster: new connections go to one that says that it
// is ready, as far as that has got about.
type balancer struct {
	ln net.Listener
	// to is the port of a controller that connections go to.
	to func(order) int

	mu    sync.Mutex
	all   []order
	ready map[int]bool // by port
	next  int
	// open are the connections that there are, with the ports to which they lead.
	open map[net.Conn]int
}

// hearsay is how long it takes until it is known that a controller is ready, or is not.
const hearsay = 200 * time.Millisecond

func newBalancer(t testing.TB, to func(order) int) *balancer {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{ln: ln, to: to, ready: map[int]bool{}, open: map[net.Conn]int{}}
	go b.look(t.Context())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go b.connect(t.Context(), c)
		}
	}()
	t.Cleanup(func() { _ = ln.Close() })
	return b
}

func (b *balancer) address() string { return b.ln.Addr().String() }

func (b *balancer) port() int { return b.ln.Addr().(*net.TCPAddr).Port }

func (b *balancer) add(o order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, o)
}

// spare sends nothing more to a controller, by connections either that lead to it already: the API server keeps those
// by which it asked whether the controller answers.
func (b *balancer) spare(o order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(slices.Clone(b.all), func(other order) bool { return other == o })
	for c, port := range b.open {
		if port == b.to(o) {
			_ = c.Close()
		}
	}
}

func (b *balancer) look(ctx context.Context) {
	tick := time.NewTicker(hearsay)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		all := b.all
		b.mu.Unlock()
		for _, o := range all {
			is := ready(ctx, o.Health) == nil
			b.mu.Lock()
			b.ready[b.to(o)] = is
			b.mu.Unlock()
		}
	}
}

// pick is the port of the next controller that is ready; 0 if none is.
func (b *balancer) pick() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.all {
		b.next++
		if port := b.to(b.all[b.next%len(b.all)]); b.ready[port] {
			return port
		}
	}
	return 0
}

func (b *balancer) connect(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	port := b.pick()
	if port == 0 {
		return
	}
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	b.mu.Lock()
	b.open[from] = port
	spared := !slices.ContainsFunc(b.all, func(o order) bool { return b.to(o) == port }) // meanwhile
	b.mu.Unlock()
	if spared {
		_ = from.Close()
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, from)
	}()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); closeWrite(to) })
	both.Go(func() { _, _ = io.Copy(from, to); closeWrite(from) })
	both.Wait()
}

func closeWrite(c net.Conn) {
	if t, is := c.(*net.TCPConn); is {
		_ = t.CloseWrite()
	}
}
