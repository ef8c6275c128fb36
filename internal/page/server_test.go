package page

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// stage is a page on a server, with one token and a cluster that is a function.
type stage struct {
	*httptest.Server
	token string
	mu    sync.Mutex
	asked []string
}

func (s *stage) was() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func open(t *testing.T, cluster http.HandlerFunc) *stage {
	t.Helper()
	s := &stage{}
	once := NewOnce(time.Now())
	s.token = once.Token()
	as := Viewer{Name: "alice", Cluster: "here"}
	p, err := New(t.Context(), Options{
		Answer: func(v Viewer) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				s.asked = append(s.asked, v.Name+" "+r.URL.String())
				s.mu.Unlock()
				cluster(w, r)
			})
		},
		LogIn: once.LogIn(as, time.Hour, time.Now),
		Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.options.Hosts = Loopback(s.Listener)
	return s
}

// answer is what a browser gets.
type answer struct {
	Code    int
	Header  http.Header
	Cookies []*http.Cookie
	Body    io.Reader
}

// ask sends a request with headers, "Name: value" each, and returns the answer.
func (s *stage) ask(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	out, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Body.Close() })
	return answer{out.StatusCode, out.Header, out.Cookies(), out.Body}
}

// logIn returns the header that a browser sends once it has logged in.
func (s *stage) logIn(t *testing.T) string {
	t.Helper()
	r := s.ask(t, http.MethodPost, "/session", `{"token":"`+s.token+`"}`, "Origin: "+s.URL)
	if r.Code != http.StatusOK || len(r.Cookies) != 1 {
		t.Fatalf("log in: %d, %v", r.Code, r.Cookies)
	}
	c := r.Cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("a script or another page can have the cookie: %v", c)
	}
	return "Cookie: " + c.Name + "=" + c.Value
}

func nothing(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }

func TestATokenIsForOneBrowser(t *testing.T) {
	t.Parallel()
	s := open(t, nothing)
	in := s.logIn(t)
	if r := s.ask(
		t,
		http.MethodPost,
		"/session",
		`{"token":"`+s.token+`"}`,
		"Origin: "+s.URL,
	); r.Code != http.StatusUnauthorized {
		t.Errorf("the token again: %d", r.Code)
	}
	if r := s.ask(t, http.MethodGet, "/session", "", in); r.Code != http.StatusOK {
		t.Errorf("who has logged in: %d", r.Code)
	}
	if r := s.ask(
		t,
		http.MethodDelete,
		"/session",
		"",
		in,
		"Origin: "+s.URL,
	); r.Code != http.StatusNoContent {
		t.Errorf("log out: %d", r.Code)
	}
	if r := s.ask(t, http.MethodGet, "/session", "", in); r.Code != http.StatusUnauthorized {
		t.Errorf("who has logged out: %d", r.Code)
	}
}

func TestWhatIsNotAskedByThePageIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nothing)
	in := s.logIn(t)
	job := "/apis/view.mlbatch.dev/v1alpha1/namespaces/blue/jobviews/job.train"
	for _, c := range []struct {
		why, method, path string
		headers           []string
		want              int
	}{
		{"the page asks", http.MethodGet, job, []string{in, "Sec-Fetch-Site: same-origin"}, 200},
		{"a page whose name was made to lead here", http.MethodGet, job, []string{in, "Host: evil.example"}, 421},
		{"another page's script", http.MethodGet, job, []string{in, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"}, 403},
		{"another page's stream", http.MethodGet, "/stream?lists=jobs", []string{in, "Origin: http://evil.example"}, 403},
		{"another page logs somebody out", http.MethodDelete, "/session", []string{in, "Origin: http://evil.example"}, 403},
		{"a write that does not say where it is from", http.MethodDelete, "/session", []string{in}, 403},
		{"a link from elsewhere leads to a screen", http.MethodGet, "/jobs", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 200},
		{"nobody has logged in", http.MethodGet, job, nil, 401},
		{"a session that was made up", http.MethodGet, job, []string{strings.SplitAfter(in, "=")[0] + "AAAA"}, 401},
		{"secrets", http.MethodGet, "/api/v1/namespaces/blue/secrets", []string{in}, 404},
		{"a way out of the paths", http.MethodGet, "/api/v1/namespaces/blue/pods/p/log/../../../secrets/s", []string{in}, 404},
		{"the name of a pod with a slash", http.MethodGet, "/api/v1/namespaces/blue/pods/..%2f..%2fsecrets/log", []string{in}, 404},
		{"a name that is none", http.MethodGet, "/api/v1/namespaces/blue/pods/.../log", []string{in}, 404},
		{"a write to the cluster", http.MethodPost, job, []string{in, "Origin: " + s.URL}, 405},
		{"a list that is none", http.MethodGet, "/stream?lists=secrets", []string{in}, 400},
	} {
		r := s.ask(t, c.method, c.path, "", c.headers...)
		if r.Code != c.want {
			t.Errorf("%s: %d, want %d", c.why, r.Code, c.want)
		}
		if r.Header.Get("Content-Security-Policy") != policy ||
			r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers that guard a page are missing: %v", c.why, r.Header)
		}
	}
	if d := cmp.Diff([]string{"alice " + job}, s.was()); d != "" {
		t.Errorf("what the cluster was asked (-want +got):\n%s", d)
	}
}

func TestTheClusterIsToldNothingOfTheBrowser(t *testing.T) {
	t.Parallel()
	var got http.Header
	s := open(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header; fmt.Fprint(w, "log") })
	in := s.logIn(t)
	s.ask(
		t,
		http.MethodGet,
		"/api/v1/namespaces/blue/pods/p/log?tailLines=5&follow=true&insecureSkipTLSVerifyBackend=true",
		"",
		in,
		"Authorization: Bearer stolen",
		"Impersonate-User: admin",
	)
	if d := cmp.Diff(http.Header{"Accept": {"application/json"}}, got); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"alice /api/v1/namespaces/blue/pods/p/log?tailLines=5"}, s.was()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// events reads a stream.
func events(t *testing.T, r answer) func() (name string, c change) {
	t.Helper()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, mostObjectBytes)
	return func() (name string, c change) {
		for lines.Scan() {
			if n, is := strings.CutPrefix(lines.Text(), "event: "); is {
				name = n
			}
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := json.Unmarshal([]byte(text), &c); err != nil {
					t.Fatal(err)
				}
				if name != "alive" {
					return name, c
				}
			}
		}
		return "", c
	}
}

func TestAStreamTellsAllAndThenWhatChanges(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		for _, line := range []string{
			`{"type":"ADDED","object":{"metadata":{"namespace":"blue","name":"a"},"n":1}}`,
			`{"type":"ADDED","object":{"metadata":{"namespace":"blue","name":"b"},"n":1}}`,
			`{"type":"BOOKMARK","object":{"metadata":{}}}`,
		} {
			fmt.Fprintln(w, line)
		}
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
			case <-r.Context().Done():
				return
			}
		}
	})
	r := s.ask(t, http.MethodGet, "/stream?lists=jobs", "", s.logIn(t))
	read := events(t, r)
	want := func(c change) {
		t.Helper()
		name, got := read()
		if d := cmp.Diff(c, got); name != "change" || d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	a := json.RawMessage(`{"metadata":{"namespace":"blue","name":"a"},"n":1}`)
	b := json.RawMessage(`{"metadata":{"namespace":"blue","name":"b"},"n":1}`)
	want(change{List: "jobs", All: true, Set: []json.RawMessage{a, b}})
	a2 := json.RawMessage(`{"metadata":{"namespace":"blue","name":"a"},"n":3}`)
	next <- `{"type":"MODIFIED","object":{"metadata":{"namespace":"blue","name":"a"},"n":2}}`
	next <- `{"type":"MODIFIED","object":` + string(a2) + `}`
	next <- `{"type":"DELETED","object":{"metadata":{"namespace":"blue","name":"b"}}}`
	want(change{List: "jobs", Set: []json.RawMessage{a2}, Gone: []string{"blue/b"}})
}

func TestAnAnswerThatBreaksOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`)
		panic(http.ErrAbortHandler)
	})
	_, got := events(t, s.ask(t, http.MethodGet, "/stream?lists=nodes", "", s.logIn(t)))()
	if d := cmp.Diff(change{List: "nodes", Lost: "the controller does not answer"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAListThatMayNotBeReadIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","message":"alice may not list nodes"}`)
	})
	_, got := events(t, s.ask(t, http.MethodGet, "/stream?lists=nodes", "", s.logIn(t)))()
	if d := cmp.Diff(change{List: "nodes", All: true, Refused: "alice may not list nodes"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	s := open(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	in := s.logIn(t)
	r := s.ask(t, http.MethodGet, "/stream?lists=jobs,nodes", "", in)
	s.ask(t, http.MethodDelete, "/session", "", in, "Origin: "+s.URL)
	if _, err := io.ReadAll(r.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestOneBrowserHasSoManyStreams(t *testing.T) {
	t.Parallel()
	s := open(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	in := s.logIn(t)
	for i := range mostStreams + 1 {
		want := http.StatusOK
		if i == mostStreams {
			want = http.StatusTooManyRequests
		}
		if r := s.ask(t, http.MethodGet, "/stream?lists=jobs", "", in); r.Code != want {
			t.Errorf("stream %d: %d", i+1, r.Code)
		}
	}
}

func TestASessionEndsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sessions{until: t.Context(), clock: clock.RealClock{}}
		in, err := all.begin(Viewer{Until: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Second)
		if all.of(in.id) == nil {
			t.Error("it ended early")
		}
		time.Sleep(time.Second)
		if all.of(in.id) != nil || in.ended.Err() == nil {
			t.Error("it goes on")
		}
	})
}

func TestATokenIsGoodForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := NewOnce(time.Now())
		logIn := once.LogIn(Viewer{Name: "alice"}, time.Hour, time.Now)
		time.Sleep(TokenLasts)
		if _, err := logIn(once.Token()); err == nil {
			t.Error("an old token is good")
		}
		later := NewOnce(time.Now())
		time.Sleep(TokenLasts - time.Second)
		v, err := later.LogIn(Viewer{Name: "alice"}, time.Hour, time.Now)(later.Token())
		if err != nil || !v.Until.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%v until %s", err, v.Until)
		}
	})
}

func TestWhatIsSentToLogInIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, nothing)
	for why, body := range map[string]string{
		"large": `{"token":"` + strings.Repeat("A", mostTokenBytes) + `"}`, "none": `{}`, "no JSON": `token`,
	} {
		if r := s.ask(
			t,
			http.MethodPost,
			"/session",
			body,
			"Origin: "+s.URL,
		); r.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", why, r.Code)
		}
	}
	s.logIn(t) // the token is as good as before
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	all := sessions{until: t.Context(), clock: clock.RealClock{}}
	for range mostSessions {
		if _, err := all.begin(Viewer{Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.begin(Viewer{Until: time.Now().Add(time.Hour)}); err == nil {
		t.Error("there is no end of sessions")
	}
}

// Whoever reads slowly holds up nobody: a stream has a pipe of its own to the cluster, and ends when what was sent is
// not taken in time.
func TestASlowViewerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil && i < 8; i++ {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"n%d"},"x":%q}}`+"\n", i, large)
		}
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{}}}`)
		<-r.Context().Done()
	})
	in := s.logIn(t)
	s.ask(t, http.MethodGet, "/stream?lists=jobs", "", in) // nobody reads it
	name, c := events(t, s.ask(t, http.MethodGet, "/stream?lists=nodes", "", in))()
	if name != "change" || len(c.Set) != 8 {
		t.Errorf("%s with %d views", name, len(c.Set))
	}
}
