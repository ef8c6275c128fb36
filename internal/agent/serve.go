package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// Audience is that of tokens by which agents ask each other. They are worth nothing at the API server.
const Audience = "mlbatch-agent"

// Paths are those that rights can be given for. To get one runs light checks; what is heavy takes the right to post
// it as well.
func Paths() []string {
	out := []string{"/status", "/metrics", sinkPath}
	for _, n := range CheckNames() {
		out = append(out, "/"+n)
	}
	slices.Sort(out)
	return out
}

// Server answers by HTTP.
type Server struct {
	Agent *Agent
	Peers *Sockets
	// Open answers everybody, as Autopilot does, and runs nothing heavy.
	Open bool

	mu    sync.Mutex
	known map[string]decided
	// sinks has room for as many senders as one node takes at once.
	sinks chan struct{}
	// reviews has room for as many questions about tokens as are asked at once: whoever reaches the port can make up
	// tokens.
	reviews chan struct{}
}

// decided is what the API server said of a token and a right, for a while.
type decided struct {
	user *User
	at   time.Time
	may  map[Action]bool
}

// Handler answers what is asked about checks and metrics.
func (s *Server) Handler() http.Handler {
	const senders, questions = 2, 4
	s.known, s.sinks, s.reviews = map[string]decided{}, make(
		chan struct{},
		senders,
	), make(
		chan struct{},
		questions,
	)
	mux := http.NewServeMux()
	mux.HandleFunc("/status", s.guarded(s.status))
	mux.HandleFunc("GET "+metricsPath, s.guarded(s.metrics))
	mux.HandleFunc("POST "+sinkPath, s.guarded(s.sink))
	for _, name := range CheckNames() {
		mux.HandleFunc("/"+name, s.guarded(func(w http.ResponseWriter, r *http.Request, u *User) {
			s.single(w, r, u, name)
		}))
	}
	for _, gone := range []string{"/iperfservers", "/iperfstopservers", "/iperfclients"} {
		mux.HandleFunc(gone, s.guarded(func(w http.ResponseWriter, _ *http.Request, _ *User) {
			http.Error(w, "there are no servers to start and stop: GET /iperf measures", http.StatusGone)
		}))
	}
	return mux
}

// Alive answers kubelets, who prove nothing. Who answers is ready: an API server that is out of reach is no reason
// to take an agent away.
func Alive() http.Handler {
	mux := http.NewServeMux()
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body) // who asked may have gone
		}
	}
	mux.HandleFunc("/healthz", answer(http.StatusOK, "ok"))
	mux.HandleFunc("/readyz", answer(http.StatusOK, "ok"))
	mux.HandleFunc("/readinessprobe", answer(http.StatusCreated, `{"Name":"readinessProbe","Body":"ready"}`))
	return mux
}

// guarded asks the API server who somebody is, and whether they may.
func (s *Server) guarded(next func(http.ResponseWriter, *http.Request, *User)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodPost {
			http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
			return
		}
		if s.Open {
			unhurried(w)
			next(w, r, nil)
			return
		}
		if forAll(tokenOf(r)) && r.URL.Path != metricsPath {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(
				w,
				"this token is worth something at the API server as well, and a node that was taken over could use "+
					"it there: show one of kubectl create token ACCOUNT --audience "+Audience,
				http.StatusUnauthorized,
			)
			return
		}
		u, err := s.who(r)
		switch {
		case err != nil:
			http.Error(w, "the API server does not say who you are", http.StatusServiceUnavailable)
			return
		case u == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "say who you are: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		if !s.may(r, u, Action{Verb: strings.ToLower(r.Method), Path: r.URL.Path}) {
			http.Error(w, fmt.Sprintf("%s may not %s %s", u.Name, strings.ToLower(r.Method), r.URL.Path),
				http.StatusForbidden)
			return
		}
		unhurried(w)
		next(w, r, u)
	}
}

// believed is for how long an answer of the API server counts.
const believed = 30 * time.Second

func tokenOf(r *http.Request) string {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return ""
	}
	return strings.TrimSpace(token)
}

func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// who is the user of a request, nil if it is nobody.
func (s *Server) who(r *http.Request) (*User, error) {
	const longest = 16 << 10
	token := tokenOf(r)
	claims, is := claimsOf(token)
	if !is || len(token) > longest {
		return nil, nil //nolint:nilnil // nobody is no error
	}
	key := keyOf(token)
	s.mu.Lock()
	d, known := s.known[key]
	s.mu.Unlock()
	if known && time.Since(d.at) < believed {
		return d.user, nil
	}
	var audiences []string
	if forAgents(claims) {
		audiences = []string{Audience}
	}
	select {
	case s.reviews <- struct{}{}:
		defer func() { <-s.reviews }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	u, err := s.Agent.opts.Cluster.Who(r.Context(), token, audiences)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 256
	if len(s.known) >= most {
		clear(s.known)
	}
	s.known[key] = decided{u, time.Now(), map[Action]bool{}}
	return u, nil
}

// claimsOf is what a token says of itself, if it is one of the API server's, a JWT. It is not believed: others are
// not worth a question.
func claimsOf(token string) ([]byte, bool) {
	parts := strings.Split(token, ".")
	const jwt = 3
	if len(parts) != jwt {
		return nil, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return text, err == nil && json.Valid(text)
}

// forAgents reports whether a token says that it is for agents. It is not believed: it only says how to ask.
func forAgents(claims []byte) bool {
	var one struct {
		Audience string `json:"aud"`
	}
	var several struct {
		Audiences []string `json:"aud"`
	}
	return json.Unmarshal(claims, &one) == nil && one.Audience == Audience ||
		json.Unmarshal(claims, &several) == nil && slices.Contains(several.Audiences, Audience)
}

// metricsPath is what monitors ask for, which show all they ask the same token. For anything else a token has to be made
// for agents.
const metricsPath = "/metrics"

// forAll reports whether a token is one of the API server's that is not for agents.
func forAll(token string) bool {
	claims, is := claimsOf(token)
	return is && !forAgents(claims)
}

// may asks the API server whether a user may do something; what it does not answer is forbidden.
func (s *Server) may(r *http.Request, u *User, what Action) bool {
	if s.Open {
		return what.Verb == "get"
	}
	key := keyOf(tokenOf(r))
	s.mu.Lock()
	d, known := s.known[key]
	allowed, asked := d.may[what]
	s.mu.Unlock()
	if known && asked {
		return allowed
	}
	allowed, err := s.Agent.opts.Cluster.May(r.Context(), u, what)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, known := s.known[key]; known && len(d.may) < 64 {
		d.may[what] = allowed
	}
	return allowed
}

// refused is a mistake of who asks.
type refused struct {
	code int
	text string
}

func (e *refused) Error() string { return e.text }

func bad(format string, args ...any) error {
	return &refused{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// asked is what checks a request wants, and how.
func (s *Server) asked(r *http.Request, u *User, names []string) (Request, []string, error) {
	var q Request
	values := r.URL.Query()
	if level := values.Get("r"); level != "" {
		n, err := strconv.Atoi(level)
		if err != nil || n < 1 || n > 4 {
			return q, nil, bad("r=%s: must be 1, 2, 3 or 4, the level of dcgmi diag", reading.Readable(level, 20))
		}
		if n > 1 {
			q.Level = n
		}
	}
	var out []string
	for _, name := range names {
		// Scripts of Autopilot name options beside checks.
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		switch c := CheckOf(name); {
		case name == "all":
			out = append(out, s.Agent.opts.Config.Checks...)
		case name == "dcgm" && q.Level > 1:
			out = append(out, DeepCheck)
		case c == nil:
			return q, nil, bad("check=%s: there is no such check; there are %s, and all",
				reading.Readable(name, 40), strings.Join(CheckNames(), ", "))
		default:
			out = append(out, name)
		}
	}
	for _, name := range out {
		c := CheckOf(name)
		if (c.Heavy || c.Deep) && !s.may(r, u, Action{Verb: "post", Path: r.URL.Path}) {
			why := "it takes the right to post " + r.URL.Path
			if s.Open {
				why = "an agent that answers everybody does not run it"
			}
			return q, nil, &refused{http.StatusForbidden, name + " is heavy: " + why}
		}
	}
	return q, out, nil
}

// fail answers a mistake.
func fail(w http.ResponseWriter, err error) {
	if r, is := errors.AsType[*refused](err); is {
		http.Error(w, r.text, r.code)
		return
	}
	http.Error(w, reading.Readable(err.Error(), 300), http.StatusServiceUnavailable)
}

// Answer is what was found on one node, for programs.
type Answer struct {
	Node     string            `json:"node"`
	Status   []string          `json:"status"`
	Outcomes []reading.Outcome `json:"checks,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// mostTargets bounds the nodes that one node tries to reach because somebody asked.
const mostTargets = 64

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// longest bounds how long somebody may wait for an answer.
const longestAnswer = 30 * time.Minute

// single runs one check on this node.
func (s *Server) single(w http.ResponseWriter, r *http.Request, u *User, name string) {
	ctx, stop := context.WithTimeout(r.Context(), longestAnswer)
	defer stop()
	q, names, err := s.asked(r, u, []string{name})
	if err != nil {
		fail(w, err)
		return
	}
	if name == "ping" || name == "iperf" {
		q.Hosts, err = s.hosts(ctx, r, u, "")
		if err == nil && len(q.Hosts) > mostTargets {
			err = bad("%d nodes are to be reached from one: name %d at most", len(q.Hosts), mostTargets)
		}
		if err != nil {
			fail(w, err)
			return
		}
	}
	outcomes := s.Agent.Check(ctx, names, q)
	node := s.Agent.opts.Node
	if wantsJSON(r) {
		writeJSON(w, Answer{Node: node, Status: status(outcomes), Outcomes: outcomes})
		return
	}
	for i := range outcomes {
		_, _ = io.WriteString(w, Text(node, &outcomes[i])) // who asked may have gone
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // who asked may have gone
}

// hosts are the nodes that a request is about: those that it lists, those of a job and those with a label, together.
// nil is none in particular.
func (s *Server) hosts(ctx context.Context, r *http.Request, u *User, otherwise string) ([]string, error) {
	values := r.URL.Query()
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if n = strings.TrimSpace(n); n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	job, label, host := values.Get("job"), values.Get("nodelabel"), values.Get("host")
	if host == "" && job == "" && label == "" {
		host = otherwise
	}
	if host != "all" {
		add(strings.Split(host, ",")...)
	}
	if host == "all" && otherwise != "" {
		agents, err := s.Agent.opts.Cluster.Agents(ctx, s.Agent.opts.Namespace)
		if err != nil {
			return nil, err
		}
		for _, p := range agents {
			add(p.Node)
		}
		add(s.Agent.opts.Node)
	}
	if job != "" {
		namespace, selector, two := strings.Cut(job, ":")
		if !two || !strings.Contains(selector, "=") {
			return nil, bad("job=%s: must be NAMESPACE:KEY=VALUE, the namespace and a label of its pods",
				reading.Readable(job, 100))
		}
		// What the agent may see is no reason to show it.
		if !s.may(r, u, Action{Verb: "list", Resource: "pods", Namespace: namespace}) {
			return nil, &refused{http.StatusForbidden, "you may not list pods in namespace " + namespace}
		}
		names, err := s.Agent.opts.Cluster.NodesOf(ctx, namespace, selector)
		if err != nil {
			return nil, err
		}
		add(names...)
	}
	if label != "" {
		if !s.may(r, u, Action{Verb: "list", Resource: "nodes"}) {
			return nil, &refused{http.StatusForbidden, "you may not list nodes"}
		}
		names, err := s.Agent.opts.Cluster.NodesLike(ctx, label)
		if err != nil {
			return nil, err
		}
		add(names...)
	}
	slices.Sort(out)
	return out, nil
}

// eachOnce are names without those that are empty or were there before.
func eachOnce(names []string) []string {
	var out []string
	for _, n := range names {
		if n = strings.TrimSpace(n); n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// status runs checks on this node and others.
func (s *Server) status(w http.ResponseWriter, r *http.Request, u *User) {
	began := time.Now()
	ctx, stop := context.WithTimeout(r.Context(), longestAnswer)
	defer stop()
	values := r.URL.Query()
	checks := values.Get("check")
	if checks == "" {
		checks = "all"
	}
	q, names, err := s.asked(r, u, strings.Split(checks, ","))
	if err != nil {
		fail(w, err)
		return
	}
	hosts, err := s.hosts(ctx, r, u, "all")
	if err != nil {
		fail(w, err)
		return
	}
	if text := values.Get("pingnodes"); text != "" && text != "all" {
		q.Hosts = eachOnce(strings.Split(text, ","))
	}
	if len(q.Hosts) > mostTargets {
		fail(w, bad("pingnodes has %d nodes: name %d at most", len(q.Hosts), mostTargets))
		return
	}
	batch, err := strconv.Atoi(values.Get("batch"))
	if text := values.Get("batch"); text != "" && (err != nil || batch < 0) {
		fail(w, bad("batch=%s: must be a number of nodes, 0 for all at once", reading.Readable(text, 20)))
		return
	}
	const most = 64
	if batch == 0 || batch > most {
		batch = most // so many connections are enough for one process
	}
	answers := s.fanOut(ctx, hosts, batch, names, q)
	if wantsJSON(r) {
		writeJSON(w, answers)
		return
	}
	for i := range answers {
		_, _ = io.WriteString(w, answers[i].block()) // who asked may have gone
	}
	_, _ = io.WriteString(w, summary(answers, time.Since(began))) // who asked may have gone
}

// answered is an Answer with where it is from.
type answered struct {
	Answer

	endpoint, url string
}

// MarshalJSON leaves out where it is from.
func (a *answered) MarshalJSON() ([]byte, error) {
	return json.Marshal(a.Answer) //nolint:wrapcheck // nothing is to be added
}

// fanOut runs checks on nodes, so many at once. A node that does not answer has an answer, too.
func (s *Server) fanOut(
	ctx context.Context,
	hosts []string,
	batch int,
	names []string,
	q Request,
) []*answered {
	agents, err := s.Agent.opts.Cluster.Agents(ctx, s.Agent.opts.Namespace)
	out := make([]*answered, len(hosts))
	room := make(chan struct{}, batch)
	query := url.Values{"check": {strings.Join(plainNames(names), ",")}}
	if q.Level > 1 {
		query.Set("r", strconv.Itoa(q.Level))
	}
	if q.Hosts != nil {
		query.Set("pingnodes", strings.Join(q.Hosts, ","))
	}
	var wait sync.WaitGroup
	for i, h := range hosts {
		wait.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			a := &answered{Answer: Answer{Node: h}}
			out[i] = a
			if h == s.Agent.opts.Node {
				a.Outcomes = s.Agent.Check(ctx, names, q)
				a.Status, a.endpoint = status(a.Outcomes), "localhost"
				return
			}
			at := slices.IndexFunc(agents, func(p Peer) bool { return p.Node == h && p.Address != "" })
			switch {
			case err != nil:
				a.Error = "agents cannot be found: " + reading.Readable(err.Error(), 120)
			case at < 0:
				a.Error = "there is no agent on it"
			default:
				a.endpoint = agents[at].Address
				to := url.Values{"host": {h}}
				maps.Copy(to, query)
				a.url = "/status?" + to.Encode()
				got, failed := s.askPeer(ctx, agents[at], to, names)
				if a.Answer = got; failed != nil {
					a.Error = reading.Readable(failed.Error(), 160)
				}
			}
			if a.Error != "" {
				a.Status = []string{"Connection to Server Failed"}
			}
		})
	}
	wait.Wait()
	return out
}

func heavyName(n string) bool { c := CheckOf(n); return c != nil && (c.Heavy || c.Deep) }

// plainNames are checks as another agent is asked for them.
func plainNames(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

// askPeer asks another agent about its own node.
func (s *Server) askPeer(ctx context.Context, p Peer, query url.Values, names []string) (Answer, error) {
	verb := http.MethodGet
	if slices.ContainsFunc(names, heavyName) {
		verb = http.MethodPost
	}
	a := Answer{Node: p.Node}
	if s.Peers == nil {
		return a, errors.New("this agent asks no others")
	}
	text, err := s.Peers.ask(ctx, verb, p, "/status", query, nil)
	if err != nil {
		return a, err
	}
	var all []Answer
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 {
		return a, errors.New("its answer cannot be read")
	}
	all[0].Node = p.Node // whatever it calls itself
	return all[0], nil
}

// longestName is that of a node. Names come from who asks, and words from agents that may have been taken over.
const longestName = 253

// block is what Autopilot's scripts read of one node.
func (a *answered) block() string {
	var b strings.Builder
	node := reading.Readable(a.Node, longestName)
	fmt.Fprintf(&b, "\nAutopilot Endpoint: %s\nNode: %s\nurl(s): %s\nResponse:\n", a.endpoint, node, a.url)
	fmt.Fprintf(&b, "Checking system status of host %s\n\n", node)
	if a.Error != "" {
		fmt.Fprintf(&b, "ERR %s\n", a.Error)
	}
	for i := range a.Outcomes {
		b.WriteString(Text(node, &a.Outcomes[i]) + "\n")
	}
	const rule = "-------------------------------------"
	words := reading.Readable(strings.Join(a.Status, ", "), 4*longestName)
	fmt.Fprintf(&b, "%s\n\nNode Status: %s\n%s\n", rule, words, rule)
	return b.String()
}

// summary is how they end.
func summary(all []*answered, took time.Duration) string {
	var parts []string
	for _, a := range all {
		var words []string
		for _, s := range a.Status {
			words = append(words, "'"+reading.Readable(s, longestName)+"'")
		}
		parts = append(parts, "'"+reading.Readable(a.Node, longestName)+"': ["+strings.Join(words, ", ")+"]")
	}
	return fmt.Sprintf("\nNode Summary:\n\n{%s}\n\nruntime: %v sec\n", strings.Join(parts, ", "), took.Seconds())
}

// sink takes what another agent sends, and tells how much in which time.
func (s *Server) sink(w http.ResponseWriter, r *http.Request, _ *User) {
	if s.Open {
		http.Error(w, "not for agents that answer everybody", http.StatusForbidden)
		return
	}
	select {
	case s.sinks <- struct{}{}:
		defer func() { <-s.sinks }()
	default:
		http.Error(w, "others send already", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(3 * sendFor)) // it is a bound only
	began := time.Now()
	n, _ := io.Copy(io.Discard, r.Body) // what came is what counts
	writeJSON(w, received{Bytes: n, Seconds: time.Since(began).Seconds()})
}

// NewCertificate makes a certificate for this process alone. Nobody vouches for it: its sum is on the Node.
func NewCertificate(node string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	const years = 5
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "mlbatch-agent"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(years, 0, 0), DNSNames: []string{node},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	data, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{data}, PrivateKey: key}, nil
}
