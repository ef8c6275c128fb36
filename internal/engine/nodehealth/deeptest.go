package nodehealth

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// TestCause is why a node is tested.
type TestCause string

// The causes of deep tests, most urgent first.
const (
	// OnReturn: somebody said that the node is repaired, and it is tested before it is used.
	OnReturn TestCause = "OnReturn"
	// AfterFault: something fatal was found on it, which a deep test may clear.
	AfterFault TestCause = "AfterFault"
	// Periodic: its last test was long ago.
	Periodic TestCause = "Periodic"
)

func (c TestCause) rank() int { return slices.Index([]TestCause{OnReturn, AfterFault, Periodic}, c) }

// TestVerdict is what came of a deep test.
type TestVerdict string

// The verdicts of deep tests.
const (
	TestPassed TestVerdict = "Passed"
	TestFailed TestVerdict = "Failed"
	// TestUnclear is of one that came to no end by itself: nothing follows from it for the node.
	TestUnclear TestVerdict = "Unclear"
)

// Test is a deep test of a node.
type Test struct {
	Node string
	// UID of the node: one of another node of the same name says nothing.
	UID string
	// Number counts the tests of a node. No two have the same, so that no two run at once.
	Number int
	Cause  TestCause
	// Tries is the how many-th it is of those that followed each other because the one before was unclear.
	Tries int
	// Queued has it wait in a queue, as one that takes a node in service from others.
	Queued bool
	// Began is zero of one that waits for its turn.
	Created, Began, Ended time.Time
	// Verdict is empty of one that has not ended.
	Verdict TestVerdict
	// Why says what came of it, for people.
	Why string
}

// TestPolicy says which nodes are tested when.
type TestPolicy struct {
	// Every is how long after a test the next one is due; 0 is never.
	Every                time.Duration
	AfterFault, OnReturn bool
	// Most and Percent bound how many nodes of a pool are tested at once; the larger one counts.
	Most, Percent int
}

// TestNode is a node, with what decides whether it is tested.
type TestNode struct {
	Name, UID string
	Pools     []string
	// Wanted says that it has GPUs which are to be tested. The tests of one that is not are kept: its GPUs may be gone for
	// a moment only.
	Wanted bool
	// Whole says that all its GPUs can be asked for: a test of the others would pass without a look at the broken one.
	Whole bool
	// Spare says that it is kept for recovery: no queue gives it away.
	Spare bool
	// Idle says that no pod but those of tests holds a GPU of it.
	Idle bool
	// Ready says that it is Up, that nobody took it out of service by hand, and that nobody else tests it.
	Up, Ready bool
	// InService says that it takes work.
	InService bool
	// Waited is when a test of it last left the queue because it had waited too long; zero if none did.
	Waited time.Time
	Health Health
}

// borrowed reports whether a queue could give the node to a test.
func (n *TestNode) borrowed() bool {
	return n.Wanted && n.Whole && n.Idle && n.Ready && n.InService && !n.Spare
}

// TestPlan is what follows for deep tests.
type TestPlan struct {
	// Start are new tests, Remove those of which nothing is needed any more, or that have to make room.
	Start, Remove []Test
	// Waited are the nodes of those of Remove that waited too long in their queue.
	Waited []string
	// GivenUp are the last tests of nodes that need one and get none any more.
	GivenUp []Test
	// Partial are tests that do not start because some of the GPUs of their nodes cannot be asked for.
	Partial []Test
	// Overdue is how many nodes in service were not tested for longer than the policy says, by pool; all pools are there.
	Overdue map[string]int
	// Next is when to look again if nothing changes; zero for never.
	Next time.Time
}

const (
	// mostTries is after how many unclear tests a node is left alone; a pause doubles between them.
	mostTries  = 3
	firstPause = 10 * time.Minute
	// longestWait is for how long a test waits in its queue before that of another node has its place.
	longestWait = time.Hour
)

// PlanTests says which nodes are to be tested now. nodes are all that exist, tests those that there are.
//
//   - A node is tested if it was returned and not tested since, if something fatal was found that no test has looked at
//     since, or if its last test was long ago; in this order.
//   - Only idle nodes are, one test for each, and no more of a pool than the policy says.
//   - A test that waits in the queue goes when its node gets work or leaves service, when an urgent one needs its place,
//     and when it has waited for long: then others are first. One without a queue goes when its node is in service.
//   - One that comes to no end is followed by two more, and then by none until there is a new reason.
//   - What became of the last test is kept for as long as its node exists.
func PlanTests(policy TestPolicy, nodes []TestNode, tests []Test, now time.Time) TestPlan {
	p := planner{
		TestPlan: TestPlan{Overdue: map[string]int{}}, policy: policy, now: now,
		size: map[string]int{}, running: map[string]int{}, waiting: map[string][]Test{},
	}
	of := map[string][]Test{}
	for _, t := range tests {
		of[t.Node] = append(of[t.Node], t)
	}
	there := map[string]bool{}
	for i := range nodes {
		there[nodes[i].Name] = true
		p.look(&nodes[i], of[nodes[i].Name])
	}
	for _, t := range tests {
		if !there[t.Node] {
			p.Remove = append(p.Remove, t)
		}
	}
	p.grant()
	slices.SortFunc(p.Remove, func(a, b Test) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Number, b.Number))
	})
	return p.TestPlan
}

// planner makes a plan.
type planner struct {
	TestPlan
	policy TestPolicy
	now    time.Time
	// size is how many nodes pools have, running how many of them are tested or about to be, and waiting which of these
	// tests wait in a queue.
	size, running map[string]int
	waiting       map[string][]Test
	wishes        []wish
}

// wish is a test that a node should have.
type wish struct {
	Test
	pools []string
	// last is when the node last had its turn.
	last time.Time
}

// look finds out what becomes of the tests of a node, and which it should have.
func (p *planner) look(n *TestNode, tests []Test) {
	last, verdict := p.tidy(tests, n)
	if n.Wanted {
		late := p.policy.Every > 0 && n.InService &&
			(verdict == nil || !p.now.Before(verdict.Ended.Add(p.policy.Every)))
		for _, pool := range countedIn(n.Pools) {
			p.size[pool]++
			p.Overdue[pool] += 0
			if late {
				p.Overdue[pool]++
			}
		}
	}
	if last != nil && last.Verdict == "" {
		p.unfinished(n, last)
		return
	}
	if !n.Wanted {
		return
	}
	cause, since := n.testFor(p.policy, verdict, p.now)
	if cause == "" {
		if verdict != nil && p.policy.Every > 0 && n.InService {
			p.due(verdict.Ended.Add(p.policy.Every), p.now)
		}
		return
	}
	w := wish{pools: countedIn(n.Pools), last: n.Waited, Test: Test{
		Node: n.Name, UID: n.UID, Number: 1, Cause: cause, Tries: 1, Queued: cause == Periodic, Created: p.now,
	}}
	if last != nil {
		w.Number = last.Number + 1
	}
	if verdict != nil && verdict.Ended.After(w.last) {
		w.last = verdict.Ended
	}
	if last != nil && last.Verdict == TestUnclear && !since.After(last.Created) && !p.again(&w.Test, last) {
		return
	}
	switch {
	case !n.Whole:
		p.Partial = append(p.Partial, w.Test)
	case n.Idle && n.Ready && (cause != Periodic || n.borrowed()):
		p.wishes = append(p.wishes, w)
	}
}

// unfinished is what becomes of a test that has not ended.
func (p *planner) unfinished(n *TestNode, t *Test) {
	waits := t.Queued && t.Began.IsZero()
	switch {
	case waits && !n.borrowed(): // it had to wait, or was stopped for somebody's job
		p.Remove = append(p.Remove, *t)
		return
	case waits && !p.now.Before(t.Created.Add(longestWait)):
		p.Remove, p.Waited = append(p.Remove, *t), append(p.Waited, n.Name)
		return
	case !t.Queued && n.Wanted && n.InService: // somebody has it used without a test, which would keep its GPUs from jobs
		p.Remove = append(p.Remove, *t)
		return
	case !waits && !n.Up: // nobody knows when it ends, and others are not to wait for that
		return
	}
	if waits {
		p.due(t.Created.Add(longestWait), p.now)
	}
	for _, pool := range countedIn(n.Pools) {
		p.running[pool]++
		if waits {
			p.waiting[pool] = append(p.waiting[pool], *t)
		}
	}
}

// again makes a test the next try after one that was unclear, and reports whether it is time for it.
func (p *planner) again(next, last *Test) bool {
	at := last.Ended.Add(firstPause << max(last.Tries-1, 0))
	if last.Tries >= mostTries {
		p.GivenUp = append(p.GivenUp, *last)
		if at = last.Ended.Add(p.policy.Every); next.Cause != Periodic {
			return false
		}
	} else {
		next.Tries = last.Tries + 1
	}
	p.due(at, p.now)
	return !p.now.Before(at)
}

// grant starts what is wished for, the most urgent first, as far as there is room.
func (p *planner) grant() {
	slices.SortStableFunc(p.wishes, func(a, b wish) int {
		return cmp.Or(
			cmp.Compare(a.Cause.rank(), b.Cause.rank()),
			a.last.Compare(b.last),
			cmp.Compare(a.Node, b.Node),
		)
	})
	for _, w := range p.wishes {
		gone, is := p.room(w)
		if !is {
			continue
		}
		p.Remove = append(p.Remove, gone...)
		for pool, all := range p.waiting {
			p.waiting[pool] = slices.DeleteFunc(slices.Clone(all), func(t Test) bool { return slices.Contains(gone, t) })
			p.running[pool] -= len(all) - len(p.waiting[pool])
		}
		for _, pool := range w.pools {
			p.running[pool]++
		}
		p.Start = append(p.Start, w.Test)
	}
}

// room are the tests that wait and have to go for one that is wished for: one in each pool that is full. Without one in
// each there is no room, and none goes.
func (p *planner) room(w wish) (gone []Test, is bool) {
	for _, pool := range w.pools {
		left := slices.DeleteFunc(
			slices.Clone(p.waiting[pool]),
			func(t Test) bool { return slices.Contains(gone, t) },
		)
		most := p.policy.atOnce(p.size[pool])
		over := p.running[pool] - (len(p.waiting[pool]) - len(left)) + 1 - most
		if over <= 0 {
			continue
		}
		if w.Cause == Periodic || over > len(left) {
			return nil, false
		}
		gone = append(gone, left[:over]...)
	}
	return gone, true
}

// tidy finds the newest test of a node, nil if there is none, and the newest of it that came to a verdict. The others
// are to be removed.
func (p *TestPlan) tidy(tests []Test, n *TestNode) (last, verdict *Test) {
	slices.SortFunc(tests, func(a, b Test) int { return cmp.Compare(b.Number, a.Number) })
	for i := range tests {
		t := &tests[i]
		if t.UID != n.UID {
			p.Remove = append(p.Remove, *t)
			continue
		}
		keep := last == nil
		if keep {
			last = t
		}
		if verdict == nil && (t.Verdict == TestPassed || t.Verdict == TestFailed) {
			verdict, keep = t, true
		}
		if !keep {
			p.Remove = append(p.Remove, *t)
		}
	}
	return last, verdict
}

// testFor is why a node is to be tested, and since when there is that reason; "" if it is not to be. verdict is its
// newest test that came to one. What is in service is tested by the queue only, whatever was found on it: the breaker
// may hold it there.
func (n *TestNode) testFor(policy TestPolicy, verdict *Test, now time.Time) (TestCause, time.Time) {
	looked := func(since time.Time) bool {
		return verdict != nil && (verdict.Ended.After(since) ||
			verdict.Verdict == TestFailed && verdict.Ended.Equal(since)) // it is what failed
	}
	if at := n.Health.Untested; policy.OnReturn && !at.IsZero() && !looked(at) {
		return OnReturn, at
	}
	var fatal time.Time
	for _, p := range n.Health.Parts {
		if p.FatalAt.After(fatal) {
			fatal = p.FatalAt
		}
	}
	switch {
	case !fatal.IsZero() && policy.AfterFault && !n.InService && !looked(fatal):
		return AfterFault, fatal
	case !n.InService || policy.Every <= 0:
		return "", time.Time{}
	case verdict == nil:
		return Periodic, time.Time{}
	case !now.Before(verdict.Ended.Add(policy.Every)):
		return Periodic, verdict.Ended
	}
	return "", time.Time{}
}

// atOnce is how many nodes of a pool of a size may be tested at once: one at least.
func (p TestPolicy) atOnce(size int) int { return max(p.Most, size*p.Percent/100, 1) }

func (p *TestPlan) due(at, now time.Time) {
	if at.After(now) && (p.Next.IsZero() || at.Before(p.Next)) {
		p.Next = at
	}
}

// DeepTestCheck is the name of the finding of a deep test that failed.
const DeepTestCheck = "deep-test"

// Evidence is what a test that came to a verdict says of its node: when it passed, or what it found. One that was unclear
// says nothing.
func (t *Test) Evidence() (passed time.Time, found *Finding) {
	switch t.Verdict {
	case TestPassed:
		return t.Ended, nil
	case TestFailed:
		// It stays until another one passes, or somebody clears it.
		return time.Time{}, &Finding{
			Source: SourceCheck, Name: DeepTestCheck, Severity: Fatal, Message: t.Why, Since: t.Ended,
		}
	case TestUnclear:
	}
	return time.Time{}, nil
}

// GivenUpWords say that a node is not tested any more, and what to do.
func (t *Test) GivenUpWords() string {
	text := fmt.Sprintf("%d deep tests in a row came to no end, the last one: %s", t.Tries, t.Why)
	if t.Cause == Periodic {
		return text + ". The next one is when it would be due"
	}
	return text + ". The node stays out of service until somebody clears it: mlbatch nodes clear " + t.Node
}

// PartialWords say that a node is not tested as long as some of its GPUs cannot be asked for.
func (t *Test) PartialWords() string {
	return fmt.Sprintf("Its deep test (%s) waits: fewer of its GPUs can be allocated than it has, and a test of these "+
		"would pass without a look at the others. Mend what its device plugin calls unhealthy", t.Cause)
}
