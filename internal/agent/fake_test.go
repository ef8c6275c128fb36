package agent

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// cluster is an API server in memory.
type cluster struct {
	mu      sync.Mutex
	node    Node
	version int
	patches int
	holders []string
	// arrives is a pod that comes when the label is written.
	arrives string
	peers   []Peer
	lists   int
	claims  map[string]bool
	binds   bool
	lease   string
	users   map[string]*User
	// asked is called for each question about a token.
	asked    func()
	rights   map[string]bool
	ofJob    []string
	conflict int
	// labelled are the values that the label had, one after another.
	labelled []string
	fails    error
}

func newCluster() *cluster {
	return &cluster{
		node:   Node{Labels: map[string]string{}, Annotations: map[string]string{}, GPUs: 8},
		claims: map[string]bool{}, users: map[string]*User{}, rights: map[string]bool{},
	}
}

func (c *cluster) Node(context.Context, string) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node
	n.Labels, n.Annotations, n.Version = maps.Clone(n.Labels), maps.Clone(n.Annotations), fmt.Sprint(c.version)
	return &n, c.fails
}

func (c *cluster) Patch(_ context.Context, _ string, patch any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	var p struct{ Metadata metadata }
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if c.conflict > 0 {
		c.conflict--
		c.version++
	}
	if p.Metadata.ResourceVersion != fmt.Sprint(c.version) {
		return ErrConflict
	}
	maps.Copy(c.node.Annotations, p.Metadata.Annotations)
	maps.Copy(c.node.Labels, p.Metadata.Labels)
	if v, has := p.Metadata.Labels[HealthLabel]; has {
		c.labelled = append(c.labelled, v)
	}
	if c.arrives != "" && c.node.Labels[HealthLabel] == "TESTING" {
		c.holders = []string{c.arrives}
	}
	c.version++
	c.patches++
	return nil
}

func (c *cluster) Holders(context.Context, string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holders, nil
}

func (c *cluster) Agents(context.Context, string) ([]Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return slices.Clone(c.peers), nil
}

func (c *cluster) listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

func (c *cluster) NodesOf(context.Context, string, string) ([]string, error) {
	return c.ofJob, nil
}
func (c *cluster) NodesLike(context.Context, string) ([]string, error) { return nil, nil }

func (c *cluster) CreateClaim(_ context.Context, x Claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims[x.Name] {
		return ErrConflict
	}
	c.claims[x.Name] = true
	return nil
}

func (c *cluster) BoundClaim(_ context.Context, _, name string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.binds && c.claims[name], nil
}

func (c *cluster) DeleteClaim(_ context.Context, _, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claims, name)
	return nil
}

func (c *cluster) Who(_ context.Context, token string, _ []string) (*User, error) {
	if c.asked != nil {
		c.asked()
	}
	return c.users[token], nil
}

// jwt is a token of the form that the API server's have.
func jwt(name string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(
		[]byte(`{"sub":"`+name+`","aud":["mlbatch-agent"]}`),
	) + ".x"
}

func (c *cluster) May(_ context.Context, u *User, a Action) (bool, error) {
	return c.rights[strings.TrimSpace(u.Name+" "+a.Verb+" "+a.Path+a.Resource+" "+a.Namespace)], nil
}

func (c *cluster) Take(_ context.Context, _, _, holder string, _ time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == "missing" {
		return false, ErrMissing
	}
	if c.lease != "" && c.lease != holder {
		return false, nil
	}
	c.lease = holder
	return true, nil
}

func (c *cluster) Give(context.Context, string, string, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = ""
	return nil
}

func (c *cluster) report(t *testing.T) map[string]health.Check {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := health.Read(c.node.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	return MemoryOf(&r)
}

func (c *cluster) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.patches
}

func (c *cluster) label() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node.Labels[HealthLabel]
}

func (c *cluster) labels() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.labelled)
}

// tools print what is said of them, by name and first argument; what is not said of is missing.
type tools struct {
	mu   sync.Mutex
	say  map[string]Output
	hang map[string]bool
	runs []string
}

func (x *tools) Has(tool string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, has := x.say[tool]
	return has || x.hang[tool]
}

func (x *tools) Run(ctx context.Context, tool string, args ...string) Output {
	x.mu.Lock()
	x.runs = append(x.runs, tool+" "+strings.Join(args, " "))
	out, hangs := x.say[tool], x.hang[tool]
	x.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return Output{Code: -1, Cut: tool + " did not end in time"}
	}
	return out
}

func (x *tools) set(tool, text string, code int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.say == nil {
		x.say = map[string]Output{}
	}
	x.say[tool] = Output{Text: []byte(text), Code: code}
}

// network reaches the nodes that it has.
type network map[string]float64

func (n network) Reach(_ context.Context, p Peer) (sent, back int) {
	if n[p.Node] > 0 {
		return 3, 3
	}
	return 3, 0
}

func (n network) Speed(_ context.Context, p Peer) (float64, error) { return n[p.Node], nil }

// gpu is one of an answer of nvidia-smi, with more behind it.
func gpu(n int, more string) string {
	return fmt.Sprintf(`<gpu id="00000000:%02X:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>
<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info></pci>
%s</gpu>`, 0x19+n, more)
}

func smiOf(gpus ...string) string {
	return "<nvidia_smi_log>" + strings.Join(gpus, "\n") + "</nvidia_smi_log>"
}

func diag(test, status string) string {
	all := []string{`{"name": "` + test + `", "results": [{"gpu_id": 0, "status": "` + status + `"}]}`}
	for _, other := range reading.DeepTests(DefaultConfig().DeepLevel) {
		if other != test {
			all = append(all, `{"name": "`+other+`", "results": [{"gpu_id": 0, "status": "Pass"}]}`)
		}
	}
	return `{"DCGM GPU Diagnostic": {"test_categories": [{"tests": [` + strings.Join(all, ",") + `]}]}}`
}

// sound is an agent on a node with two sound GPUs.
func sound(c *cluster, x *tools) Options {
	x.set(nvidiaSMI, smiOf(gpu(0, ""), gpu(1, "")), 0)
	x.set(dcgmi, diag("PCIe", "Pass"), 0)
	cfg := DefaultConfig()
	return Options{
		Node: "node-0", Namespace: "mlbatch-system", Pod: "agent-x", Config: cfg, Tools: x, Cluster: c,
		Network: network{}, WriteLabel: true, Log: slog.New(slog.DiscardHandler),
	}
}

func tlsOf(c tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c}}
}

func hostPort(t *testing.T, address string) (host string, port int) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
