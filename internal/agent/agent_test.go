package agent

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// running has an agent run in a bubble of virtual time.
func running(t *testing.T, o Options, with func(ctx context.Context, a *Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		a := New(o)
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		with(ctx, a)
	})
}

func TestWhatIsFoundIsToldOnceAndWhenItChanges(t *testing.T) {
	c, x := newCluster(), &tools{}
	running(t, sound(c, x), func(context.Context, *Agent) {
		time.Sleep(3 * time.Minute)
		if got := c.report(t)["remapped"]; got.Result != health.Passed {
			t.Fatalf("told %+v", got)
		}
		first := c.writes()
		if first > 2 {
			t.Errorf("%d writes to tell what the first round found", first)
		}
		x.set(
			nvidiaSMI,
			smiOf(
				gpu(0, ""),
				gpu(1, "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"),
			),
			0,
		)
		time.Sleep(2 * time.Hour)
		got := c.report(t)["remapped"]
		if got.Result != health.Warned || !slices.Equal(got.Devices, []string{"1"}) {
			t.Errorf("told %+v", got)
		}
		if n := c.writes() - first; n > 3 {
			t.Errorf("%d writes in two hours", n)
		}
		if c.label() != "WARN" {
			t.Errorf("the label is %s", c.label())
		}
	})
}

func TestTheNodeIsWrittenOnceAMinuteAtMost(t *testing.T) {
	c, x := newCluster(), &tools{}
	running(t, sound(c, x), func(ctx context.Context, a *Agent) {
		time.Sleep(10 * time.Minute)
		before := c.writes()
		for i := range 60 { // every five seconds another finding
			status := "Pass"
			if i%2 == 0 {
				status = "Fail"
			}
			x.set(dcgmi, diag("Diagnostic", status), 0)
			a.Check(ctx, []string{"dcgm"}, Request{})
			time.Sleep(5 * time.Second)
		}
		if n := c.writes() - before; n > 6 || n < 4 {
			t.Errorf("%d writes in five minutes", n)
		}
	})
}

func TestAWriteThatMeetsAnotherIsRepeated(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.conflict = 2
	running(t, sound(c, x), func(context.Context, *Agent) {
		time.Sleep(3 * time.Minute)
		if len(c.report(t)) == 0 {
			t.Error("nothing was told")
		}
	})
}

// Autopilot's level 3 test wrote EVICT only if nothing went wrong in it.
func TestAFailedDeepTestEvictsAndSaysWhy(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	o.Config.DeepEvery.Duration = time.Hour
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(3 * time.Hour)
		got := c.report(t)[DeepCheck]
		if got.Result != health.Fatal || !got.Deep || !strings.Contains(got.Message, "PCIe") {
			t.Errorf("told %+v", got)
		}
		if c.label() != "EVICT" || !slices.Contains(c.labels(), "TESTING") {
			t.Errorf("labels were %v", c.labels())
		}
	})
}

// Autopilot wrote PASS over EVICT with the next hourly check.
func TestWhatIsFatalStaysUntilADeepTestPasses(t *testing.T) {
	c, x := newCluster(), &tools{}
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	o := sound(c, x)
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	running(t, o, func(ctx context.Context, a *Agent) {
		time.Sleep(5 * time.Minute)
		x.set(dcgmi, diag("PCIe", "Pass"), 0)
		time.Sleep(5 * time.Hour)
		if got := c.report(t)["dcgm"]; got.Result != health.Fatal {
			t.Errorf("after light checks that passed: %+v", got)
		}
		a.Check(ctx, []string{DeepCheck}, Request{})
		time.Sleep(5 * time.Minute)
		if got := c.report(t)["dcgm"]; got.Result != health.Passed || c.label() != "PASS" {
			t.Errorf("after a deep test that passed: %+v, %v", got, c.labels())
		}
	})
}

// A test that left something out has not looked at what may have broken.
func TestADeepTestThatLeftSomethingOutClearsNothing(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	running(t, o, func(ctx context.Context, a *Agent) {
		time.Sleep(5 * time.Minute)
		x.set(dcgmi, diag("GPU Memory", "Skip"), 0)
		got := a.Check(ctx, []string{DeepCheck}, Request{})[0]
		time.Sleep(5 * time.Minute)
		if r := c.report(t)["dcgm"]; r.Result != health.Fatal || got.Deep || Tested([]reading.Outcome{got}) ||
			!strings.Contains(got.Message, "GPU Memory") {
			t.Errorf("it is %+v, and the test %+v; want that it stays fatal, and why", r, got)
		}
	})
}

func TestWhatIsFatalIsRememberedOverARestartAndClearedByTakingTheAnnotationAway(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	running(t, o, func(context.Context, *Agent) { time.Sleep(5 * time.Minute) })
	x.set(dcgmi, diag("PCIe", "Pass"), 0)
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(3 * time.Hour)
		if got := c.report(t)["dcgm"]; got.Result != health.Fatal {
			t.Fatalf("after a restart: %+v", got)
		}
		c.mu.Lock()
		delete(c.node.Annotations, health.ChecksAnnotation)
		c.mu.Unlock()
		time.Sleep(3 * time.Hour)
		if got := c.report(t)["dcgm"]; got.Result != health.Passed || c.label() != "PASS" {
			t.Errorf("after it was cleared: %+v, %s", got, c.label())
		}
	})
}

// mlbatch nodes clear says so on the Node. A fatal finding would hide what is found after it.
func TestWhatSomebodyClearedIsForgotten(t *testing.T) {
	for name, restarts := range map[string]bool{"by the agent that runs": false, "by the next one": true} {
		t.Run(name, func(t *testing.T) {
			c, x := newCluster(), &tools{}
			o := sound(c, x)
			x.set(dcgmi, diag("PCIe", "Fail"), 226)
			clearAt := func(at time.Time) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.node.Annotations[clearedNote] = `{"by":"ann","reason":"repaired","at":"` + at.Format(
					time.RFC3339,
				) + `"}`
				c.version++
			}
			found := func() {
				time.Sleep(3 * time.Hour)
				if got := c.report(t)["dcgm"]; got.Result != health.Failed || c.label() != "WARN" {
					t.Errorf("after it was cleared: %+v, %s", got, c.label())
				}
			}
			running(t, o, func(context.Context, *Agent) {
				time.Sleep(5 * time.Minute)
				clearAt(time.Now().Add(-time.Hour))
				x.set(dcgmi, diag("Diagnostic", "Fail"), 226)
				time.Sleep(3 * time.Hour)
				if got := c.report(t)["dcgm"]; got.Result != health.Fatal {
					t.Errorf("what was found after it was cleared is forgotten: %+v", got)
				}
				clearAt(time.Now())
				if !restarts {
					found()
				}
			})
			if restarts {
				running(t, o, func(context.Context, *Agent) { time.Sleep(4 * time.Hour); found() })
			}
		})
	}
}

// Autopilot's ping waited for ever for a missing pod, and held the lock of all checks.
func TestAToolThatHangsHoldsUpNothing(t *testing.T) {
	c, x := newCluster(), &tools{hang: map[string]bool{}}
	o := sound(c, x)
	x.mu.Lock()
	delete(x.say, dcgmi)
	x.hang[dcgmi] = true
	x.mu.Unlock()
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(20 * time.Minute)
		r := c.report(t)
		if got := r["dcgm"]; got.Result != health.Unknown || !strings.Contains(got.Message, "in time") {
			t.Errorf("dcgm: %+v", got)
		}
		if got := r["gpupower"]; got.Result != health.Passed {
			t.Errorf("another check: %+v", got)
		}
	})
}

func TestAToolThatIsMissingIsSaid(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	delete(x.say, dcgmi)
	got := New(o).Check(t.Context(), []string{"dcgm"}, Request{})
	if got[0].Result != health.Skipped || !strings.Contains(got[0].Message, "dcgmi is missing") {
		t.Errorf("%+v", got)
	}
}

func TestNodesWithoutGPUsHaveNoChecksOfGPUs(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.node.GPUs = 0
	o := sound(c, x)
	x.say = nil
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(3 * time.Minute)
		for name := range c.report(t) {
			if CheckOf(name).GPU {
				t.Errorf("%s was told", name)
			}
		}
	})
}

// Autopilot took failed pods for busy ones, and raced with new ones.
func TestDeepTestsRunOnGPUsThatNobodyHoldsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(c *cluster, x *tools)
		says    string
	}{
		"a pod holds them": {func(c *cluster, _ *tools) { c.holders = []string{"blue/train"} }, "blue/train"},
		"a process computes on one": {func(_ *cluster, x *tools) {
			x.set(nvidiaSMI, smiOf(gpu(0, ""), gpu(1, "<processes><process_info><type>C</type></process_info></processes>")), 0)
		}, "GPU 1"},
		"one is divided": {func(_ *cluster, x *tools) {
			x.set(nvidiaSMI, smiOf(gpu(0, "<mig_mode><current_mig>Enabled</current_mig></mig_mode>")), 0)
		}, "MIG"},
		"it cannot be told":                      {func(_ *cluster, x *tools) { x.set(nvidiaSMI, "what?", 1) }, "cannot be told"},
		"a pod came while the label was written": {func(c *cluster, _ *tools) { c.arrives = "red/new" }, "red/new"},
		"another node is tested":                 {func(c *cluster, _ *tools) { c.lease = "node-9" }, "another node"},
		"it may not take its turn":               {func(c *cluster, _ *tools) { c.lease = "missing" }, "Lease mlbatch-system/mlbatch-agent-deep: there is none"},
		"somebody else took it out":              {func(c *cluster, _ *tools) { c.node.Labels[HealthLabel] = "EVICT" }, "somebody else"},
	} {
		t.Run(name, func(t *testing.T) {
			k, x := newCluster(), &tools{}
			o := sound(k, x)
			c.prepare(k, x)
			got := New(o).Check(t.Context(), []string{DeepCheck}, Request{})
			if got[0].Result != health.Skipped || !strings.Contains(got[0].Message, c.says) || got[0].Deep {
				t.Errorf("%+v", got)
			}
			if slices.ContainsFunc(x.runs, func(r string) bool { return strings.HasPrefix(r, dcgmi) }) {
				t.Errorf("ran %q", x.runs)
			}
		})
	}
}

// Whoever has the Lease for longer than it was taken for would test beside another node.
func TestADeepTestEndsWithItsLease(t *testing.T) {
	c, x := newCluster(), &tools{hang: map[string]bool{nvidiaSMI: true}}
	o := sound(c, x)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := New(o)
		a.gpus = true
		got := a.Check(t.Context(), []string{DeepCheck}, Request{})
		if d := CheckOf(DeepCheck).Deadline; time.Since(began) > d || got[0].Result == health.Passed {
			t.Errorf("%+v after %s of %s", got, time.Since(began), d)
		}
	})
}

// Autopilot's labels were written with force.
func TestLabelsOfOthersAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		labels, notes map[string]string
		want          string
		writes        bool
	}{
		"none":                       {nil, nil, "WARN", true},
		"PASS of whomever":           {map[string]string{HealthLabel: "PASS"}, nil, "WARN", true},
		"EVICT of somebody else":     {map[string]string{HealthLabel: "EVICT"}, nil, "EVICT", false},
		"TESTING of somebody else":   {map[string]string{HealthLabel: "TESTING"}, nil, "TESTING", false},
		"EVICT that was ours":        {map[string]string{HealthLabel: "EVICT"}, map[string]string{LabelNote: "EVICT"}, "WARN", true},
		"EVICT that is ours no more": {map[string]string{HealthLabel: "EVICT"}, map[string]string{LabelNote: "PASS"}, "EVICT", false},
		"as it should be":            {map[string]string{HealthLabel: "WARN"}, map[string]string{LabelNote: "WARN"}, "WARN", false},
		"of a node that was drained": {
			map[string]string{HealthLabel: "EVICT"}, map[string]string{LabelNote: "EVICT", drained: "{}"}, "EVICT", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, writes := Relabel(&Node{Labels: c.labels, Annotations: c.notes}, "WARN")
			if got != c.want || writes != c.writes {
				t.Errorf("%s, written: %t", got, writes)
			}
		})
	}
}

func TestANeighbourThatDoesNotAnswerIsNoFaultOfThisNode(t *testing.T) {
	c, x := newCluster(), &tools{}
	for _, n := range []string{"node-0", "node-1", "node-2", "node-3"} {
		c.peers = append(c.peers, Peer{Node: n, Address: "192.0.2.1", Ready: true})
	}
	c.peers = append(c.peers, Peer{Node: "node-4", Address: "192.0.2.1"})
	o := sound(c, x)
	o.Network = network{"node-1": 1, "node-2": 1, "node-4": 0}
	got := New(o).Check(t.Context(), []string{"ping"}, Request{})[0]
	if got.Result != health.Warned || !slices.Equal(got.Concerned(), []string{"node-3"}) {
		t.Errorf("%+v", got)
	}
	if l := (Memory{}).Remember(&got).Label(); l == "WARN" {
		t.Error("the node is labelled for its neighbour")
	}
	o.Network = network{}
	got = New(o).Check(t.Context(), []string{"ping"}, Request{})[0]
	if got.Result != health.Failed || !strings.Contains(got.Message, "none of 3") {
		t.Errorf("a node without network: %+v", got)
	}
}

// Each agent would list all agents in each round, and all of them at once after an installation.
func TestAgentsAreListedRarely(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.peers = []Peer{{Node: "node-1", Address: "192.0.2.1", Ready: true}}
	o := sound(c, x)
	n := moved{at: "192.0.2.1"}
	o.Network = &n
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(90 * time.Second)
		if _, is := c.report(t)["remapped"]; !is || c.listed() > 0 {
			t.Errorf("after the start: %v, %d lists", c.report(t), c.listed())
		}
		time.Sleep(10 * time.Hour)
		if got := c.report(t)["ping"]; got.Result != health.Passed || c.listed() != 1 {
			t.Errorf("%+v, %d lists in ten hours", got, c.listed())
		}
		c.mu.Lock()
		c.peers[0].Address = "192.0.2.2"
		c.mu.Unlock()
		n.set("192.0.2.2")
		time.Sleep(75 * time.Minute)
		if got := c.report(t)["ping"]; got.Result != health.Passed || c.listed() != 2 {
			t.Errorf("an agent that has another address by now: %+v, %d lists", got, c.listed())
		}
		c.mu.Lock()
		c.peers = nil
		c.mu.Unlock()
		n.set("")
		time.Sleep(75 * time.Minute)
		if got := c.report(t)["ping"]; got.Result != health.Skipped {
			t.Errorf("an agent that is gone: %+v", got)
		}
	})
}

// moved reaches the one address that it has.
type moved struct {
	mu sync.Mutex
	at string
}

func (m *moved) set(to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = to
}

func (m *moved) Reach(_ context.Context, p Peer) (sent, back int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Address == m.at {
		return 3, 3
	}
	return 3, 0
}

func (m *moved) Speed(context.Context, Peer) (float64, error) { return 1, nil }

// Autopilot pinged all nodes from all nodes.
func TestNeighboursAreAFewAtRandom(t *testing.T) {
	c, x := newCluster(), &tools{}
	for i := range 1000 {
		c.peers = append(
			c.peers,
			Peer{Node: "n" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Address: "a", Ready: true},
		)
	}
	o := sound(c, x)
	got := New(o).Check(t.Context(), []string{"ping"}, Request{})[0]
	if len(got.Findings) != o.Config.Neighbours {
		t.Errorf("%d nodes were tried", len(got.Findings))
	}
	got = New(o).Check(t.Context(), []string{"ping"}, Request{Hosts: []string{"na", "nowhere"}})[0]
	if len(got.Findings) != 2 || got.Findings[1].Result != health.Unknown {
		t.Errorf("%+v", got.Findings)
	}
}

func TestTheStragglerAmongNeighboursIsNamed(t *testing.T) {
	c, x := newCluster(), &tools{}
	for _, n := range []string{"a", "b", "c", "d"} {
		c.peers = append(c.peers, Peer{Node: n, Address: "192.0.2.1", Ready: true})
	}
	o := sound(c, x)
	o.Network = network{"a": 90, "b": 20, "c": 91, "d": 89}
	got := New(o).Check(t.Context(), []string{"iperf"}, Request{})[0]
	if got.Result != health.Warned || !slices.Equal(got.Concerned(), []string{"b"}) {
		t.Errorf("%+v", got)
	}
}

// Autopilot's claims could only be shared ones, and failed with classes that wait for a pod.
func TestAClaimIsRemovedWhateverCameOfIt(t *testing.T) {
	for name, binds := range map[string]bool{"bound": true, "pending": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, x := newCluster(), &tools{}
				c.binds = binds
				c.claims["agent-x"] = true // of an agent that was killed
				o := sound(c, x)
				o.Config.StorageClass = "fast"
				got := New(o).Check(t.Context(), []string{"pvc"}, Request{})[0]
				if (got.Result == health.Passed) != binds || !binds && !strings.Contains(got.Message, "class fast") {
					t.Errorf("%+v", got)
				}
				if len(c.claims) > 0 {
					t.Errorf("%v is left", c.claims)
				}
			})
		})
	}
}

func TestAnErrorInTheKernelLogIsToldAtOnce(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	o.KernelLog = filepath.Join(t.TempDir(), "kern.log")
	if err := os.WriteFile(o.KernelLog, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(10 * time.Minute)
		line := time.Now().
			Format(time.RFC3339) +
			" node-0 kernel: NVRM: Xid (PCI:0000:1a:00): 79, pid=1, GPU has fallen off the bus.\n"
		if err := os.WriteFile(o.KernelLog, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * betweenLooks)
		got := c.report(t)["xid"]
		if got.Result != health.Fatal || !slices.Equal(got.Devices, []string{"1"}) {
			t.Errorf("told %+v", got)
		}
	})
}

// The next look counts from the time of this one.
func TestAnErrorThatComesWhileTheKernelLogIsReadIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := Check{
			Name:     "xid",
			Free:     true,
			Deadline: time.Minute,
			Probe: func(context.Context, *Run) reading.Outcome {
				time.Sleep(30 * time.Second)
				return reading.Outcome{Result: health.Passed}
			},
		}
		if o := c.do(t.Context(), &Run{}); !o.At.Equal(began) || o.Seconds != 30 {
			t.Errorf("it looked at what was there until %s, began %s", o.At, began)
		}
	})
}

func TestAKernelLogThatWasRenamedIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kern.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	const xid = "NVRM: Xid (PCI:0000:1a:00): 79\n"
	l := tail{path: path, fd: -1}
	defer l.close()
	write("usb\n")
	l.news()
	rotate := func() {
		t.Helper()
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	write("usb and more than before\n" + xid)
	if !l.news() {
		t.Error("what is in the new file is not seen")
	}
	write(xid)
	rotate()
	write("usb\n")
	if !l.news() {
		t.Error("what came before it was renamed is not seen")
	}
	if l.news() {
		t.Error("it is seen twice")
	}
}

func TestAClusterThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	c, x := newCluster(), &tools{}
	c.fails = errors.New("no answer")
	running(t, sound(c, x), func(context.Context, *Agent) {
		time.Sleep(10 * time.Minute)
		c.mu.Lock()
		c.fails = nil
		c.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if len(c.report(t)) == 0 {
			t.Error("nothing was told")
		}
	})
}

func TestWhatIsFatalIsNotForgottenIfTheNodeCannotBeReadAtFirst(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	x.set(dcgmi, diag("PCIe", "Fail"), 226)
	running(t, o, func(context.Context, *Agent) { time.Sleep(5 * time.Minute) })
	x.set(dcgmi, diag("PCIe", "Pass"), 0)
	c.fails = errors.New("no answer")
	running(t, o, func(context.Context, *Agent) {
		time.Sleep(10 * time.Minute)
		c.mu.Lock()
		c.fails = nil
		c.mu.Unlock()
		time.Sleep(3 * time.Hour)
		if got := c.report(t)["dcgm"]; got.Result != health.Fatal {
			t.Errorf("told %+v", got)
		}
	})
}

// A driver that hangs, or a job on the GPUs, would otherwise take a bad node back into service.
func TestWhatIsBadStaysUntilACheckHasLooked(t *testing.T) {
	for _, c := range []struct{ was, is, want health.Result }{
		{health.Failed, health.Unknown, health.Failed},
		{health.Failed, health.Skipped, health.Failed},
		{health.Warned, health.Unknown, health.Warned},
		{health.Warned, health.Skipped, health.Warned},
		{health.Failed, health.Passed, health.Passed},
		{health.Failed, health.Warned, health.Warned},
		{health.Warned, health.Failed, health.Failed},
		{health.Passed, health.Unknown, health.Unknown},
		{health.Fatal, health.Passed, health.Fatal},
		{health.Fatal, health.Unknown, health.Fatal},
		{health.Failed, health.Fatal, health.Fatal},
		{health.Unknown, health.Skipped, health.Skipped},
	} {
		m := Memory{}.Remember(&reading.Outcome{Check: "dcgm", Result: c.was})
		if got := m.Remember(&reading.Outcome{Check: "dcgm", Result: c.is})["dcgm"].Result; got != c.want {
			t.Errorf("%s, then %s: %s, want %s", c.was, c.is, got, c.want)
		}
	}
}

func TestChecksThatAreNotConfiguredAreNotRemembered(t *testing.T) {
	c, x := newCluster(), &tools{}
	o := sound(c, x)
	report := health.Report{Checks: []health.Check{
		{Name: "dcgm", Result: health.Failed},
		{Name: "gpumem", Result: health.Fatal},
		{Name: "xid", Result: health.Warned},
		{Name: DeepCheck, Result: health.Passed, Deep: true},
		{Name: "of-old", Result: health.Failed},
	}}
	text, err := written(report)
	if err != nil {
		t.Fatal(err)
	}
	c.node.Annotations[health.ChecksAnnotation] = text
	o.Config.Checks = []string{"xid", "remapped"}
	a := New(o)
	a.Check(t.Context(), []string{"pciebw", "remapped"}, Request{})
	if got := slices.Sorted(
		maps.Keys(a.memory),
	); !slices.Equal(
		got,
		[]string{"gpumem", DeepCheck, "remapped", "xid"},
	) {
		t.Errorf("remembered are %q", got)
	}
}

func TestReportsKeepTheirBounds(t *testing.T) {
	m := Memory{}
	for _, c := range Checks() {
		o := reading.Outcome{Check: c.Name, Result: health.Failed, Message: strings.Repeat("\x00ä<", 4000)}
		for range 200 {
			o.Findings = append(
				o.Findings,
				reading.Finding{
					Device: strings.Repeat("d<", 200) + string(rune('a'+len(o.Findings))),
					Result: health.Failed,
				},
			)
		}
		m = m.Remember(&o)
	}
	text, err := written(m.Report(time.Now(), strings.Repeat("v", 500)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Read(map[string]string{health.ChecksAnnotation: text}); err != nil {
		t.Error(err)
	}
}

func TestConfigurationsAreReadStrictly(t *testing.T) {
	c, err := ReadConfig("agent.yaml", []byte("every: 30m\nlimits:\n- {model: H100, minPCIe: 20}\n"))
	if err != nil || c.Every.Duration != 30*time.Minute || c.Limits.For("NVIDIA H100 PCIe").MinPCIe != 20 ||
		c.Limits.For("NVIDIA A100").LinkGen != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, says := range map[string]string{
		"evry: 30m":                         "every",
		"every: 1s":                         "between 1m and 720h",
		"checks: [pcie]":                    "checks[0]",
		"checks: [invasive]":                "checks[0]",
		"checks: [xid, xid]":                "checks[1]",
		"deepEvery: 1m":                     "must be 0, for never",
		"deepLevel: 9":                      "2, 3 or 4",
		"neighbours: 4000":                  "between 0 and 32",
		"fatalTests: [P]":                   "fatalTests[0]",
		"limits: [{minPCIe: 4}]":            "limits[0].model",
		"limits: [{model: x, linkGen: -1}]": "limits[0].linkGen",
		"storageClass: Fast!":               "storageClass",
		"slowPart: 7":                       "between 0 and 1",
	} {
		if _, err := ReadConfig("agent.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadConfig("agent.yaml", []byte("{}\n")); err != nil {
		t.Error(err)
	}
	const many = "fatalTests: [P]\ndeepTests: [Q]\nlimits: [{model: x, minPCIe: -1, linkGen: -1, linkWidth: -1, maxCelsius: -1}]"
	_, first := ReadConfig("agent.yaml", []byte(many))
	for range 20 {
		if _, err := ReadConfig("agent.yaml", []byte(many)); err == nil || err.Error() != first.Error() {
			t.Fatalf("it says %v, and before %v", err, first)
		}
	}
}
