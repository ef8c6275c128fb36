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

// TestNode is a node that may be tested.
type TestNode struct {
	Name, UID string
	Pools     []string
	// Idle says that no pod but those of tests holds a GPU of it.
	Idle bool
	// Ready says that it is up, that nobody took it out of service by hand, and that nobody else tests it.
	Ready bool
	// InService says that it takes work.
	InService bool
	Health    Health
}

// TestPlan is what follows for deep tests.
type TestPlan struct {
	// Start are new tests, Remove those of which nothing is needed any more, or that have to make room.
	Start, Remove []Test
	// GivenUp are the last tests of nodes that need one and get none any more.
	GivenUp []Test
	// Next is when to look again if nothing changes; zero for never.
	Next time.Time
}

// mostTries is after how many unclear tests a node is left alone; a pause doubles between them.
const (
	mostTries  = 3
	firstPause = 10 * time.Minute
)

// PlanTests says which nodes are to be tested now. nodes are all that could be, tests those that there are.
//
//   - A node is tested if it was returned and not tested since, if something fatal was found that no test has looked at
//     since, or if its last test was long ago; in this order.
//   - Only idle nodes are, one test for each, and no more of a pool than the policy says.
//   - A test that waits in the queue goes when its node gets work, and when an urgent one needs its place.
//   - One that comes to no end is followed by two more, and then by none until there is a new reason.
func PlanTests(policy TestPolicy, nodes []TestNode, tests []Test, now time.Time) TestPlan {
	var plan TestPlan
	of := map[string][]Test{}
	for _, t := range tests {
		of[t.Node] = append(of[t.Node], t)
	}
	size, running, waiting := map[string]int{}, map[string]int{}, map[string][]Test{}
	type wish struct {
		node *TestNode
		Test
		last time.Time
	}
	var wishes []wish
	there := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		there[n.Name] = true
		for _, pool := range countedIn(n.Pools) {
			size[pool]++
		}
		last, verdict := plan.tidy(of[n.Name], n)
		if last != nil && last.Verdict == "" {
			if last.Queued && last.Began.IsZero() {
				if !n.Idle || !n.Ready {
					plan.Remove = append(plan.Remove, *last) // it had to wait, or was stopped for somebody's job
					continue
				}
				for _, pool := range countedIn(n.Pools) {
					waiting[pool] = append(waiting[pool], *last)
				}
			}
			for _, pool := range countedIn(n.Pools) {
				running[pool]++
			}
			continue
		}
		cause, since := n.testFor(policy, verdict, now)
		if cause == "" {
			if verdict != nil && policy.Every > 0 && n.InService {
				plan.due(verdict.Ended.Add(policy.Every), now)
			}
			continue
		}
		next := Test{
			Node:    n.Name,
			UID:     n.UID,
			Number:  1,
			Cause:   cause,
			Tries:   1,
			Queued:  cause == Periodic,
			Created: now,
		}
		if last != nil {
			next.Number = last.Number + 1
		}
		if last != nil && last.Verdict == TestUnclear && !since.After(last.Created) {
			again := last.Ended.Add(firstPause << max(last.Tries-1, 0))
			if last.Tries >= mostTries {
				plan.GivenUp = append(plan.GivenUp, *last)
				if again = last.Ended.Add(policy.Every); cause != Periodic {
					continue
				}
			} else {
				next.Tries = last.Tries + 1
			}
			if now.Before(again) {
				plan.due(again, now)
				continue
			}
		}
		if !n.Idle || !n.Ready {
			continue
		}
		w := wish{node: n, Test: next}
		if verdict != nil {
			w.last = verdict.Ended
		}
		wishes = append(wishes, w)
	}
	for _, t := range tests {
		if !there[t.Node] {
			plan.Remove = append(plan.Remove, t)
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int {
		return cmp.Or(
			cmp.Compare(a.Cause.rank(), b.Cause.rank()),
			a.last.Compare(b.last),
			cmp.Compare(a.Node, b.Node),
		)
	})
	for _, w := range wishes {
		full := func() string {
			for _, pool := range countedIn(w.node.Pools) {
				if running[pool] >= policy.atOnce(size[pool]) {
					return pool
				}
			}
			return "-"
		}
		for pool := full(); pool != "-" && w.Cause != Periodic && len(waiting[pool]) > 0; pool = full() {
			gone := waiting[pool][0]
			plan.Remove = append(plan.Remove, gone)
			for pool, all := range waiting {
				if i := slices.Index(all, gone); i >= 0 {
					waiting[pool] = slices.Delete(slices.Clone(all), i, i+1)
					running[pool]--
				}
			}
		}
		if full() != "-" {
			continue
		}
		for _, pool := range countedIn(w.node.Pools) {
			running[pool]++
		}
		plan.Start = append(plan.Start, w.Test)
	}
	slices.SortFunc(plan.Remove, func(a, b Test) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Number, b.Number))
	})
	return plan
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
// newest test that came to one.
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
	case !fatal.IsZero() && policy.AfterFault && !looked(fatal):
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
