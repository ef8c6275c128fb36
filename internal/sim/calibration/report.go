package calibration

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

// Ways to estimate, as rows of a report name them.
const (
	WhenItCame = "when it came"
	ByLimits   = "when it came, by limits alone"
)

// Row is how right one way to estimate was.
type Row struct {
	Way string `json:"way"`
	// Estimates is how many were given for jobs that started afterwards or are known not
	// to have started in time.
	Estimates int `json:"estimates"`
	// P50 and P90 are the parts of the jobs that started up to what was said: 0.5 and 0.9
	// would be perfect.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	// Error is the median distance between P50 and the truth, Width that between P50 and P90.
	Error time.Duration `json:"errorNanoseconds"`
	Width time.Duration `json:"widthNanoseconds"`
}

// row prints a line of a table.
func (r Row) row() string {
	return fmt.Sprintf(
		"%-44s %9d %11.1f%% %11.1f%% %12s %12s",
		r.Way,
		r.Estimates,
		100*r.P50,
		100*r.P90,
		short(r.Error),
		short(r.Width),
	)
}

func short(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// Text prints the report for people.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%-44s %9s %12s %12s %12s %12s\n",
		"ESTIMATES GIVEN",
		"ESTIMATES",
		"P50 IN TIME",
		"P90 IN TIME",
		"P50 OFF BY",
		"P50 TO P90",
	)
	for _, row := range r.Rows {
		b.WriteString(row.row() + "\n")
	}
	fmt.Fprintf(
		&b,
		"\nPerfect would be 50%% and 90%%; off by and to are medians. %d looks at what waited; from\nan estimate on, half of the jobs waited for %s, 9 in 10 up to %s.\n",
		r.Looks,
		short(r.Waits[0]),
		short(r.Waits[1]),
	)
	if len(r.Rows) > 2 {
		b.WriteString(
			"By limits alone: each job is taken to run for a limit between what it takes and ten\ntimes as much, because histories do not say what was asked for.\n",
		)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Report is what a trial found.
type Report struct {
	Rows []Row `json:"rows"`
	// Looks is how often was asked.
	Looks int `json:"looks"`
	// Waits is how long those waited that were asked about, from then on, in quantiles: the
	// half and nine in ten.
	Waits [2]time.Duration `json:"waitsNanoseconds"`
}

// Report sums up. The error is that of a question that could not be answered.
func (t *Trial) Report() (Report, error) {
	var first, later []*given
	for _, g := range t.given {
		if g.first {
			first = append(first, g)
		} else {
			later = append(later, g)
		}
	}
	said := func(g *given) forecast.Estimate { return g.said }
	limits := func(g *given) forecast.Estimate { return forecast.Estimate{P50: g.limits, P90: g.limits} }
	r := Report{Looks: t.looks, Rows: []Row{
		rate(WhenItCame, first, said),
		rate("while it waited", later, said),
	}}
	if t.opt.Limit != nil {
		r.Rows = append(r.Rows, rate(ByLimits, first, limits))
	}
	var waits []time.Duration
	for _, g := range t.given {
		if g.started {
			waits = append(waits, g.wait)
		}
	}
	slices.Sort(waits)
	if n := len(waits); n > 0 {
		r.Waits = [2]time.Duration{waits[n/2], waits[n*9/10]}
	}
	return r, t.err
}

// rate compares what was said with what became of it. What is still open counts only if it
// is late already: then it is known to have been wrong.
func rate(way string, all []*given, say func(*given) forecast.Estimate) Row {
	row := Row{Way: way}
	var in50, in90 int
	var off, width []time.Duration
	for _, g := range all {
		e := say(g)
		if !g.started {
			continue
		}
		row.Estimates++
		if g.wait <= e.P50 {
			in50++
		}
		if g.wait <= e.P90 {
			in90++
		}
		if e.P50 != forecast.Never {
			off = append(off, (e.P50 - g.wait).Abs())
		}
		if e.P90 != forecast.Never {
			width = append(width, e.P90-e.P50)
		}
	}
	n := max(float64(row.Estimates), 1)
	row.P50, row.P90 = math.Round(float64(in50)/n*1000)/1000, math.Round(float64(in90)/n*1000)/1000
	row.Error, row.Width = middle(off), middle(width)
	return row
}

func middle(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2].Round(time.Second)
}
