package whatif

import (
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
	is       report.Measure
}

// measures are the measures that a record of the past has, too.
func measures(unit string) []report.Measure {
	return report.Choose(
		unit,
		report.JobsFinished,
		report.NeverStarted,
		report.WaitP50,
		report.WaitP90,
		report.Utilisation,
		report.HoursUsed(unit),
		report.HoursLost(unit),
		report.Preemptions,
		report.Evictions,
		report.Share,
	)
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
			if team == "" && m.Name == report.Share {
				continue // it is always all
			}
			d := Difference{Team: team, Measure: m.Name, Recorded: m.Of(recorded), is: m}
			if team == "" {
				d.Team = "all"
			}
			for _, a := range each {
				d.Values = append(d.Values, m.Of(a))
				d.Changes = append(d.Changes, round(m.Of(a)-m.Of(each[0])))
			}
			out = append(out, d)
		}
	}
	return out
}

// teams are the teams that had jobs, of all policies, in their order.
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

// show is a value as people read it, change how much a policy is above the first.
func (d *Difference) show(v float64) string { return d.is.Show(v) }
func (d *Difference) change(i int) string   { return d.is.Change(d.Values[0], d.Values[i]) }
