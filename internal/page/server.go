package page

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

//go:embed dist
var built embed.FS

// Options say who may look at the page, and who answers.
type Options struct {
	// Answer answers requests of a session for paths of the Kubernetes API, with the rights of its user.
	Answer func(Viewer) http.Handler
	// Hosts are the names, with their ports, by which the page may be asked for. A page of others whose name was made
	// to lead here asks by its own name, and is refused.
	Hosts []string
	// LogIn says who sent a token; it fails if the token is nobody's.
	LogIn func(token string) (Viewer, error)
	Clock clock.WithTicker
}

// Viewer is who looks at the page.
type Viewer struct {
	// Name is what the page calls them.
	Name string `json:"name"`
	// Cluster is what the page calls the cluster.
	Cluster string `json:"cluster"`
	// Until is when the session ends, whatever happens.
	Until time.Time `json:"until"`
}

// Server is the page.
type Server struct {
	options  Options
	sessions sessions
	routes   *http.ServeMux
}

// New returns the page, whose sessions end with a context. It fails if its files are not in the program.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{options: o, sessions: sessions{until: ctx, clock: o.Clock}, routes: http.NewServeMux()}
	files, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, fmt.Errorf("files of the page: %w", err)
	}
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("files of the page: %w", err)
	}
	s.routes.Handle("GET /assets/", cached(http.FileServerFS(files)))
	s.routes.Handle("GET /licenses.txt", http.FileServerFS(files))
	s.routes.HandleFunc("POST /session", s.logIn)
	s.routes.HandleFunc("DELETE /session", s.logOut)
	s.routes.HandleFunc("GET /session", s.withSession(func(w http.ResponseWriter, _ *http.Request, in *session) {
		write(w, http.StatusOK, in.viewer)
	}))
	s.routes.HandleFunc("GET /stream", s.withSession(s.stream))
	s.routes.HandleFunc("GET /apis/", s.withSession(s.ask))
	s.routes.HandleFunc("GET /api/", s.withSession(s.ask))
	s.routes.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(index)) // every address of the page is a screen
	})
	return s, nil
}

// policy of what the page may load: what it brings along, and nothing from elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request if it was sent to the page, and by the page where it changes something.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if !slices.Contains(s.options.Hosts, strings.ToLower(r.Host)) {
		refuse(
			w,
			http.StatusMisdirectedRequest,
			"this page is asked for by another name: "+strings.Join(s.options.Hosts, ", "),
		)
		return
	}
	if err := fromHere(r); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	s.routes.ServeHTTP(w, r)
}

// fromHere fails for a request that another page had the browser send, as far as the browser says so.
func fromHere(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" &&
		r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return errors.New("another page asked for this")
	}
	origin := r.Header.Get("Origin")
	if origin == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return nil
	}
	if _, host, _ := strings.Cut(origin, "://"); !strings.EqualFold(host, r.Host) {
		return errors.New("another page asked for this")
	}
	return nil
}

// mostTokenBytes bounds what is read of who logs in.
const mostTokenBytes = 4 << 10

func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostTokenBytes)).
		Decode(&said); err != nil ||
		said.Token == "" {
		refuse(w, http.StatusBadRequest, "token: is missing")
		return
	}
	viewer, err := s.options.LogIn(said.Token)
	if err != nil {
		refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	in, err := s.sessions.begin(viewer)
	if err != nil {
		refuse(w, http.StatusTooManyRequests, err.Error())
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // secure where there is TLS; loopback has none
		Name: cookie(
			r,
		),
		Value:    in.id,
		Path:     "/",
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
		Expires:  viewer.Until,
	})
	write(w, http.StatusOK, viewer)
}

func (s *Server) logOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookie(r)); err == nil {
		s.sessions.end(c.Value)
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // secure where there is TLS; loopback has none
		Name: cookie(
			r,
		),
		Path:     "/",
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   -1,
	})
	w.WriteHeader(http.StatusNoContent)
}

// cookie is the name of the one that a browser keeps. A browser has the same cookies for all ports of a host: pages of
// two clusters must not log each other out.
func cookie(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return strings.TrimSuffix("mlbatch-session-"+port, "-")
}

// withSession answers those who have logged in.
func (s *Server) withSession(then func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		c, err := r.Cookie(cookie(r))
		if err != nil {
			refuse(w, http.StatusUnauthorized, "log in first")
			return
		}
		in := s.sessions.of(c.Value)
		if in == nil {
			refuse(w, http.StatusUnauthorized, "the session has ended: log in again")
			return
		}
		then(w, r, in)
	}
}

// asked are the paths that a page may ask for besides its stream: what is behind one job, and the log of a pod.
var asked = regexp.MustCompile(
	`^(/apis/view\.mlbatch\.dev/v1alpha1/namespaces/` + name + `/jobviews/` + name + `(/explanation|/details)?` +
		`|/api/v1/namespaces/` + name + `/pods/` + name + `/log)$`,
)

// name is what objects are called.
const name = `[a-z0-9][a-z0-9.-]*`

// askedFor are the parameters that such a request may have.
func askedFor() []string {
	return []string{"container", "previous", "tailLines", "limitBytes", "timestamps"}
}

func (s *Server) ask(w http.ResponseWriter, r *http.Request, in *session) {
	if !asked.MatchString(r.URL.Path) {
		refuse(w, http.StatusNotFound, "the page has no such path")
		return
	}
	to := r.Clone(in.context(r.Context()))
	q := to.URL.Query()
	for parameter := range q {
		if !slices.Contains(askedFor(), parameter) {
			q.Del(parameter)
		}
	}
	to.URL.RawPath = "" // names need no escapes
	to.URL.RawQuery, to.Header = q.Encode(), http.Header{"Accept": {"application/json"}}
	s.options.Answer(in.viewer).ServeHTTP(w, to)
}

// cached lets a browser keep files whose names change with what is in them.
func cached(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		h.ServeHTTP(w, r)
	})
}

// problem is how a request is refused.
type problem struct {
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, code int, message string) { write(w, code, problem{message}) }

func write(w http.ResponseWriter, code int, o any) {
	text, err := json.Marshal(o)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // who asked is gone
}

// Loopback is the name by which a listener on this machine is asked.
func Loopback(l net.Listener) []string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return []string{"127.0.0.1:" + port} // the other names of this machine may lead to another program's port
}
