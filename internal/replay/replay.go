// Package replay decides again what was recorded: it feeds the events of
// recordings to an engine and compares what it decides, decision by decision and
// to the byte, with what was decided then (P7).
//
// It owns the comparison and its report. It writes no recordings, and it judges
// neither side: a difference says that the engine has changed, or that it did not
// depend on its recorded input alone.
package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Request is what to replay.
type Request struct {
	// Path is a recording, or a directory of them.
	Path string
	// Until ends the replay before the first decision later than this; zero is the end of
	// the recording. From is where the answers begin; zero is the start. The replay begins
	// with the recordings in any case.
	From, Until Time
	// Job narrows the answers to a job or Workload, Queue to a ClusterQueue; nil and "" for
	// all.
	Job   *core.Key
	Queue string
	// Why asks why Job waits when the replay has ended; List for the workloads, Timeline for
	// what happened to them and to other objects, Summary for how often.
	Why, List, Timeline, Summary bool
}

// Time is a moment of recordings.
type Time struct {
	At time.Time
	// Clock is a time of day, in UTC, that stands for At: the last time within the
	// recordings that it was so late. Nil for none.
	Clock *time.Duration
}

// Report is what a replay found.
type Report struct {
	// Recordings is how many files were read, Runs how many engines they are of: a
	// restart of the controller is a new one.
	Recordings, Runs int
	// Events is what the engines were told, Cycles how often they decided, and
	// Decisions how many decisions they made, the reproduced ones.
	Events, Cycles, Decisions int
	// First and Last are when the first and the last cycle were; zero if none.
	First, Last time.Time
	// Gaps is how many times cycles are missing between recordings, because
	// writing was too slow.
	Gaps int
	// CutShort says that a recording ends within a line, as after a kill.
	CutShort bool
	// Difference is where the replay went another way; nil if it did not.
	Difference *Difference `json:",omitempty"`
	// Why, Timeline, Workloads and Summary answer a request's Why, Timeline, List and
	// Summary.
	Why       *Answer  `json:",omitempty"`
	Timeline  []Moment `json:",omitempty"`
	Workloads []Life   `json:",omitempty"`
	Summary   *Summary `json:",omitempty"`
	// Unknown are what was asked for and is not in the recordings.
	Unknown []Stranger `json:",omitempty"`
}

// Stranger is a name that nothing in the recordings has.
type Stranger struct {
	// Kind is "job" or "ClusterQueue".
	Kind, Name string
	// Near are others that there are: jobs of its namespace, or all queues.
	Near []string `json:",omitempty"`
}

// Run replays a request. An error means that recordings cannot be read; that
// decisions differ is in the report.
func Run(r Request) (*Report, error) {
	paths, err := recordings(r.Path)
	if err != nil {
		return nil, err
	}
	for _, t := range []*Time{&r.From, &r.Until} {
		if t.Clock == nil {
			continue
		}
		if t.At, err = onTheDay(paths, *t.Clock); err != nil {
			return nil, err
		}
	}
	if !r.Until.At.IsZero() && r.Until.At.Before(r.From.At) {
		return nil, fmt.Errorf(
			"%w: it would end at %s, before it begins at %s",
			ErrTime,
			Stamp(r.Until.At),
			Stamp(r.From.At),
		)
	}
	p := player{request: r, report: &Report{}, codec: record.NewCodec(), history: newHistory()}
	for _, path := range paths {
		more, err := p.file(path, p.engine == nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !more {
			break
		}
	}
	p.answers()
	return p.report, nil
}

// answers what was asked besides.
func (p *player) answers() {
	r, h := p.request, &p.history
	h.places()
	is := wanted(func(k core.Key, queue string) bool { return r.Queue == "" || queue == r.Queue })
	if queues := h.queueNames(); r.Queue != "" && !slices.Contains(queues, r.Queue) {
		p.report.Unknown = append(p.report.Unknown, Stranger{"ClusterQueue", r.Queue, queues})
	}
	if r.Job != nil {
		job, ok := h.find(*r.Job)
		if !ok {
			p.report.Unknown = append(p.report.Unknown, Stranger{"job", r.Job.String(), h.near(r.Job.Namespace)})
		} else if r.Why {
			p.report.Why = p.answer(job)
		}
		is = func(k core.Key, _ string) bool { return ok && k == job }
	}
	if r.List {
		p.report.Workloads = h.list(is, r.From.At)
	}
	if r.Timeline {
		p.report.Timeline = h.timeline(is, r.From.At)
	}
	if r.Summary {
		from := r.From.At
		if from.Before(p.report.First) {
			from = p.report.First
		}
		p.report.Summary = h.summary(is, from, p.report.Last)
	}
}

// recordings lists the files of a path, oldest first.
func recordings(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find the recording: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	paths, err := record.Segments(path)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s has no recordings (flight-NNNNNNNN.jsonl)", path)
	}
	return paths, err
}

// player is an engine that goes through recordings.
type player struct {
	request Request
	report  *Report
	codec   *record.Codec

	path   string
	engine *cycle.Engine
	// decided counts the decisions of this engine, heard what it was told since
	// the last one.
	decided uint64
	heard   []record.Line
	history history
	// loaded is a state whose time is that of the next cycle.
	loaded *cycle.Snapshot
}

// file replays one recording. It is false when the replay has come to its end.
func (p *player) file( //nolint:revive // the oldest may begin anywhere
	path string,
	oldest bool,
) (more bool, err error) {
	f, err := os.Open(path)
	if oldest && errors.Is(err, fs.ErrNotExist) {
		return true, nil // dropped just now: the recorder is at work
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := record.NewReader(f)
	head, err := in.Next()
	if err != nil {
		if p.engine != nil && in.Cut() { // killed when it began
			p.report.CutShort = true
			return true, nil
		}
		return false, err
	}
	p.path, p.heard = path, nil
	p.report.Recordings++
	if more, err := p.begin(head.Header, oldest); err != nil || !more {
		return false, err
	}
	for {
		l, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			p.report.CutShort = p.report.CutShort || in.Cut()
			return true, nil
		case err != nil:
			return false, err
		case l.Event != nil:
			p.heard = append(p.heard, l)
		case !p.decide(l):
			return false, nil
		}
	}
}

// begin makes the engine of a recording from its header. Where nothing is missing
// before it, the engine that came so far must be in the recorded state.
func (p *player) begin( //nolint:revive // the oldest may begin anywhere
	h *record.Header,
	oldest bool,
) (more bool, err error) {
	var o cycle.Options
	if err := h.Options(&o); err != nil {
		return false, err
	}
	state, err := p.upgrade(h.State())
	if err != nil {
		return false, fmt.Errorf("line 1: %w", err)
	}
	before, was := p.engine, p.decided
	p.decided = h.Decided
	if state == nil || oldest || h.Decided != was {
		p.history.begins()
	}
	if state == nil {
		p.engine = cycle.New(o)
		p.report.Runs++
		return true, nil
	}
	var s cycle.Snapshot
	if err := p.codec.Decode(state, &s); err != nil {
		return false, fmt.Errorf("line 1: state: %w", err)
	}
	if p.engine, err = cycle.Load(o, &s); err != nil {
		return false, fmt.Errorf("line 1: %w", err)
	}
	p.loaded = &s
	switch {
	case oldest || h.Decided < was:
		p.report.Runs++
	case h.Decided > was:
		p.report.Gaps++
	default:
		return p.compareStates(before, state)
	}
	return true, nil
}

// compareStates compares an engine with a recorded state.
func (p *player) compareStates(e *cycle.Engine, recorded []byte) (same bool, err error) {
	s, err := e.Dump()
	if err != nil {
		return false, fmt.Errorf("line 1: compare states: %w", err)
	}
	b, err := p.codec.Append(nil, s)
	if err != nil {
		return false, fmt.Errorf("line 1: compare states: %w", err)
	}
	if !bytes.Equal(b, recorded) {
		p.report.Difference = stateDifference(p.path, p.report.Last, recorded, b)
		return false, nil
	}
	return true, nil
}

// decide lets the engine decide what was decided in a line. It is false when the
// replay has come to its end.
func (p *player) decide(l record.Line) bool {
	r, d := p.report, l.Decide
	if !p.request.Until.At.IsZero() && d.At.After(p.request.Until.At) {
		return false
	}
	if p.loaded != nil {
		if p.history.quiet { // else the recording before led here
			p.history.known(p.loaded, d.At)
		}
		p.loaded = nil
	}
	for _, ev := range p.heard {
		p.engine.Apply(ev.Event)
		p.history.told(ev.Event, d.At)
	}
	plan := p.engine.Decide(d.At)
	for _, x := range plan {
		p.history.decided(x, d.At)
	}
	p.history.cycle(d.At)
	p.decided++
	r.Events += len(p.heard)
	r.Cycles++
	if r.First.IsZero() {
		r.First = d.At
	}
	r.Last = d.At
	same := p.commonStart(d.Plan, plan)
	r.Decisions += same
	if same < max(len(d.Plan), len(plan)) {
		r.Difference = p.difference(l, plan, same)
		return false
	}
	p.heard = p.heard[:0]
	return true
}

// commonStart is how many decisions two plans have in common, from the first on.
func (p *player) commonStart(a, b core.Plan) int {
	for i := range min(len(a), len(b)) {
		if p.text(a[i]) != p.text(b[i]) {
			return i
		}
	}
	return min(len(a), len(b))
}

// text is a decision as it is recorded.
func (p *player) text(d core.Decision) string {
	b, err := p.codec.AppendDecision(nil, d)
	if err != nil {
		return err.Error() // nothing that was read or decided fails to be written
	}
	return string(b)
}
