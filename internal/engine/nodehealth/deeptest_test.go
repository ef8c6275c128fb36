package nodehealth_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// tested is a node that is idle, ready and in service, with what a change makes of it.
func tested(name string, change func(*nodehealth.TestNode)) nodehealth.TestNode {
	n := nodehealth.TestNode{
		Name: name, UID: "uid-" + name, Pools: []string{"gpus"},
		Wanted: true, Whole: true, Idle: true, Up: true, Ready: true, InService: true,
	}
	if change != nil {
		change(&n)
	}
	return n
}

// past is a test of a node that ended.
func past(
	node string,
	number int,
	cause nodehealth.TestCause,
	v nodehealth.TestVerdict,
	ended time.Time,
) nodehealth.Test {
	return nodehealth.Test{
		Node:    node,
		UID:     "uid-" + node,
		Number:  number,
		Cause:   cause,
		Tries:   1,
		Queued:  cause == nodehealth.Periodic,
		Created: ended.Add(-time.Hour),
		Began:   ended.Add(-time.Hour),
		Ended:   ended,
		Verdict: v,
		Why:     "why",
	}
}

func tries(t nodehealth.Test, n int) nodehealth.Test {
	t.Tries = n
	return t
}

// going is a test that began; one in the queue waits.
func going(node string, number int, cause nodehealth.TestCause, began time.Time) nodehealth.Test {
	t := past(node, number, cause, "", time.Time{})
	t.Created, t.Began = noon.Add(-time.Minute), began
	return t
}

// waitsSince is one that waits in the queue.
func waitsSince(node string, at time.Time) nodehealth.Test {
	t := going(node, 1, nodehealth.Periodic, time.Time{})
	t.Created = at
	return t
}

func fatalAt(at time.Time) func(*nodehealth.TestNode) {
	return func(n *nodehealth.TestNode) {
		n.InService = false
		n.Health.Parts = []nodehealth.Part{{State: nodehealth.Draining, Level: nodehealth.Fatal, FatalAt: at}}
	}
}

func untestedSince(at time.Time) func(*nodehealth.TestNode) {
	return func(n *nodehealth.TestNode) { n.InService, n.Health.Untested = false, at }
}

func TestWhichNodesAreTested(t *testing.T) {
	week := 7 * 24 * time.Hour
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	busy := func(n *nodehealth.TestNode) { n.Idle = false }
	const passed, failed, unclear = nodehealth.TestPassed, nodehealth.TestFailed, nodehealth.TestUnclear
	for name, c := range map[string]struct {
		policy func(*nodehealth.TestPolicy)
		nodes  []nodehealth.TestNode
		tests  []nodehealth.Test
		want   string
	}{
		"one that was never tested": {
			nodes: []nodehealth.TestNode{tested("a", nil)},
			want:  "start a-1 Periodic queued",
		},
		"one at a time of a pool, and others of other pools": {
			nodes: []nodehealth.TestNode{
				tested("a", nil), tested("b", nil),
				tested("c", func(n *nodehealth.TestNode) { n.Pools = []string{"others"} }),
			},
			want: "start a-1 Periodic queued, start c-1 Periodic queued",
		},
		"a share of a pool": {
			policy: func(p *nodehealth.TestPolicy) { p.Most, p.Percent = 0, 50 },
			nodes:  []nodehealth.TestNode{tested("a", nil), tested("b", nil), tested("c", nil), tested("d", nil)},
			want:   "start a-1 Periodic queued, start b-1 Periodic queued",
		},
		"the one whose test is longest ago first": {
			nodes: []nodehealth.TestNode{tested("a", nil), tested("b", nil)},
			tests: []nodehealth.Test{
				past("a", 1, nodehealth.Periodic, passed, ago(week)), past("b", 4, nodehealth.Periodic, passed, ago(2*week)),
			},
			want: "start b-5 Periodic queued",
		},
		"not before it is due": {
			nodes: []nodehealth.TestNode{tested("a", nil)},
			tests: []nodehealth.Test{past("a", 1, nodehealth.Periodic, passed, ago(week-time.Minute))},
			want:  "look in 1m0s",
		},
		"a node that somebody uses": {nodes: []nodehealth.TestNode{tested("a", busy)}},
		"a node that somebody has in hand": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.Ready = false })},
		},
		"a node out of service for other reasons": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.InService = false })},
		},
		"never two of one node": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{going("a", 3, nodehealth.AfterFault, ago(time.Second))},
		},
		"after a fault, without a queue, which would give it nothing there": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{past("a", 1, nodehealth.Periodic, passed, ago(time.Hour))},
			want:  "start a-2 AfterFault",
		},
		"once for a fault: who failed stays out until somebody clears it": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{past("a", 2, nodehealth.AfterFault, failed, ago(time.Minute))},
		},
		"before a returned node is used": {
			nodes: []nodehealth.TestNode{tested("a", untestedSince(ago(time.Second)))},
			tests: []nodehealth.Test{past("a", 2, nodehealth.AfterFault, failed, ago(time.Minute))},
			want:  "start a-3 OnReturn",
		},
		"not where nobody asked for it": {
			policy: func(p *nodehealth.TestPolicy) { p.AfterFault, p.OnReturn, p.Every = false, false, 0 },
			nodes: []nodehealth.TestNode{
				tested("a", fatalAt(ago(time.Minute))), tested("b", untestedSince(ago(time.Second))), tested("c", nil),
			},
		},
		"an urgent one has the place of one that waits, and of none that runs": {
			nodes: []nodehealth.TestNode{tested("a", nil), tested("b", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{going("a", 1, nodehealth.Periodic, time.Time{})},
			want:  "remove a-1, start b-1 AfterFault",
		},
		"a place that is taken": {
			nodes: []nodehealth.TestNode{tested("a", nil), tested("b", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{going("a", 1, nodehealth.Periodic, ago(time.Second))},
		},
		"one that waits goes when somebody comes": {
			nodes: []nodehealth.TestNode{tested("a", busy)},
			tests: []nodehealth.Test{going("a", 1, nodehealth.Periodic, time.Time{})},
			want:  "remove a-1",
		},
		"one that waits goes when its node leaves service, so that its fault is looked at": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(time.Minute)))},
			tests: []nodehealth.Test{going("a", 1, nodehealth.Periodic, time.Time{})},
			want:  "remove a-1",
		},
		"one that waits goes when its node becomes a spare, which no queue gives away": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.Spare = true }), tested("b", nil)},
			tests: []nodehealth.Test{going("a", 1, nodehealth.Periodic, time.Time{})},
			want:  "remove a-1, start b-1 Periodic queued",
		},
		"one that runs without a queue goes when somebody has its node used at once": {
			nodes: []nodehealth.TestNode{tested("a", nil)},
			tests: []nodehealth.Test{going("a", 1, nodehealth.OnReturn, ago(time.Minute))},
			want:  "remove a-1",
		},
		"but not while its GPUs are gone for a moment": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.Wanted = false })},
			tests: []nodehealth.Test{going("a", 1, nodehealth.OnReturn, ago(time.Minute))},
		},
		"one that waits holds the place of others for an hour": {
			nodes: []nodehealth.TestNode{tested("a", nil), tested("b", nil)},
			tests: []nodehealth.Test{waitsSince("a", ago(time.Hour-time.Second))},
			want:  "look in 1s",
		},
		"and then it goes": {
			nodes: []nodehealth.TestNode{tested("a", nil), tested("b", nil)},
			tests: []nodehealth.Test{waitsSince("a", ago(time.Hour))},
			want:  "remove a-1, waited a, start b-1 Periodic queued",
		},
		"behind others, also such that were tested": {
			nodes: []nodehealth.TestNode{
				tested("a", func(n *nodehealth.TestNode) { n.Waited = ago(time.Second) }), tested("b", nil),
			},
			tests: []nodehealth.Test{past("b", 4, nodehealth.Periodic, passed, ago(2*week))},
			want:  "start b-5 Periodic queued",
		},
		"a spare, which no queue gives away": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.Spare = true })},
		},
		"a spare with a fault": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) {
				n.Spare = true
				fatalAt(ago(time.Minute))(n)
			})},
			want: "start a-1 AfterFault",
		},
		"a verdict stays while GPUs are gone for a moment": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.Wanted, n.Whole = false, false })},
			tests: []nodehealth.Test{past("a", 1, nodehealth.AfterFault, passed, ago(time.Hour))},
		},
		"a node that has more GPUs than can be asked for": {
			nodes: []nodehealth.TestNode{
				tested("a", func(n *nodehealth.TestNode) { n.Whole = false }),
				tested("b", func(n *nodehealth.TestNode) {
					n.Whole = false
					fatalAt(ago(time.Minute))(n)
				}),
			},
			want: "partial a-1, partial b-1",
		},
		"a node with a fault that is held in service, by the queue": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) {
				fatalAt(ago(time.Minute))(n)
				n.InService = true
			})},
			want: "start a-1 Periodic queued",
		},
		"a place that a node holds which died with its test": {
			nodes: []nodehealth.TestNode{
				tested("a", func(n *nodehealth.TestNode) { n.Up, n.Ready, n.InService = false, false, false }),
				tested("b", fatalAt(ago(time.Minute))),
			},
			tests: []nodehealth.Test{going("a", 1, nodehealth.AfterFault, ago(time.Second))},
			want:  "start b-1 AfterFault",
		},
		"none has to go in vain: in another pool of the urgent one a test runs": {
			nodes: []nodehealth.TestNode{
				tested("a", nil), tested("b", func(n *nodehealth.TestNode) { n.Pools = []string{"others"} }),
				tested("c", func(n *nodehealth.TestNode) {
					n.Pools = []string{"gpus", "others"}
					fatalAt(ago(time.Minute))(n)
				}),
			},
			tests: []nodehealth.Test{
				going("a", 1, nodehealth.Periodic, time.Time{}), going("b", 1, nodehealth.Periodic, ago(time.Second)),
			},
			want: "look in 59m0s",
		},
		"one has to go in each pool of the urgent one that is full": {
			nodes: []nodehealth.TestNode{
				tested("a", nil), tested("b", func(n *nodehealth.TestNode) { n.Pools = []string{"others"} }),
				tested("c", func(n *nodehealth.TestNode) {
					n.Pools = []string{"gpus", "others"}
					fatalAt(ago(time.Minute))(n)
				}),
			},
			tests: []nodehealth.Test{
				going("a", 1, nodehealth.Periodic, time.Time{}), going("b", 1, nodehealth.Periodic, time.Time{}),
			},
			want: "remove a-1, remove b-1, start c-1 AfterFault",
		},
		"an unclear one is tried again after a while": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(2*time.Hour)))},
			tests: []nodehealth.Test{past("a", 1, nodehealth.AfterFault, unclear, ago(time.Minute))},
			want:  "look in 9m0s",
		},
		"and again, longer": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(2*time.Hour)))},
			tests: []nodehealth.Test{tries(past("a", 2, nodehealth.AfterFault, unclear, ago(20*time.Minute)), 2)},
			want:  "start a-3 AfterFault try 3",
		},
		"and then no more": {
			nodes: []nodehealth.TestNode{tested("a", fatalAt(ago(3*time.Hour)))},
			tests: []nodehealth.Test{tries(past("a", 3, nodehealth.AfterFault, unclear, ago(time.Hour)), 3)},
			want:  "given up a-3",
		},
		"until there is a new reason": {
			nodes: []nodehealth.TestNode{tested("a", untestedSince(ago(time.Minute)))},
			tests: []nodehealth.Test{tries(past("a", 3, nodehealth.AfterFault, unclear, ago(time.Hour)), 3)},
			want:  "start a-4 OnReturn",
		},
		"a verdict is kept until there is a newer one": {
			policy: func(p *nodehealth.TestPolicy) { p.Every = 0 },
			nodes:  []nodehealth.TestNode{tested("a", nil)},
			tests: []nodehealth.Test{
				past("a", 1, nodehealth.Periodic, passed, ago(week)), past("a", 2, nodehealth.Periodic, failed, ago(time.Hour)),
				past("a", 3, nodehealth.Periodic, unclear, ago(time.Minute)),
			},
			want: "remove a-1",
		},
		"tests of another node of the same name, and of none, say nothing": {
			nodes: []nodehealth.TestNode{tested("a", func(n *nodehealth.TestNode) { n.UID = "other" })},
			tests: []nodehealth.Test{
				past("a", 1, nodehealth.Periodic, passed, ago(time.Hour)), past("gone", 1, nodehealth.Periodic, passed, ago(time.Hour)),
			},
			want: "remove a-1, remove gone-1, start a-1 Periodic queued",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := nodehealth.TestPolicy{Every: week, AfterFault: true, OnReturn: true, Most: 1}
			if c.policy != nil {
				c.policy(&policy)
			}
			plan := nodehealth.PlanTests(policy, c.nodes, c.tests, noon)
			var got []string
			for _, x := range plan.Remove {
				got = append(got, fmt.Sprintf("remove %s-%d", x.Node, x.Number))
			}
			for _, x := range plan.Waited {
				got = append(got, "waited "+x)
			}
			for _, x := range plan.Partial {
				got = append(got, fmt.Sprintf("partial %s-%d", x.Node, x.Number))
			}
			for _, x := range plan.Start {
				text := fmt.Sprintf("start %s-%d %s", x.Node, x.Number, x.Cause)
				if x.Queued {
					text += " queued"
				}
				if x.Tries > 1 {
					text += fmt.Sprintf(" try %d", x.Tries)
				}
				got = append(got, text)
			}
			for _, x := range plan.GivenUp {
				got = append(got, fmt.Sprintf("given up %s-%d", x.Node, x.Number))
			}
			if !plan.Next.IsZero() && len(got) == 0 {
				got = append(got, fmt.Sprintf("look in %s", plan.Next.Sub(noon)))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("it does %q, want %q", text, c.want)
			}
		})
	}
}

// What is late is counted by pool, whoever's fault it is: a pool of which nodes are busy all the time is seen.
func TestOverdueTestsAreCounted(t *testing.T) {
	late := noon.Add(-48 * time.Hour)
	nodes := []nodehealth.TestNode{
		tested("busy", func(n *nodehealth.TestNode) { n.Idle = false }),
		tested("running", nil), tested("fresh", nil), tested("out", untestedSince(noon)),
		tested("other", func(n *nodehealth.TestNode) { n.Pools = []string{"others"} }),
		tested("none", func(n *nodehealth.TestNode) { n.Wanted = false }),
	}
	tests := []nodehealth.Test{
		past("busy", 1, nodehealth.Periodic, nodehealth.TestPassed, late),
		going("running", 2, nodehealth.Periodic, noon), past("running", 1, nodehealth.Periodic, nodehealth.TestPassed, late),
		past("fresh", 1, nodehealth.Periodic, nodehealth.TestFailed, noon.Add(-time.Hour)),
		past("out", 1, nodehealth.Periodic, nodehealth.TestPassed, late),
		past("other", 1, nodehealth.Periodic, nodehealth.TestPassed, noon.Add(-time.Hour)),
	}
	policy := nodehealth.TestPolicy{Every: 24 * time.Hour, Most: 1}
	want := map[string]int{"gpus": 2, "others": 0}
	if got := nodehealth.PlanTests(policy, nodes, tests, noon).Overdue; !maps.Equal(got, want) {
		t.Errorf("overdue are %v, want %v", got, want)
	}
}

// A node that somebody cleared of what was fatal is not used before a test passed, and what was not fatal needs none.
func TestReturnedNodesWaitForTheirTest(t *testing.T) {
	cleared, later := noon.Add(time.Minute), noon.Add(time.Hour)
	for name, c := range map[string]struct {
		severity nodehealth.Severity
		evidence nodehealth.Evidence
		off      bool
		useless  bool
		want     nodehealth.State
	}{
		"cleared":                              {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared}, false, false, nodehealth.Testing},
		"cleared of what was not fatal":        {nodehealth.Failed, nodehealth.Evidence{Cleared: cleared}, false, false, nodehealth.Healthy},
		"cleared, and trusted":                 {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared, Trusted: true}, false, false, nodehealth.Healthy},
		"where nobody asked for tests":         {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared}, true, false, nodehealth.Healthy},
		"of a node that cannot be tested":      {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared}, false, true, nodehealth.Healthy},
		"a test passed that ended before that": {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared, DeepPassed: noon}, false, false, nodehealth.Testing},
		"a test passed":                        {nodehealth.Fatal, nodehealth.Evidence{Cleared: cleared, DeepPassed: cleared.Add(time.Second)}, false, false, nodehealth.Healthy},
	} {
		t.Run(name, func(t *testing.T) {
			policy := nodehealth.Policy{
				Hold: time.Minute, MaxHold: time.Minute, Percent: 100, Most: 10, TestReturned: !c.off,
			}
			p := nodehealth.Patient{Name: "n", UID: "u", Testable: !c.useless, Found: []nodehealth.Finding{
				{Source: nodehealth.SourceCheck, Name: "xid", Severity: c.severity, Since: noon},
			}}
			v := nodehealth.Judge(policy, nil, []nodehealth.Patient{p}, time.Time{}, noon)
			p.Evidence = c.evidence
			for _, at := range []time.Time{later, later.Add(time.Minute)} { // it is as it was the next time
				v = nodehealth.Judge(policy, v.Healths, []nodehealth.Patient{p}, time.Time{}, at)
			}
			h := v.Healths["n"]
			if got := h.State(); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
			state, why := nodehealth.Classify(nodehealth.Signals{Ready: "True", Health: h})
			if waits := c.want == nodehealth.Testing; state.TakesWork() == waits ||
				strings.Contains(why, "deep test") != waits {
				t.Errorf("it is %s (%s), want that it takes work only if it is healthy", state, why)
			}
		})
	}
}

// GPUs that read 0 for a moment are no test that passed, and a second clearing is a new reason for one: the tests of the
// first may have come to no end.
func TestWaitingForATestOutlivesGPUsAndClearings(t *testing.T) {
	policy := nodehealth.Policy{Hold: time.Minute, MaxHold: time.Minute, Percent: 100, Most: 10, TestReturned: true}
	p := nodehealth.Patient{Name: "n", UID: "u", Testable: true, Found: []nodehealth.Finding{
		{Source: nodehealth.SourceCheck, Name: "xid", Severity: nodehealth.Fatal, Since: noon},
	}}
	healths := map[string]nodehealth.Health{}
	look := func(minutes int) nodehealth.Health {
		at := noon.Add(time.Duration(minutes) * time.Minute)
		healths = nodehealth.Judge(policy, healths, []nodehealth.Patient{p}, time.Time{}, at).Healths
		return healths["n"]
	}
	look(0)
	first, second := noon.Add(time.Minute), noon.Add(time.Hour)
	p.Cleared = first
	look(2)
	p.Testable = false
	if h := look(3); !h.Untested.Equal(first) || h.State() != nodehealth.Testing {
		t.Errorf("it is %s, want that it waits while its GPUs are gone", h.State())
	}
	p.Testable, p.Cleared = true, second
	h := look(61)
	if !h.Untested.Equal(second) {
		t.Fatalf("it waits since %s, want since the second clearing", h.Untested)
	}
	node := tested("n", untestedSince(h.Untested))
	given := tries(past("n", 3, nodehealth.OnReturn, nodehealth.TestUnclear, noon.Add(50*time.Minute)), 3)
	plan := nodehealth.PlanTests(
		nodehealth.TestPolicy{OnReturn: true, Most: 1},
		[]nodehealth.TestNode{node}, []nodehealth.Test{given}, noon.Add(62*time.Minute),
	)
	if len(plan.Start) != 1 || plan.Start[0].Tries != 1 || len(plan.GivenUp) > 0 {
		t.Errorf("it plans %+v, want the first of three new tries", plan)
	}
	p.DeepPassed = noon.Add(2 * time.Hour)
	if h := look(121); !h.Untested.IsZero() {
		t.Error("it waits though a test passed")
	}
	p.DeepPassed, p.Cleared = time.Time{}, noon.Add(3*time.Hour)
	if h := look(181); !h.Untested.IsZero() {
		t.Error("who clears what nothing is found on has it wait for a test")
	}
}

// A pass overrules what was fatal before it for as long as that is said, also when nothing tells of the pass any more: the
// Job is deleted, or the setting is taken away. It overrules nothing else, and nothing of another node of the same name.
func TestAPassIsRememberedWhileItOverrulesSomething(t *testing.T) {
	policy := nodehealth.Policy{Percent: 100, Most: 10}
	said := func(s nodehealth.Source, name string, since time.Time) nodehealth.Finding {
		return nodehealth.Finding{Source: s, Name: name, Severity: nodehealth.Fatal, Since: since}
	}
	old := said(nodehealth.SourceCheck, "xid", noon)
	p := nodehealth.Patient{Name: "n", UID: "u", Found: []nodehealth.Finding{old}}
	healths := map[string]nodehealth.Health{}
	look := func(hours int, want nodehealth.State) {
		t.Helper()
		at := noon.Add(time.Duration(hours) * time.Hour)
		healths = nodehealth.Judge(policy, healths, []nodehealth.Patient{p}, time.Time{}, at).Healths
		if got := healths["n"].State(); got != want {
			t.Errorf("after %d hours it is %s, want %s", hours, got, want)
		}
	}
	look(0, nodehealth.Draining)
	p.DeepPassed = noon.Add(time.Hour)
	look(2, nodehealth.Healthy)
	p.DeepPassed = time.Time{}
	look(3, nodehealth.Healthy)
	look(100, nodehealth.Healthy)
	p.Found = []nodehealth.Finding{said(nodehealth.SourceCheck, "xid", noon.Add(90*time.Minute)), old}
	look(101, nodehealth.Draining)
	p.Found = []nodehealth.Finding{said(nodehealth.SourceCondition, "Gpu", noon), old}
	look(102, nodehealth.Draining)
	p.Found, p.Cleared = []nodehealth.Finding{old}, noon.Add(103*time.Hour)
	look(104, nodehealth.Healthy)
	p.Found = nil
	look(200, nodehealth.Healthy)
	if len(healths) > 0 {
		t.Errorf("nothing is said any more, and %+v is remembered", healths)
	}
	p.Found, p.DeepPassed, p.Cleared = []nodehealth.Finding{old}, noon.Add(time.Hour), time.Time{}
	look(201, nodehealth.Healthy)
	p.UID, p.DeepPassed = "another", time.Time{}
	look(202, nodehealth.Draining)
}

// What runs nothing but a test is told by the label as a test, and as it was before afterwards.
func TestTheLabelTellsOfTests(t *testing.T) {
	bad := nodehealth.Health{Parts: []nodehealth.Part{
		{Of: core.GPU, State: nodehealth.Draining, Level: nodehealth.Fatal, FatalAt: noon},
	}}
	under := bad
	under.UnderTest = true
	label, mark := nodehealth.Relabel(bad, "PASS", nil, false)
	for _, step := range []struct {
		h    nodehealth.Health
		want string
	}{{under, "TESTING"}, {bad, "EVICT"}, {under, "TESTING"}, {nodehealth.Health{}, "PASS"}} {
		if label, mark = nodehealth.Relabel(step.h, label, mark, false); label != step.want {
			t.Errorf("the label is %q, want %q", label, step.want)
		}
	}
	if label, _ := nodehealth.Relabel(under, "EVICT", nil, false); label != "EVICT" {
		t.Errorf("the label of somebody else became %q", label)
	}
}
