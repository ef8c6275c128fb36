package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Measure is one figure of an account, as comparisons show it.
type Measure struct {
	// Name ends with its unit where that is not said by Show.
	Name string
	// Of is the figure, Show how people read it.
	Of   func(*sim.Account) float64
	Show func(float64) string
}

// The names of measures that are the same whatever is counted.
const (
	JobsFinished = "jobs finished"
	NeverStarted = "jobs never started"
	WaitP50      = "wait p50"
	WaitP90      = "wait p90"
	Utilisation  = "utilisation"
	Preemptions  = "preemptions"
	Evictions    = "evictions"
	Share        = "share"
)

// HoursUsed and HoursLost are the names of measures in hours of a unit, see Unit.
func HoursUsed(unit string) string { return unit + "-hours used" }

// HoursLost is work that was done and has to be done again.
func HoursLost(unit string) string { return unit + "-hours lost" }

// Measures are all there are, in the order in which they are shown.
func Measures(unit string) []Measure {
	plain := func(x float64) string { return fmt.Sprintf("%.0f", x) }
	two := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	return []Measure{
		{JobsFinished, func(a *sim.Account) float64 { return float64(a.Finished) }, plain},
		{NeverStarted, func(a *sim.Account) float64 { return float64(a.NeverStarted) }, plain},
		{"wait mean", func(a *sim.Account) float64 { return a.Wait.Mean }, Span},
		{WaitP50, func(a *sim.Account) float64 { return a.Wait.P50 }, Span},
		{WaitP90, func(a *sim.Account) float64 { return a.Wait.P90 }, Span},
		{"wait p99", func(a *sim.Account) float64 { return a.Wait.P99 }, Span},
		{"slowdown mean", func(a *sim.Account) float64 { return a.Slowdown.Mean }, two},
		{Utilisation, func(a *sim.Account) float64 { return a.Utilisation }, Percent},
		{HoursUsed(unit), func(a *sim.Account) float64 { return a.Used }, Number},
		{unit + "-hours borrowed", func(a *sim.Account) float64 { return a.Borrowed }, Number},
		{unit + "-hours lent", func(a *sim.Account) float64 { return a.Lent }, Number},
		{Preemptions, func(a *sim.Account) float64 { return float64(a.Preempted) }, plain},
		{Evictions, func(a *sim.Account) float64 { return float64(a.Evicted) }, plain},
		{"most evictions of a job", func(a *sim.Account) float64 { return float64(a.MostEvicted) }, plain},
		{"restarts", func(a *sim.Account) float64 { return float64(a.Restarts) }, plain},
		{HoursLost(unit), func(a *sim.Account) float64 { return a.Lost }, Number},
		{Share, func(a *sim.Account) float64 { return a.Share }, Percent},
	}
}

// Choose are the measures of these names, in the order of Measures.
func Choose(unit string, names ...string) []Measure {
	return slices.DeleteFunc(Measures(unit), func(m Measure) bool { return !slices.Contains(names, m.Name) })
}

// Change is how much y is above x, as people read it: the difference, and the part of x that it
// is. Shares differ by points of a hundred, which are not hundredths of x.
func (m Measure) Change(x, y float64) string {
	if x == y {
		return "="
	}
	sign, by := "+", y-x
	if by < 0 {
		sign, by = "-", -by
	}
	text := sign + m.Show(by)
	if points, ok := strings.CutSuffix(text, "%"); ok {
		return points + " pts"
	}
	if x != 0 {
		text += fmt.Sprintf(" (%s%.0f%%)", sign, 100*by/max(x, -x))
	}
	return text
}

// Letter is what the i-th of several worlds is called in a comparison: A is the first.
func Letter(i int) string {
	if i < 26 {
		return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i : i+1]
	}
	return fmt.Sprint(i + 1)
}
