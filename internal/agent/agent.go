package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// Options are what an agent is made of.
type Options struct {
	Node, Namespace, Pod string
	Version              string
	Config               Config
	Tools                Tools
	Cluster              Cluster
	Network              Network
	// KernelLog is a file or /dev/kmsg; "" is none.
	KernelLog string
	// WriteLabel has the agent write Autopilot's label, for clusters without a controller that does.
	WriteLabel bool
	// Certificate is the sum of the one that it shows, "" if none.
	Certificate string
	Log         *slog.Logger
}

// Agent runs checks and tells what they found. Create it with New.
type Agent struct {
	opts Options
	// light and heavy have room for one run each, so that no two heavy ones run at once, and no light one waits for
	// an hour behind a heavy one.
	light, heavy chan struct{}
	// dirty has it tell what changed, and look has it look into the kernel log.
	dirty, look chan struct{}

	mu     sync.Mutex
	memory Memory
	// told is the memory as it was last written, and when.
	told   Memory
	toldAt time.Time
	// cleared is when somebody took the annotation away, which clears all.
	cleared time.Time
	// last are outcomes as they were found, for metrics; writes counts those of the Node.
	last   map[string]reading.Outcome
	writes int
	models map[string]string
	gpus   bool
	// recalled is whether what the agent before this one told is part of the memory.
	recalled bool
	begin    sync.Once
	peers    directory
}

// directory is where agents answer, as the API server said it: to list them all costs it much where nodes are many.
type directory struct {
	mu   sync.Mutex
	list []Peer
	at   time.Time
}

// neighbours are the agents, as they were some time ago at most.
func (a *Agent) neighbours(ctx context.Context, within time.Duration) ([]Peer, error) {
	d := &a.peers
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || time.Since(d.at) > within {
		list, err := a.opts.Cluster.Agents(ctx, a.opts.Namespace)
		if err != nil {
			return nil, err
		}
		d.list, d.at = list, time.Now()
	}
	return slices.Clone(d.list), nil
}

// New is an agent that has not begun.
func New(o Options) *Agent {
	return &Agent{
		opts: o, light: make(chan struct{}, 1), heavy: make(chan struct{}, 1),
		dirty: make(chan struct{}, 1), look: make(chan struct{}, 1),
		memory: Memory{}, last: map[string]reading.Outcome{}, models: map[string]string{},
	}
}

// Times of the daemon.
const (
	// betweenWrites is the shortest time from one write of the Node to the next.
	betweenWrites = time.Minute
	// betweenLooks is how often the kernel log is looked at for something new.
	betweenLooks = 5 * time.Second
	// deepLease is held by who runs a deep test: one node at a time, so that never all are taken from users.
	deepLease = "mlbatch-agent-deep"
)

// Run checks and tells until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	a.begin.Do(func() { a.recall(ctx) })
	go a.followKernel(ctx)
	every, deepEvery := a.opts.Config.Every.Duration, a.opts.Config.DeepEvery.Duration
	// Agents of all nodes start together when they are installed.
	round := time.NewTimer(spread(min(every, 10*betweenWrites) / 10))
	defer round.Stop()
	first := slices.DeleteFunc(slices.Clone(a.opts.Config.Checks), func(n string) bool {
		return CheckOf(n).Shared
	})
	var deep, write <-chan time.Time
	if deepEvery > 0 {
		deep = time.After(a.deepIn(deepEvery))
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	check := func(names ...string) { wait.Go(func() { a.Check(ctx, names, Request{}) }) }
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-round.C:
			// What loads more than this node has its first run some time within the period.
			if first != nil {
				check(first...)
				first = nil
				round.Reset(spread(every))
				continue
			}
			check(a.opts.Config.Checks...)
			round.Reset(every + spread(every/10))
		case <-deep:
			check(DeepCheck)
			deep = time.After(deepEvery + spread(deepEvery/10))
		case <-a.look:
			check("xid")
		case <-a.dirty:
			if write == nil {
				write = time.After(a.mayWriteIn())
			}
		case <-write:
			write = nil
			if err := a.tell(ctx); err != nil && ctx.Err() == nil {
				a.opts.Log.Warn("What was found could not be told", "node", a.opts.Node, "error", err)
				write = time.After(betweenWrites)
			}
		}
	}
}

func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // no secret
}

// deepIn is when the first deep test is due, counted from the last one: an agent that starts again and again must not
// test again and again.
func (a *Agent) deepIn(every time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, has := a.memory[DeepCheck]; has {
		return max(every-time.Since(c.At.Time), 0) + spread(every/10)
	}
	return spread(every)
}

func (a *Agent) mayWriteIn() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.toldAt.IsZero() {
		return 0
	}
	return max(betweenWrites-time.Since(a.toldAt), 0)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// recall reads what the agent before this one told.
func (a *Agent) recall(ctx context.Context) {
	if a.opts.Cluster == nil {
		return
	}
	n, err := a.opts.Cluster.Node(ctx, a.opts.Node)
	if err != nil {
		a.opts.Log.Warn("The Node could not be read", "node", a.opts.Node, "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.absorb(n)
	if n.Annotations[CertificateNote] != a.opts.Certificate {
		a.told = nil // others must learn of it
		poke(a.dirty)
	}
}

// clearedNote is an annotation of Nodes by which somebody says that all is well, whatever was found until then.
const clearedNote = "mlbatch.dev/health-cleared"

// absorb adds what the agent before this one told, once, and forgets what somebody cleared. Who calls it has the
// lock.
func (a *Agent) absorb(n *Node) {
	a.recollect(n)
	var said struct {
		At time.Time `json:"at"`
	}
	if json.Unmarshal([]byte(n.Annotations[clearedNote]), &said) != nil || said.At.After(time.Now()) {
		return // nobody did, or a clock is wrong
	}
	a.cleared = later(a.cleared, said.At)
	a.memory = maps.Clone(a.memory)
	maps.DeleteFunc(a.memory, func(_ string, c health.Check) bool { return !c.At.After(said.At) })
}

// heed learns whether somebody cleared what is fatal: it would hide what is found from now on.
func (a *Agent) heed(ctx context.Context) {
	a.mu.Lock()
	fatal := a.memory.Label() == labelEvict
	a.mu.Unlock()
	if !fatal || a.opts.Cluster == nil {
		return
	}
	if n, err := a.opts.Cluster.Node(ctx, a.opts.Node); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.absorb(n)
	}
}

func (a *Agent) recollect(n *Node) {
	a.gpus = n.GPUs > 0
	if a.recalled {
		return
	}
	a.recalled = true
	r, err := health.Read(n.Annotations)
	if err != nil {
		a.opts.Log.Warn("What was told before cannot be read, and is written anew", "error", err)
		return
	}
	if _, has := n.Annotations[health.ChecksAnnotation]; !has {
		return
	}
	a.told = MemoryOf(&r)
	for name, old := range a.told {
		if !a.lasting(name, old.Result) {
			continue
		}
		now, has := a.memory[name]
		if !has ||
			old.Result == health.Fatal && now.Result != health.Fatal && !a.memory.DeepPass().After(old.At.Time) {
			a.memory = maps.Clone(a.memory)
			a.memory[name] = old
		}
	}
}

// Request says how checks are to run.
type Request struct {
	// Level is that of dcgmi diag, 0 for that of the configuration.
	Level int
	// Hosts are nodes that ping and iperf are to reach.
	Hosts []string
}

// asScheduled reports whether checks that somebody asked for are those that the agent runs by itself. What others
// choose says nothing of the node: nodes that do not answer, or a test that looks less closely.
func (a *Agent) asScheduled(q Request) bool {
	return q.Hosts == nil && (q.Level == 0 || q.Level >= a.opts.Config.DeepLevel)
}

// Check runs checks by name, remembers what they found, and has it told, if they came to an end and were as the agent
// runs them by itself. It always comes to an end, with an outcome for each.
func (a *Agent) Check(ctx context.Context, names []string, q Request) []reading.Outcome {
	a.begin.Do(func() { a.recall(ctx) })
	a.heed(ctx)
	r := a.run(q)
	var out []reading.Outcome
	for _, c := range Checks() {
		if !slices.Contains(names, c.Name) || c.GPU && !a.hasGPUs(r) && len(names) > 1 {
			continue
		}
		o := a.one(ctx, &c, r)
		if a.asScheduled(q) && ctx.Err() == nil {
			if a.record(&o); o.Result == health.Fatal {
				a.news() // the others may take minutes
			}
		}
		out = append(out, o)
	}
	a.news()
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Models != nil {
		a.models = r.Models
	}
	return out
}

// hasGPUs reports whether this is a node with GPUs: one that has them for pods, or a tool that looks at them.
func (a *Agent) hasGPUs(r *Run) bool {
	a.mu.Lock()
	gpus := a.gpus
	a.mu.Unlock()
	return gpus || r.tool([]string{nvidiaSMI, amdSMI}) != ""
}

// run is what a round has at hand.
func (a *Agent) run(q Request) *Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	long := time.Now().Add(-remembered)
	r := &Run{
		Node: a.opts.Node, Namespace: a.opts.Namespace, Pod: a.opts.Pod, Config: a.opts.Config,
		Tools: newOnce(a.opts.Tools), Cluster: a.opts.Cluster, Network: a.opts.Network,
		KernelLog: a.opts.KernelLog, Level: q.Level, Hosts: q.Hosts, Random: rand.IntN, Agents: a.neighbours,
	}
	r.Programs = later(later(long, a.cleared), a.memory.DeepPass())
	r.Hardware = r.Programs
	if c := a.memory["xid"]; c.Result == health.Passed {
		r.Hardware = later(r.Hardware, c.At.Time) // what was before that was looked at, or cleared
	}
	return r
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// one runs a check when it is its turn.
func (a *Agent) one(ctx context.Context, c *Check, r *Run) reading.Outcome {
	turn := a.light
	switch {
	case c.Heavy || c.Deep:
		turn = a.heavy
	case c.Free:
		return c.do(ctx, r)
	}
	const patience = 10 * time.Minute
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return reading.Outcome{
			Check:   c.Name,
			Result:  health.Unknown,
			Message: "nobody waits for it",
			At:      time.Now(),
		}
	case <-time.After(patience):
		return reading.Outcome{
			Check: c.Name, Result: health.Unknown, Message: "another check runs for too long", At: time.Now(),
		}
	}
	if c.Deep && a.opts.Cluster != nil {
		return a.deep(ctx, c, r)
	}
	return c.do(ctx, r)
}

// deep runs a deep test, if no other node runs one, and with the label that keeps others away meanwhile.
func (a *Agent) deep(ctx context.Context, c *Check, r *Run) reading.Outcome {
	ctx, stop := context.WithTimeout(ctx, c.Deadline) // no longer than the Lease is taken for
	defer stop()
	skip := func(why string) reading.Outcome {
		o := reading.Skip(why)
		o.Check, o.At = c.Name, time.Now()
		return o
	}
	if r.tool(c.Tools) == "" {
		return skip(strings.Join(c.Tools, " or ") + " is missing")
	}
	if used := r.used(ctx); used != "" {
		return skip(used)
	}
	taken, err := a.opts.Cluster.Take(ctx, a.opts.Namespace, deepLease, a.opts.Node, c.Deadline)
	if err != nil {
		return skip("cannot take its turn, Lease " + a.opts.Namespace + "/" + deepLease + ": " + err.Error())
	}
	if !taken {
		return skip("another node is tested: one at a time")
	}
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), betweenWrites)
		defer stop()
		_ = a.opts.Cluster.Give(ctx, a.opts.Namespace, deepLease, a.opts.Node) // its time ends in any case
	}()
	if a.opts.WriteLabel {
		err := a.change(ctx, func(n *Node, notes, labels map[string]any) error {
			if value, write := Relabel(n, labelTesting); write {
				labels[HealthLabel], notes[LabelNote] = value, value
				return nil
			}
			return errors.New("the node's label is somebody else's")
		})
		if err != nil {
			return skip("the node cannot be kept free: " + reading.Readable(err.Error(), 120))
		}
		defer a.forget() // the label is to be what it was, whatever came of it
	}
	return c.do(ctx, r)
}

// forget has the next write happen although nothing may have changed.
func (a *Agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = nil
}

// record remembers an outcome.
func (a *Agent) record(o *reading.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last[o.Check] = *o
	if a.lasting(o.Check, o.Result) || a.memory[o.Check].Result == health.Fatal {
		a.memory = a.memory.Remember(o)
	}
}

// lasting reports whether a result is to be remembered: no other run would come to take that of a check which nobody
// runs periodically back. What is fatal is, whatever found it, and has to be cleared.
func (a *Agent) lasting(name string, found health.Result) bool {
	return name == DeepCheck || found == health.Fatal || slices.Contains(a.opts.Config.Checks, name)
}

// news has told what is remembered if that is other than what was told, or if that was long ago.
func (a *Agent) news() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told == nil || !a.memory.Same(a.told) || time.Since(a.toldAt) >= a.opts.Config.Every.Duration {
		poke(a.dirty)
	}
}

// tell writes the memory to the Node.
func (a *Agent) tell(ctx context.Context) error {
	if a.opts.Cluster == nil {
		return nil
	}
	var wrote Memory
	err := a.change(ctx, func(n *Node, notes, labels map[string]any) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.absorb(n)
		if _, has := n.Annotations[health.ChecksAnnotation]; !has && !a.toldAt.IsZero() {
			// Somebody cleared what was found, by taking it away.
			a.memory, a.cleared = Memory{}, time.Now()
			poke(a.look)
		}
		text, err := written(a.memory.Report(time.Now(), a.opts.Version))
		if err != nil {
			return err
		}
		notes[health.ChecksAnnotation] = text
		if a.opts.Certificate != "" {
			notes[CertificateNote] = a.opts.Certificate
		}
		if value, write := Relabel(n, a.memory.Label()); a.opts.WriteLabel && write {
			labels[HealthLabel], notes[LabelNote] = value, value
		}
		wrote = a.memory
		return nil
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told, a.toldAt = wrote, time.Now()
	a.writes++
	if !a.memory.Same(a.told) {
		poke(a.dirty)
	}
	return nil
}

// change reads the Node and merges what is made of it, and again if it changed in between.
func (a *Agent) change(ctx context.Context, with func(n *Node, notes, labels map[string]any) error) error {
	const tries = 4
	var last error
	for range tries {
		n, err := a.opts.Cluster.Node(ctx, a.opts.Node)
		if err != nil {
			return err
		}
		notes, labels := map[string]any{}, map[string]any{}
		if err := with(n, notes, labels); err != nil {
			return err
		}
		meta := map[string]any{"annotations": notes, "resourceVersion": n.Version}
		if len(labels) > 0 {
			meta["labels"] = labels
		}
		if last = a.opts.Cluster.Patch(
			ctx,
			a.opts.Node,
			map[string]any{"metadata": meta},
		); !errors.Is(
			last,
			ErrConflict,
		) {
			return last
		}
	}
	return last
}

// followKernel has the kernel log read when something about a GPU was added to it.
func (a *Agent) followKernel(ctx context.Context) {
	if a.opts.KernelLog == "" {
		return
	}
	t := tail{path: a.opts.KernelLog, fd: -1}
	defer t.close()
	t.news() // what was there before is for the first round
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(betweenLooks):
		}
		if t.news() {
			poke(a.look)
		}
	}
}

// tail is where reading a kernel log has come to.
type tail struct {
	path string
	fd   int
	at   int64
	// of is the file that is open: loggers rename theirs and begin another one.
	of os.FileInfo
}

func (t *tail) close() {
	if t.fd >= 0 {
		_ = syscall.Close(t.fd) // it was only read
	}
	t.fd, t.at = -1, 0
}

// news reports whether something about a GPU was added since it was last asked.
func (t *tail) news() bool {
	info, err := os.Stat(t.path)
	if err != nil {
		t.close()
		return false
	}
	device := info.Mode()&os.ModeCharDevice != 0
	found := false
	if !device && t.fd >= 0 && !os.SameFile(info, t.of) {
		found = t.read() // what came before it was renamed
		t.close()
	}
	if !device && info.Size() < t.at {
		t.close() // it was begun anew
	}
	if t.fd < 0 {
		fd, err := syscall.Open(t.path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			return found
		}
		t.fd, t.of = fd, info
	}
	return t.read() || found
}

// read reports whether something about a GPU is in what was added to the open file.
func (t *tail) read() bool {
	found := false
	part, kept := make([]byte, 8<<10), ""
	for range mostLog / len(part) {
		n, err := syscall.Read(t.fd, part)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR) {
			continue // lines of a device were overwritten
		}
		if err != nil || n <= 0 {
			break
		}
		t.at += int64(n)
		text := kept + string(part[:n])
		found = found || strings.Contains(text, "Xid (")
		kept = text[max(0, len(text)-len("Xid (")):]
	}
	return found
}
