package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Text prints a result for people: the totals, a table per team, and a timeline.
func Text(out io.Writer, r *sim.Result) error {
	var b strings.Builder
	t := &r.Total
	fmt.Fprintf(&b, "World %q, seed %d: %s of virtual time from %s.\n\n",
		r.World, r.Seed, Span(r.Seconds), r.Start.Format("2006-01-02 15:04"))
	totals(&b, r)
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	unit := Unit(r.Unit)
	fmt.Fprintf(
		w,
		"TEAM\tJOBS\tDONE\tNEVER\tWAIT MEAN\tP50\tP90\tP99\tMAX\tSLOWDOWN P50\tP99\t%s-HOURS\tOF QUOTA\tBORROWED\tLENT\tLOST\tPREEMPTED\tSHARE\tENTITLED\t\n",
		unit,
	)
	for i := range r.Teams {
		row(w, &r.Teams[i])
	}
	if len(r.Teams) > 1 {
		row(w, t)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	timeline(&b, r)
	_, err := io.WriteString(out, b.String())
	return err
}

func totals(b *strings.Builder, r *sim.Result) {
	t := &r.Total
	fmt.Fprintf(b, "  jobs         %d submitted, %d finished, %d still active, %d never started%s\n",
		t.Jobs, t.Finished, t.Unfinished, t.NeverStarted, never(r.Waiting))
	fmt.Fprintf(b, "  wait         mean %s, p50 %s, p90 %s, p99 %s, max %s\n",
		Span(t.Wait.Mean), Span(t.Wait.P50), Span(t.Wait.P90), Span(t.Wait.P99), Span(t.Wait.Max))
	fmt.Fprintf(
		b,
		"  slowdown     mean %.2f, p50 %.2f, p99 %.2f\n",
		t.Slowdown.Mean,
		t.Slowdown.P50,
		t.Slowdown.P99,
	)
	fmt.Fprintf(
		b,
		"  utilisation  %s: %s of %s %s-hours\n",
		Percent(t.Utilisation),
		Number(t.Used),
		Number(t.Offered),
		Unit(r.Unit),
	)
	fmt.Fprintf(
		b,
		"  preemptions  %d (of %d evictions, at most %d of one job), %d restarts, %s %s-hours of work lost\n",
		t.Preempted,
		t.Evicted,
		t.MostEvicted,
		t.Restarts,
		Number(t.Lost),
		Unit(r.Unit),
	)
	fmt.Fprintf(b, "  lending      %s %s-hours borrowed\n", Number(t.Borrowed), Unit(r.Unit))
	fmt.Fprintf(b, "  fairness     Jain index %.3f over usage per entitlement\n", r.Jain)
	if r.Engine.Failures > 0 {
		fmt.Fprintf(b, "  failures     %d nodes failed\n", r.Engine.Failures)
	}
}

func never(reasons []sim.Reason) string {
	if len(reasons) == 0 {
		return ""
	}
	words := make([]string, len(reasons))
	for i, x := range reasons {
		words[i] = fmt.Sprintf("%d %s", x.Jobs, x.Code)
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func row(w io.Writer, a *sim.Account) {
	fmt.Fprintf(
		w,
		"%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t\n",
		a.Team,
		a.Jobs,
		a.Finished,
		a.NeverStarted,
		Span(a.Wait.Mean),
		Span(a.Wait.P50),
		Span(a.Wait.P90),
		Span(a.Wait.P99),
		Span(a.Wait.Max),
		a.Slowdown.P50,
		a.Slowdown.P99,
		Number(a.Used),
		Percent(a.Utilisation),
		Number(a.Borrowed),
		Number(a.Lent),
		Number(a.Lost),
		a.Preempted,
		Percent(a.Share),
		Percent(a.Entitled),
	)
}

// columns is how wide the timeline is, in characters.
const columns = 60

// timeline draws usage of the whole, then usage and waiting jobs per team, each
// row on a scale of its own that is printed behind it.
func timeline(b *strings.Builder, r *sim.Result) {
	tl := &r.Timeline
	width := 5
	for _, t := range tl.Teams {
		width = max(width, len(t.Team))
	}
	fmt.Fprintf(
		b,
		"%-*s  %-9s from the start to %s, %s a column\n",
		width,
		"",
		"",
		Span(r.Seconds),
		Span(r.Seconds/columns),
	)
	line := func(name, what string, v []float64, scale float64, unit string) {
		fmt.Fprintf(
			b,
			"%-*s  %-9s %s  max %s%s\n",
			width,
			name,
			what,
			spark(shrink(v, columns), scale),
			Number(highest(v)),
			unit,
		)
	}
	unit := " " + Unit(r.Unit)
	line("all", "in use", tl.Used, highest(tl.Offered), unit+", offered "+Number(highest(tl.Offered)))
	for _, t := range tl.Teams {
		line(t.Team, "in use", t.Used, highest(t.Used), unit)
		if highest(t.Waiting) > 0 {
			line("", "waiting", t.Waiting, highest(t.Waiting), " jobs")
		}
	}
}

var blocks = []rune(" ▁▂▃▄▅▆▇█") //nolint:gochecknoglobals // a constant

// spark draws values from 0 to scale, one character each. What is above 0 shows.
func spark(v []float64, scale float64) string {
	out := make([]rune, len(v))
	for i, x := range v {
		k := 0
		if scale > 0 && x > 0 {
			k = max(1, min(len(blocks)-1, int(x/scale*float64(len(blocks)-1)+0.5)))
		}
		out[i] = blocks[k]
	}
	return string(out)
}

// shrink averages values into n columns.
func shrink(v []float64, n int) []float64 {
	if len(v) <= n {
		return v
	}
	out := make([]float64, n)
	for i := range out {
		from, to := i*len(v)/n, (i+1)*len(v)/n
		for _, x := range v[from:to] {
			out[i] += x / float64(to-from)
		}
	}
	return out
}

func highest(v []float64) float64 {
	var top float64
	for _, x := range v {
		top = max(top, x)
	}
	return top
}

// Unit is what one unit of a resource is called.
func Unit(resource string) string {
	switch resource {
	case core.GPU:
		return "GPU"
	case core.CPU:
		return "core"
	}
	return resource
}

// Percent prints a share.
func Percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

// Number prints an amount with three digits or more.
func Number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// Span prints seconds the way people speak of times.
func Span(sec float64) string {
	d := time.Duration(sec * float64(time.Second))
	switch {
	case d == 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%.3gs", sec)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
