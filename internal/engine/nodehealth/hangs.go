package nodehealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// SourceHang is that jobs hung while one of their ranks was behind the others on the node, as the steps say that they
// tell. Tenants write those: what they say is bounded here.
const SourceHang Source = "Hang"

const (
	// hangsCount is for how long a hang counts.
	hangsCount = 24 * time.Hour
	// hangsNeeded is how many namespaces, and how many users, have to have one on a node: a tenant alone says nothing
	// about a node, however many jobs of theirs hang there, and in however many namespaces.
	hangsNeeded = 2
)

// HangReport is that a job of a user hung, and which node its rank was on that was behind. One of whom nobody knows whose
// it is counts as that of a user of its namespace.
type HangReport struct {
	Node, Namespace, User, Job string
	At                         time.Time
}

// Hangs are findings by node: each is Warned, so that the node gets work only if nothing else fits, and nothing leaves it. A
// node has one when jobs of several users in several namespaces hung there within a day; it lapses when they did not any
// more. next is when that is for the first of them; zero if there is none.
func Hangs(reports []HangReport, now time.Time) (found map[string]Finding, next time.Time) {
	type tenant struct{ namespace, user string }
	last := map[string]map[tenant]HangReport{} // by node
	for _, r := range reports {
		if r.Node == "" || r.At.After(now) || !r.At.Add(hangsCount).After(now) {
			continue
		}
		if last[r.Node] == nil {
			last[r.Node] = map[tenant]HangReport{}
		}
		who := tenant{r.Namespace, cmp.Or(r.User, "of "+r.Namespace)}
		if was, is := last[r.Node][who]; !is || later(r, was) > 0 {
			last[r.Node][who] = r
		}
	}
	found = map[string]Finding{}
	for node, of := range last {
		all := slices.SortedFunc(maps.Keys(of), func(a, b tenant) int { return -later(of[a], of[b]) })
		namespaces, users := map[string]bool{}, map[string]bool{}
		var lapses time.Time
		for _, who := range all {
			namespaces[who.namespace], users[who.user] = true, true
			if lapses.IsZero() && len(namespaces) >= hangsNeeded && len(users) >= hangsNeeded {
				lapses = of[who].At.Add(hangsCount)
			}
		}
		if lapses.IsZero() {
			continue
		}
		found[node] = Finding{
			Source: SourceHang, Name: "jobs", Severity: Warned, Since: of[all[0]].At.UTC(),
			Message: fmt.Sprintf("jobs of %d namespaces hung here within a day", len(namespaces)),
		}
		if next.IsZero() || lapses.Before(next) {
			next = lapses
		}
	}
	return found, next
}

// later orders reports by time, equal ones by whose they are.
func later(a, b HangReport) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.User, b.User),
		cmp.Compare(a.Job, b.Job))
}

// Add adds a finding of a source that judges itself, as rules say.
func (p *Patient) Add(rules []Rule, f Finding) {
	p.Found = append(p.Found, Findings(rules, Observed{Checks: []Finding{f}})...)
	slices.SortStableFunc(p.Found, func(a, b Finding) int {
		return cmp.Compare(b.Severity.rank(), a.Severity.rank())
	})
}
