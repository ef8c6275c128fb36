package nodehealth

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// SourceHang is that jobs hung while one of their ranks was behind the others on the node, as the steps say that they
// tell. Tenants write those: what they say is bounded here.
const SourceHang Source = "Hang"

const (
	// hangsCount is for how long a hang counts.
	hangsCount = 24 * time.Hour
	// hangsNeeded is how many namespaces have to have one on a node: a tenant alone says nothing about a node,
	// however many jobs of theirs hang there.
	hangsNeeded = 2
)

// HangReport is that a job hung, and which node its rank was on that was behind.
type HangReport struct {
	Node, Namespace, Job string
	At                   time.Time
}

// Hangs are findings by node: each is Warned, so that the node gets work only if nothing else fits, and nothing leaves it. A
// node has one when jobs of several namespaces hung there within a day; it lapses a day after the last but one of these
// namespaces had one. next is when that is for the first of them; zero if there is none.
func Hangs(reports []HangReport, now time.Time) (found map[string]Finding, next time.Time) {
	last := map[string]map[string]HangReport{} // the last of each namespace, by node
	for _, r := range reports {
		if r.Node == "" || r.At.After(now) || !r.At.Add(hangsCount).After(now) {
			continue
		}
		if last[r.Node] == nil {
			last[r.Node] = map[string]HangReport{}
		}
		if was, is := last[r.Node][r.Namespace]; !is || later(r, was) > 0 {
			last[r.Node][r.Namespace] = r
		}
	}
	found = map[string]Finding{}
	for node, of := range last {
		if len(of) < hangsNeeded {
			continue
		}
		all := make([]HangReport, 0, len(of))
		for _, r := range of {
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b HangReport) int { return -later(a, b) })
		found[node] = Finding{
			Source: SourceHang, Name: "jobs", Severity: Warned, Since: all[0].At.UTC(),
			Message: fmt.Sprintf("jobs of %d namespaces hung here within a day", len(all)),
		}
		if lapses := all[hangsNeeded-1].At.Add(hangsCount); next.IsZero() || lapses.Before(next) {
			next = lapses
		}
	}
	return found, next
}

// later orders reports by time, equal ones by whose they are.
func later(a, b HangReport) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job))
}

// Add adds a finding of a source that judges itself, as rules say.
func (p *Patient) Add(rules []Rule, f Finding) {
	p.Found = append(p.Found, Findings(rules, Observed{Checks: []Finding{f}})...)
	slices.SortStableFunc(p.Found, func(a, b Finding) int {
		return cmp.Compare(b.Severity.rank(), a.Severity.rank())
	})
}
