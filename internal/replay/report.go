package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Difference is the first place where a replay went another way.
type Difference struct {
	File string
	Line int
	// At is when it was decided.
	At time.Time
	// Number counts the decisions of the plan from 1; 0 if it is the recorded state
	// of the engine that differs.
	Number int `json:",omitempty"`
	// Recorded and Replayed are the decisions, or the parts of the state, as they
	// are written in recordings; "" where one side has none.
	Recorded, Replayed string
	// Before are the decisions of the same plan that are the same, Heard the events
	// since the plan before: the last few of each.
	Before []string `json:",omitempty"`
	Heard  []string `json:",omitempty"`
}

// Answer says where a workload was when the replay ended.
type Answer struct {
	// Job is the job as people know it.
	Job, Workload string
	// Known is false if it had ended.
	Known bool
	// Queue is the ClusterQueue that it waits in or that its quota is from; Place is
	// its position there, from 1, 0 if it does not wait.
	Queue string `json:",omitempty"`
	Place int    `json:",omitempty"`
	// Reason and Sentence say why it waits; Admission is what it holds.
	Reason    *core.Reason    `json:",omitempty"`
	Sentence  string          `json:",omitempty"`
	Admission *core.Admission `json:",omitempty"`
}

// context is how many lines around a difference are shown.
const context = 5

func (p *player) difference(l record.Line, plan core.Plan, n int) *Difference {
	d := &Difference{File: p.path, Line: l.Number, At: l.Decide.At, Number: n + 1}
	if n < len(l.Decide.Plan) {
		d.Recorded = p.text(l.Decide.Plan[n])
	}
	if n < len(plan) {
		d.Replayed = p.text(plan[n])
	}
	for _, x := range plan[max(0, n-context):n] {
		d.Before = append(d.Before, p.text(x))
	}
	for _, ev := range p.heard[max(0, len(p.heard)-context):] {
		b, err := p.codec.AppendEvent(nil, ev.Event)
		if err != nil {
			continue // it was read, so it can be written
		}
		d.Heard = append(d.Heard, strings.TrimSpace(string(b)))
	}
	return d
}

// stateDifference cuts out where two states differ.
func stateDifference(path string, at time.Time, recorded, replayed []byte) *Difference {
	i := 0
	for i < min(len(recorded), len(replayed)) && recorded[i] == replayed[i] {
		i++
	}
	const around = 120
	cut := func(b []byte) string {
		return strings.ToValidUTF8(string(b[max(0, min(i, len(b))-around):min(len(b), i+around)]), "")
	}
	return &Difference{File: path, Line: 1, At: at, Recorded: cut(recorded), Replayed: cut(replayed)}
}

// answer looks at a workload as it is now.
func (p *player) answer(k core.Key) *Answer {
	a := &Answer{Job: p.history.name(k), Workload: k.String()}
	if p.engine == nil {
		return a
	}
	if held, ok := p.engine.Holding(k); ok {
		a.Known, a.Queue, a.Admission = true, held.Queue, &held
		return a
	}
	why, ok := p.engine.Why(k)
	if !ok {
		return a
	}
	a.Known, a.Queue, a.Reason, a.Sentence = true, why.Queue, &why, explain.Paragraph(p.history.named(why))
	a.Place = position(p.engine, why.Queue, k)
	return a
}

func position(e *cycle.Engine, queue string, k core.Key) int {
	for i, other := range e.Positions(queue) {
		if other == k {
			return i + 1
		}
	}
	return 0
}

// Text prints the report for people.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s", count(r.Recordings, "recording"), count(r.Runs, "run"))
	if !r.First.IsZero() {
		fmt.Fprintf(&b, ", %s to %s", stamp(r.First), stamp(r.Last))
	}
	fmt.Fprintf(&b, "\n%s, %s, %s reproduced\n", count(r.Events, "event"), count(r.Cycles, "cycle"), count(r.Decisions, "decision"))
	if r.Gaps > 0 {
		fmt.Fprintf(&b, "%s between recordings, where writing was too slow\n", count(r.Gaps, "gap"))
	}
	if r.CutShort {
		b.WriteString("a recording ends within a line: its writer was stopped there\n")
	}
	r.Difference.text(&b)
	r.Why.text(&b)
	r.Summary.text(&b)
	timeline(&b, r.Timeline)
	lives(&b, r.Workloads)
	for _, u := range r.Unknown {
		u.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d *Difference) text(b *strings.Builder) {
	switch {
	case d == nil:
		return
	case d.Number == 0:
		fmt.Fprintf(b, "\nDIFFERENT: the state of the engine at %s, %s line 1\n", stamp(d.At), d.File)
	default:
		fmt.Fprintf(b, "\nDIFFERENT: decision %d of %s, %s line %d\n", d.Number, stamp(d.At), d.File, d.Line)
	}
	for _, x := range d.Heard {
		fmt.Fprintf(b, "  told      %s\n", x)
	}
	for _, x := range d.Before {
		fmt.Fprintf(b, "  both      %s\n", x)
	}
	fmt.Fprintf(b, "  recorded  %s\n  replayed  %s\n", orNothing(d.Recorded), orNothing(d.Replayed))
}

func (a *Answer) text(b *strings.Builder) {
	if a == nil {
		return
	}
	b.WriteString("\n" + a.Job)
	switch {
	case !a.Known:
		b.WriteString(" has ended, or was deleted, before this time.\n")
	case a.Admission != nil:
		fmt.Fprintf(b, " holds quota of %s%s.\n", a.Queue, nodesOf(a.Admission))
	default:
		b.WriteString(" waits")
		if a.Place > 0 {
			fmt.Fprintf(b, ", number %d in %s", a.Place, a.Queue)
		}
		fmt.Fprintf(b, ". %s\n", a.Sentence)
	}
}

func (u *Stranger) text(b *strings.Builder) {
	if u.Kind == "job" {
		fmt.Fprintf(b, "\n%s is not known at this time: no job or Workload of that name was recorded until then.", u.Name)
		if len(u.Near) > 0 {
			fmt.Fprintf(b, " In its namespace: %s.", strings.Join(u.Near, ", "))
		}
		b.WriteString(" --list shows all.\n")
		return
	}
	fmt.Fprintf(b, "\nClusterQueue %s is not known at this time.", u.Name)
	if len(u.Near) > 0 {
		fmt.Fprintf(b, " There are: %s.", strings.Join(u.Near, ", "))
	}
	b.WriteString("\n")
}

// timeline prints what happened: with names, unless it is all of one job.
func timeline(b *strings.Builder, all []Moment) {
	if len(all) == 0 {
		return
	}
	one := !slices.ContainsFunc(all, func(m Moment) bool { return m.Subject != all[0].Subject })
	b.WriteString("\n")
	if one {
		b.WriteString(all[0].Subject + "\n")
	}
	for _, m := range all {
		if one {
			fmt.Fprintf(b, "  %s  %s\n", stamp(m.At), m.What)
		} else {
			fmt.Fprintf(b, "%s  %s %s\n", stamp(m.At), m.Subject, m.What)
		}
	}
}

// lives prints a table of workloads.
func lives(b *strings.Builder, all []Life) {
	if len(all) == 0 {
		return
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tQUEUE\tFIRST SEEN\tSTATE\tSINCE\tADMITTED\tEVICTED")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\n", l.Job, cmp.Or(l.Queue, "-"), stamp(l.Seen), l.State, stamp(l.Since), l.Admitted, l.Evicted)
	}
	_ = w.Flush() // a builder takes everything
}

func (s *Summary) text(b *strings.Builder) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "\nFrom %s to %s:\n", stamp(s.From), stamp(s.To))
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tSUBMITTED\tADMITTED\tEVICTED\tENDED\tWAIT P50\tWAIT P90\tWAITING\tHOLDING")
	wait := func(seconds *float64) string {
		if seconds == nil {
			return "-"
		}
		return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
	}
	for _, q := range append(slices.Clone(s.Queues), s.Total) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\n", cmp.Or(q.Queue, "all"), q.Submitted, q.Admitted, q.Evicted, q.Gone,
			wait(q.WaitP50), wait(q.WaitP90), q.Waiting, q.Holding)
	}
	_ = w.Flush() // a builder takes everything
	if s.Nodes+s.Other > 0 {
		fmt.Fprintf(b, "%s of nodes, %d of queues, cohorts and flavors\n", count(s.Nodes, "change"), s.Other)
	}
}

// PrintRecordings prints a list of recordings for people.
func PrintRecordings(out io.Writer, all []Recording) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tFROM\tTO\tBEGINS\tMB\tEVENTS\tCYCLES\tDECISIONS\tENDS")
	for _, r := range all {
		from, to, ends := "-", "-", "whole"
		if !r.First.IsZero() {
			from, to = stamp(r.First), stamp(r.Last)
		}
		switch {
		case r.Error != "":
			ends = "cannot be read: " + r.Error
		case r.CutShort:
			ends = "within a line"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%d\t%d\t%d\t%s\n", r.File, from, to, cmp.Or(r.Begins, "-"), float64(r.Bytes)/1e6, r.Events, r.Cycles, r.Decisions, ends)
	}
	return w.Flush()
}

// nodesOf lists the places of an admission.
func nodesOf(a *core.Admission) string {
	var out []string
	for _, ps := range a.PodSets {
		for _, pl := range ps.Places {
			out = append(out, fmt.Sprintf("%d of %s on %s", pl.Count, ps.Name, pl.Node))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing more)"
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
