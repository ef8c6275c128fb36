package simnode

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// APIServerUser is the API server as a client of the kubelets: no other is
// answered, because it alone knows who may read which logs.
const APIServerUser = "kube-apiserver-kubelet-client"

// endpoint is where the API server reaches the kubelets of all simulated nodes.
type endpoint struct {
	// address is host:port; "" if there is none.
	address string
	// certFile and keyFile are the server's, clientCA vouches for the API server.
	certFile, keyFile, clientCA string
}

// port is the number in the address.
func (e endpoint) port() int32 {
	_, p, _ := net.SplitHostPort(e.address)
	n, _ := strconv.ParseUint(p, 10, 16)
	return int32(n)
}

// kubelets answers for all simulated nodes.
type kubelets struct{ s *simulator }

// server is the HTTPS server of the endpoint.
func (k kubelets) server(e endpoint) (*http.Server, error) {
	pem, err := os.ReadFile(e.clientCA)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the kubelets' clients: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", e.clientCA)
	}
	return &http.Server{
		Addr:              e.address,
		Handler:           fromAPIServer(k.handler()),
		ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs:  clients,
		},
	}, nil
}

// fromAPIServer answers the API server only.
func fromAPIServer(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 ||
			r.TLS.PeerCertificates[0].Subject.CommonName != APIServerUser {
			http.Error(w, "only the API server is answered", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (k kubelets) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	for path, what := range map[string]string{"exec": "run commands in", "run": "run commands in", "attach": "attach to", "portForward": "forward ports to"} {
		refuse := func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, fmt.Sprintf("pod %s/%s is on a simulated node: there is no process to %s%s",
				r.PathValue("namespace"), r.PathValue("pod"), what, k.became(r)), http.StatusNotImplemented)
		}
		mux.HandleFunc("/"+path+"/{namespace}/{pod}", refuse)
		mux.HandleFunc("/"+path+"/{namespace}/{pod}/{container}", refuse)
	}
	return mux
}

// became is what became of the container that a request is about, or of the first one.
func (k kubelets) became(r *http.Request) string {
	pod, ok := get[*corev1.Pod](k.s.pods, r.PathValue("namespace")+"/"+r.PathValue("pod"))
	if !ok || len(pod.Spec.Containers) == 0 {
		return ""
	}
	container := cmp.Or(r.PathValue("container"), pod.Spec.Containers[0].Name)
	t, err := transcribe(pod, container, k.s.scale, false)
	if err != nil {
		return ": " + err.Error()
	}
	told := make([]string, len(t.lines))
	for i, l := range t.lines {
		told[i] = l.text
	}
	return ". Of container " + container + " its logs say: " + strings.Join(told, "; ")
}

// logs writes what there is to tell of a container, and goes on while it runs if the
// caller follows.
func (k kubelets) logs(w http.ResponseWriter, r *http.Request) {
	key, container := r.PathValue("namespace")+"/"+r.PathValue("pod"), r.PathValue("container")
	q, err := readLogQuery(r.URL.Query(), k.s.clock.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	changed, stop, err := k.changesOf(key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer stop()
	first, told, begun := true, 0, int32(0)
	for {
		pod, ok := get[*corev1.Pod](k.s.pods, key)
		if !ok {
			if first {
				http.Error(w, fmt.Sprintf("pod %q not found", key), http.StatusNotFound)
			}
			return
		}
		if node, ok := get[*corev1.Node](k.s.nodes, pod.Spec.NodeName); !ok || !k.s.plays(node) {
			if first {
				http.Error(w, "node "+pod.Spec.NodeName+" does not answer: it is down", http.StatusServiceUnavailable)
			}
			return
		}
		if first {
			begun = runOf(pod, container)
		}
		// Of a container that was started again meanwhile, the run that was asked for is over.
		over := !q.previous && runOf(pod, container) != begun
		t, err := transcribe(pod, container, k.s.scale, q.previous || over)
		if err != nil {
			if first {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
			return
		}
		lines := t.lines
		if first {
			lines = q.choose(lines)
		} else {
			lines = lines[min(told, len(lines)):]
		}
		first, told = false, len(t.lines)
		if !q.write(w, lines) || !q.follow || t.ended || !await(r.Context(), changed) {
			return
		}
	}
}

// await waits for a change; false if the caller has gone.
func await(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// changesOf tells of changes of a pod until stop is called.
func (k kubelets) changesOf(key string) (changed <-chan struct{}, stop func(), err error) {
	c := make(chan struct{}, 1)
	note := func(o any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err != nil || name != key {
			return
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
	reg, err := k.s.pods.AddEventHandler(
		cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: note},
	)
	if err != nil {
		return nil, nil, fmt.Errorf("watch pod %s: %w", key, err)
	}
	return c, func() { _ = k.s.pods.RemoveEventHandler(reg) }, nil
}

// logQuery is what kubectl logs asks for.
type logQuery struct {
	follow, previous, timestamps bool
	since                        time.Time
	// tail is how many of the last lines, left how many bytes, -1 for all.
	tail, left int64
}

func readLogQuery(v url.Values, now time.Time) (*logQuery, error) {
	q := &logQuery{
		follow: v.Get(
			"follow",
		) == "true",
		previous:   v.Get("previous") == "true",
		timestamps: v.Get("timestamps") == "true",
		tail:       -1,
		left:       -1,
	}
	for name, to := range map[string]*int64{"tailLines": &q.tail, "limitBytes": &q.left} {
		if err := readNumber(v, name, to); err != nil {
			return nil, err
		}
	}
	seconds := int64(-1)
	if err := readNumber(v, "sinceSeconds", &seconds); err != nil {
		return nil, err
	}
	if seconds >= 0 {
		q.since = now.Add(-time.Duration(seconds) * time.Second)
	}
	if s := v.Get("sinceTime"); s != "" {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return nil, fmt.Errorf("sinceTime %q is no time", s)
		}
		q.since = t
	}
	return q, nil
}

func readNumber(v url.Values, name string, to *int64) error {
	s := v.Get(name)
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%s %q is no number", name, s)
	}
	*to = n
	return nil
}

// choose takes the lines that are asked for from all lines.
func (q *logQuery) choose(lines []logLine) []logLine {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l logLine) bool { return l.at.Before(q.since) })
	if q.tail >= 0 && int64(len(lines)) > q.tail {
		lines = lines[int64(len(lines))-q.tail:]
	}
	return lines
}

// write sends lines; false when no more are wanted.
func (q *logQuery) write(w http.ResponseWriter, lines []logLine) bool {
	for _, l := range lines {
		text := l.text + "\n"
		if q.timestamps {
			text = l.at.UTC().Format(time.RFC3339Nano) + " " + text
		}
		if q.left >= 0 && int64(len(text)) > q.left {
			text = text[:q.left]
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		if q.left >= 0 {
			if q.left -= int64(len(text)); q.left == 0 {
				return false
			}
		}
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	return true
}
