package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Difference is one measure of several worlds.
type Difference struct {
	// Team is "all" for the total.
	Team    string `json:"team"`
	Measure string `json:"measure"`
	// Values are those of each world, Changes how much each is above the first.
	Values  []float64 `json:"values"`
	Changes []float64 `json:"changes"`
}

// Comparison is several results and how they differ.
type Comparison struct {
	Worlds      []*sim.Result `json:"worlds"`
	Differences []Difference  `json:"differences"`
	// Notes say what keeps the worlds from being compared fairly.
	Notes []string `json:"notes,omitempty"`
}

// Compare lists what results have in common, side by side. There are two at least.
func Compare(results ...*sim.Result) *Comparison {
	c := &Comparison{Worlds: results, Notes: notes(results)}
	each(results, func(team string, m Measure, values []float64) {
		d := Difference{Team: team, Measure: m.Name, Values: values}
		for _, v := range values {
			d.Changes = append(d.Changes, v-values[0])
		}
		c.Differences = append(c.Differences, d)
	})
	return c
}

// notes says where the worlds differ in what results are measured over.
func notes(results []*sim.Result) (out []string) {
	var times, jobs, units []string
	for i, r := range results {
		times = append(times, Letter(i)+" "+Span(r.Seconds))
		jobs = append(jobs, fmt.Sprintf("%s %d", Letter(i), r.Total.Jobs))
		units = append(units, Letter(i)+" "+Unit(r.Unit)+"s")
	}
	differ := func(of func(*sim.Result) any) bool {
		return slices.ContainsFunc(results, func(r *sim.Result) bool { return of(r) != of(results[0]) })
	}
	if differ(func(r *sim.Result) any { return r.Unit }) {
		out = append(out, "the worlds count in other units: "+strings.Join(units, ", "))
	}
	if differ(func(r *sim.Result) any { return r.Total.Jobs }) {
		out = append(out, "the worlds have other jobs: "+strings.Join(jobs, ", "))
	}
	if differ(func(r *sim.Result) any { return r.Seconds }) {
		out = append(
			out,
			"the worlds ran for other times: "+strings.Join(times, ", ")+"; hours and utilisation are over those",
		)
	}
	return out
}

func each(results []*sim.Result, f func(team string, m Measure, values []float64)) {
	ms := Measures(Unit(results[0].Unit))
	of := func(team string, m Measure, accounts []*sim.Account) {
		values := make([]float64, len(accounts))
		for i, a := range accounts {
			values[i] = m.Of(a)
		}
		f(team, m, values)
	}
	totals, jain := []*sim.Account{}, []float64{}
	for _, r := range results {
		totals, jain = append(totals, &r.Total), append(jain, r.Jain)
	}
	for _, m := range ms {
		if m.Name != Share { // it is always all
			of("all", m, totals)
		}
	}
	f("all", Measure{"Jain index", nil, func(x float64) string { return fmt.Sprintf("%.3f", x) }}, jain)
	for i := range results[0].Teams {
		var accounts []*sim.Account
		for _, r := range results {
			k := slices.IndexFunc(r.Teams, func(a sim.Account) bool { return a.Team == results[0].Teams[i].Team })
			if k >= 0 {
				accounts = append(accounts, &r.Teams[k])
			}
		}
		if len(accounts) < len(results) {
			continue // a team that not all worlds have
		}
		for _, m := range ms {
			of(results[0].Teams[i].Team, m, accounts)
		}
	}
}

// Text prints a comparison. Rows of teams that do not differ are left out.
func (c *Comparison) Text(out io.Writer) error {
	var buf strings.Builder
	w := tabwriter.NewWriter(&buf, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "TEAM\tMEASURE\tA: %s\t", c.Worlds[0].World)
	for i, r := range c.Worlds[1:] {
		fmt.Fprintf(w, "%s: %s\t%s - A\t", Letter(i+1), r.World, Letter(i+1))
	}
	fmt.Fprintln(w)
	last := ""
	each(c.Worlds, func(team string, m Measure, values []float64) {
		if team != "all" && !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] }) {
			return
		}
		name := team
		if team == last {
			name = ""
		}
		last = team
		fmt.Fprintf(w, "%s\t%s\t%s\t", name, m.Name, m.Show(values[0]))
		for _, v := range values[1:] {
			fmt.Fprintf(w, "%s\t%s\t", m.Show(v), m.Change(values[0], v))
		}
		fmt.Fprintln(w)
	})
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&buf, "\nNote: %s.\n", n)
	}
	_, err := io.WriteString(out, buf.String())
	return err
}
