package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Difference is one measure of two worlds.
type Difference struct {
	// Team is "all" for the total.
	Team    string  `json:"team"`
	Measure string  `json:"measure"`
	A       float64 `json:"a"`
	B       float64 `json:"b"`
	// Change is B less A.
	Change float64 `json:"change"`
}

// Comparison is two results and how they differ.
type Comparison struct {
	A           *sim.Result  `json:"a"`
	B           *sim.Result  `json:"b"`
	Differences []Difference `json:"differences"`
}

// measure is one column of a comparison.
type measure struct {
	name string
	of   func(*sim.Account) float64
	show func(float64) string
}

func measures(unit string) []measure {
	plain := func(x float64) string { return fmt.Sprintf("%.0f", x) }
	two := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	return []measure{
		{"jobs finished", func(a *sim.Account) float64 { return float64(a.Finished) }, plain},
		{"jobs never started", func(a *sim.Account) float64 { return float64(a.NeverStarted) }, plain},
		{"wait mean", func(a *sim.Account) float64 { return a.Wait.Mean }, span},
		{"wait p50", func(a *sim.Account) float64 { return a.Wait.P50 }, span},
		{"wait p90", func(a *sim.Account) float64 { return a.Wait.P90 }, span},
		{"wait p99", func(a *sim.Account) float64 { return a.Wait.P99 }, span},
		{"slowdown mean", func(a *sim.Account) float64 { return a.Slowdown.Mean }, two},
		{"utilisation", func(a *sim.Account) float64 { return a.Utilisation }, percent},
		{unit + "-hours used", func(a *sim.Account) float64 { return a.Used }, number},
		{unit + "-hours borrowed", func(a *sim.Account) float64 { return a.Borrowed }, number},
		{unit + "-hours lent", func(a *sim.Account) float64 { return a.Lent }, number},
		{"preemptions", func(a *sim.Account) float64 { return float64(a.Preempted) }, plain},
		{"restarts", func(a *sim.Account) float64 { return float64(a.Restarts) }, plain},
		{unit + "-hours lost", func(a *sim.Account) float64 { return a.Lost }, number},
	}
}

// Compare lists what two results have in common, side by side.
func Compare(a, b *sim.Result) *Comparison {
	c := &Comparison{A: a, B: b}
	each(a, b, func(team string, m measure, x, y float64) {
		c.Differences = append(c.Differences, Difference{team, m.name, x, y, y - x})
	})
	return c
}

func each(a, b *sim.Result, f func(team string, m measure, x, y float64)) {
	ms := measures(Unit(a.Unit))
	for _, m := range ms {
		f("all", m, m.of(&a.Total), m.of(&b.Total))
	}
	f("all", measure{"Jain index", nil, func(x float64) string { return fmt.Sprintf("%.3f", x) }}, a.Jain, b.Jain)
	for i := range a.Teams {
		for k := range b.Teams {
			if a.Teams[i].Team == b.Teams[k].Team {
				for _, m := range ms {
					f(a.Teams[i].Team, m, m.of(&a.Teams[i]), m.of(&b.Teams[k]))
				}
			}
		}
	}
}

// Text prints a comparison. Rows of teams that do not differ are left out.
func (c *Comparison) Text(out io.Writer) error {
	var buf strings.Builder
	w := tabwriter.NewWriter(&buf, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "TEAM\tMEASURE\tA: %s\tB: %s\tB - A\t\n", c.A.World, c.B.World)
	last := ""
	each(c.A, c.B, func(team string, m measure, x, y float64) {
		if team != "all" && x == y {
			return
		}
		name := team
		if team == last {
			name = ""
		}
		last = team
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", name, m.name, m.show(x), m.show(y), change(m, x, y))
	})
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, buf.String())
	return err
}

func change(m measure, x, y float64) string {
	if x == y {
		return "="
	}
	sign := "+"
	d := y - x
	if d < 0 {
		sign, d = "-", -d
	}
	s := sign + m.show(d)
	if x != 0 {
		s += fmt.Sprintf(" (%s%.0f%%)", sign, 100*d/max(x, -x))
	}
	return s
}
