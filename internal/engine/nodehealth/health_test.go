package nodehealth_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func policy() nodehealth.Policy {
	return nodehealth.Policy{
		Rules: nodehealth.DefaultRules(), Hold: 5 * time.Minute, MaxHold: time.Hour, Forget: 24 * time.Hour,
		Percent: 10, Most: 2000,
	}
}

func finding(s nodehealth.Severity, since time.Duration) nodehealth.Finding {
	return nodehealth.Finding{
		Source: nodehealth.SourceCondition, Name: "KernelDeadlock", Severity: s, Since: at(since),
	}
}

// step is a look at a part: what is found then, what speaks for the node, and the state that it is in afterwards.
type step struct {
	at    time.Duration
	found []nodehealth.Finding
	deep  time.Duration // after noon; 0 for never
	clear time.Duration
	want  nodehealth.State
}

func TestStatesFollowFindings(t *testing.T) {
	const m = time.Minute
	one := func(s nodehealth.Severity, since time.Duration) []nodehealth.Finding {
		return []nodehealth.Finding{finding(s, since)}
	}
	undated := []nodehealth.Finding{{
		Source: nodehealth.SourceDevice, Name: core.GPU, Device: "GPU-1", Severity: nodehealth.Failed,
	}}
	var many []nodehealth.Finding
	for i := range 7 {
		many = append(many, nodehealth.Finding{
			Source: nodehealth.SourceTaint, Name: fmt.Sprint("t", i), Severity: nodehealth.Failed,
		})
	}
	label := func(value string) []nodehealth.Finding {
		return nodehealth.Findings(nodehealth.DefaultRules(), nodehealth.Observed{
			Labels: map[string]string{nodehealth.AutopilotDeep: value},
		})
	}
	devices := func(ids string) []nodehealth.Finding {
		f := undated[0]
		f.Device = ids
		return []nodehealth.Finding{f}
	}
	for name, c := range map[string]struct {
		why   string
		steps []step
	}{
		"worse at once, better after a while": {
			why: "a job that starts on a bad node is lost; a node that waits five minutes is not",
			steps: []step{
				{at: 0, found: one(nodehealth.Warned, 0), want: nodehealth.Suspect},
				{at: 1 * m, found: one(nodehealth.Failed, m), want: nodehealth.FailedState},
				{at: 2 * m, want: nodehealth.Back},
				{at: 7*m - time.Second, want: nodehealth.Back},
				{at: 7 * m, want: nodehealth.Healthy},
			},
		},
		"better, and not yet good": {
			why: "what is left is what it is for after the while",
			steps: []step{
				{at: 0, found: one(nodehealth.Failed, 0), want: nodehealth.FailedState},
				{at: m, found: one(nodehealth.Warned, m), want: nodehealth.Back},
				{at: 6 * m, found: one(nodehealth.Warned, m), want: nodehealth.Suspect},
				{at: 7 * m, want: nodehealth.Back},
				{at: 12 * m, want: nodehealth.Healthy},
			},
		},
		"trouble that returns": {
			why: "the wait doubles: a signal that flaps does not flap the node",
			steps: []step{
				{at: 0, found: one(nodehealth.Failed, 0), want: nodehealth.FailedState},
				{at: 1 * m, want: nodehealth.Back},
				{at: 2 * m, found: one(nodehealth.Failed, 2*m), want: nodehealth.FailedState},
				{at: 3 * m, want: nodehealth.Back},
				{at: 12 * m, want: nodehealth.Back},
				{at: 13 * m, want: nodehealth.Healthy},
				{at: 14 * m, found: one(nodehealth.Failed, 14*m), want: nodehealth.FailedState},
				{at: 15 * m, want: nodehealth.Back},
				{at: 34 * m, want: nodehealth.Back},
				{at: 35 * m, want: nodehealth.Healthy},
			},
		},
		"fatal sticks": {
			why: "a pod that ended takes the sign of its broken GPU with it",
			steps: []step{
				{at: 0, found: one(nodehealth.Fatal, 0), want: nodehealth.Draining},
				{at: m, found: one(nodehealth.Warned, m), want: nodehealth.Draining},
				{at: 600 * m, want: nodehealth.Draining},
			},
		},
		"an older deep test says nothing": {
			why: "it passed before the GPU broke",
			steps: []step{
				{at: 9 * m, found: one(nodehealth.Fatal, 9*m), deep: 8 * m, want: nodehealth.Draining},
				{at: 99 * m, deep: 8 * m, want: nodehealth.Draining},
				{at: 100 * m, deep: 100 * m, want: nodehealth.Back},
				{at: 105 * m, deep: 100 * m, want: nodehealth.Healthy},
			},
		},
		"a deep test beside a finding that is still there": {
			why: "who still says that it is fatal has the last word",
			steps: []step{
				{at: 0, found: one(nodehealth.Fatal, 0), want: nodehealth.Draining},
				{at: m, found: one(nodehealth.Fatal, 0), deep: m, want: nodehealth.Draining},
				{at: 2 * m, deep: m, want: nodehealth.Back},
			},
		},
		"somebody clears it": {
			why: "a human's word wins, whatever is still said, and until something new is found",
			steps: []step{
				{at: 0, found: one(nodehealth.Fatal, 0), want: nodehealth.Draining},
				{at: 2 * m, found: one(nodehealth.Fatal, 0), clear: m, want: nodehealth.Healthy},
				{at: 9 * m, found: one(nodehealth.Fatal, 0), clear: m, want: nodehealth.Healthy},
				{at: 10 * m, found: one(nodehealth.Failed, 10*m), clear: m, want: nodehealth.FailedState},
			},
		},
		"somebody clears what has no time": {
			why: "it does not count as long as it is there, and anew when it comes again",
			steps: []step{
				{at: 0, found: undated, want: nodehealth.FailedState},
				{at: 2 * m, found: undated, clear: m, want: nodehealth.Healthy},
				{at: 3 * m, found: undated, clear: m, want: nodehealth.Healthy},
				{at: 4 * m, clear: m, want: nodehealth.Healthy},
				{at: 5 * m, found: undated, clear: m, want: nodehealth.FailedState},
			},
		},
		"somebody clears more than there is room to remember": {
			why: "those without room are not new at each look",
			steps: []step{
				{at: 0, found: many, want: nodehealth.FailedState},
				{at: 2 * m, found: many, clear: m, want: nodehealth.Healthy},
				{at: 3 * m, found: many, clear: m, want: nodehealth.Healthy},
				{at: 4 * m, found: slices.Clone(many[1:]), clear: m, want: nodehealth.Healthy},
				{at: 5 * m, found: slices.Clone(many[1:]), clear: m, want: nodehealth.Healthy},
			},
		},
		"a test fails again after somebody cleared the first": {
			why: "Autopilot's label says by its value that it is another one",
			steps: []step{
				{at: 0, found: label("ERR_12:00"), want: nodehealth.FailedState},
				{at: 2 * m, found: label("ERR_12:00"), clear: m, want: nodehealth.Healthy},
				{at: 3 * m, found: label("ERR_12:00"), clear: m, want: nodehealth.Healthy},
				{at: 4 * m, found: label("ERR_12:04"), clear: m, want: nodehealth.FailedState},
			},
		},
		"somebody clears two devices": {
			why: "a pod that ends takes one of them away, which is nothing new; a third one is",
			steps: []step{
				{at: 0, found: devices("GPU-1,GPU-2"), want: nodehealth.FailedState},
				{at: 2 * m, found: devices("GPU-1,GPU-2"), clear: m, want: nodehealth.Healthy},
				{at: 3 * m, found: devices("GPU-2"), clear: m, want: nodehealth.Healthy},
				{at: 4 * m, found: devices("GPU-2,GPU-3"), clear: m, want: nodehealth.FailedState},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p nodehealth.Part
			for _, s := range c.steps {
				var e nodehealth.Evidence
				if s.deep != 0 {
					e.DeepPassed = at(s.deep)
				}
				if s.clear != 0 {
					e.Cleared = at(s.clear)
				}
				p = p.Next(s.found, e, policy(), at(s.at))
				if p.State != s.want {
					t.Fatalf("after %s it is %s, want %s: %s", s.at, p.State, s.want, c.why)
				}
				if again := p.Next(s.found, e, policy(), at(s.at)); fmt.Sprint(again) != fmt.Sprint(p) {
					t.Fatalf("after %s a second look says %+v, the first %+v", s.at, again, p)
				}
			}
		})
	}
}

// A fatal finding without a time is as old as it is, however many others there are, and nothing is written of it at each
// look.
func TestWhatFindsNoRoomDoesNotCreep(t *testing.T) {
	var many []nodehealth.Finding
	for i := range 7 {
		many = append(many, nodehealth.Finding{
			Source: nodehealth.SourceTaint, Name: fmt.Sprint("t", i), Severity: nodehealth.Fatal,
		})
	}
	nodes := nodesNamed(1, "a")
	nodes[0].Found = many
	was := nodehealth.Judge(policy(), nil, nodes, time.Time{}, at(0))
	for i := range 3 {
		is := nodehealth.Judge(policy(), was.Healths, nodes, time.Time{}, at(time.Duration(i+1)*time.Minute))
		if h := is.Healths["n0000"]; !h.Equal(was.Healths["n0000"]) || !h.Parts[0].FatalAt.Equal(at(0)) {
			t.Errorf("look %d says %+v, the first %+v", i, h, was.Healths["n0000"])
		}
	}
}

// What the default rules make of what sources say; what they do not know says nothing.
func TestFindings(t *testing.T) {
	condition := func(kind, status string) nodehealth.Observed {
		return nodehealth.Observed{Conditions: []nodehealth.Condition{{Type: kind, Status: status, Since: noon}}}
	}
	check := func(s nodehealth.Severity) nodehealth.Observed {
		return nodehealth.Observed{
			Checks: []nodehealth.Finding{{Source: nodehealth.SourceCheck, Name: "xid", Severity: s, Since: noon}},
		}
	}
	own := nodehealth.Rule{
		Source:   nodehealth.SourceCondition,
		Name:     "AcceleratedHardwareReady",
		Status:   "False",
		Severity: nodehealth.Failed,
	}
	for name, c := range map[string]struct {
		o    nodehealth.Observed
		own  []nodehealth.Rule
		want string // severity and resource
	}{
		"node-problem-detector":        {o: condition("KernelDeadlock", "True"), want: "Failed "},
		"all is well":                  {o: condition("KernelDeadlock", "False")},
		"it does not know":             {o: condition("KernelDeadlock", "Unknown")},
		"what restarts often":          {o: condition("FrequentKubeletRestart", "True"), want: "Warned "},
		"NVSentinel":                   {o: condition("GpuMemWatch", "True"), want: "Failed nvidia.com/gpu"},
		"NVSentinel's log":             {o: condition("SysLogsXIDError", "True"), want: "Failed nvidia.com/gpu"},
		"a warmer GPU":                 {o: condition("GpuThermalWatch", "True"), want: "Warned nvidia.com/gpu"},
		"conditions that nobody knows": {o: condition("MoonIsFull", "True")},
		"what Classify judges":         {o: condition("Ready", "False")},
		"our own": {
			o:   condition(nodehealth.ConditionType, "True"),
			own: []nodehealth.Rule{{Source: nodehealth.SourceCondition, Name: "*", Severity: nodehealth.Fatal}},
		},
		"one that is bad if False": {o: condition("AcceleratedHardwareReady", "False"), own: []nodehealth.Rule{own}, want: "Failed "},
		"and good if True":         {o: condition("AcceleratedHardwareReady", "True"), own: []nodehealth.Rule{own}},
		"own rules come first": {
			o:   condition("KernelDeadlock", "True"),
			own: []nodehealth.Rule{{Source: nodehealth.SourceCondition, Name: "Kernel*", Status: "True", Severity: nodehealth.Ignored}},
		},
		"Autopilot's deep test": {o: nodehealth.Observed{Labels: map[string]string{nodehealth.AutopilotDeep: "ERR_2026-03-01"}}, want: "Failed nvidia.com/gpu"},
		"Autopilot's passed":    {o: nodehealth.Observed{Labels: map[string]string{nodehealth.AutopilotDeep: "PASS_2026-03-01"}}},
		"a taint that a rule names": {
			o:    nodehealth.Observed{Taints: []core.Taint{{Key: "broken"}}},
			own:  []nodehealth.Rule{{Source: nodehealth.SourceTaint, Name: "broken", Severity: nodehealth.Fatal}},
			want: "Fatal ",
		},
		"taints say what pods they are for": {o: nodehealth.Observed{Taints: []core.Taint{{Key: "nvidia.com/gpu"}}}},
		"a check":                           {o: check(nodehealth.Warned), want: "Warned "},
		"a fatal check":                     {o: check(nodehealth.Fatal), want: "Fatal "},
		"a device": {
			o:    nodehealth.Observed{Devices: []nodehealth.Finding{{Source: nodehealth.SourceDevice, Name: core.GPU, Resource: core.GPU}}},
			want: "Failed nvidia.com/gpu",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, f := range nodehealth.Findings(slices.Concat(c.own, nodehealth.DefaultRules()), c.o) {
				got += string(f.Severity) + " " + f.Resource
			}
			if got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func nodesNamed(n int, pool string) []nodehealth.Patient {
	var out []nodehealth.Patient
	for i := range n {
		out = append(
			out,
			nodehealth.Patient{Name: fmt.Sprintf("n%04d", i), UID: fmt.Sprint("u", i), Pools: []string{pool}},
		)
	}
	return out
}

// A thousand nodes whose signals flap at random for a virtual hour: never are more out of service than the share, and
// that is said.
func TestFlappingNodesStayInService(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	nodes, memory := nodesNamed(1000, "gpus"), map[string]nodehealth.Health{}
	taken, most, writes, halted := map[string]bool{}, 0, 0, false
	for s := 0; s < 3600; s += 30 {
		now := at(time.Duration(s) * time.Second)
		for i := range nodes {
			if random.Intn(8) == 0 {
				if nodes[i].Found == nil {
					nodes[i].Found = []nodehealth.Finding{
						{Source: "Condition", Name: "X", Severity: nodehealth.Failed, Since: now},
					}
				} else {
					nodes[i].Found = nil
				}
			}
		}
		v := nodehealth.Judge(policy(), memory, nodes, time.Time{}, now)
		out := 0
		for name, h := range v.Healths {
			if !takesWork(h) {
				taken[name] = true
				out++
			}
			if !h.Equal(memory[name]) {
				writes++
			}
		}
		most, memory, halted = max(most, out), v.Healths, halted || len(v.Halts) > 0
	}
	if most > 100 || len(taken) > 100 {
		t.Errorf("%d of 1000 nodes were out of service at once, %d in all; want 100 at most", most, len(taken))
	}
	if len(taken) < 100 || !halted {
		t.Errorf("%d nodes were taken out, halted: %v; the share is there to be used", len(taken), halted)
	}
	t.Logf("%d entries written", writes)
}

func takesWork(h nodehealth.Health) bool {
	state, _ := nodehealth.Classify(nodehealth.Signals{
		Ready: "True", Health: h, Capacity: core.Resources{{Resource: core.GPU, Amount: 8}},
	})
	return state.TakesWork()
}

// Random sequences of findings, held against what must always be so:
//
//   - no more than the share of a flavor is newly taken out of service within any hour;
//   - a fatal finding goes by a deep test after it, or somebody's word, and by nothing else;
//   - what is not bad for long enough is back, and what is bad is out or held;
//   - the same look twice says the same.
func TestJudgeKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy()
		p.Percent = rapid.SampledFrom([]int{0, 10, 30, 100}).Draw(t, "percent")
		nodes := append(
			nodesNamed(rapid.IntRange(1, 12).Draw(t, "nodes"), "a"),
			nodehealth.Patient{Name: "z", UID: "z"},
		)
		for i := range nodes {
			if i%3 == 2 {
				nodes[i].Pools = []string{"a", "b"}
			}
		}
		size := map[string]int{}
		for _, n := range nodes {
			for _, pool := range poolsOf(n) {
				size[pool]++
			}
		}
		memory := map[string]nodehealth.Health{}
		fatal := map[string]time.Time{} // the naive reference: when each was last fatally found, uncleared
		type taking struct {
			node string
			at   time.Time
		}
		var takings []taking
		inService := map[string]bool{}
		for _, n := range nodes {
			inService[n.Name] = true
		}
		now := noon
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "seconds")) * time.Second)
			for i := range nodes {
				n := &nodes[i]
				switch rapid.SampledFrom([]string{"", "", "", "good", "warned", "failed", "fatal", "deep", "clear"}).
					Draw(t, "event") {
				case "good":
					n.Found = nil
				case "warned":
					n.Found = []nodehealth.Finding{{Source: "Condition", Name: "X", Severity: nodehealth.Warned, Since: now}}
				case "failed":
					n.Found = []nodehealth.Finding{{Source: "Condition", Name: "X", Severity: nodehealth.Failed, Since: now}}
				case "fatal":
					n.Found = []nodehealth.Finding{{Source: "Condition", Name: "X", Severity: nodehealth.Fatal, Since: now}}
					fatal[n.Name] = now
				case "deep":
					n.DeepPassed = now
				case "clear":
					n.Cleared = now
					delete(fatal, n.Name)
				}
				found := len(n.Found) > 0 && n.Found[0].Severity == nodehealth.Fatal && n.Found[0].Since.After(n.Cleared)
				if f, is := fatal[n.Name]; is && n.DeepPassed.After(f) && !found {
					delete(fatal, n.Name)
				}
			}
			v := nodehealth.Judge(p, memory, nodes, time.Time{}, now)
			for _, n := range nodes {
				h := v.Healths[n.Name]
				out := !takesWork(h)
				if _, is := fatal[n.Name]; is && !out && h.Held.IsZero() {
					t.Fatalf("%s takes work, and a fatal finding on it was cleared by nobody: %+v", n.Name, h)
				}
				if bad := len(n.Found) > 0 && n.Found[0].Severity != nodehealth.Warned &&
					n.Found[0].Since.After(n.Cleared); bad && !out &&
					h.Held.IsZero() {
					t.Fatalf("%s is bad, neither out nor held: %+v", n.Name, h)
				}
				if out && inService[n.Name] {
					takings = append(takings, taking{n.Name, now})
				}
				inService[n.Name] = !out
			}
			for pool := range size {
				recent := map[string]bool{}
				for _, k := range takings {
					i := slices.IndexFunc(nodes, func(n nodehealth.Patient) bool { return n.Name == k.node })
					if now.Sub(k.at) < time.Hour && slices.Contains(poolsOf(nodes[i]), pool) {
						recent[k.node] = true
					}
				}
				most := max(size[pool]*p.Percent/100, 1)
				if p.Percent == 0 {
					most = 0
				}
				if len(recent) > most {
					t.Fatalf(
						"%d of %d nodes of pool %q were taken out within an hour: %v",
						len(recent),
						size[pool],
						pool,
						recent,
					)
				}
			}
			if again := nodehealth.Judge(
				p,
				v.Healths,
				nodes,
				time.Time{},
				now,
			); !maps.EqualFunc(
				again.Healths,
				v.Healths,
				nodehealth.Health.Equal,
			) {
				t.Fatalf("a second look says %+v, the first %+v", again.Healths, v.Healths)
			}
			memory = v.Healths
		}
	})
}

func poolsOf(n nodehealth.Patient) []string {
	if len(n.Pools) == 0 {
		return []string{""}
	}
	return n.Pools
}

// Nobody has to wait for the hour to pass who knows better; and a node that is made anew begins afresh.
func TestBreakerIsLifted(t *testing.T) {
	nodes := nodesNamed(3, "a")
	for i := range nodes {
		nodes[i].Found = []nodehealth.Finding{finding(nodehealth.Failed, 0)}
	}
	out := func(v nodehealth.Verdict) (names []string) {
		for _, name := range slices.Sorted(maps.Keys(v.Healths)) {
			if !takesWork(v.Healths[name]) {
				names = append(names, name)
			}
		}
		return names
	}
	v := nodehealth.Judge(policy(), nil, nodes, time.Time{}, at(0))
	if got := out(v); len(got) != 1 || len(v.Halts) != 1 || !v.Next.Equal(at(time.Hour)) {
		t.Fatalf("%v are out, halts %+v, next look %s; want one node, one halt, in an hour", got, v.Halts, v.Next)
	}
	later := nodehealth.Judge(policy(), v.Healths, nodes, time.Time{}, at(time.Hour))
	if got := out(later); len(got) != 2 {
		t.Errorf("after an hour %v are out, want two", got)
	}
	lifted := nodehealth.Judge(policy(), v.Healths, nodes, at(time.Minute), at(2*time.Minute))
	if got := out(lifted); len(got) != 2 {
		t.Errorf("after somebody lifted it %v are out, want two", got)
	}
	nodes[0].UID, nodes[0].Found = "anew", nil
	if h := nodehealth.Judge(policy(), v.Healths, nodes, time.Time{}, at(time.Minute)).Healths["n0000"]; len(
		h.Parts,
	) > 0 ||
		h.Taken.IsZero() {
		t.Errorf(
			"of a node that was made anew is remembered %+v; want that it was taken out, which counts, and no more",
			h,
		)
	}
}

// A node that was taken out, came back and is bad again within the hour is counted already: it goes.
func TestBreakerCountsNodesAndNotTimes(t *testing.T) {
	nodes, memory := nodesNamed(3, "a"), map[string]nodehealth.Health{}
	bad := func(after time.Duration) []nodehealth.Finding {
		return []nodehealth.Finding{finding(nodehealth.Failed, after)}
	}
	for _, s := range []struct {
		at    time.Duration
		found []nodehealth.Finding
		out   bool
	}{
		{0, bad(0), true},
		{time.Minute, nil, true},
		{6 * time.Minute, nil, false},
		{7 * time.Minute, bad(7 * time.Minute), true},
	} {
		nodes[0].Found = s.found
		memory = nodehealth.Judge(policy(), memory, nodes, time.Time{}, at(s.at)).Healths
		if h := memory["n0000"]; takesWork(h) == s.out {
			t.Errorf("after %s it takes work: %v; want that it is out: %v", s.at, !s.out, s.out)
		}
	}
}

// A node that is gone counts for the hour all the same, or deleting what was taken out would make room for more.
func TestBreakerCountsNodesThatAreGone(t *testing.T) {
	nodes := nodesNamed(3, "a")
	for i := range nodes {
		nodes[i].Found = []nodehealth.Finding{finding(nodehealth.Failed, 0)}
	}
	v := nodehealth.Judge(policy(), nil, nodes, time.Time{}, at(0))
	v = nodehealth.Judge(policy(), v.Healths, nodes[1:], time.Time{}, at(time.Minute))
	for name, h := range v.Healths {
		if !takesWork(h) {
			t.Errorf("%s is out of service", name)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	p := policy()
	p.Most = 5
	nodes := nodesNamed(20, "a")
	for i := range nodes {
		nodes[i].Found = []nodehealth.Finding{finding(nodehealth.Failed, 0)}
	}
	v := nodehealth.Judge(p, nil, nodes[10:], time.Time{}, at(0))
	v = nodehealth.Judge(p, v.Healths, nodes, time.Time{}, at(time.Minute))
	if len(v.Healths) != 5 || v.Unknown != 15 {
		t.Errorf("%d nodes are remembered and %d are not, want 5 and 15", len(v.Healths), v.Unknown)
	}
}

// A clock that is wrong, or a slip of somebody's hand, does not decide for years: times to come are not believed.
func TestTimesToComeAreNotBelieved(t *testing.T) {
	const year = 8760 * time.Hour
	one := func(s nodehealth.Severity, since time.Duration) []nodehealth.Finding {
		return []nodehealth.Finding{finding(s, since)}
	}
	stored := func(p nodehealth.Part) nodehealth.Health {
		return nodehealth.Health{UID: "u0", Parts: []nodehealth.Part{p}}
	}
	fatal := nodehealth.Part{
		State:   nodehealth.Draining,
		Level:   nodehealth.Fatal,
		Since:   at(-time.Hour),
		FatalAt: at(-time.Hour),
	}
	back := nodehealth.Part{
		State: nodehealth.Back,
		Level: nodehealth.Failed,
		Since: at(-time.Hour),
		Gone:  at(year),
	}
	future := fatal
	future.FatalAt = at(year)
	for name, c := range map[string]struct {
		why      string
		was      nodehealth.Health
		found    []nodehealth.Finding
		evidence nodehealth.Evidence
		// at is when it is looked at again, with the evidence then
		at   time.Duration
		then nodehealth.Evidence
		want nodehealth.State
	}{
		"somebody clears it tomorrow": {
			why: "what is found until then would never count", found: one(nodehealth.Failed, 0),
			evidence: nodehealth.Evidence{Cleared: at(year)}, then: nodehealth.Evidence{Cleared: at(year)},
			at: time.Minute, want: nodehealth.FailedState,
		},
		"somebody clears it by a clock that is ahead": {
			why: "it counts as soon as it is that late", found: one(nodehealth.Failed, 0),
			evidence: nodehealth.Evidence{Cleared: at(30 * time.Second)}, then: nodehealth.Evidence{Cleared: at(30 * time.Second)},
			at: time.Minute, want: nodehealth.Healthy,
		},
		"a deep test passes tomorrow": {
			why: "it would clear whatever is fatal until then", was: stored(fatal),
			then: nodehealth.Evidence{DeepPassed: at(year)}, at: time.Minute, want: nodehealth.Draining,
		},
		"a fatal finding of tomorrow": {
			why: "no deep test of today could clear it", found: one(nodehealth.Fatal, year),
			then: nodehealth.Evidence{Cleared: at(time.Minute)}, at: time.Minute, want: nodehealth.Healthy,
		},
		"it was fatal tomorrow": {
			why: "no deep test of today could clear it", was: stored(future),
			then: nodehealth.Evidence{DeepPassed: at(time.Minute)}, at: time.Minute, want: nodehealth.Back,
		},
		"it is gone since tomorrow": {
			why: "it would never be back", was: stored(back), at: 5 * time.Minute, want: nodehealth.Healthy,
		},
		"a state by hand, without a level": {
			why: "nothing would ever change it", was: stored(nodehealth.Part{State: nodehealth.FailedState, Since: at(0)}),
			at: time.Minute, want: nodehealth.Healthy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodesNamed(1, "a")
			nodes[0].Found, nodes[0].Evidence = c.found, c.evidence
			was := map[string]nodehealth.Health{}
			if c.was.UID != "" {
				was["n0000"] = c.was
			}
			v := nodehealth.Judge(policy(), was, nodes, time.Time{}, at(0))
			if c.evidence.Cleared.Equal(at(30*time.Second)) && !v.Next.Equal(c.evidence.Cleared) {
				t.Errorf("the next look is at %s, want when it counts", v.Next)
			}
			nodes[0].Evidence = c.then
			v = nodehealth.Judge(policy(), v.Healths, nodes, time.Time{}, at(c.at))
			if got := v.Healths["n0000"].State(); got != c.want {
				t.Errorf("it is %s, want %s: %s", got, c.want, c.why)
			}
		})
	}
}

// The breaker counts nothing of times to come for longer than an hour, and nobody lifts it for years.
func TestBreakerDoesNotBelieveTimesToCome(t *testing.T) {
	nodes := nodesNamed(3, "a")
	for i := range nodes {
		nodes[i].Found = []nodehealth.Finding{finding(nodehealth.Failed, 0)}
	}
	v := nodehealth.Judge(policy(), nil, nodes, at(9999*time.Hour), at(0))
	v = nodehealth.Judge(policy(), v.Healths, nodes, at(9999*time.Hour), at(time.Minute))
	if len(v.Halts) != 1 || len(v.Halts[0].Nodes) != 2 {
		t.Errorf("halts %+v, want two nodes held, though somebody lifts the breaker some day", v.Halts)
	}
	was := map[string]nodehealth.Health{"gone": {Pools: []string{"a"}, Taken: at(9999 * time.Hour)}}
	v = nodehealth.Judge(policy(), was, nodes, time.Time{}, at(0))
	v = nodehealth.Judge(policy(), v.Healths, nodes, time.Time{}, at(time.Hour))
	if v.Healths["n0000"].Taken.IsZero() {
		t.Error("a node that was taken out some day counts for longer than an hour")
	}
}

// Whatever is found on however many nodes: what is remembered fits into a ConfigMap, the worst first, and the same look
// twice says the same.
func TestMemoryFitsIntoAConfigMap(t *testing.T) {
	nodes := nodesNamed(2000, strings.Repeat("pool", 20))
	for i := range nodes {
		nodes[i].Found = []nodehealth.Finding{finding(nodehealth.Failed, 0)}
		if i >= 1900 {
			nodes[i].Found[0].Severity = nodehealth.Fatal
		}
		nodes[i].Found[0].Message = strings.Repeat("<&>!", 25)
		for r := range 20 {
			f := nodes[i].Found[0]
			f.Resource = fmt.Sprintf("example.com/r%02d", r)
			nodes[i].Found = append(nodes[i].Found, f)
		}
	}
	v := nodehealth.Judge(policy(), nil, nodes, time.Time{}, at(0))
	bytes, fatal := 0, 0
	for name, h := range v.Healths {
		text, err := h.Text()
		if err != nil || len(h.Parts) > 8 {
			t.Fatalf("%s has %d parts (%v), want 8 at most", name, len(h.Parts), err)
		}
		bytes += len(name) + len(text)
		if h.Parts[0].Level == nodehealth.Fatal {
			fatal++
		}
	}
	if bytes > 1<<20 || bytes < 800<<10 {
		t.Errorf(
			"%d bytes are remembered of %d nodes, want no more than fit and not much less",
			bytes,
			len(v.Healths),
		)
	}
	if fatal != 100 || len(v.Healths)+v.Unknown != 2000 {
		t.Errorf("%d fatal nodes are remembered, %d in all and %d not, want all 100 that are fatal, and 2000",
			fatal, len(v.Healths), v.Unknown)
	}
	again := nodehealth.Judge(policy(), v.Healths, nodes, time.Time{}, at(0))
	if !maps.EqualFunc(v.Healths, again.Healths, nodehealth.Health.Equal) {
		t.Error("a second look remembers others")
	}
}

// What is written is no longer than it has to be.
func TestTextIsNotEscaped(t *testing.T) {
	h := nodehealth.Health{UID: "<&>"}
	if text, err := h.Text(); err != nil || text != `{"uid":"<&>"}` {
		t.Errorf("it is %s (%v)", text, err)
	}
}

// The label is written over what is better, lifted if it is ours, and left to whoever wrote it.
func TestLabelsOfOthersStay(t *testing.T) {
	in := func(s nodehealth.State, level nodehealth.Severity) nodehealth.Health {
		return nodehealth.Health{Parts: []nodehealth.Part{{State: s, Level: level}}}
	}
	bad, well := in(nodehealth.FailedState, nodehealth.Failed), nodehealth.Health{}
	ours := &nodehealth.Mark{Set: "ERR", Was: "PASS"}
	for name, c := range map[string]struct {
		h       nodehealth.Health
		label   string
		mark    *nodehealth.Mark
		drained bool
		want    string
		by      *nodehealth.Mark
	}{
		"nothing is wrong":                    {h: well, label: "PASS", want: "PASS"},
		"it fails":                            {h: bad, label: "PASS", want: "ERR", by: ours},
		"it has to be left":                   {h: in(nodehealth.Draining, nodehealth.Fatal), label: "WARN", want: "EVICT", by: &nodehealth.Mark{Set: "EVICT", Was: "WARN"}},
		"it is suspect":                       {h: in(nodehealth.Suspect, nodehealth.Warned), want: "WARN", by: &nodehealth.Mark{Set: "WARN"}},
		"it is as before":                     {h: bad, label: "ERR", mark: ours, want: "ERR", by: ours},
		"it is well again":                    {h: well, label: "ERR", mark: ours, want: "PASS"},
		"it waits to be back":                 {h: in(nodehealth.Back, nodehealth.Failed), label: "ERR", mark: ours, want: "ERR", by: ours},
		"it gets worse":                       {h: in(nodehealth.Draining, nodehealth.Fatal), label: "ERR", mark: ours, want: "EVICT", by: &nodehealth.Mark{Set: "EVICT", Was: "PASS"}},
		"others say worse":                    {h: bad, label: "EVICT", want: "EVICT"},
		"others say the same":                 {h: bad, label: "TESTING", want: "TESTING"},
		"others said worse since":             {h: bad, label: "EVICT", mark: ours, want: "EVICT"},
		"others said worse, and it is well":   {h: well, label: "EVICT", mark: ours, want: "EVICT"},
		"others wrote a better one over ours": {h: bad, label: "WARN", mark: ours, want: "ERR", by: &nodehealth.Mark{Set: "ERR", Was: "WARN"}},
		"it is drained by hand":               {h: well, label: "EVICT", mark: ours, drained: true, want: "EVICT", by: ours},
		"it is held in service":               {h: nodehealth.Health{Held: noon, Parts: bad.Parts}, label: "PASS", want: "WARN", by: &nodehealth.Mark{Set: "WARN", Was: "PASS"}},
	} {
		t.Run(name, func(t *testing.T) {
			label, by := nodehealth.Relabel(c.h, c.label, c.mark, c.drained)
			if label != c.want || (by == nil) != (c.by == nil) || by != nil && *by != *c.by {
				t.Errorf("the label is %q by %+v, want %q by %+v", label, by, c.want, c.by)
			}
		})
	}
}

// Whatever happens in whatever order: a label that others wrote last is never lifted.
func TestOnlyOwnLabelsAreLifted(t *testing.T) {
	words := []string{"", "PASS", "WARN", "TESTING", "ERR", "EVICT"}
	rapid.Check(t, func(t *rapid.T) {
		label, theirs := "", ""
		var mark *nodehealth.Mark
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "others write") {
				if word := rapid.SampledFrom(words).Draw(t, "label"); word != label { // the same says nothing
					label, theirs = word, word
				}
			}
			level := rapid.SampledFrom([]nodehealth.Severity{nodehealth.Ignored, nodehealth.Warned, nodehealth.Failed, nodehealth.Fatal}).
				Draw(t, "level")
			h := nodehealth.Health{}
			if state, is := map[nodehealth.Severity]nodehealth.State{
				nodehealth.Warned: nodehealth.Suspect, nodehealth.Failed: nodehealth.FailedState, nodehealth.Fatal: nodehealth.Draining,
			}[level]; is {
				h.Parts = []nodehealth.Part{{State: state, Level: level}}
			}
			label, mark = nodehealth.Relabel(h, label, mark, false)
			if len(h.Parts) == 0 && label != theirs {
				t.Fatalf("the node is well and its label is %q; others wrote %q", label, theirs)
			}
		}
	})
}
