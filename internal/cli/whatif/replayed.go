package whatif

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/words"
)

// PrintReplay prints a replay for people.
func PrintReplay(w io.Writer, r *replay.Report, l cli.Layout) error {
	p := printer{layout: l}
	p.head(r)
	p.difference(r.Difference)
	p.answer(r.Why)
	p.summary(r.Summary)
	p.timeline(r.Timeline)
	p.lives(r.Workloads)
	for i := range r.Unknown {
		p.stranger(&r.Unknown[i])
	}
	if p.err != nil {
		return p.err
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// printer collects the parts of what is printed.
type printer struct {
	text   strings.Builder
	layout cli.Layout
	err    error
}

// say adds a line, and breaks it where it is too long.
func (p *printer) say(format string, args ...any) { p.beside("", fmt.Sprintf(format, args...)) }

// beside is say with something in front, below which nothing comes.
func (p *printer) beside(front, text string) {
	const narrowest = 20
	width := max(cmp.Or(p.layout.Width, unwrapped)-len(front), narrowest)
	p.text.WriteString(
		front + strings.ReplaceAll(cli.Wrap(text, width, ""), "\n", "\n"+strings.Repeat(" ", len(front))) + "\n",
	)
}

// raw adds a line as it is: recorded, to be copied.
func (p *printer) raw(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func printTable[T any](p *printer, columns []cli.Column[T], rows []T) {
	p.err = cmp.Or(p.err, cli.PrintTable(&p.text, columns, rows, p.layout))
}

func (p *printer) head(r *replay.Report) {
	span := ""
	if !r.First.IsZero() {
		span = fmt.Sprintf(", %s to %s", replay.Stamp(r.First), replay.Stamp(r.Last))
	}
	p.say("%s of %s%s", words.Count(r.Recordings, "recording"), words.Count(r.Runs, "run"), span)
	p.say(
		"%s, %s, %s reproduced",
		words.Count(r.Events, "event"),
		words.Count(r.Cycles, "cycle"),
		words.Count(r.Decisions, "decision"),
	)
	if r.Gaps > 0 {
		p.say("%s between recordings, where writing was too slow", words.Count(r.Gaps, "gap"))
	}
	if r.CutShort {
		p.say("a recording ends within a line: its writer was stopped there")
	}
}

func (p *printer) difference(d *replay.Difference) {
	switch {
	case d == nil:
		return
	case d.Number == 0:
		p.raw("\nDIFFERENT: the state of the engine at %s, %s line 1", replay.Stamp(d.At), d.File)
	default:
		p.raw("\nDIFFERENT: decision %d of %s, %s line %d", d.Number, replay.Stamp(d.At), d.File, d.Line)
	}
	for _, x := range d.Heard {
		p.raw("  told      %s", x)
	}
	for _, x := range d.Before {
		p.raw("  both      %s", x)
	}
	p.raw("  recorded  %s\n  replayed  %s", cmp.Or(d.Recorded, nothingMore), cmp.Or(d.Replayed, nothingMore))
}

const nothingMore = "(nothing more)"

func (p *printer) answer(a *replay.Answer) {
	if a == nil {
		return
	}
	p.text.WriteString("\n")
	switch {
	case !a.Known:
		p.say("%s has ended, or was deleted, before this time.", a.Job)
	case a.Admission != nil:
		p.say("%s holds quota of %s%s.", a.Job, a.Queue, replay.Places(a.Admission))
	case a.Place > 0:
		p.say("%s waits, number %d in %s. %s", a.Job, a.Place, a.Queue, a.Sentence)
	default:
		p.say("%s waits. %s", a.Job, a.Sentence)
	}
}

func (p *printer) stranger(u *replay.Stranger) {
	near := strings.Join(u.Near, ", ")
	p.text.WriteString("\n")
	switch {
	case u.Kind != "job" && near == "":
		p.say("ClusterQueue %s is not known at this time.", u.Name)
	case u.Kind != "job":
		p.say("ClusterQueue %s is not known at this time. There are: %s.", u.Name, near)
	case near == "":
		p.say(
			"%s is not known at this time: no job or Workload of that name was recorded until then. --list shows all.",
			u.Name,
		)
	default:
		p.say(
			"%s is not known at this time: no job or Workload of that name was recorded until then. In its namespace: %s. --list shows all.",
			u.Name,
			near,
		)
	}
}

// timeline prints what happened: with names, unless it is all of one job.
func (p *printer) timeline(all []replay.Moment) {
	if len(all) == 0 {
		return
	}
	one := !slices.ContainsFunc(all, func(m replay.Moment) bool { return m.Subject != all[0].Subject })
	p.text.WriteString("\n")
	if one {
		p.say("%s", all[0].Subject)
	}
	for _, m := range all {
		if one {
			p.beside("  "+replay.Stamp(m.At)+"  ", m.What)
		} else {
			p.beside(replay.Stamp(m.At)+"  ", m.Subject+" "+m.What)
		}
	}
}

func (p *printer) lives(all []replay.Life) {
	if len(all) == 0 {
		return
	}
	p.text.WriteString("\n")
	printTable(p, []cli.Column[replay.Life]{
		{Title: "JOB", Text: func(l replay.Life) string { return l.Job }},
		{Title: "QUEUE", Rank: 1, Text: func(l replay.Life) string { return l.Queue }},
		{Title: "FIRST SEEN", Rank: 4, Text: func(l replay.Life) string { return replay.Stamp(l.Seen) }},
		{Title: "STATE", Text: func(l replay.Life) string { return l.State }},
		{Title: "SINCE", Text: func(l replay.Life) string { return replay.Stamp(l.Since) }},
		{Title: "ADMITTED", Rank: 3, Text: func(l replay.Life) string { return strconv.Itoa(l.Admitted) }},
		{Title: "EVICTED", Rank: 2, Text: func(l replay.Life) string { return strconv.Itoa(l.Evicted) }},
	}, all)
}

func (p *printer) summary(s *replay.Summary) {
	if s == nil {
		return
	}
	type row = replay.QueueSummary
	number := func(title string, rank int, of func(row) int) cli.Column[row] {
		return cli.Column[row]{Title: title, Rank: rank, Text: func(q row) string { return strconv.Itoa(of(q)) }}
	}
	wait := func(title string, rank int, of func(row) *float64) cli.Column[row] {
		return cli.Column[row]{Title: title, Rank: rank, Text: func(q row) string {
			seconds := of(q)
			if seconds == nil {
				return ""
			}
			return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
		}}
	}
	p.text.WriteString("\n")
	p.say("From %s to %s:", replay.Stamp(s.From), replay.Stamp(s.To))
	printTable(p, []cli.Column[row]{
		{Title: "QUEUE", Text: func(q row) string { return cmp.Or(q.Queue, "all") }},
		number("SUBMITTED", 5, func(q row) int { return q.Submitted }),
		number("ADMITTED", 0, func(q row) int { return q.Admitted }),
		number("EVICTED", 2, func(q row) int { return q.Evicted }),
		number("ENDED", 4, func(q row) int { return q.Gone }),
		wait("WAIT P50", 1, func(q row) *float64 { return q.WaitP50 }),
		wait("WAIT P90", 3, func(q row) *float64 { return q.WaitP90 }),
		number("WAITING", 0, func(q row) int { return q.Waiting }),
		number("HOLDING", 0, func(q row) int { return q.Holding }),
	}, append(slices.Clone(s.Queues), s.Total))
	if s.Nodes+s.Other > 0 {
		p.say("%s of nodes, %d of queues, cohorts and flavors", words.Count(s.Nodes, "change"), s.Other)
	}
}

// PrintRecordings prints a list of recordings for people.
func PrintRecordings(out io.Writer, all []replay.Recording, l cli.Layout) error {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return replay.Stamp(t)
	}
	number := func(title string, rank int, of func(replay.Recording) int) cli.Column[replay.Recording] {
		return cli.Column[replay.Recording]{
			Title: title,
			Rank:  rank,
			Text:  func(r replay.Recording) string { return strconv.Itoa(of(r)) },
		}
	}
	return cli.PrintTable(out, []cli.Column[replay.Recording]{
		{Title: "FILE", Text: func(r replay.Recording) string { return r.File }},
		{Title: "FROM", Text: func(r replay.Recording) string { return moment(r.First) }},
		{Title: "TO", Rank: 2, Text: func(r replay.Recording) string { return moment(r.Last) }},
		{Title: "BEGINS", Rank: 4, Text: func(r replay.Recording) string { return r.Begins }},
		{
			Title: "MB",
			Rank:  3,
			Text:  func(r replay.Recording) string { return fmt.Sprintf("%.1f", float64(r.Bytes)/1e6) },
		},
		number("EVENTS", 6, func(r replay.Recording) int { return r.Events }),
		number("CYCLES", 5, func(r replay.Recording) int { return r.Cycles }),
		number("DECISIONS", 1, func(r replay.Recording) int { return r.Decisions }),
		{Title: "ENDS", Text: func(r replay.Recording) string {
			switch {
			case r.Error != "":
				return "cannot be read: " + r.Error
			case r.CutShort:
				return "within a line"
			}
			return "whole"
		}},
	}, all, l)
}
