package doctor

import (
	"cmp"
	"io"
	"slices"
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Policy is what applies to a ClusterQueue, defaults filled in.
type Policy struct {
	Queue  string `json:"queue"`
	Cohort string `json:"cohort,omitempty"`
	// Order is how it goes on after a job that does not fit.
	Order string `json:"order"`
	// Borrows and Lends say how much, of any resource; "" where there is nobody.
	Borrows string `json:"borrows,omitempty"`
	Lends   string `json:"lends,omitempty"`
	// Own, Reclaim and Borrow are whom it may evict: of its own jobs, to take back what it lent,
	// and to borrow.
	Own     string `json:"evictsOwn"`
	Reclaim string `json:"evictsToReclaim,omitempty"`
	Borrow  string `json:"evictsToBorrow,omitempty"`
	Weight  string `json:"weight"`
	Stopped string `json:"stopped,omitempty"`
}

// Policies are those of all queues, sorted by name.
func (f *Facts) Policies() []Policy {
	out := []Policy{}
	for i := range f.Queues {
		out = append(out, policyOf(&f.Queues[i]))
	}
	slices.SortFunc(out, func(a, b Policy) int { return cmp.Compare(a.Queue, b.Queue) })
	return out
}

func policyOf(q *kueue.ClusterQueue) Policy {
	p := Policy{
		Queue:  q.Name,
		Cohort: string(q.Spec.CohortName),
		Order:  cmp.Or(string(q.Spec.QueueingStrategy), string(kueue.BestEffortFIFO)),
		Own:    "Never",
		Weight: "1",
	}
	if s := q.Spec.FairSharing; s != nil && s.Weight != nil {
		p.Weight = s.Weight.String()
	}
	if isStopped(q.Spec.StopPolicy) {
		p.Stopped = string(*q.Spec.StopPolicy)
	}
	set := q.Spec.Preemption
	if set != nil {
		p.Own = cmp.Or(string(set.WithinClusterQueue), "Never")
	}
	if p.Cohort == "" {
		return p
	}
	p.Reclaim, p.Borrow = "Never", "Never"
	if set != nil {
		p.Reclaim = cmp.Or(string(set.ReclaimWithinCohort), "Never")
		if b := set.BorrowWithinCohort; b != nil {
			p.Borrow = cmp.Or(string(b.Policy), "Never")
		}
	}
	p.Borrows, p.Lends = limits(q)
	return p
}

// limits says whether a queue may borrow and lend without limit, up to one, or not at all.
func limits(q *kueue.ClusterQueue) (borrows, lends string) {
	word := func(free, none bool) string {
		switch {
		case free:
			return "all"
		case none:
			return "none"
		}
		return "limited"
	}
	freeB, noneB, freeL, noneL := true, true, true, true
	for _, f := range view.Flavors(q) {
		for _, x := range f.Quotas {
			freeB, noneB = freeB && x.Borrowing == nil, noneB && x.Borrowing != nil && *x.Borrowing == 0
			freeL, noneL = freeL && x.Lending == nil, noneL && x.Lending != nil && *x.Lending == 0
		}
	}
	return word(freeB, noneB), word(freeL, noneL)
}

// PolicyColumns are those of policies.
func PolicyColumns() []cli.Column[Policy] {
	return []cli.Column[Policy]{
		{Title: "QUEUE", Text: func(p Policy) string { return p.Queue }},
		{Title: "COHORT", Rank: 4, Text: func(p Policy) string { return p.Cohort }},
		{Title: "ORDER", Rank: 6, Text: func(p Policy) string { return p.Order }},
		{Title: "BORROWS", Rank: 3, Text: func(p Policy) string { return p.Borrows }},
		{Title: "LENDS", Rank: 3, Text: func(p Policy) string { return p.Lends }},
		{Title: "EVICTS OWN", Rank: 2, Text: func(p Policy) string { return p.Own }},
		{Title: "TO RECLAIM", Rank: 1, Text: func(p Policy) string { return p.Reclaim }},
		{Title: "TO BORROW", Rank: 2, Text: func(p Policy) string { return p.Borrow }},
		{Title: "WEIGHT", Rank: 5, Text: func(p Policy) string { return p.Weight }},
		{Title: "STOPPED", Text: func(p Policy) string { return cmp.Or(p.Stopped, "no") }},
	}
}

// RuleColumns are those of rules.
func RuleColumns() []cli.Column[Rule] {
	return []cli.Column[Rule]{
		{Title: "RULE", Text: func(r Rule) string { return r.Name }},
		{Title: "SEVERITY", Text: func(r Rule) string { return string(r.Severity) }},
		{Title: "FINDS", Text: func(r Rule) string { return r.Asks }},
	}
}

// Print prints a finding: what is wrong with what, and what helps in a line of its own.
func Print(w io.Writer, x *finding.Finding, s cli.Style) error {
	lead := strings.ToUpper(string(x.Severity)) + " " + x.Object + ": "
	text := cli.Wrap(lead+x.Message, s.Width, "  ") + "\n"
	if x.Cure != "" {
		cure := x.Cure
		if rest, is := strings.CutPrefix(cure, "kubectl "); is && s.Kubectl != "" {
			cure = s.Kubectl + " " + rest
		}
		text += "  -> " + words.Harmless(cure) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err //nolint:wrapcheck // the writer's own
}

// Sum says in a line how much was found.
func Sum(findings []finding.Finding) string {
	var out []string
	for _, s := range finding.Severities() {
		if n := finding.Count(findings, s); n > 0 {
			out = append(out, count(n, string(s), string(s)+"s"))
		}
	}
	if len(out) == 0 {
		return "Nothing is wrong."
	}
	return strings.Join(out, ", ") + "."
}
