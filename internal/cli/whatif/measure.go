package whatif

import (
	"fmt"
	"strings"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/report"
)

// Difference is one measure of one team under each policy.
type Difference struct {
	// Team is "all" for the total.
	Team    string `json:"team"`
	Measure string `json:"measure"`
	// Recorded is what really happened, Values are those of each policy, Changes how much
	// each is above the first.
	Recorded float64   `json:"recorded"`
	Values   []float64 `json:"values"`
	Changes  []float64 `json:"changes"`
	show     func(float64) string
}

// measure is one row for each team.
type measure struct {
	name string
	of   func(*sim.Account) float64
	show func(float64) string
}

func measures(unit string) []measure {
	plain := func(x float64) string { return fmt.Sprintf("%.0f", x) }
	return []measure{
		{"jobs finished", func(a *sim.Account) float64 { return float64(a.Finished) }, plain},
		{"never started", func(a *sim.Account) float64 { return float64(a.NeverStarted) }, plain},
		{"wait P50", func(a *sim.Account) float64 { return a.Wait.P50 }, report.Span},
		{"wait P90", func(a *sim.Account) float64 { return a.Wait.P90 }, report.Span},
		{"utilisation", func(a *sim.Account) float64 { return a.Utilisation }, report.Percent},
		{unit + "-hours", func(a *sim.Account) float64 { return a.Used }, report.Number},
		{unit + "-hours lost", func(a *sim.Account) float64 { return a.Lost }, report.Number},
		{"preemptions", func(a *sim.Account) float64 { return float64(a.Preempted) }, plain},
		{"evictions", func(a *sim.Account) float64 { return float64(a.Evicted) }, plain},
		{"share", func(a *sim.Account) float64 { return a.Share }, report.Percent},
	}
}

// differences lists the measures of all, and then of each team that has had jobs or quota. A
// team that only some policies have counts as nothing in the others.
func (c *Comparison) differences() (out []Difference) {
	accounts := func(team string) (recorded *sim.Account, each []*sim.Account) {
		find := func(r *sim.Result) *sim.Account {
			if team == "" {
				return &r.Total
			}
			for i := range r.Teams {
				if r.Teams[i].Team == team {
					return &r.Teams[i]
				}
			}
			return &sim.Account{}
		}
		for _, r := range c.Policies {
			each = append(each, find(r))
		}
		return find(c.Recorded), each
	}
	for _, team := range append([]string{""}, c.teams()...) {
		recorded, each := accounts(team)
		for _, m := range measures(report.Unit(c.Recorded.Unit)) {
			if team == "" && m.name == "share" {
				continue // it is always all
			}
			d := Difference{Team: team, Measure: m.name, Recorded: m.of(recorded), show: m.show}
			if team == "" {
				d.Team = "all"
			}
			for _, a := range each {
				d.Values = append(d.Values, m.of(a))
				d.Changes = append(d.Changes, round(m.of(a)-m.of(each[0])))
			}
			out = append(out, d)
		}
	}
	return out
}

// teams are those that had jobs, of all policies, in their order.
func (c *Comparison) teams() (out []string) {
	seen := map[string]bool{}
	for _, r := range c.Policies {
		for i := range r.Teams {
			if a := &r.Teams[i]; !seen[a.Team] && (a.Jobs > 0 || a.Used > 0) {
				seen[a.Team] = true
				out = append(out, a.Team)
			}
		}
	}
	return out
}

// dull reports that a row says nothing: it is nothing everywhere.
func (d *Difference) dull() bool {
	for _, v := range d.Values {
		if v != 0 {
			return false
		}
	}
	return d.Recorded == 0
}

// change is how much a policy is above the first, as people read it.
func (d *Difference) change(i int) string {
	by := d.Values[i] - d.Values[0]
	if by == 0 {
		return "="
	}
	sign := "+"
	if by < 0 {
		sign, by = "-", -by
	}
	text := sign + d.show(by)
	if points, ok := strings.CutSuffix(text, "%"); ok {
		return points + " pts" // of a hundred, not a hundredth part
	}
	if first := d.Values[0]; first != 0 {
		text += fmt.Sprintf(" (%s%.0f%%)", sign, 100*by/first)
	}
	return text
}

// letter is what a policy is called in tables.
func letter(i int) string {
	if i < 26 {
		return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i : i+1]
	}
	return fmt.Sprint(i + 1)
}
