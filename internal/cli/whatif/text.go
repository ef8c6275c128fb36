package whatif

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/sim/report"
	"github.com/mlbatch/mlbatch/internal/words"
)

// unwrapped is a width that no line reaches.
const unwrapped = 1 << 20

// row is a line of the table: of a team the first has its name.
type row struct {
	team string
	d    *Difference
}

// Text prints a comparison for people, in lines of so many characters, 0 for any.
func (c *Comparison) Text(out io.Writer, width int) error {
	var b strings.Builder
	for _, line := range c.intro() {
		b.WriteString(cli.Wrap(line, cmp.Or(width, unwrapped), "") + "\n")
	}
	b.WriteString("\n")
	var rows []row
	last := ""
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.dull() {
			continue
		}
		r := row{d: d, team: d.Team}
		if d.Team == last {
			r.team = " "
		}
		last = d.Team
		rows = append(rows, r)
	}
	if err := cli.PrintTable(&b, c.columns(), rows, cli.Layout{Width: width}); err != nil {
		return err
	}
	if notes := c.remarks(); len(notes) > 0 {
		b.WriteString("\n")
		for _, n := range notes {
			b.WriteString(cli.Wrap(n, cmp.Or(width, unwrapped), "  ") + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (c *Comparison) columns() []cli.Column[row] {
	columns := []cli.Column[row]{
		{Title: "TEAM", Text: func(r row) string { return r.team }},
		{Title: "MEASURE", Text: func(r row) string { return r.d.Measure }},
		{Title: "RECORDED", Rank: 1, Text: func(r row) string { return r.d.show(r.d.Recorded) }},
	}
	for i := range c.Policies {
		columns = append(
			columns,
			cli.Column[row]{Title: report.Letter(i), Text: func(r row) string { return r.d.show(r.d.Values[i]) }},
		)
		if i > 0 {
			columns = append(
				columns,
				cli.Column[row]{
					Title: report.Letter(i) + " - A",
					Rank:  2,
					Text:  func(r row) string { return r.d.change(i) },
				},
			)
		}
	}
	return columns
}

// intro says what is compared.
func (c *Comparison) intro() []string {
	out := []string{
		fmt.Sprintf(
			"%d jobs from %s to %s (%s), decided again in virtual time:",
			c.Jobs,
			c.From.Format("2006-01-02 15:04"),
			c.To.Format("2006-01-02 15:04"),
			report.Span(c.To.Sub(c.From).Seconds()),
		),
	}
	for i, r := range c.Policies {
		out = append(out, fmt.Sprintf("%s: %s", report.Letter(i), words.Harmless(r.World)))
	}
	return append(out, c.Trust.sentence())
}

func (t Trust) sentence() string {
	if t.Jobs == 0 {
		return "Trust: no job had quota both in the recording and in its simulation."
	}
	return fmt.Sprintf(
		"Trust: under its own policy (A) the simulation gave %d of %d jobs (%.0f%%) quota within a minute, or a tenth of the wait, of when they really had it, and held %.0f%% of the hours.",
		t.Near,
		t.Jobs,
		100*float64(t.Near)/float64(t.Jobs),
		100*t.Used,
	)
}

// remarks says what was assumed and what is missing.
func (c *Comparison) remarks() (out []string) {
	a := c.Assumed
	for _, x := range []struct {
		n    int
		text string
	}{
		{a.Running, "jobs that had not ended when the recording did (%d): each runs as long as the median of the ended jobs of its team that ran longer, or to the end if none did"},
		{a.Waiting, "jobs that had never held quota when the recording ended (%d): each runs as long as the median job of its team"},
		{a.TakenBack, "jobs that ended or were deleted while they waited (%d): they go at the same time under every policy"},
		{a.Carried, "jobs that are older than the recording (%d): their waits count from its beginning"},
		{a.Endings, "evictions that no queue decided: by hand, by time limits, for lost pods (%d): they are not done again"},
		{a.Cuts, "quotas that were cut while nodes were out of service (%d times): under every policy, the recorded one too, they are whole"},
	} {
		if x.n > 0 {
			out = append(out, "Assumed: "+fmt.Sprintf(x.text, x.n)+".")
		}
	}
	for _, n := range c.Notes {
		out = append(out, "Note: "+words.Harmless(n)+".")
	}
	return out
}
