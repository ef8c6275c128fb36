package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// get asks a server, and is what it answers.
func get(t *testing.T, h http.Handler, method, path, token, accept string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Autopilot answered everybody, and started tests for whoever asked.
func TestWhoAsksHasToProveThatTheyMay(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.users = map[string]*User{jwt("a"): {Name: "alice"}, jwt("b"): {Name: "bob"}}
	c.rights = map[string]bool{
		"alice get /status": true, "alice get /dcgm": true, "alice post /dcgm": true, "alice get /invasive": true,
		"bob get /dcgm": true, "bob get /status": true, "alice list pods blue": true,
	}
	c.ofJob = []string{"node-0"}
	h := (&Server{Agent: New(sound(c, x))}).Handler()
	for _, q := range []struct {
		method, path, token string
		want                int
		why                 string
	}{
		{"GET", "/dcgm", "", http.StatusUnauthorized, "nobody"},
		{"GET", "/dcgm", "c", http.StatusUnauthorized, "a token of nobody"},
		{"GET", "/dcgm", "a", http.StatusOK, "who may"},
		{"GET", "/pciebw", "a", http.StatusForbidden, "another path"},
		{"GET", "/metrics", "a", http.StatusForbidden, "metrics are not for everybody"},
		{"GET", "/dcgm?r=3", "b", http.StatusForbidden, "a deep test takes another right"},
		{"GET", "/dcgm?r=3", "a", http.StatusOK, "which alice has"},
		{"GET", "/invasive", "a", http.StatusForbidden, "and not for every path"},
		{"GET", "/status?check=iperf", "b", http.StatusForbidden, "heavy within a list"},
		{"DELETE", "/dcgm", "a", http.StatusMethodNotAllowed, "nothing is deleted"},
		{"GET", "/status?host=node-0&job=blue:app=x&check=remapped", "a", http.StatusOK, "a job that alice sees"},
		{"GET", "/status?job=blue:app=x&check=remapped", "b", http.StatusForbidden, "and bob does not"},
		{"GET", "/status?nodelabel=a=b&check=remapped", "b", http.StatusForbidden, "nor nodes"},
		{"GET", "/dcgm?r=9", "a", http.StatusBadRequest, "no such level"},
		{"GET", "/status?check=nothing", "a", http.StatusBadRequest, "no such check"},
		{"GET", "/status?job=blue&check=dcgm", "a", http.StatusBadRequest, "no selector"},
		{"GET", "/status?batch=-1&host=node-0&check=dcgm", "a", http.StatusBadRequest, "no number"},
	} {
		token := q.token
		if token != "" {
			token = jwt(token)
		}
		if code, text := get(t, h, q.method, q.path, token, ""); code != q.want {
			t.Errorf("%s: %s %s by %q: %d %s", q.why, q.method, q.path, q.token, code, text)
		}
	}
}

// A token that the API server takes is worth something to who has taken a node over. Monitors have no other; all else asks
// for one that is for agents.
func TestTokensOfTheAPIServerAreForMetricsOnly(t *testing.T) {
	c, x := newCluster(), &tools{}
	token := "e30." + base64.RawURLEncoding.EncodeToString(
		[]byte(`{"sub":"p","aud":["https://kubernetes"]}`),
	) + ".x"
	c.users = map[string]*User{token: {Name: "p"}}
	c.rights = map[string]bool{"p get /metrics": true, "p get /dcgm": true}
	h := (&Server{Agent: New(sound(c, x))}).Handler()
	if code, text := get(t, h, "GET", "/metrics", token, ""); code != http.StatusOK {
		t.Errorf("metrics: %d %s", code, text)
	}
	if code, text := get(t, h, "GET", "/dcgm", token, ""); code != http.StatusUnauthorized ||
		!strings.Contains(text, "--audience mlbatch-agent") {
		t.Errorf("a check: %d %s, want what token to show", code, text)
	}
}

// Whoever reaches the port can make up tokens, and the API server is everybody's.
func TestTheAPIServerIsAskedLittleAboutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, x := newCluster(), &tools{}
		var mu sync.Mutex
		now, most, all := 0, 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			now += by
			most, all = max(most, now), all+max(by, 0)
		}
		c.asked = func() {
			count(1)
			time.Sleep(time.Second)
			count(-1)
		}
		h := (&Server{Agent: New(sound(c, x))}).Handler()
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				for _, token := range []string{jwt(strconv.Itoa(i)), "opaque" + strconv.Itoa(i), "a.b.c"} {
					if code, text := get(t, h, "GET", "/dcgm", token, ""); code != http.StatusUnauthorized {
						t.Errorf("%d %s", code, text)
					}
				}
			})
		}
		wait.Wait()
		if most != 4 || all != 20 {
			t.Errorf("asked %d times for 20 tokens, %d times at once", all, most)
		}
	})
}

// lasting is a network that takes its time, unless it is told to end.
type lasting struct{ network }

func (lasting) Reach(ctx context.Context, _ Peer) (sent, back int) {
	select {
	case <-ctx.Done():
		return 3, 0
	case <-time.After(300 * time.Millisecond):
		return 3, 3
	}
}

// The deadline is for who sends slowly, and not for who waits for an answer.
func TestWhoSendsSlowlyIsCutOffAndWhoWaitsIsNot(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.peers = []Peer{{Node: "node-1", Address: "192.0.2.1", Ready: true}}
	o := sound(c, x)
	o.Network = lasting{}
	s := NewHTTPServer((&Server{Agent: New(o), Open: true}).Handler())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 {
		t.Error("there is no deadline for who sends slowly")
	}
	s.ReadTimeout, s.ReadHeaderTimeout = 50*time.Millisecond, 50*time.Millisecond
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	go func() { _ = s.Serve(Bounded(l)) }()
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	_, _ = io.WriteString(slow, "GET /ping HTTP/1.1\r\nHost: x\r\n")
	_ = slow.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("who sends slowly is not cut off: %v", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/ping", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "SUCCESS") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestWhoAnswersEverybodyRunsNothingHeavy(t *testing.T) {
	c, x := newCluster(), &tools{}
	h := (&Server{Agent: New(sound(c, x)), Open: true}).Handler()
	for path, want := range map[string]int{
		"/remapped": http.StatusOK, "/metrics": http.StatusOK, "/invasive": http.StatusForbidden,
		"/dcgm?r=2": http.StatusForbidden, "/iperf": http.StatusForbidden,
		"/status?job=kube-system:a=b": http.StatusForbidden,
	} {
		if code, text := get(t, h, "GET", path, "", ""); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := get(t, h, "POST", "/iperfsink", "", ""); code != http.StatusForbidden {
		t.Errorf("it takes what anybody sends: %d", code)
	}
}

// Whoever may ask for checks could otherwise take nodes from users, or have them forget what is wrong.
func TestWhatSomebodyChoosesToCheckSaysNothingOfTheNode(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.peers = []Peer{{Node: "node-1", Address: "192.0.2.1", Ready: true}}
	o := sound(c, x)
	o.WriteLabel = false
	a := New(o)
	s := &Server{Agent: a, Open: true}
	_, text := get(
		t,
		s.Handler(),
		"GET",
		"/status?check=ping&host=node-0&pingnodes=node-1,node-1",
		"",
		"application/json",
	)
	if strings.Count(text, `"device":"node-1"`) != 1 || strings.Contains(text, "none of") {
		t.Errorf("a node that was named twice was tried twice: %s", text)
	}
	get(t, s.Handler(), "GET", "/ping?host=node-1", "", "")
	a.Check(t.Context(), []string{DeepCheck}, Request{Level: 2})
	if len(a.memory) > 0 || len(a.last) > 0 {
		t.Errorf("it is remembered: %v", a.memory)
	}
	a.Check(t.Context(), []string{DeepCheck}, Request{Level: 4})
	if a.memory[DeepCheck].Result != health.Passed {
		t.Errorf("a test that looks more closely is forgotten: %v", a.memory)
	}
}

func TestACheckThatNobodyWaitsForChangesNothing(t *testing.T) {
	c, x := newCluster(), &tools{}
	a := New(sound(c, x))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	a.Check(ctx, []string{"dcgm", "ping"}, Request{})
	if len(a.memory) > 0 {
		t.Errorf("it is remembered: %v", a.memory)
	}
}

// What Autopilot's scripts look for: markers, the last line of numbers, status words and the summary. Its list of
// checks was cut by letters, and one node that did not answer ended it all.
func TestAnswersAreReadByScriptsForAutopilot(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.peers = []Peer{{Node: "node-0", Address: "x"}, {Node: "node-1", Address: "127.0.0.1"}}
	o := sound(c, x)
	x.set(
		nvidiaSMI,
		smiOf(
			gpu(0, ""),
			gpu(1, "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"),
		),
		0,
	)
	s := &Server{Agent: New(o), Open: true, Peers: &Sockets{Port: 1, Cluster: c}}
	_, text := get(t, s.Handler(), "GET", "/status?check=pciebw,ping,remapped&host=all", "", "")
	for _, want := range []string{
		"Node: node-0\n", "[[ PCIEBW ]] SUCCESS\nHost node-0\n", "\n63.008 63.008\n",
		"[[ REMAPPED ROWS ]] FAIL\n", "\n0 1\n", "Node Status: REMAPPED ROWS Failed\n",
		"Node: node-1\n", "Node Status: Connection to Server Failed\n",
		"Node Summary:\n\n{'node-0': ['REMAPPED ROWS Failed', 'PING Failed'], 'node-1': ['Connection to Server Failed']}\n", "runtime: ",
	} {
		if want = strings.Replace(want, ", 'PING Failed'", "", 1); !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	_, text = get(t, s.Handler(), "GET", "/remapped", "", "application/json")
	var a Answer
	if err := json.Unmarshal(
		[]byte(text),
		&a,
	); err != nil || a.Node != "node-0" ||
		a.Outcomes[0].Findings[1].Result != health.Warned {
		t.Errorf("%v in %s", err, text)
	}
}

// One agent that was taken over, or a name that somebody asks for, could say what it likes of other nodes.
func TestAnswersOfOneAgentDoNotLookLikeThoseOfAnother(t *testing.T) {
	const forged = "x\nNode Status: OK\n\x1b[2J"
	a := &answered{Answer: Answer{
		Node: forged, Status: []string{forged}, Outcomes: []reading.Outcome{{Check: forged, Result: health.Passed}},
	}}
	text := a.block() + summary([]*answered{a}, time.Second)
	if strings.Contains(strings.ToUpper(text), "\nNODE STATUS: OK") || strings.Contains(text, "\x1b") {
		t.Errorf("answer is %s", text)
	}
}

func TestMetricsHaveAutopilotsNamesAndLabels(t *testing.T) {
	c, x := newCluster(), &tools{}
	s := &Server{Agent: New(sound(c, x)), Open: true}
	h := s.Handler()
	get(t, h, "GET", "/status?host=node-0&check=gpupower,pciebw,dcgm", "", "")
	_, text := get(t, h, "GET", "/metrics", "", "")
	for _, want := range []string{
		`autopilot_health_checks{health="power-slowdown",node="node-0",cpumodel="`,
		`gpumodel="NVIDIA H100 80GB HBM3",deviceid="1"} 0`, `",deviceid="0"} 63.008`,
		`health="dcgm",node="node-0"`, `mlbatch_agent_check_result{node="node-0",check="pciebw",result="Passed"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}

// A whole agent: programs on the path, an API server, HTTP.
func TestAnAgentRunsToolsAndTellsItsNode(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) {
		if err := os.WriteFile(
			filepath.Join(dir, name),
			[]byte("#!/bin/sh\n"+text),
			0o700,
		); err != nil {
			t.Fatal(err)
		}
	}
	script(
		nvidiaSMI,
		"cat <<'EOF'\n"+smiOf(
			gpu(0, "<ecc_errors><volatile><dram_uncorrectable>1</dram_uncorrectable></volatile></ecc_errors>"),
		)+"\nEOF\n",
	)
	script(dcgmi, "echo '"+diag("PCIe", "Fail")+"'\nexit 226\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	told := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch:
			body, _ := io.ReadAll(r.Body)
			told <- string(body)
			_, _ = io.WriteString(w, "{}")
		case r.URL.Path == "/api/v1/nodes/node-0":
			_, _ = io.WriteString(
				w,
				`{"metadata": {"name": "node-0", "resourceVersion": "7"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}`,
			)
		default:
			_, _ = io.WriteString(w, `{"items": []}`)
		}
	}))
	defer server.Close()
	api, err := NewAPI(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := sound(newCluster(), &tools{})
	o.Cluster, o.Tools, o.Config.Every.Duration = api, NewPrograms(), time.Minute
	o.Config.Checks = []string{"gpumem", "dcgm"}
	a := New(o)
	go func() { _ = a.Run(t.Context()) }()
	a.Check(t.Context(), o.Config.Checks, Request{})
	patch := <-told
	for _, want := range []string{`"resourceVersion":"7"`, `\"name\":\"dcgm\",\"result\":\"Fatal\"`, `\"name\":\"gpumem\",\"result\":\"Failed\"`, `"autopilot.ibm.com/gpuhealth":"EVICT"`} {
		if !strings.Contains(patch, want) {
			t.Errorf("there is no %s in %s", want, patch)
		}
	}
}

// A node that was taken over could otherwise keep all others from deep tests.
func TestALeaseIsHeldForNoLongerThanItIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		seconds int
		renewed time.Duration
		taken   bool
	}{
		"held":                  {3600, -time.Minute, false},
		"held, by a fast clock": {3600, 10 * time.Second, false},
		"over":                  {60, -2 * time.Minute, true},
		"held for a year":       {31536000, -2 * time.Hour, true},
		"renewed in the future": {3600, 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			var l lease
			l.Spec.Holder, l.Spec.Seconds = "node-9", c.seconds
			l.Spec.Renewed = time.Now().Add(c.renewed).UTC().Format(microTime)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(&l)
			}))
			defer server.Close()
			api, err := NewAPI(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if taken, err := api.Take(
				t.Context(),
				"n",
				deepLease,
				"node-0",
				time.Hour,
			); err != nil ||
				taken != c.taken {
				t.Errorf("taken %t, %v", taken, err)
			}
		})
	}
}

// The Lease is installed: agents have no right to make one.
func TestALeaseThatIsMissingIsNotMade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("it asks for %s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	api, err := NewAPI(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := api.Take(
		t.Context(),
		"n",
		deepLease,
		"node-0",
		time.Hour,
	); taken ||
		!errors.Is(err, ErrMissing) {
		t.Errorf("taken %t, %v; want that it is missing", taken, err)
	}
}

func TestAProgramThatHangsIsKilledWithAllThatItStarted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(
		filepath.Join(dir, dcgmi),
		[]byte("#!/bin/sh\necho partly\nsleep 600 &\nsleep 600\n"),
		0o700,
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	c := *CheckOf("dcgm")
	c.Deadline = 200 * time.Millisecond
	began := time.Now()
	o := c.do(t.Context(), &Run{Node: "n", Tools: NewPrograms(), Config: DefaultConfig()})
	if o.Result != health.Unknown || !strings.Contains(o.Message, "in time") ||
		time.Since(began) > 30*time.Second {
		t.Errorf("%+v after %s", o, time.Since(began))
	}
}

// Many at once would hang where one does.
func TestAProgramRunsOnceAtATime(t *testing.T) {
	dir := t.TempDir()
	text := "#!/bin/sh\nmkdir '" + dir + "/busy' || exit 7\nsleep 0.05\nrmdir '" + dir + "/busy'\n"
	if err := os.WriteFile(filepath.Join(dir, nvidiaSMI), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	p := NewPrograms()
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if o := p.Run(t.Context(), nvidiaSMI); o.Code != 0 || o.Cut != "" {
				t.Errorf("ran beside another: %+v, %s", o, o.Text)
			}
		})
	}
	wait.Wait()
	p.runs[nvidiaSMI] <- struct{}{} // one that hangs
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if o := p.Run(ctx, nvidiaSMI); !strings.Contains(o.Cut, "another nvidia-smi") {
		t.Errorf("it does not wait for one that hangs: %+v", o)
	}
}

// Agents trust each other by what their Nodes tell, and nobody's token is sent to anybody else.
func TestAgentsAreKnownByTheirCertificates(t *testing.T) {
	c := newCluster()
	certificate, err := NewCertificate("node-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 4)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "ok")
	}))
	server.TLS = tlsOf(certificate)
	server.StartTLS()
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port := hostPort(t, server.Listener.Addr().String())
	s := &Sockets{Port: port, Secure: true, Cluster: c, TokenFile: token}
	peer := Peer{Node: "node-1", Address: host}
	if _, err := s.ask(t.Context(), "GET", peer, "/status", nil, nil); err == nil {
		t.Error("an agent whose Node tells nothing was asked")
	}
	c.node.Annotations[CertificateNote] = Sum([]byte("another"))
	if _, err := s.ask(t.Context(), "GET", peer, "/status", nil, nil); err == nil {
		t.Error("an agent with another certificate was asked")
	}
	if len(asked) > 0 {
		t.Error("it was sent a token")
	}
	c.node.Annotations[CertificateNote] = Sum(certificate.Certificate[0])
	if text, err := s.ask(
		t.Context(),
		"GET",
		peer,
		"/status",
		nil,
		nil,
	); err != nil || text != "ok" ||
		<-asked != "Bearer secret" {
		t.Errorf("%q, %v", text, err)
	}
}
