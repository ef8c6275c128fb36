package replay

import (
	"fmt"
	"strings"
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

// Places lists the nodes of an admission, after a colon; "" if it has none.
func Places(a *core.Admission) string {
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

// Stamp is how moments are written in all that replays say.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
